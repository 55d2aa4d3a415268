//! What can go wrong on the way to the device and on it.

use hip_runtime_sys::loader::LoadError;

/// An error of a library or a device, with what was tried.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum RocmError {
    /// A library is not there, or is not what it should be.
    #[error("{0}")]
    Library(String),
    /// A call of HIP, hiprtc or a BLAS library failed.
    #[error("{call} failed: {reason}")]
    Call {
        /// The function, with the arguments that matter.
        call: String,
        /// What the library says.
        reason: String,
    },
    /// The libraries work, and still this device or network cannot be used.
    #[error("{0}")]
    Unsupported(String),
}

impl From<LoadError> for RocmError {
    fn from(error: LoadError) -> RocmError {
        RocmError::Library(error.summary())
    }
}

/// The outcome of anything that touches the device.
pub(super) type Result<T> = std::result::Result<T, RocmError>;
