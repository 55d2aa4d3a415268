//! HIP's C interface: the functions of `hip-runtime-sys`, each checked against that crate's signature.
//!
//! Flags, modes and attributes of functions have the same numbers in HIP and CUDA, unless translated here.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use hip_runtime_sys::{
    HIP_LAUNCH_PARAM_BUFFER_POINTER, HIP_LAUNCH_PARAM_BUFFER_SIZE, HIP_LAUNCH_PARAM_END, hipDevice_t,
    hipDeviceAttribute_t, hipDeviceProp_tR0600, hipError_t, hipErrorInvalidValue, hipErrorNoDevice,
    hipErrorNotReady, hipErrorNotSupported, hipEvent_t, hipEventBlockingSync, hipEventDisableTiming,
    hipEventInterprocess, hipFunction_attribute, hipFunction_t, hipGraph_t, hipGraphExec_t, hipGraphNode_t,
    hipHostFn_t, hipMemcpyKind, hipModule_t, hipStream_t, hipStreamCaptureMode, hipStreamCaptureStatus,
    hipSuccess, signature,
};

use crate::driver::{self, DevicePointer, Handle, check, current, current_device, driver};
use crate::{library, profile, status};

/// HIP 6.4's number: what the declarations are from.
const RUNTIME_VERSION: c_int = 60_443_484;

/// Shared memory that a kernel gets without asking for more.
const USUAL_SHARED_BYTES: c_uint = 48 << 10;

thread_local! {
    /// What `hipGetLastError` gives.
    static LAST_ERROR: Cell<hipError_t> = const { Cell::new(hipSuccess) };
}

/// Writes a result through a pointer that the caller gave.
///
/// # Safety
/// The pointer is null or may be written to.
unsafe fn give<T>(place: *mut T, value: T) -> Result<(), hipError_t> {
    if place.is_null() {
        return Err(hipErrorInvalidValue);
    }
    // SAFETY: as the caller promises.
    unsafe { place.write(value) };
    Ok(())
}

fn address(pointer: *const c_void) -> DevicePointer {
    pointer.expose_provenance() as DevicePointer
}

/// Defines functions of the interface, and has the compiler compare them with the bindings.
macro_rules! api {
    ($(fn $name:ident($($argument:ident: $type:ty),* $(,)?) $body:block)*) => {
        $(
            /// HIP's function of this name.
            ///
            /// # Safety
            /// As HIP's documentation says: pointers are valid, and stay so until work on a stream is done.
            #[allow(non_snake_case, clippy::multiple_unsafe_ops_per_block, reason = "HIP's names")]
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($argument: $type),*) -> hipError_t {
                let body = || -> Result<(), hipError_t> { $body };
                match body() {
                    Ok(()) => hipSuccess,
                    Err(error) => failed(stringify!($name), error),
                }
            }
            const _: signature::$name = $name;
        )*
    };
}

/// Notes an error for `hipGetLastError`.
#[cold]
fn failed(name: &str, error: hipError_t) -> hipError_t {
    if error != hipErrorNotReady {
        LAST_ERROR.set(error);
        if library::logs() {
            eprintln!("rocm-cuda-shim: {name} answers {error}");
        }
    }
    error
}

