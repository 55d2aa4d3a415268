//! The transposition table, which maps a position's key to its node.
//!
//! [`super`] explains which positions are in the table, and why several paths may share a node. An entry holds half
//! of the key and the node's index in one word, so that one compare-and-swap publishes it. The node holds the other
//! half of the key, so that all 64 bits are compared. The table consists of shards, each with a read-write lock. To
//! find or enter a node, a thread takes the lock for reading and changes entries by compare-and-swap. The lock is taken
//! for writing only when the tree is recycled or the shard grows, by a quarter; growth does not block the other shards.

use super::allocator::{Allocator, Storage};
use super::node_id::NodeId;
use super::places::Places;
use super::sizes::SHARD_BITS;
use super::status::Status;
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::sync::{PoisonError, RwLock};

#[derive(Debug, Default)]
struct Shard {
    /// The upper half of the key and the node's index, or 0 for a free entry.
    entries: Places,
    used: AtomicUsize,
}

impl Shard {
    fn is_full(&self) -> bool {
        4 * self.used.load(Ordering::Relaxed) >= 3 * self.entries.len()
    }

    /// All entries, in the order in which a search for an entry with this key probes them.
    fn places(&self, entry_key: u32) -> impl Iterator<Item = &AtomicU64> {
        let first = ((u64::from(entry_key) * self.entries.len() as u64) >> 32) as usize;
        self.entries.circle_from(first)
    }

    /// Removes all entries and returns them.
    fn take_all(&mut self) -> Vec<u64> {
        let mut taken = Vec::with_capacity(self.used.swap(0, Ordering::Relaxed));
        let entries = self.entries.circle_from(0).map(|place| place.swap(0, Ordering::Relaxed));
        taken.extend(entries.filter(|&entry| entry != 0));
        taken
    }

    /// Adds an entry that the shard does not have yet.
    fn enter(&mut self, entry: u64) {
        let free = self.places((entry >> 32) as u32).find(|place| place.load(Ordering::Relaxed) == 0);
        if let Some(place) = free {
            place.store(entry, Ordering::Relaxed);
            self.used.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[derive(Debug)]
pub(super) struct Transpositions {
    shards: Box<[RwLock<Shard>]>,
    bytes: AtomicU64,
}

impl Transpositions {
    pub(super) fn new() -> Transpositions {
        let shards = (0..1 << SHARD_BITS).map(|_| RwLock::default()).collect();
        Transpositions { shards, bytes: AtomicU64::new(0) }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Removes the nodes for which `is_kept` returns `false`. No other thread may use the tree.
    pub(super) fn retain(&self, is_kept: impl Fn(NodeId) -> bool) {
        for shard in &self.shards {
            let mut shard = shard.write().unwrap_or_else(PoisonError::into_inner);
            let mut entries = shard.take_all();
            entries.retain(|&entry| NodeId::from_raw(entry as u32).is_some_and(&is_kept));
            entries.into_iter().for_each(|entry| shard.enter(entry));
        }
    }

    fn grow(&self, shard: &RwLock<Shard>) {
        let mut shard = shard.write().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have grown the shard meanwhile.
        if !shard.is_full() {
            return;
        }
        let (entries, bytes) = (shard.take_all(), shard.entries.bytes());
        shard.entries.lengthen();
        self.bytes.fetch_add(shard.entries.bytes() - bytes, Ordering::Relaxed);
        entries.into_iter().for_each(|entry| shard.enter(entry));
    }

    /// Finds or makes the node of the position with this key. `None` means that the arena is full.
    pub(super) fn find_or_make(
        &self,
        key: u64,
        storage: &Storage,
        allocator: &mut Allocator,
    ) -> Option<NodeId> {
        let key = spread(key);
        // The choice of shard, the place in the shard and the comparison use different bits where possible.
        let shard = &self.shards[(key & ((1 << SHARD_BITS) - 1)) as usize];
        let (entry_key, node_key) = ((key >> 32) as u32, key as u32);
        loop {
            let guard = shard.read().unwrap_or_else(PoisonError::into_inner);
            if guard.is_full() {
                drop(guard);
                self.grow(shard);
                continue;
            }
            let mut made: Option<NodeId> = None;
            for place in guard.places(entry_key) {
                let mut entry = place.load(Ordering::Acquire);
                if entry == 0 {
                    let fresh = match made {
                        Some(fresh) => fresh,
                        None => allocator.take_node(storage)?,
                    };
                    storage.node(fresh).begin(Status::SHARED, node_key);
                    let new_entry = u64::from(entry_key) << 32 | u64::from(fresh.raw());
                    // AcqRel: publishes the node's key, or receives the one that another thread published.
                    match place.compare_exchange(0, new_entry, Ordering::AcqRel, Ordering::Acquire) {
                        Ok(_) => {
                            guard.used.fetch_add(1, Ordering::Relaxed);
                            return Some(fresh);
                        }
                        Err(winner) => {
                            made = Some(fresh);
                            entry = winner;
                        }
                    }
                }
                if (entry >> 32) as u32 == entry_key
                    && let Some(id) = NodeId::from_raw(entry as u32)
                    && storage.node(id).key.load(Ordering::Relaxed) == node_key
                {
                    if let Some(fresh) = made {
                        storage.unmake_node(fresh, allocator);
                    }
                    return Some(id);
                }
            }
            // There is no free place because other threads have filled the shard meanwhile: grow it and try again.
            if let Some(fresh) = made {
                storage.unmake_node(fresh, allocator);
            }
        }
    }
}

/// Hashes `key` with the finaliser of SplitMix64: every bit of the result depends on every bit of the key.
fn spread(key: u64) -> u64 {
    let key = (key ^ (key >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let key = (key ^ (key >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    key ^ (key >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Tree;
    use std::collections::HashMap;

    #[test]
    fn every_thread_gets_the_same_node_for_a_key() {
        let tree = Tree::new();
        let found: Vec<HashMap<u64, NodeId>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4_u64)
                .map(|thread| {
                    let tree = &tree;
                    scope.spawn(move || {
                        let mut allocator = Allocator::default();
                        let keys = (0..20_000_u64).map(|i| (i * (2 * thread + 1)) % 10_007);
                        let find = |key| {
                            (
                                key,
                                tree.table
                                    .find_or_make(key, &tree.storage, &mut allocator)
                                    .expect("room is left"),
                            )
                        };
                        keys.map(find).collect()
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().expect("no thread panics")).collect()
        });
        assert_eq!(found[0].len(), 10_007);
        for other in &found[1..] {
            assert_eq!(&found[0], other);
        }
        let mut nodes: Vec<u32> = found[0].values().map(|id| id.raw()).collect();
        nodes.sort_unstable();
        nodes.dedup();
        assert_eq!(nodes.len(), 10_007);
        assert!(tree.table.bytes() < 10_007 * 16);
        // Half of the nodes are removed.
        tree.table.retain(|id| id.raw() % 2 == 0);
        let mut allocator = Allocator::default();
        for (&key, &id) in &found[0] {
            let again = tree.table.find_or_make(key, &tree.storage, &mut allocator).expect("room is left");
            assert_eq!(again == id, id.raw() % 2 == 0);
        }
    }
}
