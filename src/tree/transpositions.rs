//! The transposition table, which maps a position's key to its node.
//!
//! [`super`] explains which positions are in the table, and why several paths may share a node. An entry holds half
//! of the key and the node's index in one word, so that one compare-and-swap publishes it. The node holds the other
//! half of the key, so that all 64 bits are compared. The table consists of shards, each with a read-write lock. To
//! find or enter a node, a thread takes the lock for reading and changes entries by compare-and-swap. The lock is taken
//! for writing only to remove a node or when the shard grows, by a quarter; neither blocks the other shards.
//!
//! # References
//! A shared node lives as long as something refers to it: a link, the root, or a thread that is about to set a link. The
//! references are counted in an arena of their own, one word for each node:
//! ```text
//!  bits   0-11                   12-31
//!         number of references   the upper bits of the entry's half of the key, by which the entry is found again
//! ```
//! A count that has reached its maximum stays there, and then the node is kept for ever. A thread that finds a node in
//! the table counts its reference under the shard's lock for reading. [`Transpositions::let_go`] removes a node under
//! the lock for writing, and only if there is still no reference. So a node that was found is never removed.

use super::allocator::{Allocator, Storage};
use super::node_id::NodeId;
use super::shard::{Pieces, Shard};
use super::sizes::{FIRST_SHARD_LENGTH, References, SHARD_BITS};
use super::status::Status;
use rukh_base::cache_line::load_ahead;
use rukh_base::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use rukh_base::sync::{PoisonError, RwLock};

const COUNT_BITS: u32 = 12;
const COUNT_MASK: u32 = (1 << COUNT_BITS) - 1;

/// A shard in a cache line of its own, because every thread writes to the locks of all shards.
#[derive(Default)]
#[repr(align(64))]
struct OwnLine(RwLock<Shard>);

#[cfg(not(any(feature = "loom", feature = "shuttle")))]
const _: () = assert!(size_of::<OwnLine>() == 64, "a shard fits into one cache line");

pub(super) struct Transpositions {
    shards: Box<[OwnLine]>,
    /// The memory of long shards.
    pieces: Pieces,
    bytes: AtomicU64,
    references: References,
    /// Is mixed into each key. After a change, no node that is in the table is found any more.
    salt: AtomicU64,
}

impl Transpositions {
    pub(super) fn new() -> Transpositions {
        let shards = (0..1 << SHARD_BITS).map(|_| OwnLine::default()).collect();
        let (bytes, salt) = (AtomicU64::new(0), AtomicU64::new(0));
        Transpositions { shards, pieces: Pieces::default(), bytes, references: References::default(), salt }
    }

    /// Forgets all nodes: none is found any more. They stay in the table until they are let go. No search may be running.
    pub(super) fn forget(&self) {
        self.salt.fetch_add(1, Ordering::Relaxed);
    }

    /// The shard of a key. [`Node::key`](super::node::Node::key) holds enough of the key for that.
    fn shard(&self, node_key: u32) -> &RwLock<Shard> {
        &self.shards[(node_key & ((1 << SHARD_BITS) - 1)) as usize].0
    }

    /// The size of the table in a tree of `nodes` nodes.
    pub(super) fn bytes(&self, nodes: u64) -> u64 {
        self.bytes.load(Ordering::Relaxed) + nodes * size_of::<AtomicU32>() as u64
    }

    /// The number of references to a shared node, or a large number if there are too many to count.
    pub(super) fn references(&self, id: NodeId) -> u32 {
        match self.references.get_or_make(id.raw()).load(Ordering::Relaxed) & COUNT_MASK {
            COUNT_MASK => u32::MAX,
            count => count,
        }
    }

    /// Counts one more reference to a shared node, to which the caller knows another reference.
    pub(super) fn hold(&self, id: NodeId) {
        let change = |word: u32| (word & COUNT_MASK != COUNT_MASK).then_some(word + 1);
        // Relaxed suffices, because the locks of the shards order the removal of a node after its last use.
        let _ =
            self.references.get_or_make(id.raw()).fetch_update(Ordering::Relaxed, Ordering::Relaxed, change);
    }

    /// Counts one reference less to a shared node. If it was the last one, removes the node from the table and returns
    /// `true`: then the caller must free the node.
    pub(super) fn let_go(&self, id: NodeId, storage: &Storage) -> bool {
        self.count_one_less(id) && self.remove_unused(id, storage)
    }

    /// Does the same as [`Transpositions::let_go`] for several nodes at once, and passes the nodes that must be freed to
    /// `free`. The memory of each step is loaded for all nodes together.
    pub(super) fn let_go_all(&self, ids: &mut Vec<NodeId>, storage: &Storage, free: impl FnMut(NodeId)) {
        for id in ids.iter() {
            load_ahead(self.references.get_or_make(id.raw()));
        }
        ids.retain(|&id| {
            let is_unused = self.count_one_less(id);
            if is_unused {
                load_ahead(self.shard_of(id, storage));
            }
            is_unused
        });
        for &id in ids.iter() {
            self.load_entry_ahead(id, storage);
        }
        ids.drain(..).filter(|&id| self.remove_unused(id, storage)).for_each(free);
    }

