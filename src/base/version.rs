//! The version of the program.
//!
//! A program that knows the git commit of its build tells it at its start, so that a new commit builds the program again
//! and not the libraries.

use std::sync::OnceLock;

static OF_PROGRAM: OnceLock<&'static str> = OnceLock::new();

/// Sets what [`version`] returns from now on. To be called once, before anything else.
pub fn set_version(version: &'static str) {
    let _ = OF_PROGRAM.set(version);
}

/// The program's version, such as `0.1.0+git.1a2b3c4`, or else that of this library.
pub fn version() -> &'static str {
    OF_PROGRAM.get_or_init(|| env!("CARGO_PKG_VERSION"))
}
