//! Streams of work on a device, their events, and graphs of captured work. Dropping one frees HIP's object.

use super::super::error::Result;
use super::hip::Device;
use super::wait::Waiting;
use hip_runtime_sys as sys;
use std::ptr::null_mut;

/// A HIP stream: a queue of work on the device.
pub(crate) struct Stream {
    pub(super) device: Device,
    pub(super) raw: sys::hipStream_t,
}

// SAFETY: HIP's streams may be used from any thread.
unsafe impl Send for Stream {}
// SAFETY: as above.
unsafe impl Sync for Stream {}

impl Stream {
    /// Creates a stream that does not synchronize with the default stream.
    pub(crate) fn new(device: Device) -> Result<Stream> {
        let mut raw = null_mut();
        // SAFETY: HIP writes one pointer.
        let status = unsafe { (device.hip.hipStreamCreateWithFlags)(&mut raw, sys::hipStreamNonBlocking) };
        device.check(status, || "hipStreamCreateWithFlags".to_owned())?;
        Ok(Stream { device, raw })
    }

    /// Creates a stream as [`Stream::new`] does, but with the highest priority. It is for short work that other streams
    /// wait for.
    pub(crate) fn urgent(device: Device) -> Result<Stream> {
        let (mut least, mut greatest) = (0, 0);
        // SAFETY: HIP writes two numbers.
        let status = unsafe { (device.hip.hipDeviceGetStreamPriorityRange)(&mut least, &mut greatest) };
        device.check(status, || "hipDeviceGetStreamPriorityRange".to_owned())?;
        let mut raw = null_mut();
        // SAFETY: HIP writes one pointer.
        let status = unsafe {
            (device.hip.hipStreamCreateWithPriority)(&mut raw, sys::hipStreamNonBlocking, greatest)
        };
        device.check(status, || format!("hipStreamCreateWithPriority({greatest})"))?;
        Ok(Stream { device, raw })
    }

    /// Makes work that is enqueued later wait for `event`. During a capture this adds an edge to the graph, and this
    /// stream joins the capture.
    pub(crate) fn wait_for(&self, event: &Event) -> Result<()> {
        // SAFETY: stream and event are alive.
        let status = unsafe { (self.device.hip.hipStreamWaitEvent)(self.raw, event.raw, 0) };
        self.device.check(status, || "hipStreamWaitEvent".to_owned())
    }

    /// Waits until all enqueued work is done.
    pub(crate) fn synchronize(&self) -> Result<()> {
        self.wait(Waiting::Block)
    }

    /// Waits in the given way until all enqueued work is done.
    pub(crate) fn wait(&self, waiting: Waiting) -> Result<()> {
        self.device.finish_by(waiting, self.raw, "the work of a stream")
    }

    /// Captures the work that `enqueue` enqueues as a graph, without running it. After an error the stream can be used
    /// as before.
    pub(crate) fn capture(&self, enqueue: impl FnOnce() -> Result<()>) -> Result<Graph> {
        let hip = self.device.hip;
        let mode = sys::hipStreamCaptureModeThreadLocal;
        // SAFETY: the stream is alive, and no capture is active on it.
        let status = unsafe { (hip.hipStreamBeginCapture)(self.raw, mode) };
        self.device.check(status, || "hipStreamBeginCapture".to_owned())?;
        let enqueued = enqueue();
        let mut captured = null_mut();
        // A capture must be ended even after an error, or the stream stays unusable.
        // SAFETY: HIP writes one pointer.
        let status = unsafe { (hip.hipStreamEndCapture)(self.raw, &mut captured) };
        let ended = self.device.check(status, || "hipStreamEndCapture".to_owned());
        let outcome = enqueued.and(ended).and_then(|()| {
            let mut raw = null_mut();
            // SAFETY: HIP writes one pointer; null and 0 mean that no log is requested.
            let status = unsafe { (hip.hipGraphInstantiate)(&mut raw, captured, null_mut(), null_mut(), 0) };
            self.device.check(status, || "hipGraphInstantiate".to_owned())?;
            Ok(Graph { device: self.device, raw })
        });
        if !captured.is_null() {
            // SAFETY: hipStreamEndCapture made the graph, and an instantiated graph does not depend on it.
            let _ = unsafe { (hip.hipGraphDestroy)(captured) };
        }
        if outcome.is_err() {
            self.leave_capture();
        }
        outcome
    }

