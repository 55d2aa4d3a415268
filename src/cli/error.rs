//! Errors of the tools, and messages on stderr.

use std::error::Error;
use std::fmt;
use std::io::Write;

/// The error of a tool. Only its text is used.
pub(super) type CliError = Box<dyn Error + Send + Sync>;

/// Arguments that clap accepts, but that are wrong. The exit code is that of clap's errors.
#[derive(Debug)]
pub(super) struct WrongArguments(pub(super) String);

impl WrongArguments {
    /// The arguments are wrong because of this error.
    pub(super) fn because_of(error: impl fmt::Display) -> WrongArguments {
        WrongArguments(error.to_string())
    }
}

impl Error for WrongArguments {}

impl fmt::Display for WrongArguments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Writes a line to stderr. Unlike `eprintln!`, it does not panic if stderr is closed.
pub(super) fn print_error_line(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
