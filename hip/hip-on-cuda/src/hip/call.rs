//! The macro that defines functions of HIP's C interface, and its helpers.

use hip_runtime_sys::{hipError_t, hipErrorInvalidValue, hipErrorNotReady};

use super::error::LAST_ERROR;

/// Writes a result through a pointer that the caller gave.
///
/// # Safety
/// The pointer is null or may be written to.
pub(super) unsafe fn write_result<T>(place: *mut T, value: T) -> Result<(), hipError_t> {
    if place.is_null() {
        return Err(hipErrorInvalidValue);
    }
    // SAFETY: as the caller promises.
    unsafe { place.write(value) };
    Ok(())
}

/// Keeps an error for `hipGetLastError`. `hipErrorNotReady` is not kept, because it does not mean a failure.
#[cold]
pub(super) fn failed(error: hipError_t) -> hipError_t {
    if error != hipErrorNotReady {
        LAST_ERROR.set(error);
    }
    error
}

/// Defines functions, and makes the compiler compare their signatures with the bindings'.
macro_rules! api {
    ($(fn $name:ident($($argument:ident: $type:ty),* $(,)?) $body:block)*) => {
        $(
            /// HIP's function of this name.
            ///
            /// # Safety
            /// As HIP's documentation says, pointers and handles are valid, and memory that queued work uses stays
            /// valid until the work is done.
            #[allow(non_snake_case, clippy::multiple_unsafe_ops_per_block, reason = "HIP's names")]
            pub(super) unsafe extern "C" fn $name($($argument: $type),*) -> hip_runtime_sys::hipError_t {
                let body = || -> Result<(), hip_runtime_sys::hipError_t> { $body };
                match body() {
                    Ok(()) => hip_runtime_sys::hipSuccess,
                    Err(error) => $crate::hip::call::failed(error),
                }
            }
            const _: hip_runtime_sys::signature::$name = $name;
        )*
    };
}
pub(super) use api;
