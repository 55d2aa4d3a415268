//! The limit on the wait for a first evaluation.

use super::stopper::{IterationStats, Stopper, StopperHints};
use std::time::Duration;

/// Never stops a search that has evaluated its root. A search that has not, because its device hangs or is being
/// replaced, must send a move after a limit ([`Stopper::patience`]).
#[derive(Debug)]
pub struct PatienceStopper {
    limit: Duration,
}

impl PatienceStopper {
    /// `limit` counts from the start of the clock.
    pub fn new(limit: Duration) -> PatienceStopper {
        PatienceStopper { limit }
    }
}

impl Stopper for PatienceStopper {
    fn should_stop(&mut self, _: &IterationStats, _: &mut StopperHints) -> bool {
        false
    }

    fn patience(&self) -> Option<Duration> {
        Some(self.limit)
    }
}
