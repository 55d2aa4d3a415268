//! The last error, and the names of errors, which are the driver's.

use crate::driver::error_text;
use hip_runtime_sys::{hipError_t, hipSuccess, signature};
use std::cell::Cell;
use std::ffi::c_char;

thread_local! {
    /// The error of the thread's last failed call, for `hipGetLastError`.
    pub(super) static LAST_ERROR: Cell<hipError_t> = const { Cell::new(hipSuccess) };
}

/// HIP's function of this name.
#[allow(non_snake_case, reason = "HIP's name")]
pub(super) unsafe extern "C" fn hipGetLastError() -> hipError_t {
    LAST_ERROR.replace(hipSuccess)
}
const _: signature::hipGetLastError = hipGetLastError;

/// HIP's function of this name.
#[allow(non_snake_case, reason = "HIP's name")]
pub(super) unsafe extern "C" fn hipPeekAtLastError() -> hipError_t {
    LAST_ERROR.get()
}
const _: signature::hipPeekAtLastError = hipPeekAtLastError;

/// HIP's function of this name. The name is the driver's, such as `CUDA_ERROR_OUT_OF_MEMORY`.
#[allow(non_snake_case, reason = "HIP's name")]
pub(super) unsafe extern "C" fn hipGetErrorName(error: hipError_t) -> *const c_char {
    error_text(error, |driver| driver.cuGetErrorName).unwrap_or(c"CUDA_ERROR_UNKNOWN").as_ptr()
}
const _: signature::hipGetErrorName = hipGetErrorName;

/// HIP's function of this name.
#[allow(non_snake_case, reason = "HIP's name")]
pub(super) unsafe extern "C" fn hipGetErrorString(error: hipError_t) -> *const c_char {
    error_text(error, |driver| driver.cuGetErrorString).unwrap_or(c"unrecognized error code").as_ptr()
}
const _: signature::hipGetErrorString = hipGetErrorString;
