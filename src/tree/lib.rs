//! The search tree: nodes and links in arenas, shared by all search threads.
//!
//! ```text
//!  nodes (40 bytes each)                      words (4 bytes each)
//!  ┌──────────────────────────┐   priors     ┌─────────────────────────────────┐
//!  │ sums · visits · status    ├────────────>│ one byte a move, see priors.rs  │
//!  │ priors                    │             └─────────────────────────────────┘
//!  │ links                     │   links     ┌─────────────────────────────────┐
//!  │ key                       ├────────────>│ next │ link 0 │ link 1 │ …      │  see links.rs
//!  └──────────────────────────┘             └──┬──────┬─────────────────────────┘
//!            ^                                  │      └> child: a node, to which several links may lead
//!            │   the transposition table        └> the next segment of links
//!            └── key -> node
//! ```
//! A node knows its children, but not its parents: a descent keeps its path. [`node`] describes the node protocol.
//! There is no unsafe code here: every shared word is an atomic.
//!
//! | module | contents |
//! |---|---|
//! | [`invariants`] | checks a whole tree, for tests |
//! | [`reroot`] | makes another node the root when the game goes on |
//! | [`recycle`] | frees memory in a full tree |
//! | [`sweep`] | chooses the nodes that lose their edges in a full tree |
//! | this file | the [`Tree`] |
//! | [`recycler`] | the state of recycling |
//! | [`transpositions`] | the table of shared nodes |
//! | [`shard`] | a part of this table |
//! | [`own_evaluation`] | the network's values of the nodes themselves, for the searches that need them |
//! | [`extra_statistics`] | weights and variances, for the searches that need them |
//! | [`links`] | a node's moves that were visited or come next, with their children |
//! | [`allocator`] | the arenas and their free lists |
//! | [`sizes`] | the dimensions of the arenas |
//! | [`node`] | statistics and state of a position |
//! | [`status`] | the state of a node in one word |
//! | [`arena`], [`node_id`], [`edge`], [`priors`] | the data types at the bottom |
//!
//! # Transpositions
//! Two move orders that lead to the same position share its node if no rule can tell them apart by their past. This
//! holds if no earlier position can be repeated: after a capture, a pawn move, or the loss of a castling right. Then
//! only the rule-50 counter depends on the past, and its exact value is part of the key
//! ([`PositionHistory::future_key`](rukh_chess::PositionHistory::future_key)).
//!
//! - *Repetitions stay local.* A position below a shared node can only repeat a position that is also below that node,
//!   on every path to it. So a draw by repetition there is a draw on every path, and so is a draw by the fifty-move
//!   rule.
//! - *Proofs are sound* for the same reason: a proof at a shared node holds on every path to it.
//! - *There are no cycles.* A reversible move raises the rule-50 counter, which is part of the key, and an irreversible
//!   move can never be made again.
//! - *Between two shared nodes the graph is a tree.* A node that is not shared has one parent. So a value that depends
//!   on the path, such as a first repetition, depends on one path only, back to the last irreversible move.
//!
//! The positions between shared nodes are not shared, although several move orders reach some of them, because
//! different repetitions are possible after each order. The evaluation cache saves their evaluations.
//!
//! # Visits and values
//! A link counts the visits that were made through it, and a node counts the visits that were made through any link. An
//! expanded node has one more visit than its links together: its own evaluation. A link never has more visits than its
//! child. If the child has more, from other parents, a visit through the link *absorbs* them: it counts at once with
//! the child's mean value, and nothing is evaluated.
//!
//! A value is backed up only along the path of its descent. The other parents of a node on that path receive the value
//! when they next choose that node. They choose by the node's own mean value, so the choice is right, but their own
//! means lag behind until then. An immediate update would cost a list of parents in each node and a walk through most
//! of the graph for each visit. Recomputing a node from all of its children would double the memory accesses of a
//! descent. Absorbing removes a large lag without an evaluation.

mod allocator;
mod arena;
mod edge;
mod extra_statistics;
mod invariants;
mod links;
#[cfg(all(feature = "loom", test))]
mod loom_tests;
mod node;
mod node_id;
mod own_evaluation;
mod priors;
mod recycle;
mod recycler;
mod reroot;
mod shard;
mod sizes;
mod status;
mod sweep;
mod transpositions;

