//! A time manager that spends a share of the remaining time. The share grows with the game's length and with the
//! increment.
//!
//! The next move also gets the time that the last move did not use.

use super::arguments::{Arguments, TimeManagerError};
use super::clock::{Clock, milliseconds};
use super::manager::TimeManager;
use crate::stop::{Stopper, TimeLimitStopper};

/// lc0's parameters of this manager, with their names and defaults.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parameters {
    /// `base-pct` (1.4): the percentage of the remaining time at the start of the game.
    pub base_percent: f64,
    /// `ply-pct` (0.049): added to the percentage for each ply played.
    pub ply_percent: f64,
    /// `time-factor` (1.5): the ratio of increment to remaining time is multiplied by this and added to the share.
    pub time_factor: f64,
    /// `opening-bonus-pct` (0): the percentage by which the first budget of the game is larger.
    pub opening_bonus_percent: f64,
}

impl Parameters {
    /// Takes the parameters from the text of the option.
    pub(super) fn read(arguments: &mut Arguments) -> Result<Parameters, TimeManagerError> {
        Ok(Parameters {
            base_percent: arguments.take("base-pct", 1.4, 1e-6..=100.0)?,
            ply_percent: arguments.take("ply-pct", 0.049, 0.0..=1.0)?,
            time_factor: arguments.take("time-factor", 1.5, 0.0..=100.0)?,
            opening_bonus_percent: arguments.take("opening-bonus-pct", 0.0, 0.0..=1000.0)?,
        })
    }
}

/// The budget of the last move, and the time that could be spent before it, in milliseconds.
#[derive(Clone, Copy, Debug)]
struct LastMove {
    budget: f64,
    spendable: f64,
}

/// The manager `simple`.
pub(super) struct Simple {
    parameters: Parameters,
    last: Option<LastMove>,
}

impl Simple {
    /// The manager at the start of a game.
    pub(super) fn new(parameters: Parameters) -> Simple {
        Simple { parameters, last: None }
    }

    /// The part of the last budget that was not used, in milliseconds. It is measured by the clock, which includes the
    /// lag.
    fn unused(&self, clock: &Clock) -> f64 {
        self.last.map_or(0.0, |last| {
            // The difference is negative if a new time control began. That is no saving.
            let spent = (last.spendable + clock.increment_ms() - clock.spendable_ms()).max(0.0);
            (last.budget - spent).max(0.0)
        })
    }
}

impl TimeManager for Simple {
    fn stopper(&mut self, clock: &Clock, game_ply: u32, _reused_nodes: u64) -> Box<dyn Stopper> {
        let Parameters { base_percent, ply_percent, time_factor, opening_bonus_percent } = self.parameters;
        let spendable = clock.spendable_ms();
        // With a clock at zero there is no ratio, but nothing can be spent either.
        let increment_ratio = clock.increment_ms() / clock.remaining_ms().max(1.0);
        let share =
            (base_percent + f64::from(game_ply) * ply_percent) / 100.0 + increment_ratio * time_factor;
        let bonus = if self.last.is_none() { opening_bonus_percent / 100.0 } else { 0.0 };
        let budget = clock.grant(spendable * share * (1.0 + bonus) + self.unused(clock));
        self.last = Some(LastMove { budget: milliseconds(budget), spendable });
        Box::new(TimeLimitStopper::new(budget))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stop::{IterationStats, StopperHints};

    fn manager(description: &str) -> Simple {
        let (_, mut arguments) = Arguments::parse(description).expect("well formed");
        Simple::new(Parameters::read(&mut arguments).expect("in range"))
    }

    fn budget(manager: &mut Simple, time: u64, increment: u64, ply: u32) -> f64 {
        let clock = Clock::new(Some(time), Some(increment), Some(1), 200).expect("a time is given");
        let mut hints = StopperHints::default();
        manager.stopper(&clock, ply, 0).should_stop(&IterationStats::default(), &mut hints);
        milliseconds(hints.remaining_time.expect("the stopper gives the remaining time as a hint"))
    }

    fn is_about(value: f64, expected: f64) -> bool {
        (value - expected).abs() < 1e-3
    }

    #[test]
    fn the_share_grows_with_ply_and_increment() {
        assert!(is_about(budget(&mut manager("simple"), 10_200, 0, 0), 140.0));
        assert!(is_about(budget(&mut manager("simple"), 10_200, 0, 100), 630.0));
        // 1.4 % + 1.5 · 102/10200 = 2.9 %
        assert!(is_about(budget(&mut manager("simple"), 10_200, 102, 0), 290.0));
        assert!(is_about(budget(&mut manager("simple(opening-bonus-pct=50)"), 10_200, 0, 0), 210.0));
    }

    #[test]
    fn the_unused_time_of_the_last_move_is_added() {
        let mut simple = manager("simple");
        assert!(is_about(budget(&mut simple, 10_200, 0, 0), 140.0));
        // The last move spent 40 of its 140 ms.
        assert!(is_about(budget(&mut simple, 10_160, 0, 0), 9960.0 * 0.014 + 100.0));
        // A new time control began. At most the whole last budget was saved.
        assert!(is_about(budget(&mut simple, 60_200, 0, 0), 840.0 + 9960.0 * 0.014 + 100.0));
        // The last move spent more than its budget. Nothing is subtracted for that.
        assert!(is_about(budget(&mut simple, 5200, 0, 0), 70.0));
    }

    #[test]
    fn a_large_increment_gives_no_more_than_the_clock_has() {
        assert_eq!(budget(&mut manager("simple"), 1000, 1000, 0), 800.0);
        assert_eq!(budget(&mut manager("simple"), 0, 1000, 0), 1.0);
    }
}
