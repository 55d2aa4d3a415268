//! Errors of the tools, and messages on stderr.

use std::error::Error;
use std::io::Write;

/// The error of a tool. Only its text is used.
pub(super) type CliError = Box<dyn Error + Send + Sync>;

/// Writes a line to stderr. Unlike `eprintln!`, it does not panic if stderr is closed.
pub(super) fn print_error_line(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
