//! Ctrl-C during a long tool.

use super::error::CliError;
use std::sync::atomic::{AtomicBool, Ordering};

/// The exit code of a program that ctrl-C ends.
const INTERRUPTED: i32 = 130;

/// Calls `interrupt` when ctrl-C is pressed. A second ctrl-C ends the process.
///
/// # Errors
/// The system does not report ctrl-C.
pub(super) fn catch_interrupt(interrupt: impl Fn() + Send + 'static) -> Result<(), CliError> {
    let was_pressed = AtomicBool::new(false);
    ctrlc::set_handler(move || {
        if was_pressed.swap(true, Ordering::Relaxed) {
            std::process::exit(INTERRUPTED);
        }
        interrupt();
    })
    .map_err(|error| format!("cannot wait for ctrl-C: {error}").into())
}
