//! Owning wrappers of HIP's objects: dropping a wrapper frees the object.
//!
//! A failed call becomes an error that names the call and its relevant arguments. HIP keeps a current device for each
//! thread, so a new thread calls [`Device::make_current`] before it uses a device.

use super::super::error::{Result, RocmError};
use hip_runtime_sys as sys;
use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr::null_mut;
use std::sync::Arc;

/// One device, with HIP's function table.
#[derive(Clone, Copy)]
pub(crate) struct Device {
    pub(super) hip: &'static sys::Hip,
    ordinal: i32,
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

fn check(hip: &sys::Hip, status: sys::hipError_t, call: impl FnOnce() -> String) -> Result<()> {
    if status == sys::hipSuccess {
        return Ok(());
    }
    Err(RocmError::Call { call: call(), reason: hip.describe(status) })
}

impl Device {
    /// Selects device `ordinal` and makes it current for this thread.
    pub(crate) fn new(hip: &'static sys::Hip, ordinal: i32) -> Result<Device> {
        let device = Device { hip, ordinal };
        device.make_current()?;
        Ok(device)
    }

    pub(super) fn check(&self, status: sys::hipError_t, call: impl FnOnce() -> String) -> Result<()> {
        check(self.hip, status, call)
    }

    /// Makes this device the calling thread's current device.
    pub(crate) fn make_current(&self) -> Result<()> {
        // SAFETY: the argument is a number, and HIP reports an invalid one as an error.
        let status = unsafe { (self.hip.hipSetDevice)(self.ordinal) };
        self.check(status, || format!("hipSetDevice({})", self.ordinal))
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

    /// The runtime's version as `hipRuntimeGetVersion` encodes it.
    pub(crate) fn runtime_version(&self) -> Result<i32> {
        let mut version: c_int = 0;
        // SAFETY: HIP writes one integer.
        let status = unsafe { (self.hip.hipRuntimeGetVersion)(&mut version) };
        self.check(status, || "hipRuntimeGetVersion".to_owned())?;
        Ok(version)
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

/// A block of device memory, freed on drop.
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
        // SAFETY: the memory is `bytes` long.
        let status = unsafe { (device.hip.hipMemset)(pointer, 0, bytes) };
        device.check(status, || format!("hipMemset of {bytes} bytes for {what}"))?;
        Ok(buffer)
    }

    /// The start of the memory, aligned to at least 256 bytes.
    pub(crate) fn address(&self) -> Address {
        self.address
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Copies `data` to byte `offset` and waits until the copy is done. `what` names the data in the error message.
    ///
    /// # Panics
    /// If the data reach beyond the buffer's end.
    pub(crate) fn upload(&self, offset: usize, data: &[u8], what: &str) -> Result<()> {
        assert!(offset + data.len() <= self.bytes, "{what} is larger than its memory");
        let to = self.address.offset(offset).pointer();
        let kind = sys::hipMemcpyHostToDevice;
        // SAFETY: the assertion above checks the target's length; the call returns after the last byte was read.
        let status = unsafe { (self.device.hip.hipMemcpy)(to, data.as_ptr().cast(), data.len(), kind) };
        self.device.check(status, || format!("hipMemcpy of {} bytes of {what} to the device", data.len()))
    }
}

impl Drop for DeviceBuffer {
    fn drop(&mut self) {
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

    /// Blocks until all enqueued work is done.
    pub(crate) fn synchronize(&self) -> Result<()> {
        // SAFETY: the stream is alive.
        let status = unsafe { (self.device.hip.hipStreamSynchronize)(self.raw) };
        self.device.check(status, || "hipStreamSynchronize".to_owned())
    }

    /// Captures the work that `enqueue` enqueues as a graph, without running it.
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
        outcome
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
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
    /// Lets a thread sleep until the event completes.
    Sleep,
}

impl Event {
    /// Creates an event that is not recorded yet.
    pub(crate) fn new(device: Device, kind: EventKind) -> Result<Event> {
        let mut raw = null_mut();
        let flags = match kind {
            EventKind::Timing => sys::hipEventDefault,
            EventKind::Order => sys::hipEventDisableTiming,
            EventKind::Sleep => sys::hipEventDisableTiming | sys::hipEventBlockingSync,
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

    /// Blocks until the work before the recorded event is done.
    pub(crate) fn synchronize(&self) -> Result<()> {
        // SAFETY: the event is alive.
        let status = unsafe { (self.device.hip.hipEventSynchronize)(self.raw) };
        self.device.check(status, || "hipEventSynchronize".to_owned())
    }

    /// Whether the work before the recorded event is done.
    pub(crate) fn is_done(&self) -> Result<bool> {
        // SAFETY: the event is alive.
        let status = unsafe { (self.device.hip.hipEventQuery)(self.raw) };
        if status == sys::hipErrorNotReady {
            return Ok(false);
        }
        self.device.check(status, || "hipEventQuery".to_owned())?;
        Ok(true)
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
        // SAFETY: made by hipEventCreateWithFlags and destroyed once. A drop cannot report an error.
        let _ = unsafe { (self.device.hip.hipEventDestroy)(self.raw) };
    }
}

/// A loaded code object.
pub(crate) struct Module {
    device: Device,
    raw: sys::hipModule_t,
}

// SAFETY: HIP's modules may be used from any thread.
unsafe impl Send for Module {}
// SAFETY: as above.
unsafe impl Sync for Module {}

impl Module {
    /// Loads the code object in `code`. `what` names it in the error message.
    pub(crate) fn load(device: Device, code: &[u8], what: &str) -> Result<Arc<Module>> {
        // HIP is not given the length. It takes the length from the ELF header, or reads text up to a zero byte.
        if code.len() < 64 {
            return Err(RocmError::Unsupported(format!("{what} is not a code object")));
        }
        let code = [code, &[0]].concat();
        let mut raw = null_mut();
        // SAFETY: HIP reads a code object and writes one pointer.
        let status = unsafe { (device.hip.hipModuleLoadData)(&mut raw, code.as_ptr().cast()) };
        device.check(status, || format!("hipModuleLoadData of {what}"))?;
        Ok(Arc::new(Module { device, raw }))
    }

    /// Looks up a kernel by name.
    pub(crate) fn function(self: &Arc<Module>, name: &str) -> Result<Function> {
        let mut raw = null_mut();
        let text = CString::new(name).unwrap_or_default();
        // SAFETY: HIP reads a text that ends with zero and writes one pointer.
        let status = unsafe { (self.device.hip.hipModuleGetFunction)(&mut raw, self.raw, text.as_ptr()) };
        self.device.check(status, || format!("hipModuleGetFunction({name})"))?;
        Ok(Function { module: Arc::clone(self), raw, name: name.into() })
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        // SAFETY: made by hipModuleLoadData and unloaded once. A drop cannot report an error.
        let _ = unsafe { (self.device.hip.hipModuleUnload)(self.raw) };
    }
}

/// A kernel of a module. It keeps the module loaded.
#[derive(Clone)]
pub(crate) struct Function {
    module: Arc<Module>,
    raw: sys::hipFunction_t,
    name: Arc<str>,
}

// SAFETY: as for the module.
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}

/// The size of a launch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Grid {
    /// The number of blocks in x and y.
    pub(crate) blocks: (u32, u32),
    /// The number of threads of a block, in x.
    pub(crate) threads: u32,
}

impl Function {
    /// Enqueues a launch that passes one structure of arguments.
    ///
    /// # Safety
    /// `arguments` points to the structure that this kernel takes. Every address in it refers to memory that is as
    /// large as the kernel needs and that stays allocated until the stream has finished the launch.
    pub(super) unsafe fn launch(&self, stream: &Stream, grid: Grid, arguments: *const u8) -> Result<()> {
        let mut parameters = [arguments.cast_mut().cast::<c_void>()];
        let (x, y) = grid.blocks;
        // SAFETY: the caller guarantees the arguments; HIP copies them before it returns.
        let status = unsafe {
            (self.module.device.hip.hipModuleLaunchKernel)(
                self.raw,
                x,
                y,
                1,
                grid.threads,
                1,
                1,
                0,
                stream.raw,
                parameters.as_mut_ptr(),
                null_mut(),
            )
        };
        self.module.device.check(status, || {
            format!("hipModuleLaunchKernel({}, {x} x {y} blocks of {})", self.name, grid.threads)
        })
    }
}