pub use allocator::Allocator;
pub use edge::Edge;
pub use extra_statistics::{ExtraStatistics, Weighted};
pub use invariants::BrokenInvariant;
pub use links::{Link, LinkId, Links};
pub use node::{LockedValues, Node, Recomputation, Sample, Totals};
pub use node_id::NodeId;
pub use own_evaluation::OwnEvaluation;
pub use recycler::RecyclingShare;
pub use status::{Bounds, MOST_EDGES, Outcome, State, TerminalKind};

use allocator::Storage;
use recycler::Recycler;
use rukh_base::sync::atomic::{AtomicU32, Ordering};
use rukh_base::sync::{OnceLock, STACK_BYTES};
use rukh_chess::Position;
use sizes::PerNode;
use transpositions::Transpositions;

/// A search tree, shared by all search threads. It has at least a root.
pub struct Tree {
    storage: Storage,
    table: Transpositions,
    own_evaluations: OnceLock<PerNode<OwnEvaluation>>,
    extra_statistics: OnceLock<PerNode<ExtraStatistics>>,
    root: AtomicU32,
    recycler: Recycler,
}

impl Tree {
    /// A tree of one unevaluated root.
    pub fn new() -> Tree {
        let storage = Storage::new();
        let mut allocator = Allocator::default();
        let Some(root) = allocator.take_node(&storage) else {
            unreachable!("a fresh arena has room for the root")
        };
        storage.node(root).begin(0, 0);
        allocator.give_back(&storage);
        Tree {
            storage,
            table: Transpositions::new(),
            own_evaluations: OnceLock::new(),
            extra_statistics: OnceLock::new(),
            root: AtomicU32::new(root.raw()),
            recycler: Recycler::default(),
        }
    }

