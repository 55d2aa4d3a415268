//! Chess rules and positions, on top of shakmaty.
//!
//! Conventions, stated once here: squares are a1 = 0 … h8 = 63; a [`PackedMove`] is in absolute
//! squares (never flipped to the side to move); castling is "king takes own rook" (e1h1), for
//! standard chess too; evaluations are always from the side to move's view.

pub mod history;
pub mod packed_move;
pub mod position;

pub use history::PositionHistory;
pub use packed_move::PackedMove;
pub use position::{FenError, Position};
pub use shakmaty::{Color, Move, MoveList, Role, Square};
