//! The macros that define functions of HIP's C interface, and their helpers.

use std::ffi::c_char;
use std::ffi::c_int;

use hip_runtime_sys::{hipError_t, hipErrorInvalidValue, hipErrorNotReady, hipErrorUnknown, hipSuccess};

use super::error::LAST_ERROR;
use crate::c_interface;

/// Runs the body of one call and keeps its error for `hipGetLastError`. `hipErrorNotReady` is not kept, because it does
/// not mean a failure.
pub(super) fn answer(name: &'static str, body: impl FnOnce() -> Result<(), hipError_t>) -> hipError_t {
    let status = c_interface::answer(name, hipErrorUnknown, body);
    if status != hipSuccess && status != hipErrorNotReady {
        LAST_ERROR.set(status);
    }
    status
}

/// A handle as the pointer that C sees. It is never dereferenced.
pub(super) fn pointer<T>(handle: usize) -> *mut T {
    std::ptr::without_provenance_mut(handle)
}

/// Writes a result through a pointer that the caller gave.
///
/// # Safety
/// The pointer is null or may be written to.
pub(super) unsafe fn write_result<T>(place: *mut T, value: T) -> Result<(), hipError_t> {
    // SAFETY: as the caller promises.
    unsafe { c_interface::write_result(place, value) }.map_err(|_| hipErrorInvalidValue)
}

/// Copies a text into a buffer, truncated to the buffer's size and with a zero byte at the end.
///
/// # Safety
/// The buffer is null or has `bytes` bytes.
pub(super) unsafe fn write_text(buffer: *mut c_char, bytes: c_int, text: &str) -> Result<(), hipError_t> {
    let bytes = usize::try_from(bytes).unwrap_or_default();
    // SAFETY: as the caller promises.
    unsafe { c_interface::write_text(buffer, bytes, text) }.map_err(|_| hipErrorInvalidValue)
}

/// Defines functions that the bindings lack.
macro_rules! unchecked_api {
    ($(fn $name:ident($($argument:ident: $type:ty),* $(,)?) $body:block)*) => {
        $(
            /// HIP's function of this name.
            ///
            /// # Safety
            /// As HIP's documentation says, pointers are valid, and those that work on a stream uses stay valid until
            /// it is done.
            #[allow(non_snake_case, reason = "HIP's names")]
            #[allow(clippy::too_many_arguments, reason = "HIP's signatures")]
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($argument: $type),*) -> hip_runtime_sys::hipError_t {
                $crate::hip::call::answer(stringify!($name), || $body)
            }
        )*
    };
}

/// Defines functions, and makes the compiler compare their signatures with the bindings'.
macro_rules! api {
    ($(fn $name:ident($($argument:ident: $type:ty),* $(,)?) $body:block)*) => {
        $crate::hip::call::unchecked_api! { $(fn $name($($argument: $type),*) $body)* }
        $(const _: hip_runtime_sys::signature::$name = $name;)*
    };
}

pub(super) use {api, unchecked_api};
