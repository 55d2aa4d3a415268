//! The functions of NVIDIA's driver, and a thread's current device.
//!
//! Types and numbers are those of NVIDIA's *CUDA Driver API* reference. Each device has one context, the primary one,
//! which cuBLASLt uses, too. The functions have been there since CUDA 10.1, unless another release is named.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

use hip_runtime_sys::loader::{self, Candidates, LoadError};
use hip_runtime_sys::search::{self, Platform, ThisMachine};
use hip_runtime_sys::{Library, hipError_t, hipErrorInvalidDevice, hipErrorNoDevice, hipHostFn_t};

/// An address in a device's memory.
pub(crate) type DevicePointer = u64;
/// The result of a call; 0 means success.
pub(crate) type Status = c_uint;
/// A stream, event, module, function, graph or context.
pub(crate) type Handle = *mut c_void;

pub(crate) const CUDA_SUCCESS: Status = 0;

pub(crate) const DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: c_int = 75;
pub(crate) const DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: c_int = 76;
pub(crate) const FUNCTION_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: c_int = 8;

pub(crate) mod functions {
    use super::*;
    hip_runtime_sys::function_table! {
        pub fn cuInit(flags: c_uint) -> Status;
        pub fn cuDriverGetVersion(version: *mut c_int) -> Status;
        pub fn cuDeviceGetCount(count: *mut c_int) -> Status;
        pub fn cuDeviceGet(device: *mut c_int, ordinal: c_int) -> Status;
        pub fn cuDeviceGetName(name: *mut c_char, bytes: c_int, device: c_int) -> Status;
        pub fn cuDeviceGetPCIBusId(name: *mut c_char, bytes: c_int, device: c_int) -> Status;
        pub fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: c_int) -> Status;
        pub fn cuDeviceTotalMem_v2(bytes: *mut usize, device: c_int) -> Status;
        pub fn cuDevicePrimaryCtxRetain(context: *mut Handle, device: c_int) -> Status;
        pub fn cuCtxSetCurrent(context: Handle) -> Status;
        pub fn cuCtxSynchronize() -> Status;
        pub fn cuCtxGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int) -> Status;
        pub fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> Status;
        pub fn cuMemAlloc_v2(address: *mut DevicePointer, bytes: usize) -> Status;
        pub fn cuMemFree_v2(address: DevicePointer) -> Status;
        pub fn cuMemHostAlloc(address: *mut *mut c_void, bytes: usize, flags: c_uint) -> Status;
        pub fn cuMemHostGetDevicePointer_v2(device: *mut DevicePointer, host: *mut c_void, flags: c_uint) -> Status;
        pub fn cuMemFreeHost(address: *mut c_void) -> Status;
        pub fn cuMemcpy(to: DevicePointer, from: DevicePointer, bytes: usize) -> Status;
        pub fn cuMemcpyAsync(to: DevicePointer, from: DevicePointer, bytes: usize, stream: Handle) -> Status;
        pub fn cuMemsetD8_v2(to: DevicePointer, value: u8, bytes: usize) -> Status;
        pub fn cuMemsetD8Async(to: DevicePointer, value: u8, bytes: usize, stream: Handle) -> Status;
        pub fn cuStreamCreate(stream: *mut Handle, flags: c_uint) -> Status;
        pub fn cuStreamCreateWithPriority(stream: *mut Handle, flags: c_uint, priority: c_int) -> Status;
        pub fn cuStreamDestroy_v2(stream: Handle) -> Status;
        pub fn cuStreamQuery(stream: Handle) -> Status;
        pub fn cuStreamSynchronize(stream: Handle) -> Status;
        pub fn cuStreamWaitEvent(stream: Handle, event: Handle, flags: c_uint) -> Status;
        pub fn cuStreamBeginCapture_v2(stream: Handle, mode: c_uint) -> Status;
        pub fn cuStreamEndCapture(stream: Handle, graph: *mut Handle) -> Status;
        pub fn cuStreamIsCapturing(stream: Handle, status: *mut c_uint) -> Status;
        pub fn cuThreadExchangeStreamCaptureMode(mode: *mut c_uint) -> Status;
        pub fn cuEventCreate(event: *mut Handle, flags: c_uint) -> Status;
        pub fn cuEventDestroy_v2(event: Handle) -> Status;
        pub fn cuEventRecord(event: Handle, stream: Handle) -> Status;
        pub fn cuEventQuery(event: Handle) -> Status;
        pub fn cuEventSynchronize(event: Handle) -> Status;
        pub fn cuEventElapsedTime(milliseconds: *mut f32, start: Handle, stop: Handle) -> Status;
        pub fn cuModuleLoadData(module: *mut Handle, image: *const c_void) -> Status;
        pub fn cuModuleUnload(module: Handle) -> Status;
        pub fn cuModuleGetFunction(function: *mut Handle, module: Handle, name: *const c_char) -> Status;
        pub fn cuFuncGetAttribute(value: *mut c_int, attribute: c_int, function: Handle) -> Status;
        pub fn cuFuncSetAttribute(function: Handle, attribute: c_int, value: c_int) -> Status;
        pub fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
            blocks: *mut c_int,
            function: Handle,
            threads: c_int,
            shared_bytes: usize,
        ) -> Status;
        pub fn cuLaunchKernel(
            function: Handle,
            grid_x: c_uint,
            grid_y: c_uint,
            grid_z: c_uint,
            block_x: c_uint,
            block_y: c_uint,
            block_z: c_uint,
            shared_bytes: c_uint,
            stream: Handle,
            parameters: *mut *mut c_void,
            extra: *mut *mut c_void,
        ) -> Status;
        pub fn cuLaunchHostFunc(stream: Handle, function: hipHostFn_t, data: *mut c_void) -> Status;
        pub fn cuGraphDestroy(graph: Handle) -> Status;
        pub fn cuGraphGetNodes(graph: Handle, nodes: *mut Handle, count: *mut usize) -> Status;
        pub fn cuGetErrorName(status: Status, name: *mut *const c_char) -> Status;
        pub fn cuGetErrorString(status: Status, text: *mut *const c_char) -> Status;
        pub fn cuLinkCreate_v2(
            count: c_uint,
            options: *mut c_int,
            values: *mut *mut c_void,
            link: *mut Handle,
        ) -> Status;
        pub fn cuLinkAddData_v2(
            link: Handle,
            kind: c_int,
            data: *mut c_void,
            bytes: usize,
            name: *const c_char,
            count: c_uint,
            options: *mut c_int,
            values: *mut *mut c_void,
        ) -> Status;
        pub fn cuLinkComplete(link: Handle, code: *mut *mut c_void, bytes: *mut usize) -> Status;
        pub fn cuLinkDestroy(link: Handle) -> Status;
        pub fn cuGraphLaunch(executable: Handle, stream: Handle) -> Status;
        pub fn cuGraphExecDestroy(executable: Handle) -> Status;
    }
}

