//! Allocations, copies and fills.

use std::ffi::{c_int, c_uint, c_void};

use hip_runtime_sys::{hipMemcpyKind, hipStream_t};

use super::call::{api, write_result};
use crate::driver::{DevicePointer, check, current};

fn address(pointer: *const c_void) -> DevicePointer {
    pointer.expose_provenance() as DevicePointer
}

api! {
    fn hipMemGetInfo(free: *mut usize, total: *mut usize) {
        // SAFETY: the caller passes valid pointers.
        check(unsafe { (current()?.cuMemGetInfo_v2)(free, total) })
    }

    fn hipMalloc(pointer: *mut *mut c_void, bytes: usize) {
        let mut found: DevicePointer = 0;
        if bytes > 0 {
            // SAFETY: the driver writes a number.
            check(unsafe { (current()?.cuMemAlloc_v2)(&mut found, bytes) })?;
        }
        // SAFETY: the caller passes null or a pointer that may be written to.
        unsafe { write_result(pointer, std::ptr::with_exposed_provenance_mut(found as usize)) }
    }

    fn hipFree(pointer: *mut c_void) {
        if pointer.is_null() {
            return Ok(());
        }
        // SAFETY: the caller passes valid memory, which nothing uses any more. The driver waits for running work.
        check(unsafe { (current()?.cuMemFree_v2)(address(pointer)) })
    }

    fn hipHostMalloc(pointer: *mut *mut c_void, bytes: usize, flags: c_uint) {
        // Of HIP's flags, CUDA has portable, mapped and write-combined.
        // SAFETY: the caller passes a valid pointer.
        check(unsafe { (current()?.cuMemHostAlloc)(pointer, bytes, flags & 7) })
    }

    fn hipHostGetDevicePointer(device: *mut *mut c_void, host: *mut c_void, flags: c_uint) {
        let mut found: DevicePointer = 0;
        // SAFETY: the driver writes a number, and the caller passes memory of hipHostMalloc.
        check(unsafe { (current()?.cuMemHostGetDevicePointer_v2)(&mut found, host, flags) })?;
        // SAFETY: the caller passes null or a pointer that may be written to.
        unsafe { write_result(device, std::ptr::with_exposed_provenance_mut(found as usize)) }
    }

    fn hipHostFree(pointer: *mut c_void) {
        if pointer.is_null() {
            return Ok(());
        }
        // SAFETY: the caller passes valid memory, which nothing uses any more.
        check(unsafe { (current()?.cuMemFreeHost)(pointer) })
    }

    fn hipMemcpy(to: *mut c_void, from: *const c_void, bytes: usize, _kind: hipMemcpyKind) {
        let driver = current()?;
        // SAFETY: the caller passes valid memory.
        check(unsafe { (driver.cuMemcpy)(address(to), address(from), bytes) })?;
        // The driver may return before the last bytes have arrived, and non-blocking streams would not wait for them.
        // SAFETY: null is the default stream.
        check(unsafe { (driver.cuStreamSynchronize)(std::ptr::null_mut()) })
    }

    fn hipMemcpyAsync(to: *mut c_void, from: *const c_void, bytes: usize, _kind: hipMemcpyKind, stream: hipStream_t) {
        let (to, from) = (address(to), address(from));
        // SAFETY: the caller passes valid memory.
        check(unsafe { (current()?.cuMemcpyAsync)(to, from, bytes, stream.cast()) })
    }

    fn hipMemset(to: *mut c_void, value: c_int, bytes: usize) {
        let driver = current()?;
        // SAFETY: the caller passes valid memory.
        check(unsafe { (driver.cuMemsetD8_v2)(address(to), value as u8, bytes) })?;
        // The reason for the wait is the same as in hipMemcpy.
        // SAFETY: null is the default stream.
        check(unsafe { (driver.cuStreamSynchronize)(std::ptr::null_mut()) })
    }

    fn hipMemsetAsync(to: *mut c_void, value: c_int, bytes: usize, stream: hipStream_t) {
        // SAFETY: the caller passes valid memory.
        check(unsafe { (current()?.cuMemsetD8Async)(address(to), value as u8, bytes, stream.cast()) })
    }
}
