//! The UCI protocol on stdin and stdout.
//!
//! ```text
//! stdin ─ input::Input (lines::LineReader) ─ parse::parse ─ session::Session ─► Engine
//! stdout ◄─ output::Output ◄─ responder::UciResponder (format) ◄─ search threads
//! ```
//!
//! If a line from the GUI cannot be executed, the answer is one `info string error: …`, and the session continues.
//! If the engine cannot get ready or cannot search, `isready` still gets its `readyok` after this error, and `go` still
//! gets a `bestmove`, because the GUI waits for them. So does a `go` with parameters that cannot be understood, or after
//! a `position` that cannot: the answer to the latter is `bestmove 0000`. Stdout has one writer, so lines never mix. At
//! the end of stdin a search is finished before the session ends; `quit` aborts it. Except for the [`console`], this
//! module passes moves and positions on as text, without applying the rules of chess.
//!
//! | module | what it does |
//! |---|---|
//! | [`session`] | executes the commands; the path of a command starts at [`session::Session::run`] |
//! | [`console`] | answers the commands that only people type |
//! | [`input`] | reads stdin while the session is busy |
//! | [`parse`] | reads a line into a command |
//! | [`parse_go`] | reads the parameters of `go` |
//! | [`error`] | what can be wrong with a line |
//! | [`lines`] | splits stdin into lines |
//! | [`responder`] | writes what a search reports |
//! | [`format`](mod@format) | formats `info` and `bestmove` lines |
//! | [`output`] | the only writer of stdout |
//! | [`log`] | the log file |
//! | [`blocked`] | tells for how long a write has waited for its reader |

mod blocked;
mod console;
mod error;
pub(crate) mod format;
pub(crate) mod input;
pub(crate) mod lines;
pub mod log;
pub mod output;
pub(crate) mod parse;
mod parse_go;
pub(crate) mod responder;
pub mod session;
