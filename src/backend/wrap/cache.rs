//! The evaluation cache: a decorator that keeps the evaluations of the backend inside it.
//!
//! A hit takes no place in the batch ([`Added::Ready`]). Evaluations enter the cache when their batch completes. If two
//! requests for the same position are in flight together, both are evaluated: detecting that would cost every request
//! more than the rare duplicate costs. No lock is held during an evaluation.
//!
//! [`crate::position_key`] decides which positions share an entry. [`super::cache_store`] holds the entries.

use super::cache_store::{Peek, Store};
use crate::position_key::{KeyRules, cache_key};
use crate::ticket::{Done, catch_panic, check_outcome_length};
use crate::{
    Added, Attributes, Backend, BackendError, Batch, DeviceWork, Devices, EvalRequest, Evaluation,
    Evaluations, Ticket,
};
use rukh_base::available_memory::available_bytes;
use rukh_chess::PositionHistory;
use std::sync::Arc;

/// The memory for each entry, in bytes, including its share of the index.
pub const BYTES_PER_ENTRY: u64 = 100;

/// A cache takes at most this part of the memory that the process can still get. The tree and the batches need the rest.
const PART_OF_AVAILABLE: u64 = 2;

/// `entries`, or as many fewer as the memory requires that the process can still get.
pub fn fitting_entries(entries: usize) -> usize {
    let fitting = available_bytes().map_or(u64::MAX, |bytes| bytes / PART_OF_AVAILABLE / BYTES_PER_ENTRY);
    usize::try_from(fitting).unwrap_or(usize::MAX).min(entries)
}

/// The decorator with the cache. It must be the outermost decorator, because it also turns a panic during an evaluation
/// into an error.
pub struct CachingBackend {
    inner: Arc<dyn Backend>,
    store: Arc<Store>,
    entries: usize,
    key_rules: KeyRules,
}

impl CachingBackend {
    /// Puts a cache of about `entries` evaluations around `inner`; 0 turns the cache off. `key_rules` decide which
    /// positions share an entry. If the memory does not suffice, the cache is smaller ([`CachingBackend::entries`]).
    pub fn new(inner: Arc<dyn Backend>, entries: usize, key_rules: KeyRules) -> CachingBackend {
        let mut entries = fitting_entries(entries);
        let store = loop {
            match Store::new(entries) {
                Some(store) => break store,
                None => entries /= 2,
            }
        };
        CachingBackend { inner, store: Arc::new(store), entries, key_rules }
    }

    /// The number of evaluations for which the cache was made.
    pub fn entries(&self) -> usize {
        self.entries
    }

    /// Empties the cache and changes its size to about `entries` evaluations. `false` if that is impossible; then only
    /// a new cache can have that size.
    pub fn resize(&self, entries: usize) -> bool {
        fitting_entries(entries) == entries && self.store.resize(entries)
    }

    /// The memory that the cache takes when it is full, in bytes.
    pub fn bytes(&self) -> u64 {
        self.store.bytes()
    }

    /// How full the cache is, in thousandths.
    pub fn fullness_permille(&self) -> u32 {
        self.store.fullness_permille()
    }

    /// Lets the operating system free the cache's memory when the process ends, which is quicker than freeing it in
    /// pieces before. This is for a process that ends next.
    pub fn leave_to_system(&self) {
        // One more owner, which never drops it.
        std::mem::forget(Arc::clone(&self.store));
    }
}

impl Backend for CachingBackend {
    fn attributes(&self) -> &Attributes {
        self.inner.attributes()
    }

    fn new_batch(&self) -> Box<dyn Batch> {
        Box::new(CachingBatch {
            name: self.inner.attributes().name.clone(),
            inner: self.inner.new_batch(),
            store: Arc::clone(&self.store),
            peek: self.store.peek(),
            key_rules: self.key_rules,
            keys: Vec::new(),
        })
    }

    fn cached(&self, request: EvalRequest<'_>) -> Option<Evaluation> {
        self.store.get(cache_key(request.history, self.key_rules), request.moves.len())
    }

    fn clear_cache(&self) {
        self.store.clear();
        self.inner.clear_cache();
    }

    fn devices(&self) -> Devices {
        self.inner.devices()
    }

    fn work(&self) -> Vec<DeviceWork> {
        self.inner.work()
    }
}

/// A batch with the cache keys of its requests.
struct CachingBatch {
    name: String,
    inner: Box<dyn Batch>,
    store: Arc<Store>,
    peek: Peek,
    key_rules: KeyRules,
    keys: Vec<u64>,
}

impl Batch for CachingBatch {
    fn len(&self) -> usize {
        self.keys.len()
    }

    fn load_ahead(&self, history: &PositionHistory) {
        self.store.load_ahead(cache_key(history, self.key_rules));
    }

    fn add(&mut self, request: EvalRequest<'_>) -> Added {
        let key = cache_key(request.history, self.key_rules);
        if self.peek.may_have(key)
            && let Some(evaluation) = self.store.get(key, request.moves.len())
        {
            return Added::Ready(evaluation);
        }
        match self.inner.add(request) {
            Added::Queued => {
                self.keys.push(key);
                Added::Queued
            }
            Added::Ready(evaluation) => {
                self.store.insert(key, evaluation.value, &evaluation.priors);
                Added::Ready(evaluation)
            }
        }
    }

    fn submit(self: Box<Self>) -> Box<dyn Ticket> {
        if self.keys.is_empty() {
            return Done::boxed(Ok(Evaluations::default()));
        }
        let CachingBatch { name, inner, store, keys, .. } = *self;
        match catch_panic(&name, || Ok(inner.submit())) {
            Ok(inner) => Box::new(CachingTicket { name, inner, store, keys }),
            Err(error) => Done::boxed(Err(error)),
        }
    }
}

struct CachingTicket {
    name: String,
    inner: Box<dyn Ticket>,
    store: Arc<Store>,
    keys: Vec<u64>,
}

impl Ticket for CachingTicket {
    fn wait(self: Box<Self>) -> Result<Evaluations, BackendError> {
        let CachingTicket { name, inner, store, keys } = *self;
        let evaluations = catch_panic(&name, || inner.wait())?;
        check_outcome_length(&name, keys.len(), evaluations.len())?;
        // The number of insertions that take about as long as memory takes to answer.
        const AHEAD: usize = 4;
        keys.iter().take(AHEAD).for_each(|&key| store.load_ahead(key));
        for (index, (&key, (value, priors))) in keys.iter().zip(evaluations.iter()).enumerate() {
            if let Some(&later) = keys.get(index + AHEAD) {
                store.load_ahead(later);
            }
            store.insert(key, value, priors);
        }
        Ok(evaluations)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::RandomBackend;

    #[test]
    fn the_cache_that_is_left_to_the_system_outlives_its_backend() {
        for is_left in [false, true] {
            let inner = Arc::new(RandomBackend::default());
            let backend = CachingBackend::new(inner, 100, KeyRules::default());
            let store = Arc::downgrade(&backend.store);
            if is_left {
                backend.leave_to_system();
            }
            drop(backend);
            assert_eq!(store.upgrade().is_some(), is_left);
        }
    }
}
