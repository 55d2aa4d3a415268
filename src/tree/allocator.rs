//! The memory of a tree: its two arenas, and the allocation of nodes and words in them.
//!
//! Freed entries are reused first. When there are none, new entries at the end of the arenas are used. Each thread has
//! an [`Allocator`] with a private stock, so that most allocations touch no shared memory. Entries that
//! [`super::recycle`] freed are in linked lists that run through the free entries themselves: one list of nodes, and
//! for each length one list of runs of words. When a thread ends, its stock returns to the tree.

use super::arena::Arena;
use super::node::Node;
use super::node_id::NodeId;
use super::sizes::{LONGEST_RUN, NODE_BLOCK, PerNode, WORD_BLOCK, Words};
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::sync::{Mutex, MutexGuard, PoisonError};

/// The number of freed entries that a thread takes at once.
const HANDFUL: usize = 32;

/// The consecutive entries `start..end` of an arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    start: u32,
    end: u32,
}

impl Range {
    const EMPTY: Range = Range { start: 0, end: 0 };

    fn take(&mut self, count: u32) -> Option<u32> {
        let start = self.start;
        (self.end - start >= count).then(|| {
            self.start += count;
            start
        })
    }
}

/// The arenas of a tree's nodes and words, and the lists of their free entries.
pub(super) struct Storage {
    pub(super) nodes: PerNode<Node>,
    pub(super) words: Words,
    pub(super) free: FreeLists,
}

impl Storage {
    pub(super) fn new() -> Storage {
        Storage { nodes: PerNode::default(), words: Words::default(), free: FreeLists::new() }
    }

    #[inline]
    pub(super) fn node(&self, id: NodeId) -> &Node {
        self.nodes.get(id.raw())
    }

    /// Frees a node that was begun but that no other thread has seen.
    pub(super) fn unmake_node(&self, id: NodeId, allocator: &mut Allocator) {
        self.node(id).end(0);
        allocator.keep_node(id);
    }
}

/// The free entries of a tree's arenas that any thread may take.
#[derive(Debug)]
pub(super) struct FreeLists {
    nodes: Mutex<List>,
    /// Free runs of words, one list for each length.
    runs: Box<[Mutex<List>]>,
    /// Unused entries that ended threads had reserved.
    node_ranges: Mutex<Vec<Range>>,
    word_ranges: Mutex<Vec<Range>>,
    /// The number of free nodes in the lists. Relaxed suffices, because the number is only reported and used as a hint
    /// about whether to look into the lists, which have locks. It is increased before an entry can be taken and
    /// decreased after an entry was taken, so it is never below zero.
    free_nodes: AtomicU64,
    /// The number of free words in the lists, under the same rules.
    free_words: AtomicU64,
}

/// A linked list of free entries. Each entry holds the index of the next.
#[derive(Debug, Default)]
struct List {
    first: u32,
    length: u32,
}

impl FreeLists {
    fn new() -> FreeLists {
        FreeLists {
            nodes: Mutex::default(),
            runs: (0..=LONGEST_RUN).map(|_| Mutex::default()).collect(),
            node_ranges: Mutex::default(),
            word_ranges: Mutex::default(),
            free_nodes: AtomicU64::new(0),
            free_words: AtomicU64::new(0),
        }
    }

    /// The number of free nodes in the list.
    pub(super) fn free_nodes(&self) -> u64 {
        self.free_nodes.load(Ordering::Relaxed)
    }

    /// The size of the entries in the lists, in bytes. Unused ranges are not counted.
    pub(super) fn free_bytes(&self) -> u64 {
        self.free_nodes() * size_of::<Node>() as u64
            + self.free_words.load(Ordering::Relaxed) * size_of::<AtomicU32>() as u64
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code that holds one of these locks can panic, so a poisoned lock is impossible.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FreeLists {
    /// Locks all lists, to free many entries.
    pub(super) fn lock_all(&self) -> Freeing<'_> {
        Freeing {
            nodes: lock(&self.nodes),
            runs: self.runs.iter().map(lock).collect(),
            free_nodes: &self.free_nodes,
            free_words: &self.free_words,
        }
    }

    fn free_node(&self, storage: &Storage, entry: u32) {
        self.free_nodes.fetch_add(1, Ordering::Relaxed);
        free_node(&mut lock(&self.nodes), storage, entry);
    }

    fn free_run(&self, storage: &Storage, start: u32, count: u32) {
        self.free_words.fetch_add(u64::from(count), Ordering::Relaxed);
        free_run(&mut lock(&self.runs[count as usize]), storage, start);
    }
}

fn free_node(list: &mut List, storage: &Storage, entry: u32) {
    storage.nodes.get(entry).end(list.first);
    *list = List { first: entry, length: list.length + 1 };
}

fn free_run(list: &mut List, storage: &Storage, start: u32) {
    storage.words.get(start).store(list.first, Ordering::Relaxed);
    *list = List { first: start, length: list.length + 1 };
}

/// All lists of free entries, locked.
pub(super) struct Freeing<'a> {
    nodes: MutexGuard<'a, List>,
    runs: Vec<MutexGuard<'a, List>>,
    free_nodes: &'a AtomicU64,
    free_words: &'a AtomicU64,
}

