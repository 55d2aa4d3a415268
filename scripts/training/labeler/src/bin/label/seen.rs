//! The positions already labelled, by hash, shared by all threads.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

/// Enough shards that two threads seldom need the same shard at the same time.
const SHARDS: usize = 256;

/// A set of 64-bit hashes.
pub(crate) struct Seen {
    shards: Vec<Mutex<HashSet<u64>>>,
}

impl Seen {
    pub(crate) fn new() -> Seen {
        Seen { shards: (0..SHARDS).map(|_| Mutex::default()).collect() }
    }

    /// Inserts `hash`, and returns whether it was new.
    pub(crate) fn insert(&self, hash: u64) -> bool {
        let shard = &self.shards[(hash >> 32) as usize % SHARDS];
        shard.lock().unwrap_or_else(PoisonError::into_inner).insert(hash)
    }
}
