//! How much of its time a worker waits for the backend.

use std::time::Duration;

/// The part of the earlier sums that each iteration keeps, so that about ten iterations count.
const KEPT: f32 = 0.9;
/// The share of the time that a worker waits if the device is what limits the search.
const MOSTLY: f32 = 0.7;

/// The recent time of a worker, in seconds, in which later iterations count more.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct WaitingTime {
    waited: f32,
    total: f32,
}

impl WaitingTime {
    /// Counts an iteration of the duration `total`, in which the worker waited for the backend for the time `waited`.
    pub(super) fn record(&mut self, waited: Duration, total: Duration) {
        self.waited = self.waited * KEPT + waited.as_secs_f32();
        self.total = self.total * KEPT + total.as_secs_f32();
    }

    /// Whether the worker mostly waits, so that it has time to choose more positions for a batch.
    pub(super) fn is_most(&self) -> bool {
        self.waited > MOSTLY * self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_mostly_waits_after_several_iterations_of_waiting() {
        let mut time = WaitingTime::default();
        assert!(!time.is_most());
        let millisecond = Duration::from_millis(1);
        (0..20).for_each(|_| time.record(millisecond, 2 * millisecond));
        assert!(!time.is_most());
        time.record(9 * millisecond, 10 * millisecond);
        assert!(!time.is_most());
        (0..20).for_each(|_| time.record(9 * millisecond, 10 * millisecond));
        assert!(time.is_most());
    }
}