pub(crate) use functions::Functions;

/// `cuGraphInstantiateWithFlags`, which came with CUDA 11.4, or its predecessor, without the log that this fills.
#[derive(Clone, Copy, Debug)]
enum Instantiate {
    WithFlags(unsafe extern "C" fn(*mut Handle, Handle, u64) -> Status),
    WithLog(unsafe extern "C" fn(*mut Handle, Handle, *mut Handle, *mut c_char, usize) -> Status),
}

impl Instantiate {
    fn resolve(library: &Library) -> Result<Self, Vec<&'static str>> {
        // SAFETY: the signature is that of NVIDIA's reference.
        if let Some(found) = unsafe { loader::function(library, "cuGraphInstantiateWithFlags") } {
            return Ok(Self::WithFlags(found));
        }
        for name in ["cuGraphInstantiate_v2", "cuGraphInstantiate"] {
            // SAFETY: the signature is that of NVIDIA's reference.
            if let Some(found) = unsafe { loader::function(library, name) } {
                return Ok(Self::WithLog(found));
            }
        }
        Err(vec!["cuGraphInstantiateWithFlags"])
    }
}

/// The driver's functions, before it is initialised.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) functions: Functions,
    instantiate: Instantiate,
}

/// The names of the driver's library. The toolkit's folders have a stub called `libcuda.so`, which is no driver.
pub const DRIVER: Candidates =
    Candidates { library: "cuda", has_link: false, versions: &["1"], windows: &["nvcuda.dll"] };

