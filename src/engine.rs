//! One game: position, go, stop. (A stand-in that plays the first legal move, until the engine is here.)

use crate::chess::{FenError, Position, PositionHistory, UciMoveError, uci_move};
use crate::options::{OptionError, Options};
use crate::search::info::{BestMove, Responder, ThinkingInfo};
use crate::search::limits::{GoParams, PositionCommand, StartPosition};
use std::sync::Arc;

/// Why the engine refused.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "stand-in")]
pub enum EngineError {
    #[error(transparent)]
    Option(#[from] OptionError),
    #[error(transparent)]
    Fen(#[from] FenError),
    #[error(transparent)]
    Move(#[from] UciMoveError),
    #[error("ponderhit while not pondering")]
    NotPondering,
}

/// See the module.
#[allow(missing_docs, reason = "stand-in")]
pub struct Engine {
    options: Options,
    responder: Arc<dyn Responder>,
    history: PositionHistory,
    open_ended: bool,
}

#[allow(missing_docs, reason = "stand-in")]
impl Engine {
    pub fn new(options: Options, responder: Arc<dyn Responder>) -> Engine {
        let history = PositionHistory::new(Position::startpos());
        Engine {
            options,
            responder,
            history,
            open_ended: false,
        }
    }

    pub fn options(&self) -> &Options {
        &self.options
    }

    pub fn set_option(&mut self, name: &str, value: &str) -> Result<(), EngineError> {
        Ok(self.options.set(name, value)?)
    }

    pub fn new_game(&mut self) {
        self.history = PositionHistory::new(Position::startpos());
    }

    pub fn set_position(&mut self, command: &PositionCommand) -> Result<(), EngineError> {
        let start = match &command.start {
            StartPosition::Standard => Position::startpos(),
            StartPosition::Fen(fen) => Position::from_fen(fen)?,
        };
        let mut history = PositionHistory::new(start);
        for text in &command.moves {
            history.push(uci_move::parse(history.last(), text)?);
        }
        self.history = history;
        Ok(())
    }

    pub fn go(&mut self, params: &GoParams) -> Result<(), EngineError> {
        self.open_ended = params.is_open_ended();
        if !self.open_ended {
            self.answer();
        }
        Ok(())
    }

    pub fn stop(&mut self) {
        if std::mem::take(&mut self.open_ended) {
            self.answer();
        }
    }

    pub fn ponder_hit(&mut self) -> Result<(), EngineError> {
        if !self.open_ended {
            return Err(EngineError::NotPondering);
        }
        self.stop();
        Ok(())
    }

    pub fn wait(&mut self) {}

    pub fn ensure_ready(&mut self) -> Result<(), EngineError> {
        Ok(())
    }

    fn answer(&self) {
        let best = self.history.last().legal_moves().first().copied();
        let info = ThinkingInfo {
            depth: Some(1),
            nodes: Some(1),
            pv: best.into_iter().collect(),
            ..Default::default()
        };
        self.responder.thinking(&[info]);
        self.responder.best_move(&BestMove { best, ponder: None });
    }
}