impl Freeing<'_> {
    pub(super) fn free_node(&mut self, storage: &Storage, id: NodeId) {
        free_node(&mut self.nodes, storage, id.raw());
        self.free_nodes.fetch_add(1, Ordering::Relaxed);
    }

    /// Frees the run of `count` words at `start`.
    pub(super) fn free_run(&mut self, storage: &Storage, start: u32, count: u32) {
        if let Some(list) = self.runs.get_mut(count as usize) {
            free_run(list, storage, start);
            self.free_words.fetch_add(u64::from(count), Ordering::Relaxed);
        }
    }
}

/// Cuts a run of `count` words off a longer free run, if so much memory is free that the arena should not grow.
fn split_longer(storage: &Storage, count: u32) -> Option<u32> {
    let free = &storage.free;
    // A smaller share is usually free for a while, because demand for each length varies.
    const LEAST_SHARE: u64 = 16;
    if free.free_words.load(Ordering::Relaxed) < storage.words.reserved() / LEAST_SHARE {
        return None;
    }
    let mut longer = (count + 1..=LONGEST_RUN).filter(|&longer| lock(&free.runs[longer as usize]).length > 0);
    let length = longer.next()?;
    let mut taken = Vec::new();
    take_some(&free.runs[length as usize], &mut taken, 1, |start| {
        storage.words.get(start).load(Ordering::Relaxed)
    });
    let start = taken.pop()?;
    free.free_words.fetch_sub(u64::from(length), Ordering::Relaxed);
    free.free_run(storage, start + count, length - count);
    Some(start)
}

/// Takes up to [`HANDFUL`] entries off a list. `next` reads the link in an entry.
fn take_handful(list: &Mutex<List>, stock: &mut Vec<u32>, next: impl Fn(u32) -> u32) {
    take_some(list, stock, HANDFUL, next);
}

fn take_some(list: &Mutex<List>, stock: &mut Vec<u32>, most: usize, next: impl Fn(u32) -> u32) {
    let mut list = lock(list);
    while list.length > 0 && stock.len() < most {
        stock.push(list.first);
        *list = List { first: next(list.first), length: list.length - 1 };
    }
}

/// A thread's private stock of free nodes and words of one tree.
#[derive(Debug)]
pub struct Allocator {
    nodes: Range,
    words: Range,
    /// Nodes that were freed, or that this thread took and did not need.
    spare_nodes: Vec<u32>,
    /// Runs of words that were freed, or that this thread took and did not need, by length.
    spare_runs: Vec<Vec<u32>>,
}

impl Default for Allocator {
    fn default() -> Allocator {
        Allocator {
            nodes: Range::EMPTY,
            words: Range::EMPTY,
            spare_nodes: Vec::new(),
            spare_runs: Vec::new(),
        }
    }
}

impl Allocator {
    /// Takes a free entry, which [`Node::begin`] turns into a node. `None` means that the arena is full.
    pub(super) fn take_node(&mut self, storage: &Storage) -> Option<NodeId> {
        let free = &storage.free;
        if self.spare_nodes.is_empty() && free.free_nodes.load(Ordering::Relaxed) > 0 {
            let next = |entry| storage.nodes.get(entry).links.load(Ordering::Relaxed);
            take_handful(&free.nodes, &mut self.spare_nodes, next);
            free.free_nodes.fetch_sub(self.spare_nodes.len() as u64, Ordering::Relaxed);
        }
        let entry = match self.spare_nodes.pop() {
            Some(entry) => entry,
            None => take(&mut self.nodes, &storage.nodes, &free.node_ranges, 1, NODE_BLOCK)?,
        };
        NodeId::from_raw(entry)
    }