// The device.
api! {
    fn hipInit(flags: c_uint) {
        if flags == 0 { driver().map(|_| ()) } else { Err(hipErrorInvalidValue) }
    }

    fn hipDriverGetVersion(version: *mut c_int) {
        // SAFETY: the caller's pointer.
        check(unsafe { (driver()?.functions.cuDriverGetVersion)(version) })
    }

    fn hipRuntimeGetVersion(version: *mut c_int) {
        // SAFETY: the caller's pointer.
        unsafe { give(version, RUNTIME_VERSION) }
    }

    fn hipGetDeviceCount(count: *mut c_int) {
        let found = driver();
        // SAFETY: the caller's pointer.
        unsafe { give(count, found.map_or(0, |driver| driver.device_count())) }?;
        found.map(|_| ())
    }

    fn hipGetDevice(device: *mut c_int) {
        driver()?;
        // SAFETY: the caller's pointer.
        unsafe { give(device, current_device()) }
    }

    fn hipSetDevice(device: c_int) { driver()?.make_current(device) }

    fn hipDeviceGetName(name: *mut c_char, bytes: c_int, device: hipDevice_t) {
        let driver = driver()?;
        // SAFETY: the caller's buffer.
        check(unsafe { (driver.functions.cuDeviceGetName)(name, bytes, driver.device(device)?) })
    }

    fn hipDeviceGetPCIBusId(name: *mut c_char, bytes: c_int, device: c_int) {
        let driver = driver()?;
        // SAFETY: the caller's buffer.
        check(unsafe { (driver.functions.cuDeviceGetPCIBusId)(name, bytes, driver.device(device)?) })
    }

    fn hipDeviceTotalMem(bytes: *mut usize, device: hipDevice_t) {
        let driver = driver()?;
        // SAFETY: the caller's pointer.
        check(unsafe { (driver.functions.cuDeviceTotalMem_v2)(bytes, driver.device(device)?) })
    }

    fn hipDeviceGetAttribute(value: *mut c_int, attribute: hipDeviceAttribute_t, device: c_int) {
        let driver = driver()?;
        let attribute = cuda_attribute(attribute).ok_or(hipErrorInvalidValue)?;
        // SAFETY: the caller's pointer.
        unsafe { give(value, driver.attribute(attribute, device)?) }
    }

    fn hipDeviceGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int) {
        // SAFETY: the caller's pointers.
        check(unsafe { (current()?.cuCtxGetStreamPriorityRange)(least, greatest) })
    }

    fn hipDeviceSynchronize() {
        // SAFETY: takes nothing.
        check(unsafe { (current()?.cuCtxSynchronize)() })
    }
}

// Memory.
api! {
    fn hipMemGetInfo(free: *mut usize, total: *mut usize) {
        // SAFETY: the caller's pointers.
        check(unsafe { (current()?.cuMemGetInfo_v2)(free, total) })
    }

    fn hipMalloc(pointer: *mut *mut c_void, bytes: usize) {
        let mut found: DevicePointer = 0;
        if bytes > 0 {
            // SAFETY: the driver writes a number.
            check(unsafe { (current()?.cuMemAlloc_v2)(&mut found, bytes) })?;
        }
        // SAFETY: the caller's pointer.
        unsafe { give(pointer, std::ptr::with_exposed_provenance_mut(found as usize)) }
    }

    fn hipFree(pointer: *mut c_void) {
        if pointer.is_null() {
            return Ok(());
        }
        // SAFETY: the caller's memory, which nothing uses any more; the driver waits for what runs.
        check(unsafe { (current()?.cuMemFree_v2)(address(pointer)) })
    }

    fn hipHostMalloc(pointer: *mut *mut c_void, bytes: usize, flags: c_uint) {
        // Portable, mapped, write-combined.
        // SAFETY: the caller's pointer.
        check(unsafe { (current()?.cuMemHostAlloc)(pointer, bytes, flags & 7) })
    }

    fn hipHostFree(pointer: *mut c_void) {
        if pointer.is_null() {
            return Ok(());
        }
        // SAFETY: the caller's memory, which nothing uses any more.
        check(unsafe { (current()?.cuMemFreeHost)(pointer) })
    }

    fn hipMemcpy(to: *mut c_void, from: *const c_void, bytes: usize, _kind: hipMemcpyKind) {
        let driver = current()?;
        // SAFETY: the caller's memory.
        check(unsafe { (driver.cuMemcpy)(address(to), address(from), bytes) })?;
        // The driver may return while the last piece is under way, and streams that wait for no other would not see it.
        // SAFETY: null is the default stream.
        check(unsafe { (driver.cuStreamSynchronize)(std::ptr::null_mut()) })
    }

    fn hipMemcpyAsync(to: *mut c_void, from: *const c_void, bytes: usize, _kind: hipMemcpyKind, stream: hipStream_t) {
        let (to, from) = (address(to), address(from));
        // SAFETY: the caller's memory.
        check(unsafe { (current()?.cuMemcpyAsync)(to, from, bytes, stream.cast()) })
    }

    fn hipMemset(to: *mut c_void, value: c_int, bytes: usize) {
        let driver = current()?;
        // SAFETY: the caller's memory.
        check(unsafe { (driver.cuMemsetD8_v2)(address(to), value as u8, bytes) })?;
        // As for hipMemcpy.
        // SAFETY: null is the default stream.
        check(unsafe { (driver.cuStreamSynchronize)(std::ptr::null_mut()) })
    }

    fn hipMemsetAsync(to: *mut c_void, value: c_int, bytes: usize, stream: hipStream_t) {
        // SAFETY: the caller's memory.
        check(unsafe { (current()?.cuMemsetD8Async)(address(to), value as u8, bytes, stream.cast()) })
    }
}

