//! Owning wrappers of HIP's objects: dropping a wrapper frees the object.
//!
//! A failed call becomes an error that names the call and its relevant arguments. HIP keeps a current device for each
//! thread, so a new thread calls [`Device::make_current`] before it uses a device.

use super::super::error::{Result, RocmError};
use super::wait::{Health, Waiting, Work};
use hip_runtime_sys as sys;
use hip_runtime_sys::loader::file_of;
use std::ffi::{c_char, c_int, c_void};
use std::path::PathBuf;
use std::ptr::null_mut;
use std::time::Duration;

/// One device, with HIP's function table.
#[derive(Clone, Copy)]
pub(crate) struct Device {
    pub(super) hip: &'static sys::Hip,
    ordinal: i32,
    pub(super) health: &'static Health,
}

/// An address in a device's memory.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Address(pub(super) u64);

impl Address {
    /// The null address, which stands for an absent optional argument.
    pub(crate) const NULL: Address = Address(0);

    pub(crate) fn offset(self, bytes: usize) -> Address {
        Address(self.0 + bytes as u64)
    }

    /// Whether the address is a multiple of `bytes`.
    pub(crate) fn is_aligned(self, bytes: u64) -> bool {
        self.0.is_multiple_of(bytes)
    }

    pub(super) fn pointer(self) -> *mut c_void {
        std::ptr::with_exposed_provenance_mut(self.0 as usize)
    }
}

/// Loads HIP's runtime and calls none of its functions.
///
/// # Errors
/// The library cannot be loaded.
pub(crate) fn load() -> Result<&'static sys::Hip> {
    Ok(keep(sys::Hip::load()?))
}

/// Keeps a runtime's function table until the process ends, because the library stays loaded until then, too.
pub(crate) fn keep(hip: sys::Hip) -> &'static sys::Hip {
    Box::leak(Box::new(hip))
}

/// The number of devices, which is at least 1.
///
/// This must succeed before a function of any other ROCm library is called: hipBLASLt ends the process if there is no
/// device.
///
/// # Errors
/// HIP fails or finds no device.
pub(crate) fn count(hip: &sys::Hip) -> Result<i32> {
    let mut count: c_int = 0;
    // SAFETY: HIP writes one integer.
    let status = unsafe { (hip.hipGetDeviceCount)(&mut count) };
    check(hip, status, || "hipGetDeviceCount".to_owned())?;
    if count < 1 {
        return Err(RocmError::Unsupported("HIP finds no device (hipGetDeviceCount says 0)".to_owned()));
    }
    Ok(count)
}

/// The path of the runtime's file, as the dynamic linker opened it.
pub(crate) fn file(hip: &sys::Hip) -> Option<PathBuf> {
    file_of(hip.address())
}

/// What a version is that of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Versioned {
    Runtime,
    /// AMD's runtime reports its own version here.
    Driver,
}

/// A version as HIP encodes it. A machine without a device has one, too.
///
/// # Errors
/// HIP knows none.
pub(crate) fn version(hip: &sys::Hip, of: Versioned) -> Result<i32> {
    let (get, name) = match of {
        Versioned::Runtime => (hip.hipRuntimeGetVersion, "hipRuntimeGetVersion"),
        Versioned::Driver => (hip.hipDriverGetVersion, "hipDriverGetVersion"),
    };
    let mut version: c_int = 0;
    // SAFETY: HIP writes one integer.
    let status = unsafe { get(&mut version) };
    check(hip, status, || name.to_owned())?;
    Ok(version)
}

fn check(hip: &sys::Hip, status: sys::hipError_t, call: impl FnOnce() -> String) -> Result<()> {
    if status == sys::hipSuccess {
        return Ok(());
    }
    Err(RocmError::Call { call: call(), reason: hip.describe(status) })
}

fn make_current(hip: &sys::Hip, ordinal: i32) -> Result<()> {
    // SAFETY: the argument is a number, and HIP reports an invalid one as an error.
    let status = unsafe { (hip.hipSetDevice)(ordinal) };
    check(hip, status, || format!("hipSetDevice({ordinal})"))
}

