//! Streams, events, and host functions.

use std::ffi::{c_int, c_uint, c_void};
use std::sync::Arc;

use hip_runtime_sys::{
    hipError_t, hipErrorInvalidHandle, hipErrorInvalidValue, hipErrorNotReady, hipErrorOutOfMemory,
    hipErrorStreamCaptureUnsupported, hipEvent_t, hipHostFn_t, hipStream_t,
};

use super::call::{api, pointer, write_result};
use super::device::current_device;
use crate::handles::Handles;
use crate::stream::{self, Event, Mark, Stream};

static STREAMS: Handles<Stream> = Handles::new();
static EVENTS: Handles<Event> = Handles::new();

/// The stream that a handle stands for. The null handle stands for the null stream of the current device.
pub(crate) fn stream_of(handle: hipStream_t) -> Result<Arc<Stream>, hipError_t> {
    if handle.is_null() {
        return stream::null_stream(current_device()?).ok_or(hipErrorOutOfMemory);
    }
    STREAMS.get(handle.addr()).ok_or(hipErrorInvalidHandle)
}

fn event_of(handle: hipEvent_t) -> Result<Arc<Event>, hipError_t> {
    EVENTS.get(handle.addr()).ok_or(hipErrorInvalidHandle)
}

api! {
    fn hipStreamCreateWithFlags(stream: *mut hipStream_t, flags: c_uint) {
        let device = current_device()?;
        let blocking = flags & hip_runtime_sys::hipStreamNonBlocking == 0;
        let made = Stream::new(device, blocking).ok_or(hipErrorOutOfMemory)?;
        stream::register(&made);
        // SAFETY: the caller passes null or a pointer that may be written to.
        unsafe { write_result(stream, pointer(STREAMS.add(made))) }
    }

    fn hipStreamCreateWithPriority(stream: *mut hipStream_t, flags: c_uint, _priority: c_int) {
        let device = current_device()?;
        let blocking = flags & hip_runtime_sys::hipStreamNonBlocking == 0;
        let made = Stream::new(device, blocking).ok_or(hipErrorOutOfMemory)?;
        stream::register(&made);
        // SAFETY: the caller passes null or a pointer that may be written to.
        unsafe { write_result(stream, pointer(STREAMS.add(made))) }
    }

    fn hipStreamDestroy(stream: hipStream_t) {
        let stream = STREAMS.remove(stream.addr()).ok_or(hipErrorInvalidHandle)?;
        stream::unregister(&stream);
        // The stream's thread finishes the submitted work and then ends.
        Ok(())
    }

    fn hipStreamSynchronize(stream: hipStream_t) { stream_of(stream)?.synchronize() }

    fn hipStreamQuery(stream: hipStream_t) {
        let stream = stream_of(stream)?;
        if stream.capture_state().is_some() {
            return Err(hipErrorStreamCaptureUnsupported);
        }
        stream.result()?;
        if stream.idle() { Ok(()) } else { Err(hipErrorNotReady) }
    }

    fn hipStreamWaitEvent(stream: hipStream_t, event: hipEvent_t, _flags: c_uint) {
        stream_of(stream)?.wait_for(&*event_of(event)?)
    }

    fn hipDeviceSynchronize() {
        stream::forbid_in_capture(hipErrorStreamCaptureUnsupported)?;
        stream::streams_of(current_device()?).iter().try_for_each(|stream| stream.synchronize())
    }

    fn hipLaunchHostFunc(stream: hipStream_t, function: hipHostFn_t, data: *mut c_void) {
        let function = function.ok_or(hipErrorInvalidValue)?;
        let data = data.expose_provenance();
        stream_of(stream)?.submit(Arc::new(move || {
            // SAFETY: this is the caller's function, and it takes this pointer.
            unsafe { function(std::ptr::with_exposed_provenance_mut(data)) };
            Ok(())
        }))
    }

    fn hipEventCreateWithFlags(event: *mut hipEvent_t, flags: c_uint) {
        current_device()?;
        let timing = flags & hip_runtime_sys::hipEventDisableTiming == 0;
        // SAFETY: the caller passes null or a pointer that may be written to.
        unsafe { write_result(event, pointer(EVENTS.add(Arc::new(Event::new(timing))))) }
    }

    fn hipEventDestroy(event: hipEvent_t) {
        EVENTS.remove(event.addr()).map(|_| ()).ok_or(hipErrorInvalidHandle)
    }

    fn hipEventRecord(event: hipEvent_t, stream: hipStream_t) {
        stream_of(stream)?.record(&*event_of(event)?);
        Ok(())
    }

    fn hipEventQuery(event: hipEvent_t) {
        match event_of(event)?.mark()? {
            None => Ok(()),
            Some(mark) => reached(&mark),
        }
    }

    fn hipEventSynchronize(event: hipEvent_t) {
        match event_of(event)?.mark()? {
            None => Ok(()),
            Some(mark) => mark.wait().1.map_or(Ok(()), Err),
        }
    }

    fn hipEventElapsedTime(milliseconds: *mut f32, start: hipEvent_t, stop: hipEvent_t) {
        let (start, stop) = (event_of(start)?, event_of(stop)?);
        if !start.timing || !stop.timing {
            return Err(hipErrorInvalidHandle);
        }
        let (Some(start), Some(stop)) = (start.mark()?, stop.mark()?) else { return Err(hipErrorInvalidHandle) };
        let (Some(start), Some(stop)) = (start.state(), stop.state()) else { return Err(hipErrorNotReady) };
        let elapsed = stop.0.saturating_duration_since(start.0);
        // SAFETY: the caller passes null or a pointer that may be written to.
        unsafe { write_result(milliseconds, elapsed.as_secs_f32() * 1e3) }
    }
}

fn reached(mark: &Mark) -> Result<(), hipError_t> {
    match mark.state() {
        None => Err(hipErrorNotReady),
        Some((_, failure)) => failure.map_or(Ok(()), Err),
    }
}
