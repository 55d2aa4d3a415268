//! Time managers: they decide how much of the clock one move may use.
//!
//! A [`TimeManager`] lives for a whole game, and remembers the time that it saved and the speed that it measured. For
//! each move it makes a stopper from a [`Clock`]. The four managers follow lc0's formulas and parameters, so that tuned
//! settings have the same effect in both engines:
//!
//! | name | idea |
//! |---|---|
//! | [`legacy`] (default) | equal shares for all expected moves; time saved by smart pruning goes to the next move |
//! | [`smooth`] | plans in nodes: expects tree reuse and early stops, and keeps a reserve for hard moves |
//! | [`alphazero`] | a fixed percentage of the remaining time |
//! | [`simple`] | a percentage of the remaining time that grows with the ply and with the increment |
//!
//! [`arguments`] reads the option `TimeManager=name(key=value,...)`. [`Clock::grant`] limits the result of every
//! formula to the time that may be spent ([`Clock::spendable_ms`]), and keeps it above zero, so that no formula can
//! lose on time. What moves really cost on this machine is measured ([`LagMeter`]). Plies are counted from the start of
//! the game, including the plies that a FEN's move number implies.
//!
//! Time is measured from the moment when the command arrived. The search measures it and gives it to the stoppers as
//! [`IterationStats::time_since_move_start`](super::IterationStats).

mod alphazero;
mod arguments;
mod clock;
mod lag;
mod legacy;
mod manager;
mod simple;
mod smooth;

pub use arguments::TimeManagerError;
pub use clock::Clock;
pub use lag::{ClockReading, Lag, LagMeter};
pub use manager::TimeManager;

use arguments::Arguments;

/// Makes the manager that the option `TimeManager` describes, such as `legacy` or `smooth(init-piggybank=0.2)`.
///
/// # Errors
/// If the form of the text, the name, a parameter or the range of a parameter is wrong.
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
    use crate::stop::{IterationStats, StopperHints};

    fn first_budget_ms(description: &str) -> u128 {
        let clock = Clock::new(Some(60_000), None, Some(1), 0).expect("a time is given");
        let mut manager = make_time_manager(description).expect(description);
        let mut hints = StopperHints::default();
        manager.stopper(&clock, 0, 0).should_stop(&IterationStats::default(), &mut hints);
        hints.remaining_time.expect("a clock always limits the time").as_millis()
    }

    #[test]
    fn names_and_parameters_choose_the_budget() {
        let plain = ["legacy", "smooth", "alphazero", "simple"].map(first_budget_ms);
        assert_eq!(plain[2], 7200, "12 % of a minute");
        assert_eq!(plain[3], 840, "1.4 % of a minute");
        assert_eq!(first_budget_ms("alphazero(alphazero-time-pct=5)"), 3000);
        assert_eq!(first_budget_ms("alphazero()"), 7200);
        assert!(first_budget_ms("legacy(slowmover=0.2)") < plain[0]);
        assert!(first_budget_ms("smooth(max-move-budget=0.2)") < plain[1]);
    }

    #[test]
    fn invalid_descriptions_are_rejected() {
        for (description, expected) in [
            ("", "expected name(key=value,...)"),
            ("legacy(", "expected name(key=value,...)"),
            ("quick", "unknown time manager 'quick'"),
            ("legacy(slow=1)", "unknown parameter 'slow'"),
            ("legacy(slowmover=fast)", "'fast' is not a number"),
            ("legacy(slowmover=nan)", "'nan' is not a number"),
            ("alphazero(alphazero-time-pct=101)", "0 to 100"),
            ("simple(base-pct=0)", "0.000001 to 100"),
            ("legacy(mle-legacy(midpoint=20))", "unknown parameter 'mle-legacy.midpoint'"),
        ] {
            let error =
                make_time_manager(description).err().unwrap_or_else(|| panic!("{description} is accepted"));
            assert!(error.to_string().contains(expected), "{description}: {error}");
        }
    }
}
