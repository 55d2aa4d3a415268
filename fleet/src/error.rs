//! Errors, and messages on stderr.

use std::fmt::{Debug, Display};
use std::io::{self, Write};
use std::path::PathBuf;

/// Why a command has failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FleetError {
    /// The server refuses a request, or does not answer.
    #[error("cannot {what}: {reason}")]
    Server {
        /// What was tried.
        what: String,
        /// What the server or the client says.
        reason: String,
    },
    /// The settings of the connection are wrong.
    #[error("{what}: {reason}")]
    Connection {
        /// The setting, or the address.
        what: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The system refuses a file.
    #[error("cannot {what} {}: {reason}", path.display())]
    File {
        /// `read` or `write`.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        reason: io::Error,
    },
    /// A program cannot be started, or ends with an error.
    #[error("{program}: {reason}")]
    Program {
        /// The program.
        program: String,
        /// What happened.
        reason: String,
    },
    /// There is no job of this name.
    #[error("there is no job `{0}`; `rukh-fleet status` lists the jobs")]
    NoJob(String),
    /// Not all pieces of the job are stored.
    #[error("the job is not submitted completely; repeat its command")]
    HalfSubmitted,
    /// The command cannot be done as it is.
    #[error("{0}")]
    Refused(String),
}

/// The error of a request to the server.
pub(crate) fn server_error(what: impl Into<String>, reason: impl Display) -> FleetError {
    FleetError::Server { what: what.into(), reason: reason.to_string() }
}

/// The error of a file.
pub(crate) fn file_error(what: &'static str, path: impl Into<PathBuf>, reason: io::Error) -> FleetError {
    FleetError::File { what, path: path.into(), reason }
}

/// Writes a line to stderr. Unlike `eprintln!`, it does not panic if stderr is closed.
pub(crate) fn print_error_line(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}
