//! Chess rules and positions, on top of shakmaty.
//!
//! The whole crate has these conventions:
//! - Squares are numbered from a1 = 0 to h8 = 63.
//! - A [`PackedMove`] has absolute squares, which are never flipped to the side to move.
//! - Castling is "king takes own rook" (e1h1), in standard chess too.
//! - Evaluations are from the side to move's view.
//!
//! shakmaty implements the rules and generates the moves. This module adds the conventions that lc0's networks were
//! trained with: which en passant squares a position remembers, what counts as a repetition, and which FENs are
//! accepted.
//!
//! | module | what it holds |
//! |---|---|
//! | [`tablebase`] | Syzygy tablebases |
//! | [`table_files`] | the files of the tablebases, without those that are damaged |
//! | [`perft`](mod@perft) | counts move sequences |
//! | [`history`] | the positions of a game, with repetition counts |
//! | [`uci_move`] | moves as UCI text |
//! | [`packed_moves`] | the legal moves as [`PackedMove`]s |
//! | [`packed_move`] | a move in two bytes, for the tree |
//! | [`position`] | one position with its counters |
//! | [`fen`] | reads and writes FEN |
//! | [`epd`] | splits a line of EPD |
//! | [`bench_positions`] | the positions of benchmarks |
//!
//! The module knows nothing of networks or search. Its hot paths are [`PositionHistory::push`], called for each ply of
//! every descent, and [`Position::packed_moves`], called once or twice for each leaf.

pub mod bench_positions;
pub mod epd;
mod fen;
mod history;
mod packed_move;
mod packed_moves;
pub mod perft;
mod position;
mod table_files;
pub mod tablebase;
pub mod uci_move;

pub use fen::FenError;
pub use history::{GameResult, PositionHistory};
pub use packed_move::PackedMove;
pub use position::Position;
pub use shakmaty::{Color, Move, MoveList, Role, Square};
pub use uci_move::UciMoveError;
