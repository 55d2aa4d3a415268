//! The UCI protocol on stdin and stdout.
//!
//! ```text
//! stdin ─ lines::LineReader ─ parse::parse ─ session::Session ─► Engine
//! stdout ◄─ output::Output ◄─ responder::UciResponder (format) ◄─ search threads
//! ```
//!
//! If a line from the GUI cannot be executed, the answer is one `info string error: …`, and the session continues.
//! If the engine cannot get ready or cannot search, `isready` still gets its `readyok` after this error, and `go` still
//! gets a `bestmove`, because the GUI waits for them. A `go` that cannot be parsed gets only the error. Stdout has one
//! writer, so lines never mix. The end of stdin means `quit`. This module passes moves and positions on as text,
//! without applying the rules of chess.
//!
//! | module | what it does |
//! |---|---|
//! | [`session`] | executes the commands; the path of a command starts at [`session::Session::run`] |
//! | [`parse`] | reads a line into a command |
//! | [`lines`] | splits stdin into lines |
//! | [`responder`] | writes what a search reports |
//! | [`format`](mod@format) | formats `info` and `bestmove` lines |
//! | [`output`] | the only writer of stdout |
//! | [`log`] | the log file |

pub(crate) mod format;
pub(crate) mod lines;
pub mod log;
pub mod output;
pub(crate) mod parse;
pub(crate) mod responder;
pub mod session;
