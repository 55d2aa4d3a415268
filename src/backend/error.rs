//! Errors of backends.

use rukh_base::quote::quoted;

/// The reason why a backend cannot be made or a batch failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum BackendError {
    /// No backend has this name.
    #[error("unknown backend {} (known: {known})", quoted(.name))]
    Unknown {
        /// The name as the user wrote it.
        name: String,
        /// The names of all backends, separated by commas.
        known: String,
    },
    /// An option of `BackendOptions` is malformed, unknown or out of range.
    #[error("backend option {}: {reason}", quoted(.option))]
    Option {
        /// The option as the user wrote it.
        option: String,
        /// What is wrong, and which values are allowed.
        reason: String,
    },
    /// The network does not load or does not fit this backend.
    #[error("{0}")]
    Network(String),
    /// The backend cannot run on this machine.
    #[error("backend {name}: {reason}")]
    Create {
        /// The backend's name.
        name: String,
        /// What failed, and why.
        reason: String,
    },
    /// The evaluation of a batch failed because a device was lost. Another evaluator takes its place.
    #[error("the evaluation on {name} was interrupted: {reason}")]
    Interrupted {
        /// The name of the backend that was lost.
        name: String,
        /// Why it was lost.
        reason: String,
    },
    /// The device computes figures that differ from the processor's.
    #[error("backend {name}: {reason}")]
    WrongFigures {
        /// The backend's name.
        name: String,
        /// The difference that was found.
        reason: String,
        /// Messages for the user: what was tried.
        notices: Vec<String>,
    },
    /// The evaluation of a batch failed.
    #[error("evaluation failed on {name}: {reason}")]
    Evaluate {
        /// The backend's name.
        name: String,
        /// Why it failed.
        reason: String,
    },
}
