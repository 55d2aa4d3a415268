//! C functions for tests in the same process: they make calls fail and ask what happened. A test finds them in any of
//! the four libraries.

use std::ffi::c_char;

use crate::c_interface::{text, write_text};
use crate::{calls, launch};

/// Makes a later call of a function fail: call 1 is the next one. `code` 0 stands for the function's usual failure. The
/// name `execution` means the work of streams: it fails when a stream runs it, after the call that submitted it.
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

/// Copies the last report to a buffer, cut to its size and ended with zero. Returns the report's whole length in bytes.
///
/// # Safety
/// `buffer` has `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocm_emulator_fault(buffer: *mut c_char, bytes: usize) -> usize {
    let report = calls::last_report();
    // A caller without a buffer asks for the length alone.
    // SAFETY: as the caller promises.
    let _ = unsafe { write_text(buffer, bytes, &report) };
    report.len()
}

/// How many wave instructions kernels have executed in this process.
#[unsafe(no_mangle)]
pub extern "C" fn rocm_emulator_instructions() -> u64 {
    launch::instructions_executed()
}
