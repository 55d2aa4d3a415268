//! Time managers: how much of the clock one move may take.
//!
//! A [`TimeManager`] lives for a whole game and remembers what it saved or learned in it; for each move it makes
//! one stopper out of a [`Clock`]. The four here follow lc0's formulas and parameters, so that settings tuned
//! there mean the same:
//!
//! | name | idea |
//! |---|---|
//! | [`legacy`] (default) | an estimate of the moves still to come; time that smart pruning saved is spent at once |
//! | [`smooth`] | plans in nodes: counts on tree reuse and on early stops, keeps a reserve for hard moves |
//! | [`alphazero`] | a fixed percentage of what is left |
//! | [`simple`] | a percentage that grows with the ply and with the increment |
//!
//! `TimeManager=name(key=value,...)` is read in [`arguments`]. Whatever a formula says, [`Clock::grant`] keeps it
//! within what is left on the clock less the move overhead, and above zero; so no manager can lose on time by
//! arithmetic. Plies are those of the game, also where it began at a FEN.
//!
//! Time is measured from the moment the command arrived; that is the search's business, and shows up here only
//! as [`IterationStats::time_since_move_start`](super::IterationStats).

mod alphazero;
mod arguments;
mod clock;
mod legacy;
mod manager;
mod simple;
mod smooth;

pub use arguments::TimeManagerError;
pub use clock::Clock;
pub use manager::TimeManager;

use arguments::Arguments;

/// Makes the manager that the option `TimeManager` describes, such as `legacy` or
/// `smooth(init-piggybank=0.2)`.
///
/// # Errors
/// Says what is wrong with the text: its form, the name, a parameter, or a parameter's range.
pub fn make_time_manager(description: &str) -> Result<Box<dyn TimeManager>, TimeManagerError> {
    let (name, mut arguments) = Arguments::parse(description)?;
    let manager: Box<dyn TimeManager> = match name {
        "legacy" => Box::new(legacy::Legacy::new(legacy::Parameters::read(&mut arguments)?)),
        "smooth" => Box::new(smooth::Smooth::new(smooth::Parameters::read(&mut arguments)?)),
        "alphazero" => Box::new(alphazero::AlphaZero::read(&mut arguments)?),
        "simple" => Box::new(simple::Simple::new(simple::Parameters::read(&mut arguments)?)),
        _ => {
            return Err(TimeManagerError::UnknownName { name: name.to_owned() });
        }
    };
    arguments.finish()?;
    Ok(manager)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::stop::{IterationStats, StopperHints};

    fn first_budget_ms(description: &str) -> u128 {
        let clock = Clock::new(Some(60_000), None, Some(1), 0).expect("a time is given");
        let mut manager = make_time_manager(description).expect(description);
        let mut hints = StopperHints::default();
        manager.stopper(&clock, 0, 0).should_stop(&IterationStats::default(), &mut hints);
        hints.remaining_time.expect("a clock always limits the time").as_millis()
    }

    #[test]
    fn the_name_and_the_parameters_choose() {
        let plain = ["legacy", "smooth", "alphazero", "simple"].map(first_budget_ms);
        assert_eq!(plain[2], 7200, "12 % of a minute");
        assert_eq!(plain[3], 840, "1.4 % of a minute");
        assert_eq!(first_budget_ms("alphazero(alphazero-time-pct=5)"), 3000);
        assert_eq!(first_budget_ms("alphazero()"), 7200);
        assert!(first_budget_ms("legacy(slowmover=0.2)") < plain[0]);
        assert!(first_budget_ms("smooth(max-move-budget=0.2)") < plain[1]);
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for (description, expected) in [
            ("", "expected name(key=value,...)"),
            ("legacy(", "expected name(key=value,...)"),
            ("quick", "unknown time manager 'quick'"),
            ("legacy(slow=1)", "unknown parameter 'slow'"),
            ("legacy(slowmover=fast)", "'fast' is no number"),
            ("legacy(slowmover=nan)", "'nan' is no number"),
            ("alphazero(alphazero-time-pct=101)", "0 to 100"),
            ("simple(base-pct=0)", "0.000001 to 100"),
            ("legacy(mle-legacy(midpoint=20))", "unknown parameter 'mle-legacy.midpoint'"),
        ] {
            let error =
                make_time_manager(description).err().unwrap_or_else(|| panic!("{description} is taken"));
            assert!(error.to_string().contains(expected), "{description}: {error}");
        }
    }
}
