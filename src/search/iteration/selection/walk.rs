//! A thread's position in the game while it walks through the tree.

use crate::chess::{PackedMove, PositionHistory};
use crate::tree::{Allocator, Links};

/// Descents go no deeper: it is deeper than any game that matters, and keeps the recursion within the thread's stack.
pub(crate) const MAX_DEPTH: usize = 1500;

/// A thread's position in the game, and the memory for the links that it makes on its way. Reused from batch to batch.
pub(crate) struct Walk {
    /// The game and, during a descent, the moves from the root on.
    pub(crate) history: PositionHistory,
    pub(crate) allocator: Allocator,
    /// The moves of the last position, if links had to be made there. Empty means that they are not known.
    node_moves: Vec<PackedMove>,
}

impl Walk {
    /// A walk that starts from the last position of `history`.
    pub(crate) fn new(history: PositionHistory) -> Walk {
        Walk { history, allocator: Allocator::default(), node_moves: Vec::new() }
    }

    /// Forgets the moves of the node whose links were made longer before.
    #[inline]
    pub(super) fn enter_node(&mut self) {
        self.node_moves.clear();
    }

    /// Adds the next links to the node of the last position. `links` must be at their end. Returns `false` if the node
    /// has no more moves, or the tree no more room.
    pub(super) fn grow(&mut self, links: Links<'_>) -> bool {
        if self.node_moves.is_empty() {
            self.history.last().packed_moves(&mut self.node_moves);
        }
        links.grow(&self.node_moves, &mut self.allocator)
    }
}
