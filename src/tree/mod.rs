//! The search tree: nodes and links in arenas, shared by all search threads without a lock.
//!
//! ```text
//!  nodes (40 bytes each)                      words (4 bytes each)
//!  ┌──────────────────────────┐   priors     ┌─────────────────────────────────┐
//!  │ sums · visits · status    ├────────────>│ one byte a move, see priors.rs  │
//!  │ priors                    │             └─────────────────────────────────┘
//!  │ links                     │   links     ┌─────────────────────────────────┐
//!  │ key                       ├────────────>│ next │ link 0 │ link 1 │ …      │  see links.rs
//!  └──────────────────────────┘             └──┬──────┬─────────────────────────┘
//!            ^                                  │      └> child, a node: several links may lead to one
//!            │   the table of transpositions    └> longer
//!            └── key -> node
//! ```
//! A node knows its children, not its parents: a descent keeps its path. The node protocol stands in [`node`].
//! There is no unsafe code here: every shared word is an atomic.
//!
//! # Transpositions
//! Two ways to a position share its node where nothing that the rules ask of the past tells them apart. That is so
//! once no earlier position can come again: after a capture, a pawn move, or the loss of a castling right. Of the
//! past remains the rule-50 counter then, and it is part of the key, exactly
//! ([`PositionHistory::future_key`](crate::chess::PositionHistory::future_key)).
//!
//! - *No repetition leaks.* Below a shared node a position repeats only one that stands below it too, whichever way
//!   led there. So a draw that is counted there is a draw on every way, as is one by the fifty-move rule.
//! - *Proofs are sound*, for the same reason: what is proven of a shared node is so whoever asks.
//! - *There are no cycles.* Moves that can be taken back raise the rule-50 counter, which is part of what tells
//!   nodes apart, and the others can never be made again.
//! - *Between two shared nodes the graph is a tree.* A node that is not shared has one parent, so what depends on the
//!   path, such as first repetitions, hangs on one path only: up to the last move that could not be taken back.
//!
//! The positions between are not shared although some are reached in several orders: their futures differ by the
//! repetitions that are possible. The evaluation cache answers for those.
//!
//! # Visits and values
//! A link counts the visits made through it, a node those made through any link. An expanded node has one visit, its
//! own evaluation, more than its links have together, and no link has more than its child. Where the child has more
//! (from other parents), a visit through the link *absorbs* them: it counts at once with the child's mean value, and
//! nothing is evaluated.
//!
//! A value goes up the path of its descent only. To the other parents of the nodes on it, it comes when they choose
//! that child the next time; that they look at the child's own mean value for this choice makes it the right one.
//! Their own means lag behind until then by what the child has learned since they last went there, each visit that
//! was counted weighing as much as it always does. To tell them at once would cost a list of parents in each node and
//! a walk through most of the graph for each visit; to recompute a node from all of its children, twice the memory
//! accesses of a descent. Absorbing makes up for the lag where it is large, without an evaluation.

mod allocator;
pub mod annex;
pub mod arena;
pub mod edge;
pub mod invariants;
pub mod links;
#[cfg(all(feature = "loom", test))]
mod models;
pub mod node;
pub mod priors;
pub mod recycle;
pub mod reroot;
mod sizes;
pub mod status;
mod transpositions;

use crate::sync::OnceLock;
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};
pub use allocator::Allocator;
use allocator::FreeLists;
pub use annex::{Annex, Weighted};
pub use edge::Edge;
pub use links::{Link, LinkId, Links};
pub use node::{Bounds, MOST_EDGES, Node, Outcome, Sample, State, TerminalKind, Totals};
use sizes::{PerNode, Words};
use status::Status;
use std::num::NonZeroU32;
use transpositions::Transpositions;

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
    nodes: PerNode<Node>,
    words: Words,
    free: FreeLists,
    table: Transpositions,
    annexes: OnceLock<PerNode<Annex>>,
    root: AtomicU32,
    /// See [`Tree::unreachable_bytes`].
    unreachable_bytes: AtomicU64,
}

impl Tree {
    /// A tree of one unevaluated root.
    pub fn new() -> Tree {
        let tree = Tree {
            nodes: PerNode::default(),
            words: Words::default(),
            free: FreeLists::new(),
            table: Transpositions::new(),
            annexes: OnceLock::new(),
            root: AtomicU32::new(0),
            unreachable_bytes: AtomicU64::new(0),
        };
        let mut allocator = Allocator::default();
        let Some(root) = allocator.take_node(&tree) else {
            unreachable!("a fresh arena has room for the root")
        };
        tree.node(root).begin(0, 0);
        tree.set_root(root);
        allocator.give_back(&tree);
        tree
    }

    /// The root.
    #[inline]
    pub fn root(&self) -> NodeId {
        let Some(root) = NodeId::from_raw(self.root.load(Ordering::Relaxed)) else {
            unreachable!("the constructor sets a root")
        };
        root
    }

    fn set_root(&self, root: NodeId) {
        self.root.store(root.raw(), Ordering::Relaxed);
    }

    /// A node.
    #[inline]
    pub fn node(&self, id: NodeId) -> &Node {
        self.nodes.get(id.raw())
    }

    /// The child behind `link`, found or made if it is not known yet. `key`: of its position's future, where it may be
    /// shared. `None`: the arena is full.
    pub fn child_or_new(
        &self,
        link: Link<'_>,
        key: Option<u64>,
        allocator: &mut Allocator,
    ) -> Option<NodeId> {
        if let Some(child) = link.child() {
            return Some(child);
        }
        let Some(key) = key else {
            let fresh = allocator.take_node(self)?;
            self.node(fresh).begin(0, 0);
            let child = link.set_child(fresh);
            if child != fresh {
                self.unmake_node(fresh, allocator);
            }
            return Some(child);
        };
        self.shared_node(key, allocator).map(|child| link.set_child(child))
    }

    fn unmake_node(&self, id: NodeId, allocator: &mut Allocator) {
        self.node(id).end(0);
        allocator.keep_node(id);
    }

    /// Bytes of what the root has left behind, roughly: [`Tree::recycle`] would free them.
    pub fn unreachable_bytes(&self) -> u64 {
        self.unreachable_bytes.load(Ordering::Relaxed)
    }

    /// The root has moved, and of its visits it keeps so many.
    fn note_kept_share(&self, kept: u32, of: u32) {
        let known = self.unreachable_bytes();
        let reachable = self.used_bytes().saturating_sub(known);
        let left_behind = u64::from(of.saturating_sub(kept)) * (reachable / u64::from(of.max(1)));
        self.unreachable_bytes.store(known + left_behind, Ordering::Relaxed);
    }

    fn note_recycled(&self) {
        self.unreachable_bytes.store(0, Ordering::Relaxed);
    }

    /// Bytes in use.
    pub fn used_bytes(&self) -> u64 {
        self.reserved_bytes().saturating_sub(self.free.free_bytes())
    }

    /// Bytes in use, or free to be used again.
    pub fn reserved_bytes(&self) -> u64 {
        let annexes = self.annexes.get().map_or(0, |_| self.nodes.reserved() * size_of::<Annex>() as u64);
        self.nodes.used_bytes() + self.words.used_bytes() + self.table.bytes() + annexes
    }
}

impl Default for Tree {
    fn default() -> Tree {
        Tree::new()
    }
}
