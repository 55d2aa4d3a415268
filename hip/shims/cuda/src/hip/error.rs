//! The last error, and the names of errors.

use std::cell::Cell;
use std::ffi::c_char;

use hip_runtime_sys::{hipError_t, hipSuccess, signature};

use crate::status;

thread_local! {
    /// The error of the thread's last failed call, for `hipGetLastError`.
    pub(super) static LAST_ERROR: Cell<hipError_t> = const { Cell::new(hipSuccess) };
}

/// HIP's function of this name.
#[allow(non_snake_case, reason = "HIP's name")]
#[unsafe(no_mangle)]
pub extern "C" fn hipGetLastError() -> hipError_t {
    LAST_ERROR.replace(hipSuccess)
}
const _: signature::hipGetLastError = hipGetLastError;

/// HIP's function of this name.
#[allow(non_snake_case, reason = "HIP's name")]
#[unsafe(no_mangle)]
pub extern "C" fn hipPeekAtLastError() -> hipError_t {
    LAST_ERROR.get()
}
const _: signature::hipPeekAtLastError = hipPeekAtLastError;

/// HIP's function of this name.
#[allow(non_snake_case, reason = "HIP's name")]
#[unsafe(no_mangle)]
pub extern "C" fn hipGetErrorName(error: hipError_t) -> *const c_char {
    status::description(error).map_or(c"hipErrorUnknown", |(name, _)| name).as_ptr()
}
const _: signature::hipGetErrorName = hipGetErrorName;

/// HIP's function of this name.
#[allow(non_snake_case, reason = "HIP's name")]
#[unsafe(no_mangle)]
pub extern "C" fn hipGetErrorString(error: hipError_t) -> *const c_char {
    status::description(error).map_or(c"unrecognized error code", |(_, text)| text).as_ptr()
}
const _: signature::hipGetErrorString = hipGetErrorString;
