//! The memory of one worker that is reused from batch to batch.

use super::accumulate::StepValues;
use super::selection::{Candidate, Ranking, Walk};
use crate::chess::{PackedMove, PositionHistory};
use crate::tree::{Edge, Tree};

/// One worker's memory for gathering, fetching and backup.
pub(crate) struct Scratch {
    pub(super) walk: Walk,
    /// Empty lists of candidates. A descent takes one list for each depth.
    candidate_lists: Vec<Vec<Candidate>>,
    pub(super) ranking: Ranking,
    /// The legal moves of a leaf.
    pub(super) leaf_moves: Vec<PackedMove>,
    /// A leaf's priors, if their temperature is changed before they are stored.
    pub(super) priors: Vec<f32>,
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
            candidate_lists: Vec::new(),
            ranking: Ranking::default(),
            leaf_moves: Vec::new(),
            priors: Vec::new(),
            edges: Vec::new(),
            values: StepValues::default(),
        }
    }

    /// An empty list of candidates.
    pub(super) fn take_list(&mut self) -> Vec<Candidate> {
        self.candidate_lists.pop().unwrap_or_default()
    }

    /// Keeps the memory of a list that is no longer needed.
    pub(super) fn keep_list(&mut self, mut candidates: Vec<Candidate>) {
        candidates.clear();
        self.candidate_lists.push(candidates);
    }

    /// Gives back the memory that this worker has reserved in the tree.
    pub(crate) fn give_back(&mut self, tree: &Tree) {
        tree.take_back(&mut self.walk.allocator);
    }
}