/// Loads the driver at the first call, and calls none of its functions.
pub(crate) fn load() -> Result<&'static Loaded, &'static LoadError> {
    static LOADED: OnceLock<Result<Loaded, LoadError>> = OnceLock::new();
    let load = || {
        loader::load_from(&DRIVER, search::nvidia_driver(Platform::HERE, &ThisMachine), |library| {
            Ok(Loaded {
                functions: Functions::resolve(library)?,
                instantiate: Instantiate::resolve(library)?,
            })
        })
    };
    LOADED.get_or_init(load).as_ref()
}

/// The newest version of CUDA that the driver knows: 12040 for CUDA 12.4. `None` if there is no driver.
pub fn driver_version() -> Option<i32> {
    let mut version = 0;
    // SAFETY: the driver writes a number. The function may be called before the driver is initialised.
    let status = unsafe { (load().ok()?.functions.cuDriverGetVersion)(&mut version) };
    (status == CUDA_SUCCESS).then_some(version)
}

/// One of the driver's texts for an error: that of `cuGetErrorName` or `cuGetErrorString`. `None` if it has none.
pub(crate) fn error_text(
    status: Status,
    function: impl Fn(&Functions) -> unsafe extern "C" fn(Status, *mut *const c_char) -> Status,
) -> Option<&'static CStr> {
    let mut found = std::ptr::null();
    // SAFETY: the driver takes any number, and writes a static text or null.
    let _ = unsafe { function(&load().ok()?.functions)(status, &mut found) };
    // SAFETY: the driver's texts end with zero and are never freed.
    (!found.is_null()).then(|| unsafe { CStr::from_ptr(found) })
}

/// The initialised driver.
pub(crate) struct Driver {
    pub(crate) functions: &'static Functions,
    instantiate: Instantiate,
    /// Each device's primary context. It is created when the device is first used.
    contexts: Vec<OnceLock<Result<Context, hipError_t>>>,
}

struct Context(Handle);

// SAFETY: contexts may be used from any thread.
unsafe impl Send for Context {}
// SAFETY: the reason above applies here too.
unsafe impl Sync for Context {}

/// The driver's result as HIP's error, which has the same number.
pub(crate) fn check(status: Status) -> Result<(), hipError_t> {
    if status == CUDA_SUCCESS { Ok(()) } else { Err(status) }
}

/// The driver. The first call loads and initialises it. If that fails, all calls return the same error.
pub(crate) fn driver() -> Result<&'static Driver, hipError_t> {
    static DRIVER: OnceLock<Result<Driver, hipError_t>> = OnceLock::new();
    DRIVER.get_or_init(Driver::start).as_ref().map_err(|error| *error)
}

impl Driver {
    fn start() -> Result<Driver, hipError_t> {
        let Loaded { functions, instantiate } = load().map_err(|_| hipErrorNoDevice)?;
        // SAFETY: the function takes a number.
        check(unsafe { (functions.cuInit)(0) })?;
        let mut count = 0;
        // SAFETY: the driver writes a number.
        check(unsafe { (functions.cuDeviceGetCount)(&mut count) })?;
        if count < 1 {
            return Err(hipErrorNoDevice);
        }
        let contexts = (0..count).map(|_| OnceLock::new()).collect();
        Ok(Driver { functions, instantiate: *instantiate, contexts })
    }

