//! The limit on the wait for a first evaluation.

use super::stopper::{IterationStats, Stopper, StopperHints};
use std::time::Duration;

/// Never stops a search that has evaluated its root. A search that has not, because its device hangs or is being
/// replaced, must send a move after a limit ([`Stopper::patience`]). A search on a busy processor waits longer, up to the
/// last moment before it loses on time ([`Stopper::last_moment`]).
#[derive(Debug)]
pub struct PatienceStopper {
    limit: Duration,
    last_moment: Option<Duration>,
}

impl PatienceStopper {
    /// Both times count from the start of the clock. Without a clock that can run out there is no last moment.
    pub fn new(limit: Duration, last_moment: Option<Duration>) -> PatienceStopper {
        PatienceStopper { limit, last_moment }
    }
}

impl Stopper for PatienceStopper {
    fn should_stop(&mut self, _: &IterationStats, _: &mut StopperHints) -> bool {
        false
    }

    fn patience(&self) -> Option<Duration> {
        Some(self.limit)
    }

    fn last_moment(&self) -> Option<Duration> {
        self.last_moment
    }
}
