//! The search tree: nodes and edges in arenas, shared by all search threads without a lock.
//!
//! ```text
//!  nodes (48 bytes each)                      words (4 bytes each)
//!  ┌──────────────────────────┐   edges      ┌─────────────────────────────────┐
//!  │ sums · visits · in flight ├────────────>│ move+prior │ move+prior │ …     │  one run a node, sorted by
//!  │ state · bounds            │             └─────────────────────────────────┘  falling prior
//!  │ edges · edge count        │   children  ┌─────────────────────────────────┐
//!  │ children                  ├────────────>│ next │ child 0 │ child 1 │ …    │  see children.rs
//!  └──────────────────────────┘             └──┬──────────┬───────────────────┘
//!            ^                                  └> longer   └> back into nodes
//! ```
//! A node knows its children, not its parents: a descent keeps its path. So a node may one day have several
//! parents, and a subtree is kept by copying it ([`reroot`]). The node protocol stands in [`node`].
//! There is no unsafe code here: every shared word is an atomic.

pub mod arena;
pub mod children;
pub mod edge;
pub mod invariants;
pub mod node;
pub mod reroot;

use arena::{Arena, Reservation};
pub use edge::Edge;
pub use node::{Bounds, Node, Outcome, Sample, State, TerminalKind, Totals};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering};

/// Nodes are allocated 2^14 at a time (768 KiB), edge and child words 2^18 (1 MiB).
const NODE_CHUNK_BITS: u32 = 14;
const WORD_CHUNK_BITS: u32 = 18;
/// What one thread reserves at once: large beside one node's 30-odd edges, small beside a chunk.
const NODE_BLOCK: u32 = 1 << 7;
const WORD_BLOCK: u32 = 1 << 12;

/// Which node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct NodeId(NonZeroU32);

impl NodeId {
    fn from_raw(raw: u32) -> Option<NodeId> {
        NonZeroU32::new(raw).map(NodeId)
    }

    fn raw(self) -> u32 {
        self.0.get()
    }
}

/// See the module.
pub struct Tree {
    nodes: Arena<Node>,
    words: Arena<AtomicU32>,
    root: NodeId,
}

impl Tree {
    /// A tree of one unevaluated root.
    pub fn new() -> Tree {
        let nodes = Arena::new(NODE_CHUNK_BITS);
        let words = Arena::new(WORD_CHUNK_BITS);
        // The first block of a fresh arena: its entry 0 means "none", so that the root is entry 1.
        let root = Reservation::default().take(&nodes, 1, 2).and_then(NodeId::from_raw);
        let Some(root) = root else { unreachable!("a fresh arena has room for the root") };
        Tree { nodes, words, root }
    }

    /// The root.
    #[inline]
    pub fn root(&self) -> NodeId {
        self.root
    }

    /// A node.
    #[inline]
    pub fn node(&self, id: NodeId) -> &Node {
        self.nodes.get(id.raw())
    }

    /// The edges of an expanded node, by falling prior. Empty before it is expanded.
    #[inline]
    pub fn edges(&self, node: &Node) -> impl ExactSizeIterator<Item = Edge> + '_ {
        let (start, count) = node.edge_range();
        let words: &[AtomicU32] = if count == 0 { &[] } else { self.words.slice(start, count) };
        words.iter().map(|word| Edge::from_bits(word.load(Ordering::Relaxed)))
    }

    /// One edge of an expanded node.
    #[inline]
    pub fn edge(&self, node: &Node, index: usize) -> Edge {
        let (start, count) = node.edge_range();
        Edge::from_bits(self.words.slice(start, count)[index].load(Ordering::Relaxed))
    }

    /// Writes the edges of a claimed node and publishes it as expanded. `edges` must be sorted by falling prior.
    /// `false`: the arena is full, the claim still stands.
    pub fn expand(&self, node: &Node, edges: &[Edge], allocator: &mut Allocator) -> bool {
        debug_assert!(edges.is_sorted_by(|a, b| a.prior() >= b.prior()));
        let Some(start) = allocator.take_words(self, edges.len().max(1) as u32) else {
            return false;
        };
        for (word, edge) in self.words.slice(start, edges.len()).iter().zip(edges) {
            word.store(edge.bits(), Ordering::Relaxed);
        }
        node.publish_expanded(start, edges.len() as u16);
        true
    }

    /// Bytes in use.
    pub fn used_bytes(&self) -> u64 {
        self.nodes.used_bytes() + self.words.used_bytes()
    }
}

impl Default for Tree {
    fn default() -> Tree {
        Tree::new()
    }
}

/// One thread's private store of free nodes and words. Belongs to one tree.
#[derive(Debug, Default)]
pub struct Allocator {
    nodes: Reservation,
    words: Reservation,
    spare_node: Option<NodeId>,
    spare_words: Option<(u32, u32)>,
}

impl Allocator {
    fn take_node(&mut self, tree: &Tree) -> Option<NodeId> {
        if let Some(node) = self.spare_node.take() {
            return Some(node);
        }
        NodeId::from_raw(self.nodes.take(&tree.nodes, 1, NODE_BLOCK)?)
    }

    fn keep_node(&mut self, node: NodeId) {
        self.spare_node = Some(node);
    }

    fn take_words(&mut self, tree: &Tree, count: u32) -> Option<u32> {
        if let Some((start, kept)) = self.spare_words
            && kept == count
        {
            self.spare_words = None;
            return Some(start);
        }
        self.words.take(&tree.words, count, WORD_BLOCK)
    }

    fn keep_words(&mut self, start: u32, count: u32) {
        self.spare_words = Some((start, count));
    }
}
