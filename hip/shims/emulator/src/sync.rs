//! Locks that ignore the panics of other threads.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex, even if another thread has panicked while it held the lock. In this crate every change under a lock
/// is a single step, so a panic cannot leave the data half changed.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
