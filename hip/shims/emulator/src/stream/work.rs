//! Operations of a stream, and marks between them.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Instant;

use hip_runtime_sys::hipError_t;

use crate::sync::lock;

/// The failure of an operation.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) code: hipError_t,
    pub(crate) message: String,
}

/// One piece of a stream's work. A graph runs it again at every launch.
pub(crate) type Operation = Arc<dyn Fn() -> Result<(), Failure> + Send + Sync>;

/// A place between a stream's operations that others can wait for.
#[derive(Default)]
pub(crate) struct Mark {
    /// When the stream reached it, and the error of the stream's failure before it.
    reached: Mutex<Option<(Instant, Option<hipError_t>)>>,
    changed: Condvar,
}

impl Mark {
    pub(super) fn reach(&self, failure: Option<hipError_t>) {
        *lock(&self.reached) = Some((Instant::now(), failure));
        self.changed.notify_all();
    }

    /// Waits until the stream reaches the mark. Returns the time, and the error of the stream's failure before it.
    pub(crate) fn wait(&self) -> (Instant, Option<hipError_t>) {
        let mut reached = lock(&self.reached);
        loop {
            if let Some(result) = *reached {
                return result;
            }
            reached = self.changed.wait(reached).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// As [`Mark::wait`], or `None` if the stream has not reached the mark yet.
    pub(crate) fn state(&self) -> Option<(Instant, Option<hipError_t>)> {
        *lock(&self.reached)
    }
}