// Streams and events.
api! {
    fn hipStreamCreateWithFlags(stream: *mut hipStream_t, flags: c_uint) {
        // SAFETY: the caller's pointer.
        check(unsafe { (current()?.cuStreamCreate)(stream.cast(), flags) })
    }

    fn hipStreamCreateWithPriority(stream: *mut hipStream_t, flags: c_uint, priority: c_int) {
        // SAFETY: the caller's pointer.
        check(unsafe { (current()?.cuStreamCreateWithPriority)(stream.cast(), flags, priority) })
    }

    fn hipStreamDestroy(stream: hipStream_t) {
        // SAFETY: the caller's stream.
        check(unsafe { (current()?.cuStreamDestroy_v2)(stream.cast()) })
    }

    fn hipStreamQuery(stream: hipStream_t) {
        // SAFETY: the caller's stream.
        check(unsafe { (current()?.cuStreamQuery)(stream.cast()) })
    }

    fn hipStreamSynchronize(stream: hipStream_t) {
        // SAFETY: the caller's stream.
        check(unsafe { (current()?.cuStreamSynchronize)(stream.cast()) })
    }

    fn hipStreamWaitEvent(stream: hipStream_t, event: hipEvent_t, flags: c_uint) {
        if overlaps() {
            joined().insert(stream.addr());
        }
        // SAFETY: the caller's stream and event.
        check(unsafe { (current()?.cuStreamWaitEvent)(stream.cast(), event.cast(), flags) })
    }

    fn hipEventCreateWithFlags(event: *mut hipEvent_t, flags: c_uint) {
        // HIP has more, which say what caches do.
        let mut flags = flags & (hipEventBlockingSync | hipEventDisableTiming | hipEventInterprocess);
        if spins() {
            flags &= !hipEventBlockingSync;
        }
        // SAFETY: the caller's pointer.
        check(unsafe { (current()?.cuEventCreate)(event.cast(), flags) })
    }

    fn hipEventDestroy(event: hipEvent_t) {
        // SAFETY: the caller's event.
        check(unsafe { (current()?.cuEventDestroy_v2)(event.cast()) })
    }

    fn hipEventRecord(event: hipEvent_t, stream: hipStream_t) {
        // SAFETY: the caller's event and stream.
        check(unsafe { (current()?.cuEventRecord)(event.cast(), stream.cast()) })
    }

    fn hipEventQuery(event: hipEvent_t) {
        // SAFETY: the caller's event.
        check(unsafe { (current()?.cuEventQuery)(event.cast()) })
    }

    fn hipEventSynchronize(event: hipEvent_t) {
        // SAFETY: the caller's event.
        check(unsafe { (current()?.cuEventSynchronize)(event.cast()) })
    }

    fn hipEventElapsedTime(milliseconds: *mut f32, start: hipEvent_t, stop: hipEvent_t) {
        // SAFETY: the caller's pointer and events.
        check(unsafe { (current()?.cuEventElapsedTime)(milliseconds, start.cast(), stop.cast()) })
    }
}

