//! The positions of a game so far, with repetition counts.

use super::{Move, Position};

/// A game's positions, oldest first; never empty.
#[derive(Clone, Debug)]
pub struct PositionHistory {
    positions: Vec<Position>,
}

impl PositionHistory {
    /// A history of one position.
    pub fn new(start: Position) -> PositionHistory {
        PositionHistory {
            positions: vec![start],
        }
    }

    /// Plays a legal move and counts repetitions.
    pub fn push(&mut self, _m: Move) {
        todo!()
    }

    /// Takes the last move back; the first position stays.
    pub fn pop(&mut self) {
        todo!()
    }

    /// Keeps the first `len` positions (at least one).
    pub fn truncate(&mut self, _len: usize) {
        todo!()
    }

    /// The current position.
    pub fn last(&self) -> &Position {
        todo!()
    }

    /// Oldest first.
    pub fn positions(&self) -> &[Position] {
        &self.positions
    }
}
