//! A mutex's guard, whatever became of the thread that held it before.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex. What a panicking thread left behind is used as it is: every change under a lock here is one step.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