// Graphs.
api! {
    fn hipStreamBeginCapture(stream: hipStream_t, mode: hipStreamCaptureMode) {
        // SAFETY: the caller's stream.
        check(unsafe { (current()?.cuStreamBeginCapture_v2)(stream.cast(), mode) })
    }

    fn hipStreamEndCapture(stream: hipStream_t, graph: *mut hipGraph_t) {
        // SAFETY: the caller's stream and pointer.
        check(unsafe { (current()?.cuStreamEndCapture)(stream.cast(), graph.cast()) })
    }

    fn hipStreamIsCapturing(stream: hipStream_t, status: *mut hipStreamCaptureStatus) {
        // SAFETY: the caller's stream and pointer.
        check(unsafe { (current()?.cuStreamIsCapturing)(stream.cast(), status) })
    }

    fn hipThreadExchangeStreamCaptureMode(mode: *mut hipStreamCaptureMode) {
        // SAFETY: the caller's pointer.
        check(unsafe { (current()?.cuThreadExchangeStreamCaptureMode)(mode) })
    }

    fn hipGraphDestroy(graph: hipGraph_t) {
        // SAFETY: the caller's graph.
        check(unsafe { (current()?.cuGraphDestroy)(graph.cast()) })
    }

    fn hipGraphGetNodes(graph: hipGraph_t, nodes: *mut hipGraphNode_t, count: *mut usize) {
        // SAFETY: the caller's graph and pointers.
        check(unsafe { (current()?.cuGraphGetNodes)(graph.cast(), nodes.cast(), count) })
    }

    fn hipGraphInstantiate(
        executable: *mut hipGraphExec_t, graph: hipGraph_t, _node: *mut hipGraphNode_t, _log: *mut c_char,
        _bytes: usize,
    ) {
        // SAFETY: the caller's graph and pointer.
        check(unsafe { (current()?.cuGraphInstantiateWithFlags)(executable.cast(), graph.cast(), 0) })
    }

    fn hipGraphLaunch(executable: hipGraphExec_t, stream: hipStream_t) {
        // SAFETY: the caller's graph and stream.
        check(unsafe { (current()?.cuGraphLaunch)(executable.cast(), stream.cast()) })
    }

    fn hipGraphExecDestroy(executable: hipGraphExec_t) {
        // SAFETY: the caller's graph.
        check(unsafe { (current()?.cuGraphExecDestroy)(executable.cast()) })
    }
}

