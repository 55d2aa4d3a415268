//! A time manager that spends a fixed percentage of the remaining time, as lc0's time manager `alphazero` does.

use super::arguments::{Arguments, TimeManagerError};
use super::clock::Clock;
use super::manager::TimeManager;
use crate::stop::{Stopper, TimeLimitStopper};

/// The manager `alphazero`. Each move gets `percent` of [`Clock::spendable_ms`].
pub(super) struct AlphaZero {
    percent: f64,
}

impl AlphaZero {
    /// Reads the only parameter, `alphazero-time-pct` (12).
    pub(super) fn read(arguments: &mut Arguments) -> Result<AlphaZero, TimeManagerError> {
        Ok(AlphaZero { percent: arguments.take("alphazero-time-pct", 12.0, 0.0..=100.0)? })
    }
}

impl TimeManager for AlphaZero {
    fn stopper(&mut self, clock: &Clock, _game_ply: u32, _reused_nodes: u64) -> Box<dyn Stopper> {
        let budget = clock.spendable_ms() * self.percent / 100.0;
        Box::new(TimeLimitStopper::new(clock.grant(budget)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stop::{IterationStats, StopperHints};
    use std::time::Duration;

    #[test]
    fn takes_its_percentage_of_what_is_left_after_the_overhead() {
        for (percent, budget) in [(12.0, 1176), (100.0, 9800), (0.0, 1)] {
            let clock = Clock::new(Some(10_000), Some(5000), None, 200).expect("a time is given");
            let mut hints = StopperHints::default();
            let mut stopper = AlphaZero { percent }.stopper(&clock, 80, 0);
            assert!(!stopper.should_stop(&IterationStats::default(), &mut hints));
            assert_eq!(hints.remaining_time, Some(Duration::from_millis(budget)));
        }
    }
}
