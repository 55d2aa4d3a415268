//! One position of a game: shakmaty's board plus what lc0 keeps beside it.

use super::{Color, Move, MoveList, Square};
use shakmaty::Chess;

/// Why a FEN was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FenError {}

/// A position with its counters. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Position {
    board: Chess,
    /// The skipped square, kept as lc0 keeps it.
    en_passant: Option<Square>,
    rule50_ply: u16,
    game_ply: u32,
    /// How often this position stood before, since the last zeroing move (0, 1, 2 …).
    repetitions: u8,
    /// Plies since the latest earlier occurrence; 0 where there is none.
    plies_since_repetition: u16,
    /// Zobrist key of pieces, side, castling rights and en passant as repetition sees them.
    key: u64,
}

impl Position {
    /// The usual start.
    pub fn startpos() -> Position {
        todo!()
    }

    /// Reads a FEN, standard or Chess960 (X-FEN and Shredder-FEN castling).
    pub fn from_fen(_fen: &str) -> Result<Position, FenError> {
        todo!()
    }

    /// The FEN, with Shredder castling letters where X-FEN would be ambiguous.
    pub fn to_fen(&self) -> String {
        todo!()
    }

    /// The position after a legal move. Repetition counters are zero: only a history knows them.
    pub fn play(&self, _m: Move) -> Position {
        todo!()
    }

    /// All legal moves.
    pub fn legal_moves(&self) -> MoveList {
        todo!()
    }

    /// shakmaty's view of the position.
    pub fn board(&self) -> &Chess {
        &self.board
    }

    /// Whose turn it is.
    pub fn side_to_move(&self) -> Color {
        todo!()
    }

    /// See the field.
    pub fn en_passant(&self) -> Option<Square> {
        self.en_passant
    }

    /// Plies since the last capture or pawn move.
    pub fn rule50_ply(&self) -> u16 {
        self.rule50_ply
    }

    /// Plies played since the game's first position (a FEN's full-move number counts).
    pub fn game_ply(&self) -> u32 {
        self.game_ply
    }

    /// See the field.
    pub fn repetitions(&self) -> u8 {
        self.repetitions
    }

    /// See the field.
    pub fn plies_since_repetition(&self) -> u16 {
        self.plies_since_repetition
    }

    /// See the field.
    pub fn key(&self) -> u64 {
        self.key
    }

    /// Whether the side to move is in check.
    pub fn is_check(&self) -> bool {
        todo!()
    }

    /// Whether neither side can ever mate with what is left.
    pub fn has_insufficient_material(&self) -> bool {
        todo!()
    }
}