    /// Frees the tree with `threads` threads, each of which frees a part. The system takes some 8 ms for a gigabyte with
    /// one thread.
    pub fn free_together(self, threads: usize) {
        let Tree { storage: Storage { nodes, words, .. }, table, .. } = self;
        // Nodes and words take about the same memory, and the table much less.
        let of_each = threads.div_ceil(2);
        std::thread::scope(|scope| {
            // If a thread cannot start, its part is freed here.
            let start = |part: Box<dyn FnOnce() + Send>| {
                let _ = std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, part);
            };
            start(Box::new(|| drop(table)));
            words.into_parts(of_each).into_iter().for_each(|part| start(Box::new(|| drop(part))));
            nodes.into_parts(of_each).into_iter().for_each(|part| start(Box::new(|| drop(part))));
        });
    }

    /// The node of the position that is searched.
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

    /// The node with this index.
    #[inline]
    pub fn node(&self, id: NodeId) -> &Node {
        self.storage.node(id)
    }

    /// The links of `node`, in the order of their priors.
    #[inline]
    pub fn links<'tree>(&'tree self, node: &'tree Node) -> Links<'tree> {
        self.storage.links(node)
    }

    /// Starts to load the first links of a node into the processor's cache, or its priors if it has no links.
    #[inline]
    pub fn load_edges_ahead(&self, id: NodeId) {
        self.storage.load_edges_ahead(self.node(id));
    }

    /// Starts to load what [`Tree::child_or_new`] needs to find the node of the position with this key.
    #[inline]
    pub fn load_child_ahead(&self, key: u64) {
        self.table.load_ahead(key);
    }

    /// The link with this index.
    #[inline]
    pub fn link(&self, id: LinkId) -> Link<'_> {
        self.storage.link(id)
    }

    /// Makes links for all moves of `node`, which is the node of `position`. Returns `false` if the arena is full.
    pub fn link_all(&self, node: &Node, position: &Position, allocator: &mut Allocator) -> bool {
        self.storage.link_all(node, position, allocator)
    }

    /// Makes the links of a claimed node. `edges` are all its moves, by descending prior. These links keep their exact
    /// priors, while links that are made later get theirs from the node's rounded priors. Returns `false` if the arena
    /// is full.
    pub fn link_exactly(&self, node: &Node, edges: &[Edge], allocator: &mut Allocator) -> bool {
        self.storage.link_exactly(node, edges, allocator)
    }

    /// All moves of `node`, which is the node of `position`, by descending prior. A move without a link was never
    /// visited.
    pub fn edges<'tree>(
        &'tree self,
        node: &'tree Node,
        position: &Position,
    ) -> Vec<(Edge, Option<Link<'tree>>)> {
        self.storage.edges(node, position)
    }

    /// Writes the priors of a claimed node, in the order of its position's moves, and publishes it as expanded.
    /// Returns `false` if the arena is full; then the claim still stands.
    #[inline]
    pub fn expand(
        &self,
        node: &Node,
        priors: impl ExactSizeIterator<Item = f32>,
        allocator: &mut Allocator,
    ) -> bool {
        self.storage.expand(node, priors, allocator)
    }

    /// The child of `link`. If the link has no child yet, this finds or makes its node. `key` is the key of the child's
    /// position ([`PositionHistory::future_key`](rukh_chess::PositionHistory::future_key)) if it may be shared.
    /// `None` means that the arena is full.
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
            let fresh = allocator.take_node(&self.storage)?;
            self.node(fresh).begin(0, 0);
            return Some(link.set_child(fresh).map_or_else(
                |winner| {
                    self.storage.unmake_node(fresh, allocator);
                    winner
                },
                |()| fresh,
            ));
        };
        let child = self.table.find_or_make(key, &self.storage, allocator)?;
        let Err(winner) = link.set_child(child) else { return Some(child) };
        // The other thread found the same node and has counted the link's reference.
        if self.table.let_go(child, &self.storage) {
            self.storage.unmake_node(child, allocator);
        }
        Some(winner)
    }

    /// Takes back the free memory that a thread's `allocator` has reserved. Other threads may be searching.
    pub fn take_back(&self, allocator: &mut Allocator) {
        allocator.give_back(&self.storage);
    }

    /// The network's value of a node itself. The first call creates the arena of these values.
    #[inline]
    pub fn own_evaluation(&self, id: NodeId) -> &OwnEvaluation {
        self.own_evaluations.get_or_init(PerNode::default).get_or_make(id.raw())
    }

    /// Whether a search has stored [`Tree::own_evaluation`].
    pub fn has_own_evaluations(&self) -> bool {
        self.own_evaluations.get().is_some()
    }

    /// The extra statistics of a node. The first call creates their arena.
    pub fn extra_statistics(&self, id: NodeId) -> &ExtraStatistics {
        self.extra_statistics.get_or_init(PerNode::default).get_or_make(id.raw())
    }

    /// Counts finished visits at a node with their weights.
    pub fn finish_weighted(&self, id: NodeId, finished: &Weighted) {
        self.extra_statistics(id).finish_visits(self.node(id), finished);
    }

    /// Sets whether the tree may take memory from the system while it has free pieces that are longer than it needs.
    /// Otherwise it cuts these.
    pub fn allow_growth(&self, is_allowed: bool) {
        self.storage.may_grow.store(is_allowed, std::sync::atomic::Ordering::Relaxed);
    }

    /// The number of bytes that hold nodes, priors, links and tables.
    pub fn used_bytes(&self) -> u64 {
        self.reserved_bytes().saturating_sub(self.free_bytes())
    }

    /// The number of bytes on the free lists.
    pub fn free_bytes(&self) -> u64 {
        let free = &self.storage.free;
        free.free_bytes() + free.free_nodes() * self.extra_bytes_per_node()
    }

    /// The bytes that one node has in the arenas that only some searches need.
    fn extra_bytes_per_node(&self) -> u64 {
        self.own_evaluations.get().map_or(0, |_| size_of::<OwnEvaluation>() as u64)
            + self.extra_statistics.get().map_or(0, |_| size_of::<ExtraStatistics>() as u64)
    }

    /// The number of entries that the arena of nodes has in use or on its free lists.
    pub fn reserved_nodes(&self) -> u64 {
        self.storage.nodes.reserved()
    }

    /// The number of used bytes plus the bytes on the free lists.
    pub fn reserved_bytes(&self) -> u64 {
        let nodes = &self.storage.nodes;
        let extra_bytes = nodes.reserved() * self.extra_bytes_per_node();
        let table_bytes = self.table.bytes(nodes.reserved());
        nodes.used_bytes() + self.storage.words.used_bytes() + table_bytes + extra_bytes
    }
}

impl Default for Tree {
    fn default() -> Tree {
        Tree::new()
    }
}
