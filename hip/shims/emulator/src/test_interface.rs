//! C functions for tests in the same process. They make calls fail, and return counts of calls and the last report.
//! Each of the four libraries exports them.

use std::ffi::c_char;

use crate::c_interface::{text, write_text};
use crate::{calls, launch};

/// Makes a later call of a function fail. Call 1 is the next call. If `code` is 0, the function fails with its usual
/// status. The name `execution` means the operations of streams: such an operation fails when a stream runs it, after
/// the call that submitted it.
///
/// # Safety
/// `name` points to a text that ends with a zero byte.
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

/// The number of times that a function has been called.
///
/// # Safety
/// `name` points to a text that ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocm_emulator_calls(name: *const c_char) -> u64 {
    // SAFETY: as the caller promises.
    calls::count(unsafe { text(name) }.unwrap_or_default())
}

/// Copies the last report to a buffer, truncated to the buffer's size and with a zero byte at the end. Returns the full
/// length of the report in bytes.
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

/// The number of wave instructions that kernels have executed in this process.
#[unsafe(no_mangle)]
pub extern "C" fn rocm_emulator_instructions() -> u64 {
    launch::instructions_executed()
}
