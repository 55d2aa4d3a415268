//! A move in two bytes, as the tree's edges store it.

use super::{Move, Position};

/// A move packed into 16 bits: from (6 bits), to (6), promotion role (0 none, 1 knight, 2 bishop,
/// 3 rook, 4 queen). Absolute squares; castling is king takes own rook. Needs its position to mean anything.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct PackedMove(u16);

impl PackedMove {
    /// Packs a legal move.
    pub fn new(_m: Move) -> PackedMove {
        todo!()
    }

    /// The legal move in `position` that this stands for. `position` must be the one it came from.
    pub fn unpack(self, _position: &Position) -> Move {
        todo!()
    }

    /// The raw bits; never zero for a legal move (from and to differ).
    pub fn bits(self) -> u16 {
        self.0
    }

    /// The inverse of [`PackedMove::bits`].
    pub fn from_bits(bits: u16) -> PackedMove {
        PackedMove(bits)
    }
}
