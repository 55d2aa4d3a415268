//! Allocations, copies and fills.

use std::ffi::{c_int, c_uint, c_void};
use std::sync::Arc;

use hip_runtime_sys::{
    hipError_t, hipErrorContextIsDestroyed, hipErrorInvalidValue, hipErrorOutOfMemory,
    hipErrorStreamCaptureImplicit, hipErrorStreamCaptureUnsupported, hipMemcpyKind, hipStream_t,
};

use super::call::{api, write_result};
use super::device::{current_card, current_device};
use super::stream::stream_of;
use super::transfer::{copy, fill, known};
use crate::calls::report;
use crate::memory::{self, FreeError, Place};
use crate::settings::settings;
use crate::stream::{self, Operation};

api! {
    fn hipMemGetInfo(free: *mut usize, total: *mut usize) {
        let all = current_card().memory_bytes;
        // SAFETY: the caller passes null or a pointer that may be written to.
        unsafe { write_result(free, all.saturating_sub(memory::allocated(current_device()?)) as usize) }?;
        // SAFETY: the caller passes null or a pointer that may be written to.
        unsafe { write_result(total, all as usize) }
    }

    fn hipMalloc(address: *mut *mut c_void, bytes: usize) {
        stream::forbid_in_capture(hipErrorStreamCaptureUnsupported)?;
        let device = current_device()?;
        if bytes == 0 {
            // SAFETY: the caller passes null or a pointer that may be written to.
            return unsafe { write_result(address, std::ptr::null_mut()) };
        }
        if memory::allocated(device).saturating_add(bytes as u64) > current_card().memory_bytes {
            return Err(hipErrorOutOfMemory);
        }
        let place = memory::allocate(bytes, Place::Device(device)).ok_or(hipErrorOutOfMemory)?;
        // SAFETY: the caller passes null or a pointer that may be written to.
        unsafe { write_result(address, std::ptr::with_exposed_provenance_mut(place as usize)) }
    }

    fn hipFree(address: *mut c_void) {
        stream::forbid_in_capture(hipErrorStreamCaptureUnsupported)?;
        free(address, |place| matches!(place, Place::Device(_)))
    }

    fn hipHostMalloc(address: *mut *mut c_void, bytes: usize, _flags: c_uint) {
        stream::forbid_in_capture(hipErrorStreamCaptureUnsupported)?;
        current_device()?;
        let place = memory::allocate(bytes, Place::Pinned).ok_or(hipErrorOutOfMemory)?;
        // SAFETY: the caller passes null or a pointer that may be written to.
        unsafe { write_result(address, std::ptr::with_exposed_provenance_mut(place as usize)) }
    }

    fn hipHostGetDevicePointer(device: *mut *mut c_void, host: *mut c_void, flags: c_uint) {
        let found = memory::find(host.expose_provenance() as u64);
        if flags != 0 || !matches!(found, Some((_, _, Place::Pinned))) {
            return Err(hipErrorInvalidValue);
        }
        // SAFETY: the caller passes null or a pointer that may be written to.
        unsafe { write_result(device, host) }
    }

    fn hipHostFree(address: *mut c_void) {
        stream::forbid_in_capture(hipErrorStreamCaptureUnsupported)?;
        free(address, |place| place == Place::Pinned)
    }

    fn hipMemcpy(to: *mut c_void, from: *const c_void, bytes: usize, kind: hipMemcpyKind) {
        stream::forbid_in_capture(hipErrorStreamCaptureImplicit)?;
        let stream = stream_of(std::ptr::null_mut())?;
        stream.submit(copy(to, from, bytes, kind)?)?;
        stream.synchronize()
    }

    fn hipMemcpyAsync(to: *mut c_void, from: *const c_void, bytes: usize, kind: hipMemcpyKind, stream: hipStream_t) {
        let stream = stream_of(stream)?;
        let operation = copy(to, from, bytes, kind)?;
        let pageable = !known(to.addr(), bytes) || !known(from.addr(), bytes);
        if !pageable && settings().stale_graphs && kind == hip_runtime_sys::hipMemcpyHostToDevice {
            return stream.submit_copy(operation);
        }
        if !pageable {
            return stream.submit(operation);
        }
        // The driver copies pageable memory to a buffer of its own before it returns.
        if stream.capture_state().is_some() {
            return Err(hipErrorStreamCaptureUnsupported);
        }
        stream.submit(operation)?;
        stream.synchronize()
    }

    fn hipMemset(to: *mut c_void, value: c_int, bytes: usize) {
        stream::forbid_in_capture(hipErrorStreamCaptureImplicit)?;
        let stream = stream_of(std::ptr::null_mut())?;
        stream.submit(late(fill(to, value, bytes)?))?;
        // The driver need not wait for the fill of device memory.
        if settings().late_memset.is_some() { Ok(()) } else { stream.synchronize() }
    }

    fn hipMemsetAsync(to: *mut c_void, value: c_int, bytes: usize, stream: hipStream_t) {
        let fill = fill(to, value, bytes)?;
        stream_of(stream)?.submit(if stream.is_null() { late(fill) } else { fill })
    }
}

/// A fill on the null stream, with the delay of `RUKH_EMULATOR_LATE_MEMSET`.
fn late(fill: Operation) -> Operation {
    match settings().late_memset {
        None => fill,
        Some(delay) => Arc::new(move || {
            std::thread::sleep(delay);
            fill()
        }),
    }
}

/// Waits for all work of the device, as HIP does, and then frees the memory.
fn free(address: *mut c_void, kind: impl Fn(Place) -> bool) -> Result<(), hipError_t> {
    if address.is_null() {
        return Ok(());
    }
    for stream in stream::streams_of(current_device()?) {
        if stream.capture_state().is_none() {
            // If the stream has failed, the caller learns it when it waits for the stream itself.
            let _ = stream.synchronize();
        }
    }
    match memory::free(address.expose_provenance() as u64, kind) {
        Ok(()) => Ok(()),
        Err(FreeError::Unknown) => Err(hipErrorInvalidValue),
        Err(FreeError::Overrun(message)) => {
            report(&message);
            Err(hipErrorContextIsDestroyed)
        }
    }
}