impl Device {
    /// Selects device `ordinal` and makes it current for this thread.
    ///
    /// # Errors
    /// The device does not exist, or it hung before and has not finished since.
    pub(crate) fn new(hip: &'static sys::Hip, ordinal: i32) -> Result<Device> {
        make_current(hip, ordinal)?;
        Ok(Device { hip, ordinal, health: Health::of(ordinal)? })
    }

    /// Sets the time after which a batch counts as hung. A batch that usually is long gets more time.
    pub(crate) fn set_patience(&self, patience: Duration) {
        self.health.set_patience(patience);
    }

    /// Whether the device has left work unfinished, so that nothing may wait for it or free what it may still use.
    pub(crate) fn is_hung(&self) -> bool {
        self.health.is_hung()
    }

    /// Waits for all work that is in a stream of this device. The null stream stands for HIP's own stream.
    pub(super) fn finish(&self, stream: sys::hipStream_t, name: &str) -> Result<()> {
        self.finish_by(Waiting::Block, stream, name)
    }

    fn finish_by(&self, waiting: Waiting, stream: sys::hipStream_t, name: &str) -> Result<()> {
        let work = Work { hip: self.hip, stream, name, usual: None };
        self.health.wait(&work, waiting, || {
            // SAFETY: the caller passes a stream that is alive, or null.
            let status = unsafe { (self.hip.hipStreamQuery)(stream) };
            self.is_ready(status, "hipStreamQuery")
        })
    }

    /// Reads the status of a call that asks whether work is done.
    fn is_ready(&self, status: sys::hipError_t, call: &str) -> Result<bool> {
        if status == sys::hipErrorNotReady {
            return Ok(false);
        }
        self.check(status, || call.to_owned()).map(|()| true)
    }

    /// HIP's number of the device.
    pub(crate) fn ordinal(&self) -> usize {
        usize::try_from(self.ordinal).unwrap_or(0)
    }

    pub(super) fn check(&self, status: sys::hipError_t, call: impl FnOnce() -> String) -> Result<()> {
        check(self.hip, status, call)
    }

    /// Makes this device the calling thread's current device.
    pub(crate) fn make_current(&self) -> Result<()> {
        make_current(self.hip, self.ordinal)
    }

    /// The compiler's name of the architecture, e.g. `gfx1100`.
    pub(crate) fn architecture(&self) -> Result<String> {
        let found = self.hip.architecture(self.ordinal);
        found.map_err(|status| RocmError::Call {
            call: format!("hipGetDeviceProperties of device {}", self.ordinal),
            reason: self.hip.describe(status),
        })
    }

    /// The product name, e.g. `AMD Radeon RX 7900 XTX`.
    pub(crate) fn name(&self) -> Result<String> {
        let mut text = [0 as c_char; 256];
        // SAFETY: HIP writes at most the given length, with a zero at the end.
        let status =
            unsafe { (self.hip.hipDeviceGetName)(text.as_mut_ptr(), text.len() as c_int, self.ordinal) };
        self.check(status, || format!("hipDeviceGetName of device {}", self.ordinal))?;
        let bytes: Vec<u8> = text.iter().take_while(|&&c| c != 0).map(|&c| c as u8).collect();
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn attribute(&self, attribute: sys::hipDeviceAttribute_t, name: &str) -> Result<usize> {
        let mut value: c_int = 0;
        // SAFETY: HIP writes one integer.
        let status = unsafe { (self.hip.hipDeviceGetAttribute)(&mut value, attribute, self.ordinal) };
        self.check(status, || format!("hipDeviceGetAttribute({name}) of device {}", self.ordinal))?;
        Ok(usize::try_from(value).unwrap_or(0))
    }

    /// As the function [`version`].
    pub(crate) fn version(&self, of: Versioned) -> Result<i32> {
        version(self.hip, of)
    }

    /// The number of lanes of a wave.
    pub(crate) fn warp_size(&self) -> Result<usize> {
        self.attribute(sys::hipDeviceAttributeWarpSize, "WarpSize")
    }

    /// The number of compute units. For RDNA and later architectures, HIP reports the number of work-group processors,
    /// each of which has two compute units.
    pub(crate) fn compute_units(&self) -> Result<usize> {
        self.attribute(sys::hipDeviceAttributeMultiprocessorCount, "MultiprocessorCount")
    }

    /// Whether HIP says that the device is part of a processor and shares its memory.
    pub(crate) fn is_integrated(&self) -> Result<bool> {
        Ok(self.attribute(sys::hipDeviceAttributeIntegrated, "Integrated")? != 0)
    }

    /// Free and total memory, in bytes.
    pub(crate) fn memory(&self) -> Result<(usize, usize)> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: HIP writes two numbers.
        let status = unsafe { (self.hip.hipMemGetInfo)(&mut free, &mut total) };
        self.check(status, || "hipMemGetInfo".to_owned())?;
        Ok((free, total))
    }