// Kernels.
api! {
    fn hipModuleLoadData(module: *mut hipModule_t, image: *const c_void) {
        // SAFETY: the caller's pointer and code.
        check(unsafe { (current()?.cuModuleLoadData)(module.cast(), image) })
    }

    fn hipModuleUnload(module: hipModule_t) {
        // SAFETY: the caller's module.
        check(unsafe { (current()?.cuModuleUnload)(module.cast()) })
    }

    fn hipModuleGetFunction(function: *mut hipFunction_t, module: hipModule_t, name: *const c_char) {
        // SAFETY: the caller's module, pointer and text.
        check(unsafe { (current()?.cuModuleGetFunction)(function.cast(), module.cast(), name) })
    }

    fn hipFuncGetAttribute(value: *mut c_int, attribute: hipFunction_attribute, function: hipFunction_t) {
        // SAFETY: the caller's pointer and function.
        check(unsafe { (current()?.cuFuncGetAttribute)(value, attribute as c_int, function.cast()) })
    }

    fn hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(
        blocks: *mut c_int, function: hipFunction_t, threads: c_int, shared_bytes: usize,
    ) {
        let ask = current()?.cuOccupancyMaxActiveBlocksPerMultiprocessor;
        // SAFETY: the caller's pointer and function.
        check(unsafe { ask(blocks, function.cast(), threads, shared_bytes) })
    }

    fn hipModuleLaunchKernel(
        function: hipFunction_t, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint,
        block_z: c_uint, shared_bytes: c_uint, stream: hipStream_t, parameters: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) {
        let driver = current()?;
        let (function, stream): (Handle, Handle) = (function.cast(), stream.cast());
        if shared_bytes > USUAL_SHARED_BYTES {
            let attribute = driver::FUNCTION_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            // SAFETY: the caller's function.
            check(unsafe { (driver.cuFuncSetAttribute)(function, attribute, shared_bytes as c_int) })?;
        }
        // SAFETY: the caller's list.
        let mut extra = unsafe { cuda_extra(extra) }?;
        let extra = extra.as_mut().map_or(std::ptr::null_mut(), |list| list.as_mut_ptr());
        // A launch that waits for other streams, too, waits for all of them to its end.
        let early = overlaps() && !joined().remove(&stream.addr());
        let attribute = driver::LaunchAttribute {
            id: driver::LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
            padding: 0,
            value: [u32::from(early), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        };
        let config = driver::LaunchConfig {
            grid: [grid_x, grid_y, grid_z],
            block: [block_x, block_y, block_z],
            shared_bytes,
            stream,
            attributes: &attribute,
            attribute_count: 1,
        };
        let launch = || {
            if early {
                // SAFETY: the caller's arguments, which the driver copies.
                return unsafe { (driver.cuLaunchKernelEx)(&config, function, parameters, extra) };
            }
            // SAFETY: as above.
            unsafe {
                (driver.cuLaunchKernel)(
                    function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, parameters,
                    extra,
                )
            }
        };
        let name = || {
            let mut name = std::ptr::null();
            // SAFETY: the driver writes a pointer to a text that lives as long as the function.
            let found = unsafe { (driver.cuFuncGetName)(&mut name, function) };
            // SAFETY: as above.
            let name = if found == 0 { unsafe { CStr::from_ptr(name) }.to_string_lossy() } else { "kernel".into() };
            format!("{name} {grid_x}x{grid_y}x{grid_z}")
        };
        check(profile::time(driver, stream, name, launch))
    }

    fn hipLaunchHostFunc(stream: hipStream_t, function: hipHostFn_t, data: *mut c_void) {
        // SAFETY: the caller's stream and function.
        check(unsafe { (current()?.cuLaunchHostFunc)(stream.cast(), function, data) })
    }
}

/// The device's properties: those that have a meaning here. The architecture is the compiler's name, such as `sm_90`.
///
/// # Safety
/// The pointer is null or may be written to.
#[allow(non_snake_case, reason = "HIP's name")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipGetDevicePropertiesR0600(
    properties: *mut hipDeviceProp_tR0600,
    device: c_int,
) -> hipError_t {
    let made = device_properties(device).and_then(|made| {
        // SAFETY: the caller's pointer.
        unsafe { give(properties, made) }
    });
    made.map_or_else(|error| failed("hipGetDevicePropertiesR0600", error), |()| hipSuccess)
}

