//! What can go wrong in a backend.

use crate::quote::quoted;

/// An evaluation or a backend's creation failed. Carries what was tried.
#[derive(Debug, Clone, thiserror::Error)]
pub enum BackendError {
    /// No such backend.
    #[error("unknown backend {} (known: {known})", quoted(.name))]
    Unknown {
        /// As given.
        name: String,
        /// Comma-separated names.
        known: String,
    },
    /// An option string or option value was not understood.
    #[error("backend option {}: {reason}", quoted(.option))]
    Option {
        /// As given.
        option: String,
        /// What was expected.
        reason: String,
    },
    /// The network does not load or does not fit this backend.
    #[error("{0}")]
    Network(String),
    /// Creation failed.
    #[error("backend {name}: {reason}")]
    Create {
        /// The backend.
        name: String,
        /// What was tried and why it failed.
        reason: String,
    },
    /// A batch failed.
    #[error("evaluation failed on {name}: {reason}")]
    Evaluate {
        /// The backend.
        name: String,
        /// The cause.
        reason: String,
    },
}
