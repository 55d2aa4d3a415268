//! Work that threads share.

use std::sync::{Mutex, PoisonError};
use std::thread::{Builder, scope};

/// Does the work for each part, on as many threads as there are parts. If the system starts fewer, these do all of it.
pub(crate) fn share<T: Send>(parts: Vec<T>, work: impl Fn(T) + Sync) {
    let others = parts.len().saturating_sub(1);
    let parts = Mutex::new(parts);
    // The lock must not be held during the work, as it would be if `pop` stood in the loop's condition.
    let next = || parts.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let all = || {
        while let Some(part) = next() {
            work(part);
        }
    };
    scope(|scope| {
        for _ in 0..others {
            if Builder::new().spawn_scoped(scope, all).is_err() {
                break;
            }
        }
        all();
    });
}
