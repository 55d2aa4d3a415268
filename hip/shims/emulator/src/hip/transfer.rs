//! Copies and fills as operations of a stream. The range of each is checked at the call, and again when the operation
//! runs.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use hip_runtime_sys::{hipError_t, hipErrorInvalidValue, hipMemcpyKind};

use crate::calls::report;
use crate::memory::{self, Place};
use crate::stream::{Failure, Operation};

/// Whether these bytes lie within one live allocation.
pub(crate) fn known(address: usize, bytes: usize) -> bool {
    memory::find(address as u64)
        .is_some_and(|(start, size, _)| address as u64 + bytes as u64 <= start + size as u64)
}

/// Checks the source or the target of a copy or fill. If `wants_device` is `Some(true)`, the bytes must lie in a live
/// allocation of device or pinned memory. If it is `Some(false)`, the bytes must not lie in device memory. If it is
/// `None`, any memory will do. In every case the bytes must not run past the end of an allocation.
fn check_end(address: usize, bytes: usize, wants_device: Option<bool>) -> Result<(), hipError_t> {
    match memory::find(address as u64).map(|(start, size, place)| (start + size as u64, place)) {
        Some((end, place)) => {
            let device = matches!(place, Place::Device(_));
            if wants_device
                .is_some_and(|wanted| wanted && !device && place != Place::Pinned || !wanted && device)
            {
                report(&format!(
                    "a copy or fill of {bytes} bytes whose kind does not match the memory at {address:#x}"
                ));
                return Err(hipErrorInvalidValue);
            }
            if address as u64 + bytes as u64 > end {
                report(&format!(
                    "a copy or fill of {bytes} bytes at {address:#x} past the end of an allocation"
                ));
                return Err(hipErrorInvalidValue);
            }
            Ok(())
        }
        None if wants_device == Some(true) => {
            report(&format!("a copy or fill of {bytes} bytes at {address:#x}, which is not device memory"));
            Err(hipErrorInvalidValue)
        }
        None => Ok(()),
    }
}

/// A copy, for a stream to run.
pub(crate) fn copy(
    to: *mut c_void,
    from: *const c_void,
    bytes: usize,
    kind: hipMemcpyKind,
) -> Result<Operation, hipError_t> {
    if bytes > 0 && (to.is_null() || from.is_null()) {
        return Err(hipErrorInvalidValue);
    }
    let (to_device, from_device) = match kind {
        hip_runtime_sys::hipMemcpyHostToHost => (Some(false), Some(false)),
        hip_runtime_sys::hipMemcpyHostToDevice => (Some(true), Some(false)),
        hip_runtime_sys::hipMemcpyDeviceToHost => (Some(false), Some(true)),
        hip_runtime_sys::hipMemcpyDeviceToDevice => (Some(true), Some(true)),
        hip_runtime_sys::hipMemcpyDefault => (None, None),
        _ => return Err(hip_runtime_sys::hipErrorInvalidMemcpyDirection),
    };
    let (to, from) = (to.expose_provenance(), from.expose_provenance());
    let check = move || check_end(to, bytes, to_device).and_then(|()| check_end(from, bytes, from_device));
    if bytes > 0 {
        check()?;
    }
    Ok(Arc::new(move || {
        if bytes == 0 {
            return Ok(());
        }
        check().map_err(|code| Failure {
            code,
            message: "memory of a copy was freed before the copy ran".to_owned(),
        })?;
        let source: *const u8 = std::ptr::with_exposed_provenance(from);
        let target: *mut u8 = std::ptr::with_exposed_provenance_mut(to);
        // SAFETY: the emulator's allocations were checked. All other memory belongs to the caller, who must keep it
        // until the copy is done.
        unsafe { source.copy_to(target, bytes) };
        Ok(())
    }))
}

/// A fill, for a stream to run.
pub(crate) fn fill(to: *mut c_void, value: c_int, bytes: usize) -> Result<Operation, hipError_t> {
    let to = to.expose_provenance();
    if bytes > 0 {
        check_end(to, bytes, Some(true))?;
    }
    Ok(Arc::new(move || {
        if bytes == 0 {
            return Ok(());
        }
        check_end(to, bytes, Some(true))
            .map_err(|code| Failure { code, message: "memory was freed before the fill ran".to_owned() })?;
        // SAFETY: the range was checked just now.
        unsafe { std::ptr::with_exposed_provenance_mut::<u8>(to).write_bytes(value as u8, bytes) };
        Ok(())
    }))
}
