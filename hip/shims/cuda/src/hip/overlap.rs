//! Kernels that are launched before the kernel before them has ended (programmatic dependent launch).

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use crate::library;

/// Whether kernels may be launched before the one before them has ended.
pub(super) fn overlaps() -> bool {
    static OVERLAPS: OnceLock<bool> = OnceLock::new();
    *OVERLAPS.get_or_init(|| library::is_set("RUKH_CUDA_SHIM_OVERLAP"))
}

/// Streams whose next launch waits for what is in another.
pub(super) fn joined() -> MutexGuard<'static, BTreeSet<usize>> {
    static JOINED: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());
    JOINED.lock().unwrap_or_else(PoisonError::into_inner)
}