fn device_properties(ordinal: c_int) -> Result<hipDeviceProp_tR0600, hipError_t> {
    let driver = driver()?;
    let device = driver.device(ordinal)?;
    let attribute = |hip| cuda_attribute(hip).map_or(Ok(0), |cuda| driver.attribute(cuda, ordinal));
    let size = |hip| attribute(hip).map(|value| usize::try_from(value).unwrap_or_default());
    // SAFETY: every field is a number, a pointer or an array of numbers.
    let mut made: hipDeviceProp_tR0600 = unsafe { std::mem::zeroed() };
    let name_bytes = made.name.len() as c_int;
    // SAFETY: the buffer is that long.
    check(unsafe { (driver.functions.cuDeviceGetName)(made.name.as_mut_ptr(), name_bytes, device) })?;
    // SAFETY: the driver writes a number.
    check(unsafe { (driver.functions.cuDeviceTotalMem_v2)(&mut made.totalGlobalMem, device) })?;
    made.major = driver.attribute(driver::DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, ordinal)?;
    made.minor = driver.attribute(driver::DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, ordinal)?;
    let architecture = format!("sm_{}{}", made.major, made.minor);
    for (place, byte) in made.gcnArchName.iter_mut().zip(architecture.bytes()) {
        *place = byte as c_char;
    }
    made.sharedMemPerBlock = size(hip_runtime_sys::hipDeviceAttributeMaxSharedMemoryPerBlock)?;
    made.regsPerBlock = attribute(hip_runtime_sys::hipDeviceAttributeMaxRegistersPerBlock)?;
    made.warpSize = attribute(hip_runtime_sys::hipDeviceAttributeWarpSize)?;
    made.maxThreadsPerBlock = attribute(hip_runtime_sys::hipDeviceAttributeMaxThreadsPerBlock)?;
    made.clockRate = attribute(hip_runtime_sys::hipDeviceAttributeClockRate)?;
    made.multiProcessorCount = attribute(hip_runtime_sys::hipDeviceAttributeMultiprocessorCount)?;
    made.integrated = attribute(hip_runtime_sys::hipDeviceAttributeIntegrated)?;
    made.memoryClockRate = attribute(hip_runtime_sys::hipDeviceAttributeMemoryClockRate)?;
    made.memoryBusWidth = attribute(hip_runtime_sys::hipDeviceAttributeMemoryBusWidth)?;
    made.l2CacheSize = attribute(hip_runtime_sys::hipDeviceAttributeL2CacheSize)?;
    made.maxThreadsPerMultiProcessor =
        attribute(hip_runtime_sys::hipDeviceAttributeMaxThreadsPerMultiProcessor)?;
    Ok(made)
}

/// CUDA's number of one of a device's numbers.
fn cuda_attribute(attribute: hipDeviceAttribute_t) -> Option<c_int> {
    use hip_runtime_sys as hip;
    Some(match attribute {
        hip::hipDeviceAttributeMaxThreadsPerBlock => 1,
        hip::hipDeviceAttributeMaxBlockDimX => 2,
        hip::hipDeviceAttributeMaxBlockDimY => 3,
        hip::hipDeviceAttributeMaxBlockDimZ => 4,
        hip::hipDeviceAttributeMaxGridDimX => 5,
        hip::hipDeviceAttributeMaxGridDimY => 6,
        hip::hipDeviceAttributeMaxGridDimZ => 7,
        hip::hipDeviceAttributeMaxSharedMemoryPerBlock => 8,
        hip::hipDeviceAttributeTotalConstantMemory => 9,
        hip::hipDeviceAttributeWarpSize => 10,
        hip::hipDeviceAttributeMaxRegistersPerBlock => 12,
        hip::hipDeviceAttributeClockRate => 13,
        hip::hipDeviceAttributeMultiprocessorCount | hip::hipDeviceAttributePhysicalMultiProcessorCount => 16,
        hip::hipDeviceAttributeIntegrated => 18,
        hip::hipDeviceAttributeCanMapHostMemory => 19,
        hip::hipDeviceAttributeComputeMode => 20,
        hip::hipDeviceAttributeConcurrentKernels => 31,
        hip::hipDeviceAttributeEccEnabled => 32,
        hip::hipDeviceAttributePciBusId => 33,
        hip::hipDeviceAttributePciDeviceId => 34,
        hip::hipDeviceAttributeMemoryClockRate => 36,
        hip::hipDeviceAttributeMemoryBusWidth => 37,
        hip::hipDeviceAttributeL2CacheSize => 38,
        hip::hipDeviceAttributeMaxThreadsPerMultiProcessor => 39,
        hip::hipDeviceAttributeAsyncEngineCount => 40,
        hip::hipDeviceAttributeUnifiedAddressing => 41,
        hip::hipDeviceAttributePciDomainID => 50,
        hip::hipDeviceAttributeComputeCapabilityMajor => driver::DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
        hip::hipDeviceAttributeComputeCapabilityMinor => driver::DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
        hip::hipDeviceAttributeStreamPrioritiesSupported => 78,
        hip::hipDeviceAttributeMaxSharedMemoryPerMultiprocessor
        | hip::hipDeviceAttributeSharedMemPerMultiprocessor => 81,
        hip::hipDeviceAttributeMaxRegistersPerMultiprocessor => 82,
        hip::hipDeviceAttributeManagedMemory => 83,
        hip::hipDeviceAttributeCooperativeLaunch => 95,
        hip::hipDeviceAttributeSharedMemPerBlockOptin => 97,
        hip::hipDeviceAttributeMaxBlocksPerMultiProcessor => 106,
        _ => return None,
    })
}

