//! What may go wrong.

use rukh_backend::BackendError;
use std::path::PathBuf;

/// Why a network, a position, an evaluator or a search cannot be had. The message is one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file is not there, is no network of lc0, or is damaged.
    #[error("cannot load network {}: {reason}", path.display())]
    Network {
        /// The file, or `<embedded, Rukh's own>`.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A FEN is malformed, or its position cannot be played.
    #[error("{0}")]
    Fen(String),
    /// A move is malformed, or not legal.
    #[error("{0}")]
    Move(String),
    /// No backend has this name.
    #[error("unknown backend {name:?} (known: {known})")]
    UnknownBackend {
        /// The name.
        name: String,
        /// The names of all backends, separated by commas.
        known: String,
    },
    /// No option has this name, or its value is out of range.
    #[error("{0}")]
    Option(String),
    /// The backend cannot run on this machine, or not in this build.
    #[error("backend {name}: {reason}")]
    Unavailable {
        /// The name of the backend.
        name: String,
        /// What is missing.
        reason: String,
    },
    /// The network does not fit the backend or the options.
    #[error("{0}")]
    Unsuitable(String),
    /// An evaluation failed. If a graphics card was lost, every later one fails too.
    #[error("evaluation failed on {name}: {reason}")]
    Evaluation {
        /// The name of the backend.
        name: String,
        /// What happened.
        reason: String,
    },
    /// A search cannot begin, or failed.
    #[error("{0}")]
    Search(String),
}

// Hidden, because programs never meet the error that it converts.
#[doc(hidden)]
impl From<BackendError> for Error {
    fn from(error: BackendError) -> Error {
        match error {
            BackendError::Unknown { name, known } => Error::UnknownBackend { name, known },
            BackendError::Option { .. } => Error::Option(error.to_string()),
            BackendError::Network(reason) => Error::Unsuitable(reason),
            BackendError::Create { name, reason } | BackendError::WrongFigures { name, reason, .. } => {
                Error::Unavailable { name, reason }
            }
            BackendError::Interrupted { name, reason } | BackendError::Evaluate { name, reason } => {
                Error::Evaluation { name, reason }
            }
        }
    }
}
