//! Positions and the moves before them.

use crate::error::Error;
use rukh_chess::{GameResult, Move, PositionHistory, uci_move};
use shakmaty::Chess;
use std::fmt;
use std::str::FromStr;

/// How a game ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The side to move is checkmated.
    Checkmate,
    /// Stalemate, insufficient material, 100 plies without a capture or pawn move, or the third occurrence.
    Draw,
}

/// A position with the moves that led to it, which networks see: up to seven earlier positions, and repetitions.
#[derive(Clone, Debug)]
pub struct Position {
    history: PositionHistory,
    moves: Vec<Move>,
}

impl Position {
    /// The start of a game.
    pub fn start() -> Position {
        Position::without_moves(rukh_chess::Position::startpos())
    }

    /// A position from a FEN, also of Chess960 (X-FEN and Shredder-FEN).
    ///
    /// # Errors
    /// [`Error::Fen`].
    pub fn from_fen(fen: &str) -> Result<Position, Error> {
        let position = rukh_chess::Position::from_fen(fen).map_err(|error| Error::Fen(error.to_string()))?;
        Ok(Position::without_moves(position))
    }

    fn without_moves(position: rukh_chess::Position) -> Position {
        Position { history: PositionHistory::new(position), moves: Vec::new() }
    }

    /// Plays a move in UCI's notation: `e2e4`, `e7e8q`; castling is `e1g1` or `e1h1`.
    ///
    /// # Errors
    /// [`Error::Move`]; the position is as before.
    pub fn play(&mut self, uci: &str) -> Result<(), Error> {
        let m = uci_move::parse(self.history.last(), uci).map_err(|error| Error::Move(error.to_string()))?;
        self.push(m);
        Ok(())
    }

    /// Plays a move.
    ///
    /// # Errors
    /// [`Error::Move`]; the position is as before.
    pub fn play_move(&mut self, m: Move) -> Result<(), Error> {
        if !self.history.last().legal_moves().contains(&m) {
            return Err(self.illegal(m));
        }
        self.push(m);
        Ok(())
    }

    fn push(&mut self, m: Move) {
        self.history.push(m);
        self.moves.push(m);
    }

    /// The error of a move that is not legal here.
    pub(crate) fn illegal(&self, m: Move) -> Error {
        Error::Move(format!("illegal move `{}` in position {self}", uci_move::text(m, true)))
    }

    /// The legal moves; none if the game is over by mate or stalemate.
    pub fn legal_moves(&self) -> Vec<Move> {
        self.history.last().legal_moves().into_iter().collect()
    }

    /// The result, if the game is over by lc0's rules.
    pub fn outcome(&self) -> Option<Outcome> {
        self.history.result().map(|result| match result {
            GameResult::Won(_) => Outcome::Checkmate,
            GameResult::Drawn => Outcome::Draw,
        })
    }

    /// The FEN, without the moves that led here.
    pub fn fen(&self) -> String {
        self.history.last().to_fen()
    }

    /// The pieces, castling rights and the side to move.
    pub fn board(&self) -> &Chess {
        self.history.last().board()
    }

    pub(crate) fn history(&self) -> &PositionHistory {
        &self.history
    }

    /// The FEN of the first position, and the moves from there.
    #[cfg(feature = "engine")]
    pub(crate) fn origin(&self) -> (String, Vec<String>) {
        let moves = self.moves.iter().map(|&m| uci_move::text(m, true)).collect();
        (self.history.positions()[0].to_fen(), moves)
    }
}

impl Default for Position {
    fn default() -> Position {
        Position::start()
    }
}

impl FromStr for Position {
    type Err = Error;

    fn from_str(fen: &str) -> Result<Position, Error> {
        Position::from_fen(fen)
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.fen())
    }
}
