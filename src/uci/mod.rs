//! The UCI protocol on stdin and stdout.

pub mod parse;
