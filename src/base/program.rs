//! The file that starts this program.

use std::io;
use std::path::PathBuf;
use std::sync::OnceLock;

static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();

/// Sets the file that starts Rukh where Rukh is a library in another process, such as Python; `None` if there is none. The
/// first call counts.
pub fn set(file: Option<PathBuf>) {
    let _ = PROGRAM.set(file);
}

/// The file that starts this program: that of the process, unless [`set`] has named another one.
///
/// # Errors
/// There is none, or the system cannot tell.
pub fn file() -> io::Result<PathBuf> {
    match PROGRAM.get() {
        None => std::env::current_exe(),
        Some(file) => file.clone().ok_or_else(|| {
            io::Error::other("the program `rukh` was not found, so Rukh cannot start a process of itself")
        }),
    }
}