    fn shard_of(&self, id: NodeId, storage: &Storage) -> &RwLock<Shard> {
        self.shard(storage.node(id).key.load(Ordering::Relaxed))
    }

    /// Counts one reference less to a shared node. Returns whether none is left.
    fn count_one_less(&self, id: NodeId) -> bool {
        let change = |word: u32| (1..COUNT_MASK).contains(&(word & COUNT_MASK)).then(|| word - 1);
        let references = self.references.get_or_make(id.raw());
        let before = references.fetch_update(Ordering::AcqRel, Ordering::Relaxed, change);
        before.is_ok_and(|word| word & COUNT_MASK == 1)
    }

    /// Starts to load the table's entry of a node into the processor's cache.
    fn load_entry_ahead(&self, id: NodeId, storage: &Storage) {
        // A model checker would try the lock in many interleavings for nothing.
        if cfg!(any(feature = "loom", feature = "shuttle")) {
            return;
        }
        let shard = self.shard_of(id, storage).read().unwrap_or_else(PoisonError::into_inner);
        let word = self.references.get_or_make(id.raw()).load(Ordering::Relaxed);
        if let Some(entry) = shard.entries(word & !COUNT_MASK, &self.pieces).next() {
            load_ahead(entry);
        }
    }

    /// Removes a node without references from the table. `false` if it has references again, because a thread has found
    /// it meanwhile, or if another thread has removed it after that.
    fn remove_unused(&self, id: NodeId, storage: &Storage) -> bool {
        let mut shard = self.shard_of(id, storage).write().unwrap_or_else(PoisonError::into_inner);
        let word = self.references.get_or_make(id.raw()).load(Ordering::Relaxed);
        word & COUNT_MASK == 0 && shard.remove(id, word & !COUNT_MASK, &self.pieces)
    }

    /// The halves of a position's key that the table's entry and the node hold. The choice of shard, the place in the
    /// shard and the comparison use different bits where possible.
    fn halves(&self, key: u64) -> (u32, u32) {
        let key = spread(key ^ self.salt.load(Ordering::Relaxed));
        ((key >> 32) as u32, key as u32)
    }

    /// Starts to load the entry of the position with this key into the processor's cache.
    pub(super) fn load_ahead(&self, key: u64) {
        // A model checker would try the lock in many interleavings for nothing.
        if cfg!(any(feature = "loom", feature = "shuttle")) {
            return;
        }
        let (entry_key, node_key) = self.halves(key);
        let shard = self.shard(node_key).read().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = shard.entries(entry_key, &self.pieces).next() {
            load_ahead(entry);
        }
    }

    fn grow(&self, shard: &RwLock<Shard>) {
        let mut shard = shard.write().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have grown the shard meanwhile.
        if shard.is_full() {
            let before = shard.bytes();
            shard.grow(FIRST_SHARD_LENGTH, &self.pieces);
            self.bytes.fetch_add(shard.bytes() - before, Ordering::Relaxed);
        }
    }

    /// Finds or makes the node of the position with this key, and counts a reference for the caller. `None` means that
    /// the arena is full.
    pub(super) fn find_or_make(
        &self,
        key: u64,
        storage: &Storage,
        allocator: &mut Allocator,
    ) -> Option<NodeId> {
        let (entry_key, node_key) = self.halves(key);
        let shard = self.shard(node_key);
        loop {
            let guard = shard.read().unwrap_or_else(PoisonError::into_inner);
            if guard.is_full() {
                drop(guard);
                self.grow(shard);
                continue;
            }
            let mut made: Option<NodeId> = None;
            for place in guard.entries(entry_key, &self.pieces) {
                let mut entry = place.load(Ordering::Acquire);
                if entry == 0 {
                    let fresh = match made {
                        Some(fresh) => fresh,
                        None => allocator.take_node(storage)?,
                    };
                    storage.node(fresh).begin(Status::SHARED, node_key);
                    let first_reference = entry_key & !COUNT_MASK | 1;
                    self.references.get_or_make(fresh.raw()).store(first_reference, Ordering::Relaxed);
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
                    self.hold(id);
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
    use crate::Tree;
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
        assert!(tree.table.bytes(0) < 10_007 * 16);
        // Half of the nodes lose all their references, one for each time that a thread has found them.
        for &id in found[0].values().filter(|id| id.raw() % 2 == 1) {
            for left in (0..tree.table.references(id)).rev() {
                assert_eq!(tree.table.let_go(id, &tree.storage), left == 0, "{left} references are left");
            }
        }
        let mut allocator = Allocator::default();
        for (&key, &id) in &found[0] {
            let again = tree.table.find_or_make(key, &tree.storage, &mut allocator).expect("room is left");
            assert_eq!(again == id, id.raw() % 2 == 0);
        }
    }

    #[test]
    fn a_node_with_more_references_than_can_be_counted_is_kept() {
        let tree = Tree::new();
        let mut allocator = Allocator::default();
        let mut find = || tree.table.find_or_make(7, &tree.storage, &mut allocator).expect("room is left");
        let id = find();
        for _ in 0..COUNT_MASK + 10 {
            assert_eq!(find(), id);
        }
        assert!((0..2 * COUNT_MASK).all(|_| !tree.table.let_go(id, &tree.storage)));
        assert_eq!(find(), id);
    }
}
