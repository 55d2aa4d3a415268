//! What one iteration carries from gathering to backup.
//!
//! A leaf under evaluation is a plain value (step, moves, index in the batch): no lock, guard or borrow of the tree
//! is held while the backend works. It must be finished (backed up) or cancelled; both consume the minibatch.
//!
//! The descents of an iteration are kept as the tree that they are: a *step* for each node that one of them came to,
//! after the step of the node that it came from. So visits that went the same way are announced, finished or
//! withdrawn there with one change, and the way back is one pass over the steps, last to first.

use crate::backend::Batch;
use crate::chess::PackedMove;
use crate::tree::{LinkId, NodeId};
use std::ops::Range;

/// Which step.
pub(super) type StepIndex = u32;

/// A node on the way of a descent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    /// The step before; `None` at the root.
    pub(super) parent: Option<StepIndex>,
    /// The link that was followed; `None` at the root.
    pub(super) link: Option<LinkId>,
    pub(super) node: NodeId,
    /// Visits that stand announced at the link because of this step.
    pub(super) announced: u32,
}

/// A claimed node whose evaluation is in the batch.
#[derive(Clone, Debug)]
pub(super) struct Leaf {
    /// In [`Gathered::steps`].
    pub(super) step: StepIndex,
    /// Nodes on the way from the root, both ends counted.
    pub(super) depth: u32,
    /// Its legal moves, in [`Gathered::moves`].
    pub(super) moves: Range<usize>,
}

/// See the module.
pub(super) struct Minibatch {
    /// What goes to the backend.
    pub(super) request: Box<dyn Batch>,
    /// What waits for it.
    pub(super) gathered: Gathered,
}

/// The tree's side of a minibatch.
#[derive(Default)]
pub(super) struct Gathered {
    /// For each request in the batch, the leaf that waits for it; `None`: it was sent for the cache only. In the order
    /// of their steps.
    pub(super) waiting: Vec<Option<Leaf>>,
    /// See the module.
    pub(super) steps: Vec<Step>,
    /// Moves, referred to by ranges.
    pub(super) moves: Vec<PackedMove>,
    /// How often visits found nothing to do: they stay announced until the batch is done.
    pub(super) collision_events: u32,
    /// Visits that were backed up while gathering.
    pub(super) out_of_order: u32,
    /// Leaves in `waiting`.
    pub(super) leaf_count: usize,
}

impl Minibatch {
    /// `spent`: an iteration's that is over, for its memory.
    pub(super) fn new(request: Box<dyn Batch>, spent: Gathered) -> Minibatch {
        let Gathered { mut waiting, mut steps, mut moves, .. } = spent;
        waiting.clear();
        steps.clear();
        moves.clear();
        Minibatch { request, gathered: Gathered { waiting, steps, moves, ..Gathered::default() } }
    }
}

impl Gathered {
    /// Adds a step.
    pub(super) fn push(&mut self, step: Step) -> StepIndex {
        self.steps.push(step);
        (self.steps.len() - 1) as StepIndex
    }

    /// A step.
    pub(super) fn step(&self, index: StepIndex) -> &Step {
        &self.steps[index as usize]
    }
}
