//! The set of labelled positions, shared by all threads.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

/// The number of locks, which is high enough that threads rarely wait for each other.
const SHARDS: usize = 256;

/// A set of 64-bit hashes with a lock for each part.
pub(crate) struct Seen {
    shards: Vec<Mutex<HashSet<u64>>>,
}

impl Seen {
    /// Creates an empty set.
    pub(crate) fn new() -> Seen {
        Seen { shards: (0..SHARDS).map(|_| Mutex::default()).collect() }
    }

    /// Inserts a hash; returns whether it was new.
    pub(crate) fn insert(&self, hash: u64) -> bool {
        let shard = &self.shards[(hash >> 32) as usize % SHARDS];
        shard.lock().unwrap_or_else(PoisonError::into_inner).insert(hash)
    }
}
