//! Divides the memory among the trees and the caches of many searches.

use rukh_backend::wrap::{BYTES_PER_ENTRY, fitting_entries};
use rukh_options::Options;
use rukh_registry::memory_limit;
use rukh_search::memory::{CacheBytes, tree_limit};

/// A tree's memory, in bytes for each visit of a search. With more, the tree would hold many positions that the game has
/// left behind, and the processor's caches would not.
const TREE_BYTES_PER_VISIT: u64 = 4000;
/// The least memory of a tree in bytes: a few chunks of its arenas.
const LEAST_TREE_BYTES: u64 = 8_000_000;

/// The memory of each tree and each cache.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shares {
    /// The most bytes that one tree may use.
    pub(crate) tree_bytes: u64,
    /// The number of evaluations in one cache.
    pub(crate) cache_entries: usize,
}

impl Shares {
    /// Divides the user's limit, or the machine's free memory, among so many `trees` and `caches`. `entries` is the sum
    /// of all caches' evaluations.
    pub(crate) fn new(options: &Options, entries: u32, trees: usize, caches: usize) -> Shares {
        let allowed = memory_limit(options);
        let entries = fitting_entries(entries as usize) as u64;
        // As in a single search, the caches take at most a quarter of the user's limit.
        let entries = allowed.map_or(entries, |bytes| entries.min(bytes / 4 / BYTES_PER_ENTRY));
        let cache_bytes = entries * BYTES_PER_ENTRY;
        let cache = CacheBytes { full: cache_bytes, missing: cache_bytes };
        Shares {
            tree_bytes: tree_limit(allowed, cache, 0) / trees.max(1) as u64,
            cache_entries: (entries / caches.max(1) as u64) as usize,
        }
    }

    /// The most bytes of the tree of a search that makes at most `visits`; `None` means any number.
    pub(crate) fn tree_bytes_for(&self, visits: Option<u64>) -> u64 {
        let needed = visits
            .map_or(u64::MAX, |visits| visits.saturating_mul(TREE_BYTES_PER_VISIT).max(LEAST_TREE_BYTES));
        needed.min(self.tree_bytes)
    }
}
