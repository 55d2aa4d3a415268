//! C functions for the tests of programs that use the emulator: they make calls fail, and ask what happened. Every name
//! of the shared library has them.

use std::ffi::c_char;

use crate::c_interface::{give_text, text};
use crate::{calls, launch};

/// Makes a later call of a function fail: the next one is number 1. `code` 0 stands for the usual failure. Besides
/// the libraries' functions there is `execution`: the start of a piece of work on a stream, which then fails later.
///
/// # Safety
/// `name` is a text that ends with zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocm_emulator_fail(name: *const c_char, call: u64, code: u32) {
    // SAFETY: as the caller promises.
    if let Some(name) = unsafe { text(name) } {
        calls::fail_later(name, call, code);
    }
}

/// Forgets all failures that have not happened yet.
#[unsafe(no_mangle)]
pub extern "C" fn rocm_emulator_clear() {
    calls::clear_failures();
}

/// How often a function has been called.
///
/// # Safety
/// `name` is a text that ends with zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocm_emulator_calls(name: *const c_char) -> u64 {
    // SAFETY: as the caller promises.
    calls::count(unsafe { text(name) }.unwrap_or_default())
}

/// Copies the last report, cut to the buffer and ended with zero, and gives its whole length in bytes.
///
/// # Safety
/// `buffer` has `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocm_emulator_fault(buffer: *mut c_char, bytes: usize) -> usize {
    let report = calls::last_report();
    // A caller without a buffer asks for the length alone.
    // SAFETY: as the caller promises.
    let _ = unsafe { give_text(buffer, bytes, &report) };
    report.len()
}

/// Wave instructions that kernels have executed in this process.
#[unsafe(no_mangle)]
pub extern "C" fn rocm_emulator_instructions() -> u64 {
    launch::instructions_executed()
}
