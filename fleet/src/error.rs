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
    /// A file that a job names is not on this machine.
    #[error("{0}")]
    NotHere(String),
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

/// The most characters of a line for people.
const MOST_LINE: usize = 4096;

/// Writes a line to stderr, as [`printable`] makes it. Unlike `eprintln!`, it does not panic if stderr is closed.
pub(crate) fn print_error_line(line: &str) {
    let _ = writeln!(io::stderr(), "{}", printable(line));
}

/// Whether a terminal obeys a character, or shows other characters in another order because of it. What the server says
/// may have such characters, because every user of the server may have written it.
fn is_obeyed(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A text as one line for a terminal, shortened if it is very long. Characters that a terminal obeys become escapes, such
/// as `\u{1b}`.
pub(crate) fn printable(text: &str) -> String {
    let mut line = String::new();
    for (number, c) in text.chars().enumerate() {
        if number == MOST_LINE {
            line.push('…');
            break;
        }
        match is_obeyed(c) {
            true => line.extend(c.escape_default()),
            false => line.push(c),
        }
    }
    line
}

/// Lines for a terminal: as [`printable`], but with line breaks and tabs, and of any length.
pub(crate) fn printable_lines(text: &str) -> String {
    let shown = |c: char| match is_obeyed(c) && c != '\n' && c != '\t' {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    };
    text.chars().map(shown).collect()
}

/// JSON whose texts have no characters that a terminal obeys. Only texts can have them, and there an escape means the same.
pub(crate) fn printable_json(json: &serde_json::Value) -> String {
    let mut line = String::new();
    for c in json.to_string().chars() {
        match is_obeyed(c) {
            true => line += &format!("\\u{:04x}", u32::from(c)),
            false => line.push(c),
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_gets_no_control_characters() {
        let hostile = "a\u{1b}]0;x\u{7}b\u{9b}2Jc\r\nd\u{202e}e\u{7f}é";
        let line = printable(hostile);
        assert_eq!(line, r"a\u{1b}]0;x\u{7}b\u{9b}2Jc\r\nd\u{202e}e\u{7f}é");
        assert_eq!(printable_lines("a\tb\n\u{1b}"), "a\tb\n\\u{1b}");
        assert!(printable(&"é".repeat(100_000)).chars().count() <= MOST_LINE + 1);
        let json = printable_json(&serde_json::json!({ "a": hostile }));
        assert!(!json.contains(is_obeyed), "{json}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&json).unwrap()["a"], hostile);
    }
}
