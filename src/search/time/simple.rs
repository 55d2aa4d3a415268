//! A percentage of what is left that grows as the game goes on, and with the increment.
//!
//! What the move before did not use is added to the next one.

use super::arguments::{Arguments, TimeManagerError};
use super::clock::{Clock, milliseconds};
use super::manager::TimeManager;
use crate::search::stop::{Stopper, TimeLimitStopper};

/// lc0's parameters of this manager, with its names and defaults.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parameters {
    /// `base-pct` (1.4): percent of what is left, at the game's start.
    pub base_percent: f64,
    /// `ply-pct` (0.049): percent added for each ply played.
    pub ply_percent: f64,
    /// `time-factor` (1.5): how much of the increment, as a part of what is left, is added.
    pub time_factor: f64,
    /// `opening-bonus-pct` (0): percent by which the game's first budget is larger.
    pub opening_bonus_percent: f64,
}

impl Parameters {
    /// Takes them from the option's text.
    pub(super) fn read(arguments: &mut Arguments) -> Result<Parameters, TimeManagerError> {
        Ok(Parameters {
            base_percent: arguments.take("base-pct", 1.4, 1e-6..=100.0)?,
            ply_percent: arguments.take("ply-pct", 0.049, 0.0..=1.0)?,
            time_factor: arguments.take("time-factor", 1.5, 0.0..=100.0)?,
            opening_bonus_percent: arguments.take("opening-bonus-pct", 0.0, 0.0..=1000.0)?,
        })
    }
}

/// The last move's budget, and what was spendable before it; in ms.
#[derive(Clone, Copy, Debug)]
struct LastMove {
    budget: f64,
    spendable: f64,
}

/// See the module.
pub(super) struct Simple {
    parameters: Parameters,
    last: Option<LastMove>,
}

impl Simple {
    /// For a new game.
    pub(super) fn new(parameters: Parameters) -> Simple {
        Simple { parameters, last: None }
    }

    /// What the last move left of its budget: seen from the clock, which knows of lag too.
    fn unused(&self, clock: &Clock) -> f64 {
        self.last.map_or(0.0, |last| {
            // Below zero a new time control began; that is no saving.
            let spent = (last.spendable + clock.increment_ms() - clock.spendable_ms()).max(0.0);
            (last.budget - spent).max(0.0)
        })
    }
}

impl TimeManager for Simple {
    fn stopper(&mut self, clock: &Clock, game_ply: u32, _reused_nodes: u64) -> Box<dyn Stopper> {
        let Parameters { base_percent, ply_percent, time_factor, opening_bonus_percent } = self.parameters;
        let spendable = clock.spendable_ms();
        // A clock at zero has no ratio; nothing can be spent there anyway.
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
    use crate::search::stop::{IterationStats, StopperHints};

    fn manager(description: &str) -> Simple {
        let (_, mut arguments) = Arguments::parse(description).expect("well formed");
        Simple::new(Parameters::read(&mut arguments).expect("in range"))
    }

    fn budget(manager: &mut Simple, time: u64, increment: u64, ply: u32) -> f64 {
        let clock = Clock::new(Some(time), Some(increment), Some(1), 200).expect("a time is given");
        let mut hints = StopperHints::default();
        manager.stopper(&clock, ply, 0).should_stop(&IterationStats::default(), &mut hints);
        milliseconds(hints.remaining_time.expect("a time limit hints"))
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
    fn what_the_last_move_left_is_added() {
        let mut simple = manager("simple");
        assert!(is_about(budget(&mut simple, 10_200, 0, 0), 140.0));
        // 40 of 140 ms were spent.
        assert!(is_about(budget(&mut simple, 10_160, 0, 0), 9960.0 * 0.014 + 100.0));
        // A new time control began: the last budget was saved at most.
        assert!(is_about(budget(&mut simple, 60_200, 0, 0), 840.0 + 9960.0 * 0.014 + 100.0));
        // More than all of it was spent: nothing is taken back.
        assert!(is_about(budget(&mut simple, 5200, 0, 0), 70.0));
    }

    #[test]
    fn an_increment_as_large_as_the_clock_takes_no_more_than_there_is() {
        assert_eq!(budget(&mut manager("simple"), 1000, 1000, 0), 800.0);
        assert_eq!(budget(&mut manager("simple"), 0, 1000, 0), 1.0);
    }
}
