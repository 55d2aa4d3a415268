//! The UCI protocol on stdin and stdout.
//!
//! ```text
//! stdin ─ lines::LineReader ─ parse::parse ─ session::Session ─► Engine
//! stdout ◄─ output::Output ◄─ responder::UciResponder (format) ◄─ search threads
//! ```
//!
//! What holds whatever the GUI sends: every line gets its answer or one `info string error: …`, an error
//! changes nothing, and the loop goes on; stdout has one writer, so that lines never mix; the end of stdin
//! means `quit`. Moves and positions are only passed on as text here: the rules of chess are the engine's
//! business.
//!
//! A move's way through the program starts at [`session::Session::run`].

pub(crate) mod format;
pub(crate) mod lines;
pub mod log;
pub mod output;
pub(crate) mod parse;
pub(crate) mod responder;
pub mod session;
