//! The errors of libraries and devices.

use hip_runtime_sys::loader::LoadError;

/// An error of a library or a device, with the files, the call or the device that it concerns.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum GpuError {
    /// A library is missing or lacks functions.
    #[error("{0}")]
    Library(String),
    /// A call of the driver, of its compiler or of a BLAS library failed.
    #[error("{call} failed: {reason}")]
    Call {
        /// The function, with the arguments that matter.
        call: String,
        /// The library's own description of the error.
        reason: String,
    },
    /// The device has not finished its work in time, so nothing may wait for it any more. The text begins with the
    /// device's number.
    #[error("{0}")]
    Hang(String),
    /// The libraries work, but this device or network cannot be used.
    #[error("{0}")]
    Unsupported(String),
    /// The figures differ from the processor's, whatever is tried.
    #[error("{reason}")]
    Figures {
        /// The first difference of the last attempt.
        reason: String,
        /// One message for each attempt.
        notices: Vec<String>,
    },
}

impl From<LoadError> for GpuError {
    fn from(error: LoadError) -> GpuError {
        GpuError::Library(error.summary())
    }
}

/// The result of an operation that uses the device or its libraries.
pub(crate) type Result<T> = std::result::Result<T, GpuError>;
