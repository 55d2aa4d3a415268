//! `NodesPerSecondLimit`: makes the search slower.
//!
//! The worker waits after it has backed up a batch: it sleeps in steps for the time given by [`pause_for_speed_limit`],
//! and reads the stop flag between them. The stopper in this file tells the other stoppers the speed, so that they need
//! not measure it.

use super::stopper::{IterationStats, Stopper, StopperHints};
use std::time::Duration;

/// Tells the stoppers after it in the chain how fast the search may go. It never stops the search.
#[derive(Debug)]
pub struct SpeedHint {
    nodes_per_second: f32,
}

impl SpeedHint {
    /// `nodes_per_second` is the limit that the worker keeps.
    pub fn new(nodes_per_second: f32) -> SpeedHint {
        SpeedHint { nodes_per_second }
    }
}

impl Stopper for SpeedHint {
    fn should_stop(&mut self, _stats: &IterationStats, hints: &mut StopperHints) -> bool {
        hints.nodes_per_second = Some(self.nodes_per_second);
        false
    }
}

/// The time that a worker must still wait to keep the search within `limit` nodes per second. The search has made
/// `playouts` playouts in the time `elapsed` since the first batch. The result is zero if there is nothing to wait for,
/// or if `limit` is 0, which means no limit.
///
/// With a large batch and a low limit the result may be long. The worker sleeps in steps and reads the stop flag
/// between them.
pub fn pause_for_speed_limit(limit: f32, playouts: u64, elapsed: Duration) -> Duration {
    if limit.is_nan() || limit <= 0.0 {
        return Duration::ZERO;
    }
    let due = playouts as f64 / f64::from(limit);
    // The number of seconds may be too large for a `Duration`. Then the worker waits until the search is stopped.
    Duration::try_from_secs_f64(due).unwrap_or(Duration::MAX).saturating_sub(elapsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_until_the_playouts_are_due() {
        let pause = |playouts, ms| pause_for_speed_limit(100.0, playouts, Duration::from_millis(ms));
        assert_eq!(pause(50, 200), Duration::from_millis(300));
        assert_eq!(pause(50, 500), Duration::ZERO);
        assert_eq!(pause(50, 5000), Duration::ZERO);
        assert_eq!(pause(0, 0), Duration::ZERO);
    }

    #[test]
    fn without_a_limit_there_is_no_pause() {
        for limit in [0.0, -1.0, f32::NAN, f32::INFINITY] {
            assert_eq!(pause_for_speed_limit(limit, 1_000_000, Duration::ZERO), Duration::ZERO);
        }
        assert_eq!(pause_for_speed_limit(f32::MIN_POSITIVE, u64::MAX, Duration::ZERO), Duration::MAX);
    }

    #[test]
    fn the_hint_is_set_and_nothing_stops() {
        let mut hints = StopperHints::default();
        assert!(!SpeedHint::new(250.0).should_stop(&IterationStats::default(), &mut hints));
        assert_eq!(hints.nodes_per_second, Some(250.0));
    }
}
