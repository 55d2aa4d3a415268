//! A thread's position in the game while it walks through the tree.

use rukh_chess::{PackedMove, PositionHistory};
use rukh_tree::{Allocator, Links};

/// The maximum depth of a descent, in plies. Games of interest are shorter, and the recursion fits into the thread's
/// stack.
pub(crate) const MAX_DEPTH: usize = 1500;

/// A thread's position in the game, and the memory for the links that it makes on its way. Reused from batch to batch.
pub(crate) struct Walk {
    /// The game and, during a descent, the moves from the root.
    pub(crate) history: PositionHistory,
    pub(crate) allocator: Allocator,
    /// The legal moves of the last position, generated when links are added there. Empty means not generated yet.
    node_moves: Vec<PackedMove>,
}

impl Walk {
    /// A walk that starts from the last position of `history`.
    pub(crate) fn new(history: PositionHistory) -> Walk {
        Walk { history, allocator: Allocator::default(), node_moves: Vec::new() }
    }

    /// Clears the moves of the previous node.
    #[inline]
    pub(super) fn enter_node(&mut self) {
        self.node_moves.clear();
    }

    /// Adds the next links to the node of the last position. The iterator `links` must be exhausted. Returns `false` if
    /// the node has no more moves or the tree is full.
    pub(super) fn grow(&mut self, links: Links<'_>) -> bool {
        if self.node_moves.is_empty() {
            self.history.last().packed_moves(&mut self.node_moves);
        }
        links.grow(&self.node_moves, &mut self.allocator)
    }
}
