//! Chess rules and positions, on top of shakmaty.
//!
//! Conventions, stated once here: squares are a1 = 0 … h8 = 63; a [`PackedMove`] is in absolute
//! squares (never flipped to the side to move); castling is "king takes own rook" (e1h1), for
//! standard chess too; evaluations are always from the side to move's view.
//!
//! shakmaty knows the rules and generates the moves. What it does not know is what lc0's networks were
//! trained with, and that is what stands here: which en passant squares are remembered ([`position`]),
//! what counts as a repetition ([`history`]), and how forgiving a FEN reader has to be ([`fen`]).
//! [`packed_move`] is the tree's two-byte move, [`uci_move`] the protocol's text; `packed_moves` generates the former.
//!
//! Nothing here knows of networks, planes or search. The hot path is [`PositionHistory::push`] (one call
//! per ply of every descent) and [`Position::packed_moves`] (once or twice per leaf).

mod fen;
mod history;
mod packed_move;
mod packed_moves;
mod position;
pub mod tablebase;
pub mod uci_move;

pub use fen::FenError;
pub use history::{GameResult, PositionHistory};
pub use packed_move::PackedMove;
pub use position::Position;
pub use shakmaty::{Color, Move, MoveList, Role, Square};
pub use uci_move::UciMoveError;
