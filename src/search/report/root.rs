//! What a finished search has found out about its root, as plain data that outlives the tree.

use super::best_move::{RankedChild, ranked_root_moves};
use crate::state::SearchContext;
use rukh_chess::PackedMove;
use rukh_tree::{Bounds, Sample};

/// A root move.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RootMove {
    /// The move itself.
    pub packed: PackedMove,
    /// The visits through this move.
    pub visits: u32,
    /// The mean of the visits from the view of the side to move at the root; `m` counts the plies from the root. `None`
    /// without a visit.
    pub sample: Option<Sample>,
    /// The proven result of the move for the side to move at the root (-1, 0 or 1).
    pub proven: Option<i8>,
    /// The best result that is not ruled out, for the same side.
    pub best_possible: i8,
}

/// The root of a finished search.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct RootReport {
    /// The visits of the root, including those from earlier searches. Here and in `sample`, only the searched moves count.
    pub visits: u32,
    /// Their mean, from the view of the side to move.
    pub sample: Sample,
    /// All searched moves, the best first. Empty if the root was never evaluated.
    pub moves: Vec<RootMove>,
}

impl RootReport {
    /// The figures of a root move.
    pub fn find(&self, m: PackedMove) -> Option<&RootMove> {
        self.moves.iter().find(|found| found.packed == m)
    }

    /// The visits of the move with the most.
    pub fn most_visits(&self) -> u32 {
        self.moves.iter().map(|m| m.visits).max().unwrap_or(0)
    }

    /// The value of a root move, and that of the root if the move has no visit.
    pub fn value_of(&self, m: &RootMove) -> Sample {
        m.sample.unwrap_or(self.sample)
    }
}

/// Reads the root of a search whose threads have ended.
pub fn root_report(context: &SearchContext) -> RootReport {
    let moves = ranked_root_moves(context).iter().map(|child| root_move(context, child)).collect();
    RootReport { visits: context.root_visits(), sample: context.root_sample(), moves }
}

fn root_move(context: &SearchContext, child: &RankedChild) -> RootMove {
    let bounds = child.node.map_or(Bounds::UNKNOWN, |id| context.tree.node(id).bounds().flipped());
    RootMove {
        packed: child.packed_move(),
        visits: child.visits,
        // The plies of a child begin one ply after the root.
        sample: (child.visits > 0).then_some(Sample { m: child.sample.m + 1.0, ..child.sample }),
        proven: child.proven.map(|(result, _)| result),
        best_possible: bounds.upper,
    }
}
