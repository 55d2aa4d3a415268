//! The time limit for one move.

use super::stopper::{IterationStats, Stopper, StopperHints};
use std::time::Duration;

/// Stops when the time since the move's clock started reaches a limit.
#[derive(Debug)]
pub struct TimeLimitStopper {
    limit: Duration,
}

impl TimeLimitStopper {
    /// `limit` counts from the start of the clock, not from the first batch.
    pub fn new(limit: Duration) -> TimeLimitStopper {
        TimeLimitStopper { limit }
    }

    /// The time after which the search stops.
    pub fn limit(&self) -> Duration {
        self.limit
    }
}

impl Stopper for TimeLimitStopper {
    fn should_stop(&mut self, stats: &IterationStats, hints: &mut StopperHints) -> bool {
        hints.plan_end(self.limit, stats.time_since_move_start);
        stats.time_since_move_start >= self.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stops_at_its_limit_and_not_before() {
        let mut stopper = TimeLimitStopper::new(Duration::from_millis(250));
        for (elapsed, stops, left) in [(0, false, 250), (249, false, 1), (250, true, 0), (9000, true, 0)] {
            let stats = IterationStats {
                time_since_move_start: Duration::from_millis(elapsed),
                ..Default::default()
            };
            let mut hints = StopperHints::default();
            assert_eq!(stopper.should_stop(&stats, &mut hints), stops, "at {elapsed} ms");
            assert_eq!(hints.remaining_time, Some(Duration::from_millis(left)));
        }
    }

    #[test]
    fn a_lower_hint_stays() {
        let mut hints = StopperHints::default();
        hints.limit_time(Duration::from_millis(5));
        TimeLimitStopper::new(Duration::from_secs(1)).should_stop(&IterationStats::default(), &mut hints);
        assert_eq!(hints.remaining_time, Some(Duration::from_millis(5)));
    }
}
