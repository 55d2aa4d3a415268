//! Work of a stream, and marks between pieces of it.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Instant;

use hip_runtime_sys::hipError_t;

use crate::sync::lock;

/// What went wrong in a piece of work.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) code: hipError_t,
    pub(crate) message: String,
}

/// A piece of work; a graph does it again at every launch.
pub(crate) type Operation = Arc<dyn Fn() -> Result<(), Failure> + Send + Sync>;

/// A place in a stream's work that others can wait for.
#[derive(Default)]
pub(crate) struct Mark {
    /// When it was reached, and the failure before it.
    reached: Mutex<Option<(Instant, Option<hipError_t>)>>,
    changed: Condvar,
}

impl Mark {
    pub(super) fn reach(&self, failure: Option<hipError_t>) {
        *lock(&self.reached) = Some((Instant::now(), failure));
        self.changed.notify_all();
    }

    /// Waits until it is reached.
    pub(crate) fn wait(&self) -> (Instant, Option<hipError_t>) {
        let mut reached = lock(&self.reached);
        loop {
            if let Some(result) = *reached {
                return result;
            }
            reached = self.changed.wait(reached).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// When it was reached, if it was.
    pub(crate) fn state(&self) -> Option<(Instant, Option<hipError_t>)> {
        *lock(&self.reached)
    }
}
