//! The visits that one iteration has in flight, from gathering to backup.
//!
//! A leaf under evaluation is a plain value (step, depth, moves), so that the worker holds no lock, guard
//! or borrow of the tree while the backend works. Backup and [`Gathered::cancel`] both take [`Gathered`] by value, so
//! that its visits end exactly once. Both return its [`SpentMemory`], which the next minibatch reuses.
//!
//! The descents of an iteration form a tree, which is stored as a list. It has a *step* for each node that a descent
//! reached, after the step of the parent. So one change at a link adds, finishes or cancels all visits that took the
//! same path, and backup is one pass over the steps, from the last to the first.

use super::counters::Counters;
use rukh_backend::Batch;
use rukh_base::sync::atomic::Ordering;
use rukh_chess::PackedMove;
use rukh_tree::{LinkId, NodeId, Tree};
use std::ops::Range;

/// An index in [`Gathered::steps`].
pub(crate) type StepIndex = u32;

/// A node on the path of a descent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    /// The step of the parent node; `None` at the root.
    pub(crate) parent: Option<StepIndex>,
    /// The link that was followed; `None` at the root.
    pub(crate) link: Option<LinkId>,
    pub(crate) node: NodeId,
    /// The number of the link's visits in flight (at the root, of the root's) that belong to this step.
    pub(crate) in_flight: u32,
    /// Whether values below the node were backed up that its own value does not contain yet. Only for
    /// [`Counting::Recomputed`](super::Counting::Recomputed).
    pub(crate) is_stale: bool,
}

impl Step {
    /// Removes visits in flight at the step's link, or at the root. Finished visits must be counted first.
    #[inline]
    pub(crate) fn cancel_in_flight(&self, tree: &Tree, counters: &Counters, visits: u32) {
        match self.link {
            Some(link) => tree.link(link).cancel_in_flight(visits),
            None => drop(counters.root_in_flight.fetch_sub(visits, Ordering::Relaxed)),
        }
    }
}

/// A claimed node whose evaluation is in the batch.
#[derive(Clone, Debug)]
pub(crate) struct Leaf {
    /// Its index in [`Gathered::steps`].
    pub(crate) step: StepIndex,
    /// The number of nodes on the path from the root to the leaf, both counted.
    pub(crate) depth: u32,
    /// The range of its legal moves in [`Gathered::moves`].
    pub(crate) moves: Range<usize>,
}

/// A batch that is being filled, and the visits that wait for its evaluation.
pub(crate) struct Minibatch {
    pub(crate) request: Box<dyn Batch>,
    pub(crate) gathered: Gathered,
}

/// The tree's side of a minibatch: visits in flight and claimed leaves.
#[derive(Default)]
#[must_use = "its visits stay in flight until they are backed up or cancelled"]
pub(crate) struct Gathered {
    /// For each request in the batch, the leaf that waits for its evaluation. Leaves are in the order of their steps.
    /// `None` means that the request was sent for the cache only.
    pub(crate) waiting: Vec<Option<Leaf>>,
    /// The nodes on the paths of all descents, parents first.
    pub(crate) steps: Vec<Step>,
    /// The legal moves of all leaves.
    pub(crate) moves: Vec<PackedMove>,
    /// The number of collisions. Their visits stay in flight until the batch is done.
    pub(crate) collision_events: u32,
    /// Visits that were backed up while gathering.
    pub(crate) out_of_order: u32,
    /// The number of leaves in `waiting`.
    pub(crate) leaf_count: usize,
}

/// The memory of a minibatch that is done.
#[derive(Default)]
pub(crate) struct SpentMemory {
    waiting: Vec<Option<Leaf>>,
    steps: Vec<Step>,
    moves: Vec<PackedMove>,
}

impl Minibatch {
    /// An empty minibatch that reuses the memory of an earlier minibatch.
    pub(crate) fn new(request: Box<dyn Batch>, spent: SpentMemory) -> Minibatch {
        let SpentMemory { mut waiting, mut steps, mut moves } = spent;
        waiting.clear();
        steps.clear();
        moves.clear();
        Minibatch { request, gathered: Gathered { waiting, steps, moves, ..Gathered::default() } }
    }
}

impl Gathered {
    /// Adds a step, and returns its index.
    pub(crate) fn push(&mut self, step: Step) -> StepIndex {
        self.steps.push(step);
        (self.steps.len() - 1) as StepIndex
    }

    /// The step at this index.
    pub(crate) fn step(&self, index: StepIndex) -> &Step {
        &self.steps[index as usize]
    }

    /// Whether the iteration has found anything but collisions.
    pub(crate) fn has_results(&self) -> bool {
        self.leaf_count > 0 || self.out_of_order > 0
    }

    /// Gives back the claims on all leaves, and removes all visits from flight.
    pub(crate) fn cancel(self, tree: &Tree, counters: &Counters) -> SpentMemory {
        for leaf in self.waiting.iter().flatten() {
            tree.node(self.step(leaf.step).node).cancel_claim();
        }
        for step in self.steps.iter().filter(|step| step.in_flight > 0) {
            step.cancel_in_flight(tree, counters, step.in_flight);
        }
        self.into_memory()
    }

    /// Ends a minibatch whose visits were backed up.
    pub(crate) fn into_memory(self) -> SpentMemory {
        SpentMemory { waiting: self.waiting, steps: self.steps, moves: self.moves }
    }
}
