//! Why the engine refuses a command.

use crate::backend::BackendError;
use crate::chess::{FenError, UciMoveError};
use crate::options::OptionError;
use crate::search::time::TimeManagerError;

/// The reason why a command was refused. The command has not changed the engine's state.
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
