//! The error of a command that the engine cannot execute.

use rukh_backend::BackendError;
use rukh_chess::{FenError, UciMoveError};
use rukh_options::OptionError;
use rukh_search::time::TimeManagerError;

/// The reason why a command failed. The options and the game are as before, but a running search may have ended.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum EngineError {
    #[error(transparent)]
    Option(#[from] OptionError),
    #[error(transparent)]
    Fen(#[from] FenError),
    #[error("position: {0}")]
    Move(#[from] UciMoveError),
    #[error(transparent)]
    Backend(#[from] BackendError),
    #[error(transparent)]
    TimeManager(#[from] TimeManagerError),
    #[error("cannot start a search thread: {0}")]
    Thread(#[from] std::io::Error),
    #[error("ponderhit: no `go ponder` is running")]
    NotPondering,
}
