//! What one iteration carries from gathering to backup.
//!
//! A leaf under evaluation is a plain value (path, moves, index in the batch): no lock, guard or borrow of the tree
//! is held while the backend works. It must be finished (backed up) or cancelled; both consume the minibatch.

use crate::backend::Batch;
use crate::chess::PackedMove;
use crate::tree::NodeId;
use std::ops::Range;

/// A claimed node whose evaluation is in the batch.
#[derive(Clone, Debug)]
pub(super) struct Leaf {
    /// Root to leaf, in [`Gathered::paths`].
    pub(super) path: Range<usize>,
    /// Its legal moves, in [`Gathered::moves`].
    pub(super) moves: Range<usize>,
}

/// Visits that found nothing to do: announced along a path, to be taken back after the batch.
#[derive(Clone, Debug)]
pub(super) struct Collision {
    /// Root to the node whose child was busy.
    pub(super) path: Range<usize>,
    /// How many visits.
    pub(super) visits: u32,
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
    /// For each request in the batch, the leaf that waits for it; `None`: it was sent for the cache only.
    pub(super) waiting: Vec<Option<Leaf>>,
    /// See the type.
    pub(super) collisions: Vec<Collision>,
    /// Node ids, referred to by ranges.
    pub(super) paths: Vec<NodeId>,
    /// Moves, referred to by ranges.
    pub(super) moves: Vec<PackedMove>,
    /// Visits that were backed up while gathering.
    pub(super) out_of_order: u32,
    /// Leaves in `waiting`.
    pub(super) leaf_count: usize,
}

impl Minibatch {
    pub(super) fn new(request: Box<dyn Batch>) -> Minibatch {
        Minibatch { request, gathered: Gathered::default() }
    }
}

impl Gathered {
    /// Keeps a copy of a path.
    pub(super) fn keep_path(&mut self, path: &[NodeId]) -> Range<usize> {
        let start = self.paths.len();
        self.paths.extend_from_slice(path);
        start..self.paths.len()
    }
}
