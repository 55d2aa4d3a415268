//! Handles for C code. A handle is a number, never an address.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::sync::lock;

/// Maps handles to objects. A number is never reused, so that the use of a stale handle is an error.
pub(crate) struct Handles<T>(Mutex<BTreeMap<usize, Arc<T>>>);

static NEXT_HANDLE: AtomicUsize = AtomicUsize::new(0x1000);

impl<T> Handles<T> {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }

    pub(crate) fn add(&self, object: Arc<T>) -> usize {
        let handle = NEXT_HANDLE.fetch_add(16, Ordering::Relaxed);
        lock(&self.0).insert(handle, object);
        handle
    }

    pub(crate) fn get(&self, handle: usize) -> Option<Arc<T>> {
        lock(&self.0).get(&handle).cloned()
    }

    pub(crate) fn remove(&self, handle: usize) -> Option<Arc<T>> {
        lock(&self.0).remove(&handle)
    }
}
