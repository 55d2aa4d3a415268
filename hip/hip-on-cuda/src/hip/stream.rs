//! Streams, events, and host functions.

use std::ffi::{c_int, c_uint, c_void};

use hip_runtime_sys::{
    hipEvent_t, hipEventBlockingSync, hipEventDisableTiming, hipEventInterprocess, hipHostFn_t, hipStream_t,
};

use super::call::api;
use crate::driver::{check, current, submit};

api! {
    fn hipStreamCreateWithFlags(stream: *mut hipStream_t, flags: c_uint) {
        // SAFETY: the caller passes a valid pointer.
        check(unsafe { (current()?.cuStreamCreate)(stream.cast(), flags) })
    }

    fn hipStreamCreateWithPriority(stream: *mut hipStream_t, flags: c_uint, priority: c_int) {
        // SAFETY: the caller passes a valid pointer.
        check(unsafe { (current()?.cuStreamCreateWithPriority)(stream.cast(), flags, priority) })
    }

    fn hipStreamDestroy(stream: hipStream_t) {
        // SAFETY: the caller passes a valid stream.
        check(unsafe { (current()?.cuStreamDestroy_v2)(stream.cast()) })
    }

    fn hipStreamQuery(stream: hipStream_t) {
        // SAFETY: the caller passes a valid stream.
        check(unsafe { (current()?.cuStreamQuery)(stream.cast()) })
    }

    fn hipStreamSynchronize(stream: hipStream_t) {
        // SAFETY: the caller passes a valid stream.
        check(unsafe { (current()?.cuStreamSynchronize)(stream.cast()) })
    }

    fn hipStreamWaitEvent(stream: hipStream_t, event: hipEvent_t, flags: c_uint) {
        // SAFETY: the caller passes a valid stream and event.
        check(unsafe { (current()?.cuStreamWaitEvent)(stream.cast(), event.cast(), flags) })
    }

    fn hipLaunchHostFunc(stream: hipStream_t, function: hipHostFn_t, data: *mut c_void) {
        // SAFETY: the caller passes a valid stream and function.
        check(unsafe { (current()?.cuLaunchHostFunc)(stream.cast(), function, data) })
    }

    fn hipEventCreateWithFlags(event: *mut hipEvent_t, flags: c_uint) {
        // HIP has more flags than CUDA. They control caches, and are dropped here.
        let flags = flags & (hipEventBlockingSync | hipEventDisableTiming | hipEventInterprocess);
        // SAFETY: the caller passes a valid pointer.
        check(unsafe { (current()?.cuEventCreate)(event.cast(), flags) })
    }

    fn hipEventDestroy(event: hipEvent_t) {
        // SAFETY: the caller passes a valid event.
        check(unsafe { (current()?.cuEventDestroy_v2)(event.cast()) })
    }

    fn hipEventRecord(event: hipEvent_t, stream: hipStream_t) {
        // SAFETY: the caller passes a valid event and stream.
        check(unsafe { (current()?.cuEventRecord)(event.cast(), stream.cast()) })?;
        submit(current()?, stream.cast());
        Ok(())
    }

    fn hipEventQuery(event: hipEvent_t) {
        // SAFETY: the caller passes a valid event.
        check(unsafe { (current()?.cuEventQuery)(event.cast()) })
    }

    fn hipEventSynchronize(event: hipEvent_t) {
        // SAFETY: the caller passes a valid event.
        check(unsafe { (current()?.cuEventSynchronize)(event.cast()) })
    }

    fn hipEventElapsedTime(milliseconds: *mut f32, start: hipEvent_t, stop: hipEvent_t) {
        // SAFETY: the caller passes a valid pointer and valid events.
        check(unsafe { (current()?.cuEventElapsedTime)(milliseconds, start.cast(), stop.cast()) })
    }
}