    /// Puts back a node that was taken but not needed.
    pub(super) fn keep_node(&mut self, id: NodeId) {
        self.spare_nodes.push(id.raw());
    }

    /// Takes a run of `count` words with undefined content. `None` means that the arena is full.
    pub(super) fn take_run(&mut self, storage: &Storage, count: u32) -> Option<u32> {
        let free = &storage.free;
        let class = count as usize;
        if self.spare_runs.len() <= class {
            self.spare_runs.resize_with(class + 1, Vec::new);
        }
        let spare = &mut self.spare_runs[class];
        if spare.is_empty() && free.free_words.load(Ordering::Relaxed) > 0 {
            let next = |start| storage.words.get(start).load(Ordering::Relaxed);
            take_handful(&free.runs[class], spare, next);
            free.free_words.fetch_sub(spare.len() as u64 * u64::from(count), Ordering::Relaxed);
        }
        match spare.pop().or_else(|| split_longer(storage, count)) {
            Some(start) => Some(start),
            None => take(&mut self.words, &storage.words, &free.word_ranges, count, WORD_BLOCK),
        }
    }

    /// Puts back a run that was taken but not needed.
    pub(super) fn keep_run(&mut self, start: u32, count: u32) {
        if let Some(spare) = self.spare_runs.get_mut(count as usize) {
            spare.push(start);
        }
    }

    /// Returns the whole stock to the tree's lists. Other threads may be searching.
    pub(super) fn give_back(&mut self, storage: &Storage) {
        let free = &storage.free;
        give_range(&mut self.nodes, &free.node_ranges);
        give_range(&mut self.words, &free.word_ranges);
        for entry in self.spare_nodes.drain(..) {
            free.free_node(storage, entry);
        }
        for (count, spare) in self.spare_runs.iter_mut().enumerate() {
            for start in spare.drain(..) {
                free.free_run(storage, start, count as u32);
            }
        }
    }
}

fn give_range(range: &mut Range, ranges: &Mutex<Vec<Range>>) {
    let range = std::mem::replace(range, Range::EMPTY);
    if range.start < range.end {
        lock(ranges).push(range);
    }
}

/// Takes `count` entries from `mine`. If too few are left there, `mine` is replaced by a range that an ended thread
/// gave back, or by a new block of `block` entries. The rest of the old range is lost, so `block` should be much larger
/// than `count`.
fn take<T: Default, const CHUNKS: usize, const CHUNK: usize>(
    mine: &mut Range,
    arena: &Arena<T, CHUNKS, CHUNK>,
    ranges: &Mutex<Vec<Range>>,
    count: u32,
    block: u32,
) -> Option<u32> {
    loop {
        if let Some(start) = mine.take(count) {
            return Some(start);
        }
        let left = lock(ranges).pop();
        *mine = match left {
            Some(range) => range,
            None => {
                let start = arena.reserve(block)?;
                // Index 0 means "none", and the last index would make `end` overflow, so both are skipped.
                Range { start: start.max(1), end: start + (block - 1) }
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Tree;
    use std::collections::HashSet;

    #[test]
    fn nothing_is_handed_out_twice_and_nothing_is_lost() {
        let tree = Tree::new();
        let taken = Mutex::new(HashSet::new());
        std::thread::scope(|scope| {
            for thread in 0..4_u32 {
                let (tree, taken) = (&tree, &taken);
                scope.spawn(move || {
                    let mut allocator = Allocator::default();
                    for i in 0..500_u32 {
                        let count = 1 + (i * 7 + thread) % 23;
                        let start = allocator.take_run(&tree.storage, count).expect("room is left");
                        assert_eq!(tree.storage.words.slice(start, count as usize).len(), count as usize);
                        let mut taken = lock(taken);
                        for word in start..start + count {
                            assert!(word != 0 && taken.insert(word), "word {word} was handed out twice");
                        }
                    }
                    allocator.give_back(&tree.storage);
                });
            }
        });
        let mut allocator = Allocator::default();
        let first = allocator.take_node(&tree.storage).expect("room is left");
        allocator.keep_node(first);
        allocator.give_back(&tree.storage);
        let before = tree.used_bytes();
        assert_eq!(Allocator::default().take_node(&tree.storage), Some(first));
        assert_eq!(tree.used_bytes(), before + size_of::<Node>() as u64);
    }
}
