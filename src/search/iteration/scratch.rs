//! The memory of one worker that is reused from batch to batch.

use super::accumulate::StepValues;
use super::selection::{Candidates, Chosen, Walk};
use rukh_chess::{PackedMove, PositionHistory};
use rukh_tree::{Edge, Tree};

/// One worker's memory for gathering, fetching and backup.
pub(crate) struct Scratch {
    pub(super) walk: Walk,
    /// The candidates of the node whose visits are being shared out.
    pub(super) candidates: Candidates,
    /// The children that get visits, for the nodes on the path of a descent one after another.
    pub(super) chosen: Vec<Chosen>,
    /// The legal moves of a leaf.
    pub(super) leaf_moves: Vec<PackedMove>,
    /// The root's edges. They are sorted here when the root is expanded.
    pub(super) edges: Vec<Edge>,
    /// The finished visits of each step of a minibatch.
    pub(crate) values: StepValues,
}

impl Scratch {
    /// The memory of a worker whose descents start from the last position of `history`.
    pub(crate) fn new(history: PositionHistory) -> Scratch {
        Scratch {
            walk: Walk::new(history),
            candidates: Candidates::default(),
            chosen: Vec::new(),
            leaf_moves: Vec::new(),
            edges: Vec::new(),
            values: StepValues::default(),
        }
    }

    /// Gives back the memory that this worker has reserved in the tree.
    pub(crate) fn give_back(&mut self, tree: &Tree) {
        tree.take_back(&mut self.walk.allocator);
    }
}
