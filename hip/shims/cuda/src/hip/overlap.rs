//! Programmatic dependent launch: a kernel may begin before its predecessor in the stream has ended.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use crate::library;

/// Whether `RUKH_CUDA_SHIM_OVERLAP` turns programmatic dependent launch on.
pub(super) fn overlaps() -> bool {
    static OVERLAPS: OnceLock<bool> = OnceLock::new();
    *OVERLAPS.get_or_init(|| library::is_set("RUKH_CUDA_SHIM_OVERLAP"))
}

/// The handles of the streams that have waited for another stream since their last launch. The next launch on such a
/// stream must not begin early.
pub(super) fn joined() -> MutexGuard<'static, BTreeSet<usize>> {
    static JOINED: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());
    JOINED.lock().unwrap_or_else(PoisonError::into_inner)
}
