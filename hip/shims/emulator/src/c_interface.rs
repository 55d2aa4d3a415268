//! Functions that all C interfaces share. They run the body of a call, and pass strings and results through pointers.

use std::ffi::{CStr, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::calls::{injected, report};
use crate::settings::settings;

/// Runs the body of the C function `name`. Counts the call, makes it fail if a test asked for that, and turns a panic
/// into the status `internal`. Returns the status; 0 means success.
pub(crate) fn answer(name: &'static str, internal: u32, body: impl FnOnce() -> Result<(), u32>) -> u32 {
    let status = match injected(name) {
        Some(code) => code,
        None => match catch_unwind(AssertUnwindSafe(body)) {
            Ok(Ok(())) => 0,
            Ok(Err(code)) => code,
            Err(_) => {
                report(&format!("the emulator panicked in {name}"));
                internal
            }
        },
    };
    if settings().log {
        eprintln!("rocm-emulator: {name} = {status}");
    }
    status
}

/// Reads a C string. `None` if the pointer is null or the string is not UTF-8.
///
/// # Safety
/// The pointer is null or points to a string that ends with a zero byte.
pub(crate) unsafe fn text<'a>(pointer: *const c_char) -> Option<&'a str> {
    if pointer.is_null() {
        return None;
    }
    // SAFETY: as the caller promises.
    unsafe { CStr::from_ptr(pointer) }.to_str().ok()
}

/// The caller passed a null pointer for a result.
pub(crate) struct NullPointer;

/// Writes a result through a pointer that the caller gave.
///
/// # Safety
/// The pointer is null or valid for writes.
pub(crate) unsafe fn write_result<T>(place: *mut T, value: T) -> Result<(), NullPointer> {
    if place.is_null() {
        return Err(NullPointer);
    }
    // SAFETY: as the caller promises.
    unsafe { place.write(value) };
    Ok(())
}

/// Copies `text` into a buffer of `bytes` bytes, and ends the copy with a zero byte. A text that is too long is
/// truncated.
///
/// # Safety
/// The buffer is null or has `bytes` bytes.
pub(crate) unsafe fn write_text(buffer: *mut c_char, bytes: usize, text: &str) -> Result<(), NullPointer> {
    if buffer.is_null() || bytes == 0 {
        return Err(NullPointer);
    }
    let count = text.len().min(bytes - 1);
    // SAFETY: as the caller promises.
    unsafe { buffer.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), count) };
    // SAFETY: the reason above applies here too.
    unsafe { buffer.add(count).write(0) };
    Ok(())
}
