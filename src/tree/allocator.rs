//! The memory of a tree: its two arenas, and the allocation of nodes and words in them.
//!
//! Freed entries are reused first, the last freed one at the very first, because it is still in the processor's cache.
//! When there are none, new entries at the end of the arenas are used. Each thread has an [`Allocator`] with a private
//! stock, so that most allocations touch no shared memory. Entries that [`super::recycle`] freed are in shared lists:
//! one list of nodes, and for each length one list of runs of words. When a thread ends, its stock returns to the tree.

use super::arena::{Arena, Entry};
use super::node::Node;
use super::node_id::NodeId;
use super::sizes::{LONGEST_RUN, NODE_BLOCK, PerNode, WORD_BLOCK, Words};
use rukh_base::cache_line::load_ahead;
use rukh_base::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use rukh_base::sync::{Mutex, MutexGuard, PoisonError};

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
    /// Whether the arenas may grow while memory is free in pieces of other lengths. This is a hint, so it is an atomic of
    /// `std` in every build: a model checker would try many more interleavings for nothing.
    pub(super) may_grow: std::sync::atomic::AtomicBool,
}

impl Storage {
    pub(super) fn new() -> Storage {
        Storage {
            nodes: PerNode::default(),
            words: Words::default(),
            free: FreeLists::new(),
            may_grow: std::sync::atomic::AtomicBool::new(true),
        }
    }

    #[inline]
    pub(super) fn node(&self, id: NodeId) -> &Node {
        self.nodes.get(id.raw())
    }

    /// Frees a node that no other thread can reach.
    pub(super) fn unmake_node(&self, id: NodeId, allocator: &mut Allocator) {
        self.node(id).end();
        allocator.keep_node(id);
    }
}

/// The free entries of a tree's arenas that any thread may take.
#[derive(Debug)]
pub(super) struct FreeLists {
    nodes: Mutex<Vec<u32>>,
    /// Free runs of words, one list for each length.
    runs: Box<[Mutex<Vec<u32>>]>,
    /// A bit for each length: whether its list has runs. A bit changes under the lock of its list, so it is true whenever
    /// the lock is free. Relaxed suffices, because whoever reads a bit then takes the lock.
    lengths: Box<[AtomicU64]>,
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

impl FreeLists {
    fn new() -> FreeLists {
        FreeLists {
            nodes: Mutex::default(),
            runs: (0..=LONGEST_RUN).map(|_| Mutex::default()).collect(),
            lengths: (0..=LONGEST_RUN / 64).map(|_| AtomicU64::new(0)).collect(),
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
    /// Takes over the free nodes in `entries`.
    fn add_nodes(&self, entries: &mut Vec<u32>) {
        if !entries.is_empty() {
            self.free_nodes.fetch_add(entries.len() as u64, Ordering::Relaxed);
            lock(&self.nodes).append(entries);
        }
    }

    /// Takes over the free runs of `count` words that begin at the words in `starts`.
    fn add_runs(&self, count: usize, starts: &mut Vec<u32>) {
        if !starts.is_empty() {
            self.free_words.fetch_add((count * starts.len()) as u64, Ordering::Relaxed);
            let mut list = lock(&self.runs[count]);
            list.append(starts);
            self.note_length(count, true);
        }
    }

    /// Takes up to `most` runs of `count` words into an empty stock.
    fn take_runs(&self, count: usize, most: usize, stock: &mut Vec<u32>) {
        let mut list = lock(&self.runs[count]);
        take_last(&mut list, most, stock);
        if list.is_empty() {
            self.note_length(count, false);
        }
        drop(list);
        self.free_words.fetch_sub((count * stock.len()) as u64, Ordering::Relaxed);
    }

    /// Notes whether there are runs of `count` words. The caller holds the lock of their list.
    fn note_length(&self, count: usize, has_runs: bool) {
        let (word, bit) = (&self.lengths[count / 64], 1 << (count % 64));
        match has_runs {
            true => word.fetch_or(bit, Ordering::Relaxed),
            false => word.fetch_and(!bit, Ordering::Relaxed),
        };
    }

    /// The shortest length from `least` on of which there are runs.
    fn next_length(&self, least: usize) -> Option<usize> {
        let mut upper_bits = u64::MAX << (least % 64);
        for (index, word) in self.lengths.iter().enumerate().skip(least / 64) {
            let found = word.load(Ordering::Relaxed) & upper_bits;
            if found != 0 {
                return Some(64 * index + found.trailing_zeros() as usize);
            }
            upper_bits = u64::MAX;
        }
        None
    }
}

/// Cuts a run of `count` words off a longer free run, if so much memory is free that the arena should not grow.
fn split_longer(storage: &Storage, count: u32) -> Option<u32> {
    let free = &storage.free;
    // A smaller share is usually free for a while, because demand for each length varies.
    const LEAST_SHARE: u64 = 16;
    let free_words = free.free_words.load(Ordering::Relaxed);
    // This is so until the tree is full. Then the arena's counter, which other threads change, need not be read.
    if free_words == 0 {
        return None;
    }
    let is_little = free_words < storage.words.reserved() / LEAST_SHARE;
    if is_little && storage.may_grow.load(std::sync::atomic::Ordering::Relaxed) {
        return None;
    }
    let mut longer = Vec::with_capacity(1);
    let mut length = count as usize;
    while longer.is_empty() {
        length = free.next_length(length + 1)?;
        free.take_runs(length, 1, &mut longer);
    }
    let start = longer.pop()?;
    free.add_runs(length - count as usize, &mut vec![start + count]);
    Some(start)
}

/// Moves up to `most` entries from the end of a list into a stock.
fn take_last(list: &mut Vec<u32>, most: usize, stock: &mut Vec<u32>) {
    let left = list.len().saturating_sub(most);
    stock.extend(list.drain(left..));
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
            take_last(&mut lock(&free.nodes), HANDFUL, &mut self.spare_nodes);
            free.free_nodes.fetch_sub(self.spare_nodes.len() as u64, Ordering::Relaxed);
            // Freed entries lie anywhere in memory, and the thread will soon write to all of these.
            self.spare_nodes.iter().for_each(|&entry| storage.nodes.get(entry).load_ahead());
        }
        let entry = match self.spare_nodes.pop() {
            Some(entry) => entry,
            None => take(&mut self.nodes, &storage.nodes, &free.node_ranges, 1, NODE_BLOCK)?,
        };
        NodeId::from_raw(entry)
    }

