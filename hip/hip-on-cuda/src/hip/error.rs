//! The last error, and the names of errors, which are the driver's.

use crate::driver::{Status, load};
use hip_runtime_sys::{hipError_t, hipSuccess, signature};
use std::cell::Cell;
use std::ffi::{CStr, c_char};

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
    text(error, |driver| driver.cuGetErrorName, c"CUDA_ERROR_UNKNOWN")
}
const _: signature::hipGetErrorName = hipGetErrorName;

/// HIP's function of this name.
#[allow(non_snake_case, reason = "HIP's name")]
pub(super) unsafe extern "C" fn hipGetErrorString(error: hipError_t) -> *const c_char {
    text(error, |driver| driver.cuGetErrorString, c"unrecognized error code")
}
const _: signature::hipGetErrorString = hipGetErrorString;

/// One of the driver's texts for an error, or `unknown` if it has none.
fn text(
    error: hipError_t,
    function: impl Fn(&crate::driver::Functions) -> unsafe extern "C" fn(Status, *mut *const c_char) -> Status,
    unknown: &'static CStr,
) -> *const c_char {
    let mut found = std::ptr::null();
    if let Ok(driver) = load() {
        // SAFETY: the driver takes any number, and writes a static text or null.
        let _ = unsafe { function(&driver.functions)(error, &mut found) };
    }
    if found.is_null() { unknown.as_ptr() } else { found }
}