    /// Ends a capture that an error has left open, and clears the error, so that the BLAS libraries do not take it for
    /// one of their own calls.
    fn leave_capture(&self) {
        let hip = self.device.hip;
        let mut status = sys::hipStreamCaptureStatusNone;
        // SAFETY: the stream is alive, and HIP writes one number.
        let asked = unsafe { (hip.hipStreamIsCapturing)(self.raw, &mut status) };
        if asked == sys::hipSuccess && status != sys::hipStreamCaptureStatusNone {
            let mut captured = null_mut();
            // SAFETY: HIP writes one pointer.
            let _ = unsafe { (hip.hipStreamEndCapture)(self.raw, &mut captured) };
            if !captured.is_null() {
                // SAFETY: hipStreamEndCapture made the graph, and nothing uses it.
                let _ = unsafe { (hip.hipGraphDestroy)(captured) };
            }
        }
        // SAFETY: the function takes no arguments.
        let _ = unsafe { (hip.hipGetLastError)() };
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.device.is_hung() {
            return;
        }
        // SAFETY: made by HIP and destroyed once. A drop cannot report an error.
        let _ = unsafe { (self.device.hip.hipStreamDestroy)(self.raw) };
    }
}

/// Captured work that can be launched repeatedly.
pub(crate) struct Graph {
    device: Device,
    raw: sys::hipGraphExec_t,
}

// SAFETY: any thread may use a graph, but only one thread at a time. Only the slot that owns the graph calls `launch`.
unsafe impl Send for Graph {}

impl Graph {
    /// Enqueues the graph on `stream`.
    pub(crate) fn launch(&self, stream: &Stream) -> Result<()> {
        // SAFETY: graph and stream are alive.
        let status = unsafe { (self.device.hip.hipGraphLaunch)(self.raw, stream.raw) };
        self.device.check(status, || "hipGraphLaunch".to_owned())
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        if self.device.is_hung() {
            return;
        }
        // SAFETY: made by hipGraphInstantiate and destroyed once. A drop cannot report an error.
        let _ = unsafe { (self.device.hip.hipGraphExecDestroy)(self.raw) };
    }
}

/// A point in a stream that can be waited for.
pub(crate) struct Event {
    device: Device,
    raw: sys::hipEvent_t,
}

// SAFETY: HIP's events may be used from any thread.
unsafe impl Send for Event {}

/// The use of an event, which decides its flags.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum EventKind {
    /// Records a time, so that the time between two events can be read.
    Timing,
    /// Orders the work of streams, or is polled by a thread.
    Order,
}

impl Event {
    /// Creates an event that is not recorded yet.
    pub(crate) fn new(device: Device, kind: EventKind) -> Result<Event> {
        let mut raw = null_mut();
        let flags = match kind {
            EventKind::Timing => sys::hipEventDefault,
            EventKind::Order => sys::hipEventDisableTiming,
        };
        // SAFETY: HIP writes one pointer.
        let status = unsafe { (device.hip.hipEventCreateWithFlags)(&mut raw, flags) };
        device.check(status, || "hipEventCreateWithFlags".to_owned())?;
        Ok(Event { device, raw })
    }

    /// Records the event after all work that is already in the stream.
    pub(crate) fn record(&self, stream: &Stream) -> Result<()> {
        // SAFETY: event and stream are alive.
        let status = unsafe { (self.device.hip.hipEventRecord)(self.raw, stream.raw) };
        self.device.check(status, || "hipEventRecord".to_owned())
    }

    /// Whether the work before the recorded event is done.
    pub(crate) fn is_done(&self) -> Result<bool> {
        // SAFETY: the event is alive.
        let status = unsafe { (self.device.hip.hipEventQuery)(self.raw) };
        self.device.is_ready(status, "hipEventQuery")
    }

    /// Milliseconds from `earlier` to this event. Both must be complete.
    pub(crate) fn milliseconds_since(&self, earlier: &Event) -> Result<f32> {
        let mut milliseconds = 0.0;
        // SAFETY: HIP writes one number; both events are alive.
        let status =
            unsafe { (self.device.hip.hipEventElapsedTime)(&mut milliseconds, earlier.raw, self.raw) };
        self.device.check(status, || "hipEventElapsedTime".to_owned())?;
        Ok(milliseconds)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if self.device.is_hung() {
            return;
        }
        // SAFETY: made by hipEventCreateWithFlags and destroyed once. A drop cannot report an error.
        let _ = unsafe { (self.device.hip.hipEventDestroy)(self.raw) };
    }
}
