//! The functions of CUDA's driver, and a thread's current device.
//!
//! Types and numbers are those of NVIDIA's *CUDA Driver API* reference. The shim uses each device's primary context, as
//! cuBLAS does.

use std::cell::Cell;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

use hip_runtime_sys::{
    hipError_t, hipErrorInitializationError, hipErrorInvalidDevice, hipErrorNoDevice, hipHostFn_t,
};

use crate::library;
use crate::status;

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

/// The kernel may begin before its predecessor in the stream has ended.
pub(crate) const LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION: c_uint = 6;

/// An attribute of a launch: its number, and a union of 64 bytes. A flag's value is the union's first word.
#[repr(C)]
pub(crate) struct LaunchAttribute {
    pub(crate) id: c_uint,
    pub(crate) padding: c_uint,
    pub(crate) value: [c_uint; 16],
}

/// The grid, block, shared memory, stream and attributes of a launch.
#[repr(C)]
pub(crate) struct LaunchConfig {
    pub(crate) grid: [c_uint; 3],
    pub(crate) block: [c_uint; 3],
    pub(crate) shared_bytes: c_uint,
    pub(crate) stream: Handle,
    pub(crate) attributes: *const LaunchAttribute,
    pub(crate) attribute_count: c_uint,
}

const _: () = assert!(size_of::<LaunchAttribute>() == 72 && size_of::<LaunchConfig>() == 56);

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
        pub fn cuFuncGetName(name: *mut *const c_char, function: Handle) -> Status;
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
        pub fn cuLaunchKernelEx(
            config: *const LaunchConfig,
            function: Handle,
            parameters: *mut *mut c_void,
            extra: *mut *mut c_void,
        ) -> Status;
        pub fn cuLaunchHostFunc(stream: Handle, function: hipHostFn_t, data: *mut c_void) -> Status;
        pub fn cuGraphDestroy(graph: Handle) -> Status;
        pub fn cuGraphGetNodes(graph: Handle, nodes: *mut Handle, count: *mut usize) -> Status;
        pub fn cuGraphInstantiateWithFlags(executable: *mut Handle, graph: Handle, flags: u64) -> Status;
        pub fn cuGraphLaunch(executable: Handle, stream: Handle) -> Status;
        pub fn cuGraphExecDestroy(executable: Handle) -> Status;
    }
}

pub(crate) use functions::Functions;

pub(crate) struct Driver {
    pub(crate) functions: Functions,
    /// Each device's primary context. It is created when the device is first used.
    contexts: Vec<OnceLock<Result<Context, hipError_t>>>,
}

struct Context(Handle);

// SAFETY: contexts may be used from any thread.
unsafe impl Send for Context {}
// SAFETY: the reason above applies here too.
unsafe impl Sync for Context {}

/// Translates a result of the driver to HIP's.
pub(crate) fn check(status: Status) -> Result<(), hipError_t> {
    if status == CUDA_SUCCESS { Ok(()) } else { Err(status::hip_error(status)) }
}

/// The driver. The first call loads and initialises it. If that fails, all calls return the same error.
pub(crate) fn driver() -> Result<&'static Driver, hipError_t> {
    static DRIVER: OnceLock<Result<Driver, hipError_t>> = OnceLock::new();
    DRIVER.get_or_init(Driver::start).as_ref().map_err(|error| *error)
}

impl Driver {
    fn start() -> Result<Driver, hipError_t> {
        let found = library::load(&["libcuda.so.1", "libcuda.so"], &[], Functions::resolve);
        let functions = found.ok_or(hipErrorNoDevice)?;
        // SAFETY: the function takes a number.
        let status = unsafe { (functions.cuInit)(0) };
        if status != CUDA_SUCCESS {
            if library::logs() {
                eprintln!("rocm-cuda-shim: cuInit returned {status}");
            }
            // 100 is CUDA_ERROR_NO_DEVICE. 34 is CUDA_ERROR_STUB_LIBRARY, which the toolkit's stub returns.
            let absent = [100, 34].contains(&status);
            return Err(if absent { hipErrorNoDevice } else { hipErrorInitializationError });
        }
        let mut count = 0;
        // SAFETY: the driver writes a number.
        check(unsafe { (functions.cuDeviceGetCount)(&mut count) })?;
        if count < 1 {
            return Err(hipErrorNoDevice);
        }
        Ok(Driver { functions, contexts: (0..count).map(|_| OnceLock::new()).collect() })
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
    Ok(&driver.functions)
}