    /// The number of devices, at least one.
    pub(crate) fn device_count(&self) -> c_int {
        self.contexts.len() as c_int
    }

    /// The driver's handle for the device with this number in HIP.
    pub(crate) fn device(&self, ordinal: c_int) -> Result<c_int, hipError_t> {
        if !(0..self.device_count()).contains(&ordinal) {
            return Err(hipErrorInvalidDevice);
        }
        let mut device = 0;
        // SAFETY: the driver writes a number.
        check(unsafe { (self.functions.cuDeviceGet)(&mut device, ordinal) })?;
        Ok(device)
    }

    pub(crate) fn attribute(&self, attribute: c_int, ordinal: c_int) -> Result<c_int, hipError_t> {
        let device = self.device(ordinal)?;
        let mut value = 0;
        // SAFETY: the driver writes a number.
        check(unsafe { (self.functions.cuDeviceGetAttribute)(&mut value, attribute, device) })?;
        Ok(value)
    }

    /// Makes a device the calling thread's current one.
    pub(crate) fn make_current(&self, ordinal: c_int) -> Result<(), hipError_t> {
        let device = self.device(ordinal)?;
        let index = usize::try_from(ordinal).unwrap_or_default();
        let context = self.contexts[index].get_or_init(|| {
            let mut context = std::ptr::null_mut();
            // SAFETY: the driver writes a handle.
            check(unsafe { (self.functions.cuDevicePrimaryCtxRetain)(&mut context, device) })?;
            Ok(Context(context))
        });
        let context = context.as_ref().map_err(|error| *error)?;
        // SAFETY: the context lives until the process ends.
        check(unsafe { (self.functions.cuCtxSetCurrent)(context.0) })?;
        CURRENT.set(ordinal);
        Ok(())
    }

    /// Makes an executable graph.
    ///
    /// # Safety
    /// The graph is valid, and the pointer may be written to.
    pub(crate) unsafe fn instantiate(
        &self,
        executable: *mut Handle,
        graph: Handle,
    ) -> Result<(), hipError_t> {
        check(match self.instantiate {
            // SAFETY: as the caller promises.
            Instantiate::WithFlags(call) => unsafe { call(executable, graph, 0) },
            // SAFETY: as the caller promises. Null pointers mean that the driver writes no log.
            Instantiate::WithLog(call) => unsafe {
                call(executable, graph, std::ptr::null_mut(), std::ptr::null_mut(), 0)
            },
        })
    }
}

/// Hands the stream's work to the card now. On Windows the driver model (WDDM) holds work back until something asks for its
/// state.
pub(crate) fn submit(driver: &Functions, stream: Handle) {
    if cfg!(windows) {
        let mut capturing = 0;
        // SAFETY: the caller passes a valid stream, and the driver writes a number.
        let asked = unsafe { (driver.cuStreamIsCapturing)(stream, &mut capturing) };
        // The question would end a capture.
        if asked == CUDA_SUCCESS && capturing == 0 {
            // The state does not matter, and an error is reported by the call that waits for the work.
            // SAFETY: the caller passes a valid stream.
            let _ = unsafe { (driver.cuStreamQuery)(stream) };
        }
    }
}

thread_local! {
    /// The thread's current device. It is negative until a device is made current.
    static CURRENT: Cell<c_int> = const { Cell::new(-1) };
}

/// The calling thread's device. By default it is the first device.
pub(crate) fn current_device() -> c_int {
    CURRENT.get().max(0)
}

/// The driver's functions. If the thread has no current device, makes the first device current.
pub(crate) fn current() -> Result<&'static Functions, hipError_t> {
    let driver = driver()?;
    if CURRENT.get() < 0 {
        driver.make_current(0)?;
    }
    Ok(driver.functions)
}
