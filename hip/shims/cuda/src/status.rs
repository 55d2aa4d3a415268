//! Translates the errors of CUDA's driver to HIP's. HIP has taken most of its numbers from CUDA.

use std::ffi::CStr;

use hip_runtime_sys::*;

/// The HIP error for an error of CUDA's driver. Most have the same number.
pub(crate) fn hip_error(cuda: u32) -> hipError_t {
    match cuda {
        // A stub library, or a driver that is too old or too new.
        34 | 803 | 804 => hipErrorInsufficientDriver,
        // HIP has one number for all of these: misaligned address, illegal instruction, invalid address space, invalid
        // program counter.
        715..=718 => hipErrorLaunchFailure,
        220..=227 => hipErrorInvalidKernelFile,
        known if description(known).is_some() => known,
        _ => hipErrorUnknown,
    }
}

/// An error's name, and a sentence that describes it.
pub(crate) fn description(error: hipError_t) -> Option<(&'static CStr, &'static CStr)> {
    Some(match error {
        hipSuccess => (c"hipSuccess", c"no error"),
        hipErrorInvalidValue => (c"hipErrorInvalidValue", c"invalid argument"),
        hipErrorOutOfMemory => (c"hipErrorOutOfMemory", c"out of memory"),
        hipErrorNotInitialized => (c"hipErrorNotInitialized", c"initialization error"),
        hipErrorDeinitialized => (c"hipErrorDeinitialized", c"driver shutting down"),
        hipErrorInvalidConfiguration => (c"hipErrorInvalidConfiguration", c"invalid configuration argument"),
        hipErrorInvalidDevicePointer => (c"hipErrorInvalidDevicePointer", c"invalid device pointer"),
        hipErrorInsufficientDriver => (c"hipErrorInsufficientDriver", c"driver version is insufficient"),
        hipErrorNoDevice => (c"hipErrorNoDevice", c"no CUDA device or driver is detected"),
        hipErrorInvalidDevice => (c"hipErrorInvalidDevice", c"invalid device ordinal"),
        hipErrorInvalidImage => (c"hipErrorInvalidImage", c"device kernel image is invalid"),
        hipErrorInvalidContext => (c"hipErrorInvalidContext", c"invalid device context"),
        hipErrorMapFailed => (c"hipErrorMapFailed", c"mapping of buffer object failed"),
        hipErrorNoBinaryForGpu => (c"hipErrorNoBinaryForGpu", c"no kernel image for execution on the device"),
        hipErrorECCNotCorrectable => (c"hipErrorECCNotCorrectable", c"uncorrectable ECC error encountered"),
        hipErrorUnsupportedLimit => (c"hipErrorUnsupportedLimit", c"limit is not supported"),
        hipErrorContextAlreadyInUse => (c"hipErrorContextAlreadyInUse", c"exclusive-thread device in use"),
        hipErrorInvalidKernelFile => (c"hipErrorInvalidKernelFile", c"invalid kernel file"),
        hipErrorInvalidSource => (c"hipErrorInvalidSource", c"device kernel image is invalid"),
        hipErrorFileNotFound => (c"hipErrorFileNotFound", c"file not found"),
        hipErrorSharedObjectSymbolNotFound => {
            (c"hipErrorSharedObjectSymbolNotFound", c"shared object symbol not found")
        }
        hipErrorSharedObjectInitFailed => {
            (c"hipErrorSharedObjectInitFailed", c"shared object initialization failed")
        }
        hipErrorOperatingSystem => {
            (c"hipErrorOperatingSystem", c"operating system call failed or unsupported")
        }
        hipErrorInvalidHandle => (c"hipErrorInvalidHandle", c"invalid resource handle"),
        hipErrorIllegalState => (c"hipErrorIllegalState", c"the operation cannot be performed in this state"),
        hipErrorNotFound => (c"hipErrorNotFound", c"named symbol not found"),
        hipErrorNotReady => (c"hipErrorNotReady", c"device not ready"),
        hipErrorIllegalAddress => (c"hipErrorIllegalAddress", c"an illegal memory access was encountered"),
        hipErrorLaunchOutOfResources => {
            (c"hipErrorLaunchOutOfResources", c"too many resources requested for launch")
        }
        hipErrorLaunchTimeOut => (c"hipErrorLaunchTimeOut", c"the launch timed out and was terminated"),
        hipErrorContextIsDestroyed => (c"hipErrorContextIsDestroyed", c"context is destroyed"),
        hipErrorAssert => (c"hipErrorAssert", c"device-side assert triggered"),
        hipErrorHostMemoryAlreadyRegistered => {
            (c"hipErrorHostMemoryAlreadyRegistered", c"the memory is already pinned")
        }
        hipErrorHostMemoryNotRegistered => (c"hipErrorHostMemoryNotRegistered", c"the memory is not pinned"),
        hipErrorLaunchFailure => (c"hipErrorLaunchFailure", c"unspecified launch failure"),
        hipErrorNotSupported => (c"hipErrorNotSupported", c"operation not supported"),
        hipErrorStreamCaptureUnsupported => {
            (c"hipErrorStreamCaptureUnsupported", c"operation not permitted when stream is capturing")
        }
        hipErrorStreamCaptureInvalidated => {
            (c"hipErrorStreamCaptureInvalidated", c"operation failed due to a previous error during capture")
        }
        hipErrorStreamCaptureMerge => (
            c"hipErrorStreamCaptureMerge",
            c"operation would result in a merge of separate capture sequences",
        ),
        hipErrorStreamCaptureUnmatched => {
            (c"hipErrorStreamCaptureUnmatched", c"capture was not ended in the same stream as it began")
        }
        hipErrorStreamCaptureUnjoined => {
            (c"hipErrorStreamCaptureUnjoined", c"capturing stream has unjoined work")
        }
        hipErrorStreamCaptureIsolation => {
            (c"hipErrorStreamCaptureIsolation", c"dependency created on uncaptured work in another stream")
        }
        hipErrorStreamCaptureImplicit => (
            c"hipErrorStreamCaptureImplicit",
            c"operation would make the legacy stream depend on a capturing one",
        ),
        hipErrorCapturedEvent => (
            c"hipErrorCapturedEvent",
            c"operation not permitted on an event last recorded in a capturing stream",
        ),
        hipErrorStreamCaptureWrongThread => {
            (c"hipErrorStreamCaptureWrongThread", c"capture was begun by another thread")
        }
        hipErrorGraphExecUpdateFailure => (c"hipErrorGraphExecUpdateFailure", c"the graph update failed"),
        hipErrorUnknown => (c"hipErrorUnknown", c"unknown error"),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_both_keep_their_number_and_others_have_a_relative() {
        for same in [0, 1, 2, 3, 100, 101, 200, 209, 400, 500, 600, 700, 701, 719, 801, 900, 908] {
            assert_eq!(hip_error(same), same);
        }
        assert_eq!(hip_error(716), hipErrorLaunchFailure);
        assert_eq!(hip_error(222), hipErrorInvalidKernelFile);
        assert_eq!(hip_error(803), hipErrorInsufficientDriver);
        assert_eq!(hip_error(999), hipErrorUnknown);
        assert_eq!(hip_error(12_345), hipErrorUnknown);
    }
}
