//! The game so far.

use super::error::EngineError;
use rukh_chess::{PackedMove, Position, PositionHistory, uci_move};
use rukh_search::limits::{PositionCommand, StartPosition};

/// The start position and the moves played from there.
pub(super) struct Game {
    pub(super) start: StartPosition,
    pub moves: Vec<PackedMove>,
    /// All positions from `start` to the one after the last of `moves`.
    pub history: PositionHistory,
}

impl Game {
    /// A game at the standard start position, without moves.
    pub(super) fn standard_start() -> Game {
        let history = PositionHistory::new(Position::startpos());
        Game { start: StartPosition::Standard, moves: Vec::new(), history }
    }

    /// The game that a `position` command describes.
    ///
    /// # Errors
    /// The FEN is malformed, or a move is illegal.
    pub(super) fn new(command: &PositionCommand) -> Result<Game, EngineError> {
        let position = match &command.start {
            StartPosition::Standard => Position::startpos(),
            StartPosition::Fen(fen) => Position::from_fen(fen)?,
        };
        let mut history = PositionHistory::new(position);
        let mut moves = Vec::with_capacity(command.moves.len());
        for text in &command.moves {
            let m = uci_move::parse(history.last(), text)?;
            history.push(m);
            moves.push(PackedMove::new(m));
        }
        Ok(Game { start: command.start.clone(), moves, history })
    }

    /// The moves since `earlier`, if this game continues it.
    pub(super) fn moves_since(&self, earlier: &Game) -> Option<&[PackedMove]> {
        if self.start != earlier.start {
            return None;
        }
        self.moves.strip_prefix(earlier.moves.as_slice())
    }
}
