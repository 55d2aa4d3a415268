//! Tells for how long a write has waited for its reader. A pipe that is full blocks its writer, possibly for ever.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Watches the writes to one file. There is at most one at a time.
#[derive(Default)]
pub(super) struct WriteWatch {
    /// When the write in progress began.
    began: Mutex<Option<Instant>>,
}

impl WriteWatch {
    /// Runs `write`.
    pub(super) fn during<T>(&self, write: impl FnOnce() -> T) -> T {
        self.set(Some(Instant::now()));
        let result = write();
        self.set(None);
        result
    }

    /// For how long the write in progress has lasted; zero if there is none.
    pub(super) fn blocked_for(&self) -> Duration {
        let began = *self.began.lock().unwrap_or_else(PoisonError::into_inner);
        began.map_or(Duration::ZERO, |began| began.elapsed())
    }

    fn set(&self, began: Option<Instant>) {
        *self.began.lock().unwrap_or_else(PoisonError::into_inner) = began;
    }
}
