//! A move in two bytes, as the tree's edges store it.
//!
//! The tree holds tens of millions of packed moves, and a descent unpacks one at each ply. Unpacking reads two squares
//! of the board and generates no moves. The caller must unpack a move only in the position in which it was packed.

use super::{Move, Position, Role, Square};
use shakmaty::{Bitboard, Board, Position as _};

/// A move packed into 16 bits. Starting at the lowest bit: from (6 bits), to (6 bits), promotion (0 none, 1 knight, 2
/// bishop, 3 rook, 4 queen). Squares are absolute; castling is king takes own rook. The move is meaningful only with
/// its position.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct PackedMove(u16);

const TO_SHIFT: u32 = 6;
const PROMOTION_SHIFT: u32 = 12;
const SQUARE_MASK: u16 = 63;

impl PackedMove {
    /// Packs a legal move.
    #[inline]
    pub fn new(m: Move) -> PackedMove {
        match m {
            Move::Normal { from, to, promotion, .. } => PackedMove::from_squares(from, to, promotion),
            Move::EnPassant { from, to } => PackedMove::from_squares(from, to, None),
            Move::Castle { king, rook } => PackedMove::from_squares(king, rook, None),
            // Only Crazyhouse has this kind of move.
            Move::Put { to, .. } => PackedMove::from_squares(to, to, None),
        }
    }

    /// Packs a move given by its squares. For castling these are the king's and the rook's.
    #[inline]
    pub fn from_squares(from: Square, to: Square, promotion: Option<Role>) -> PackedMove {
        // Indexed by `Role`, from pawn (1) to king (6).
        const CODES: [u16; 7] = [0, 0, 1, 2, 3, 4, 0];
        let promotion = promotion.map_or(0, |role| CODES[role as usize]);
        PackedMove((from as u16) | (to as u16) << TO_SHIFT | promotion << PROMOTION_SHIFT)
    }

    /// The origin square.
    #[inline]
    pub fn from(self) -> Square {
        square(self.0)
    }

    /// The target square; for castling, the square of the own rook.
    #[inline]
    pub fn to(self) -> Square {
        square(self.0 >> TO_SHIFT)
    }

    /// The role that a pawn is promoted to.
    #[inline]
    pub fn promotion(self) -> Option<Role> {
        let code = self.0 >> PROMOTION_SHIFT;
        // Nearly all moves take this way, which is shorter than the others.
        if code == 0 {
            return None;
        }
        match code {
            1 => Some(Role::Knight),
            2 => Some(Role::Bishop),
            3 => Some(Role::Rook),
            4 => Some(Role::Queen),
            _ => None,
        }
    }

    /// The move in `position`, which must be the position that the move was packed in.
    pub fn unpack(self, position: &Position) -> Move {
        let board = position.board().board();
        let (from, to) = (self.from(), self.to());
        debug_assert!(board.occupied().contains(from), "{self:?} does not belong to {}", position.to_fen());
        let role = role_at(board, from);
        let capture = board.occupied().contains(to).then(|| role_at(board, to));
        if role == Role::King && position.board().us().contains(to) {
            Move::Castle { king: from, rook: to }
        } else if role == Role::Pawn && capture.is_none() && from.file() != to.file() {
            Move::EnPassant { from, to }
        } else {
            Move::Normal { role, from, capture, to, promotion: self.promotion() }
        }
    }

    /// The 16 bits. They are never zero for a legal move, because from and to differ.
    pub fn bits(self) -> u16 {
        self.0
    }

    /// The inverse of [`PackedMove::bits`].
    pub fn from_bits(bits: u16) -> PackedMove {
        PackedMove(bits)
    }
}

/// The role of the piece on an occupied square. A chain of questions would be slower, because a processor cannot predict
/// the answers.
#[inline]
fn role_at(board: &Board, square: Square) -> Role {
    let is_one_of = |pieces: Bitboard| usize::from(pieces.contains(square));
    let code = is_one_of(board.pawns())
        + is_one_of(board.knights()) * 2
        + is_one_of(board.bishops()) * 3
        + is_one_of(board.rooks()) * 4
        + is_one_of(board.queens()) * 5
        + is_one_of(board.kings()) * 6;
    // No square is empty here, and 7 is not a code.
    [Role::Pawn, Role::Pawn, Role::Knight, Role::Bishop, Role::Rook, Role::Queen, Role::King, Role::King]
        [code & 7]
}

/// The square in the low six bits.
#[inline]
fn square(bits: u16) -> Square {
    Square::new(u32::from(bits & SQUARE_MASK))
}
