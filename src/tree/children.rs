//! The children of a node: a chain of segments of node ids that only ever grows at its end.
//!
//! Selection visits edges in the order of their priors, so a node's children are nearly always those of its first
//! few edges, and most nodes have none. A segment holds the children of a run of edges; the next segment is twice
//! as long and is made when one of its edges is first visited. Nothing moves, so no reader ever needs a lock.
//!
//! ```text
//! node.children -> [next, child 0, child 1, child 2]
//!                    `-> [next, child 3, … child 9]
//!                          `-> [next, child 10, … child 24] -> …
//! ```
//! Each word is 0 until one compare-and-swap sets it for good.

use super::node::Node;
use super::{Allocator, NodeId, Tree};
use std::sync::atomic::{AtomicU32, Ordering};

/// Words of the first segment: one link, three children.
const FIRST_SEGMENT_WORDS: u32 = 4;

/// Children in edge order, `None` where an edge has none yet. Ends where the last segment ends.
pub struct Children<'tree> {
    tree: &'tree Tree,
    segment: &'tree [AtomicU32],
    next_in_segment: usize,
    next_segment_words: u32,
}

impl<'tree> Children<'tree> {
    pub(super) fn of(tree: &'tree Tree, node: &Node) -> Children<'tree> {
        let first = node.children.load(Ordering::Acquire);
        let segment: &[AtomicU32] =
            if first == 0 { &[] } else { tree.words.slice(first, FIRST_SEGMENT_WORDS as usize) };
        Children { tree, segment, next_in_segment: 1, next_segment_words: 2 * FIRST_SEGMENT_WORDS }
    }
}

impl Iterator for Children<'_> {
    type Item = Option<NodeId>;

    #[inline]
    fn next(&mut self) -> Option<Option<NodeId>> {
        if self.next_in_segment >= self.segment.len() {
            let link = self.segment.first()?.load(Ordering::Acquire);
            if link == 0 {
                return None;
            }
            self.segment = self.tree.words.slice(link, self.next_segment_words as usize);
            self.next_in_segment = 1;
            self.next_segment_words *= 2;
        }
        let child = self.segment[self.next_in_segment].load(Ordering::Acquire);
        self.next_in_segment += 1;
        Some(NodeId::from_raw(child))
    }
}

impl Tree {
    /// The children of `node` in edge order (see [`Children`]).
    #[inline]
    pub fn children<'tree>(&'tree self, node: &Node) -> Children<'tree> {
        Children::of(self, node)
    }

    /// The child at edge `index`, if it exists.
    pub fn child(&self, node: &Node, index: usize) -> Option<NodeId> {
        self.children(node).nth(index).flatten()
    }

    /// The child at edge `index`, made if need be. `None`: the arena is full.
    pub fn child_or_new(&self, node: &Node, index: usize, allocator: &mut Allocator) -> Option<NodeId> {
        let mut link = &node.children;
        let mut words = FIRST_SEGMENT_WORDS;
        let mut first_index = 0;
        loop {
            let segment = self.segment_or_new(link, words, allocator)?;
            let capacity = words as usize - 1;
            if index < first_index + capacity {
                return self.slot_or_new(&segment[1 + index - first_index], allocator);
            }
            first_index += capacity;
            words *= 2;
            link = &segment[0];
        }
    }

    fn segment_or_new(
        &self,
        link: &AtomicU32,
        words: u32,
        allocator: &mut Allocator,
    ) -> Option<&[AtomicU32]> {
        let mut start = link.load(Ordering::Acquire);
        if start == 0 {
            let fresh = allocator.take_words(self, words)?;
            // AcqRel: publishes the fresh segment, or receives the one that another thread published.
            start = match link.compare_exchange(0, fresh, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => fresh,
                Err(winner) => {
                    allocator.keep_words(fresh, words);
                    winner
                }
            };
        }
        Some(self.words.slice(start, words as usize))
    }

    fn slot_or_new(&self, slot: &AtomicU32, allocator: &mut Allocator) -> Option<NodeId> {
        let child = slot.load(Ordering::Acquire);
        if let Some(child) = NodeId::from_raw(child) {
            return Some(child);
        }
        let fresh = allocator.take_node(self)?;
        match slot.compare_exchange(0, fresh.raw(), Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Some(fresh),
            Err(winner) => {
                allocator.keep_node(fresh);
                NodeId::from_raw(winner)
            }
        }
    }
}