    /// Puts a free node into the stock.
    pub(super) fn keep_node(&mut self, id: NodeId) {
        self.spare_nodes.push(id.raw());
    }

    /// Takes a run of `count` words with undefined content. `None` means that the arena is full.
    pub(super) fn take_run(&mut self, storage: &Storage, count: u32) -> Option<u32> {
        let free = &storage.free;
        let class = count as usize;
        let spare = self.spare_runs_of(class);
        if spare.is_empty() && free.free_words.load(Ordering::Relaxed) > 0 {
            free.take_runs(class, HANDFUL, spare);
            spare.iter().for_each(|&start| load_ahead(storage.words.get(start)));
        }
        match spare.pop().or_else(|| split_longer(storage, count)) {
            Some(start) => Some(start),
            None => take(&mut self.words, &storage.words, &free.word_ranges, count, WORD_BLOCK),
        }
    }

    /// Puts a free run of `count` words into the stock.
    pub(super) fn keep_run(&mut self, start: u32, count: u32) {
        self.spare_runs_of(count as usize).push(start);
    }

    /// The spare runs of `length` words.
    fn spare_runs_of(&mut self, length: usize) -> &mut Vec<u32> {
        if self.spare_runs.len() <= length {
            self.spare_runs.resize_with(length + 1, Vec::new);
        }
        &mut self.spare_runs[length]
    }

    /// Returns the whole stock to the tree's lists. Other threads may be searching.
    pub(super) fn give_back(&mut self, storage: &Storage) {
        let free = &storage.free;
        give_range(&mut self.nodes, &free.node_ranges);
        give_range(&mut self.words, &free.word_ranges);
        free.add_nodes(&mut self.spare_nodes);
        for (count, spare) in self.spare_runs.iter_mut().enumerate() {
            free.add_runs(count, spare);
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
fn take<T: Entry, const CHUNKS: usize, const CHUNK: usize>(
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
    use crate::Tree;
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