/// Whether waiting for an event shall not sleep.
fn spins() -> bool {
    static SPINS: OnceLock<bool> = OnceLock::new();
    *SPINS.get_or_init(|| library::is_set("RUKH_CUDA_SHIM_SPIN"))
}

/// Whether kernels may be launched before the one before them has ended.
fn overlaps() -> bool {
    static OVERLAPS: OnceLock<bool> = OnceLock::new();
    *OVERLAPS.get_or_init(|| library::is_set("RUKH_CUDA_SHIM_OVERLAP"))
}

/// Streams whose next launch waits for what is in another.
fn joined() -> MutexGuard<'static, BTreeSet<usize>> {
    static JOINED: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());
    JOINED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `hipModuleLaunchKernel`'s `extra` in CUDA's numbers: buffer, its size, end.
///
/// # Safety
/// The list is null or ends as HIP's documentation says.
#[allow(clippy::multiple_unsafe_ops_per_block, reason = "an entry of a list in C is two operations")]
unsafe fn cuda_extra(extra: *mut *mut c_void) -> Result<Option<[*mut c_void; 5]>, hipError_t> {
    if extra.is_null() {
        return Ok(None);
    }
    let mut made = [std::ptr::null_mut(); 5];
    for index in [0, 2] {
        // SAFETY: the list goes on until its end was read.
        let what = unsafe { *extra.add(index) };
        if what == HIP_LAUNCH_PARAM_END {
            return Ok(Some(made));
        }
        let cuda = match what {
            HIP_LAUNCH_PARAM_BUFFER_POINTER => 1,
            HIP_LAUNCH_PARAM_BUFFER_SIZE => 2,
            _ => return Err(hipErrorInvalidValue),
        };
        made[index] = std::ptr::without_provenance_mut(cuda);
        // SAFETY: as above.
        made[index + 1] = unsafe { *extra.add(index + 1) };
    }
    // SAFETY: as above.
    let end = unsafe { *extra.add(4) };
    if end == HIP_LAUNCH_PARAM_END { Ok(Some(made)) } else { Err(hipErrorNotSupported) }
}

/// HIP's function of this name.
#[allow(non_snake_case, reason = "HIP's name")]
#[unsafe(no_mangle)]
pub extern "C" fn hipGetLastError() -> hipError_t {
    LAST_ERROR.replace(hipSuccess)
}
const _: signature::hipGetLastError = hipGetLastError;

/// HIP's function of this name.
#[allow(non_snake_case, reason = "HIP's name")]
#[unsafe(no_mangle)]
pub extern "C" fn hipPeekAtLastError() -> hipError_t {
    LAST_ERROR.get()
}
const _: signature::hipPeekAtLastError = hipPeekAtLastError;

/// HIP's function of this name.
#[allow(non_snake_case, reason = "HIP's name")]
#[unsafe(no_mangle)]
pub extern "C" fn hipGetErrorName(error: hipError_t) -> *const c_char {
    status::description(error).map_or(c"hipErrorUnknown", |(name, _)| name).as_ptr()
}
const _: signature::hipGetErrorName = hipGetErrorName;

/// HIP's function of this name.
#[allow(non_snake_case, reason = "HIP's name")]
#[unsafe(no_mangle)]
pub extern "C" fn hipGetErrorString(error: hipError_t) -> *const c_char {
    status::description(error).map_or(c"unrecognized error code", |(_, text)| text).as_ptr()
}
const _: signature::hipGetErrorString = hipGetErrorString;

/// What a library that needs a device answers without one.
pub(crate) fn has_device() -> bool {
    !matches!(driver(), Err(hipErrorNoDevice)) && driver().is_ok()
}