    /// Checks that `bytes` can be allocated now. `what` says in the error message what the memory is for.
    ///
    /// HIP's amount of free memory is not enough to decide this, because an integrated GPU can allocate more than it
    /// reports.
    pub(crate) fn check_room(&self, bytes: usize, what: &str) -> Result<()> {
        let mut pointer = null_mut();
        // SAFETY: HIP writes one pointer.
        let status = unsafe { (self.hip.hipMalloc)(&mut pointer, bytes) };
        self.check(status, || format!("hipMalloc of {bytes} bytes for {what}"))?;
        // SAFETY: the pointer was just allocated, and nothing else uses it.
        let status = unsafe { (self.hip.hipFree)(pointer) };
        self.check(status, || format!("hipFree of {bytes} bytes for {what}"))
    }
}

/// A block of device memory, freed on drop. The objects of a hung device are not freed ([`super::wait`]).
pub(crate) struct DeviceBuffer {
    device: Device,
    address: Address,
    bytes: usize,
}

impl DeviceBuffer {
    /// Allocates `bytes` of zeroed memory (at least 256). `what` says in the error message what the
    /// memory is for.
    pub(crate) fn zeroed(device: Device, bytes: usize, what: &str) -> Result<DeviceBuffer> {
        let mut pointer = null_mut();
        // A null address means an absent argument, so even an empty buffer gets memory.
        let bytes = bytes.max(256);
        // SAFETY: HIP writes one pointer.
        let status = unsafe { (device.hip.hipMalloc)(&mut pointer, bytes) };
        device.check(status, || format!("hipMalloc of {bytes} bytes for {what}"))?;
        let buffer = DeviceBuffer { device, address: Address(pointer.expose_provenance() as u64), bytes };
        buffer.fill(0, what)?;
        Ok(buffer)
    }

    /// Sets all bytes of the memory, and waits until that is done. `what` says in the error message what the memory is
    /// for.
    pub(crate) fn fill(&self, byte: u8, what: &str) -> Result<()> {
        let DeviceBuffer { device, address, bytes } = *self;
        // SAFETY: the memory is `bytes` long.
        let status =
            unsafe { (device.hip.hipMemsetAsync)(address.pointer(), c_int::from(byte), bytes, null_mut()) };
        let call = || format!("hipMemsetAsync of {bytes} bytes for {what}");
        device.check(status, call)?;
        // Our streams do not wait for HIP's own stream. A late fill would overwrite what they have written.
        device.finish(null_mut(), &call())
    }

    /// The start of the memory, aligned to at least 256 bytes.
    pub(crate) fn address(&self) -> Address {
        self.address
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for DeviceBuffer {
    fn drop(&mut self) {
        if self.device.is_hung() {
            return;
        }
        // SAFETY: hipMalloc made the pointer, which is freed once; hipFree waits for running work. A drop cannot report
        // an error.
        let _ = unsafe { (self.device.hip.hipFree)(self.address.pointer()) };
    }
}

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
