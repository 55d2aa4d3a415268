//! The last error, and the names of errors.

use std::cell::Cell;
use std::ffi::c_char;

use hip_runtime_sys::{hipError_t, hipSuccess, signature};

thread_local! {
    /// The error of the thread's last failed call, for `hipGetLastError`.
    pub(super) static LAST_ERROR: Cell<hipError_t> = const { Cell::new(hipSuccess) };
}

/// HIP's function of this name: returns the error of the thread's last failed call, and clears it.
#[allow(non_snake_case, reason = "HIP's name")]
#[unsafe(no_mangle)]
pub extern "C" fn hipGetLastError() -> hipError_t {
    LAST_ERROR.replace(hipSuccess)
}

/// HIP's function of this name: returns the error of the thread's last failed call.
#[allow(non_snake_case, reason = "HIP's name")]
#[unsafe(no_mangle)]
pub extern "C" fn hipPeekAtLastError() -> hipError_t {
    LAST_ERROR.get()
}

/// The names of the errors that the emulator returns.
fn error_name(error: hipError_t) -> &'static std::ffi::CStr {
    use hip_runtime_sys as hip;
    match error {
        hip::hipSuccess => c"hipSuccess",
        hip::hipErrorInvalidValue => c"hipErrorInvalidValue",
        hip::hipErrorOutOfMemory => c"hipErrorOutOfMemory",
        hip::hipErrorInvalidConfiguration => c"hipErrorInvalidConfiguration",
        hip::hipErrorInvalidMemcpyDirection => c"hipErrorInvalidMemcpyDirection",
        hip::hipErrorNoDevice => c"hipErrorNoDevice",
        hip::hipErrorInvalidDevice => c"hipErrorInvalidDevice",
        hip::hipErrorInvalidImage => c"hipErrorInvalidImage",
        hip::hipErrorNoBinaryForGpu => c"hipErrorNoBinaryForGpu",
        hip::hipErrorInvalidHandle => c"hipErrorInvalidHandle",
        hip::hipErrorIllegalState => c"hipErrorIllegalState",
        hip::hipErrorNotFound => c"hipErrorNotFound",
        hip::hipErrorNotReady => c"hipErrorNotReady",
        hip::hipErrorContextIsDestroyed => c"hipErrorContextIsDestroyed",
        hip::hipErrorLaunchFailure => c"hipErrorLaunchFailure",
        hip::hipErrorNotSupported => c"hipErrorNotSupported",
        hip::hipErrorStreamCaptureUnsupported => c"hipErrorStreamCaptureUnsupported",
        hip::hipErrorStreamCaptureInvalidated => c"hipErrorStreamCaptureInvalidated",
        hip::hipErrorStreamCaptureUnmatched => c"hipErrorStreamCaptureUnmatched",
        hip::hipErrorStreamCaptureUnjoined => c"hipErrorStreamCaptureUnjoined",
        hip::hipErrorStreamCaptureIsolation => c"hipErrorStreamCaptureIsolation",
        hip::hipErrorStreamCaptureImplicit => c"hipErrorStreamCaptureImplicit",
        hip::hipErrorCapturedEvent => c"hipErrorCapturedEvent",
        hip::hipErrorStreamCaptureWrongThread => c"hipErrorStreamCaptureWrongThread",
        _ => c"hipErrorUnknown",
    }
}

/// HIP's function of this name: returns the error's name, or `hipErrorUnknown` if the emulator never returns the error.
#[allow(non_snake_case, reason = "HIP's name")]
#[unsafe(no_mangle)]
pub extern "C" fn hipGetErrorName(error: hipError_t) -> *const c_char {
    error_name(error).as_ptr()
}

/// HIP's function of this name. It returns only the error's name, because the emulator explains the error on stderr.
#[allow(non_snake_case, reason = "HIP's name")]
#[unsafe(no_mangle)]
pub extern "C" fn hipGetErrorString(error: hipError_t) -> *const c_char {
    error_name(error).as_ptr()
}

const _: signature::hipGetLastError = hipGetLastError;
const _: signature::hipPeekAtLastError = hipPeekAtLastError;
const _: signature::hipGetErrorName = hipGetErrorName;
const _: signature::hipGetErrorString = hipGetErrorString;
