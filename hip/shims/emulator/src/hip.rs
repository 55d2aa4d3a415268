//! HIP's C interface: the functions of `hip-runtime-sys`, each checked against that crate's signature.

use std::collections::BTreeMap;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::{Arc, Mutex};

use hip_runtime_sys::{
    hipDevice_t, hipDeviceAttribute_t, hipError_t, hipEvent_t, hipFunction_attribute, hipFunction_t,
    hipGraph_t, hipGraphExec_t, hipGraphNode_t, hipHostFn_t, hipMemcpyKind, hipModule_t, hipStream_t,
    hipStreamCaptureMode, hipStreamCaptureStatus, signature,
};
use hip_runtime_sys::{
    hipErrorContextIsDestroyed, hipErrorInvalidDevice, hipErrorInvalidHandle, hipErrorInvalidImage,
    hipErrorInvalidValue, hipErrorLaunchFailure, hipErrorNoBinaryForGpu, hipErrorNoDevice, hipErrorNotFound,
    hipErrorNotReady, hipErrorNotSupported, hipErrorOutOfMemory, hipErrorStreamCaptureImplicit,
    hipErrorStreamCaptureUnsupported, hipErrorUnknown, hipSuccess,
};

use crate::arguments::{arguments_of, hidden_arguments};
use crate::code_object::{Kernel, LoadError, Module};
use crate::control::{LAST_ERROR, answer, report, settings};
use crate::handles::Handles;
use crate::hip_device::{attribute_value, device_name, give_text};
use crate::image::code_of;
use crate::launch::{Launch, MOST_LDS_BYTES};
use crate::memory::{self, FreeError, Place};
use crate::stream::{self, CAPTURE_MODE, Event, Failure, Graph, Mark, Stream, lock};
use crate::transfer::{copy, fill, known};

/// HIP 6.4's number: what the declarations are from.
const RUNTIME_VERSION: c_int = 60_443_484;

static STREAMS: Handles<Stream> = Handles::new();
static EVENTS: Handles<Event> = Handles::new();
static MODULES: Handles<Loaded> = Handles::new();
static FUNCTIONS: Handles<Function> = Handles::new();
static GRAPHS: Handles<Graph> = Handles::new();
static EXECUTABLES: Handles<Graph> = Handles::new();

/// A module and the device that it was loaded for.
struct Loaded {
    module: Arc<Module>,
    device: i32,
    functions: Mutex<BTreeMap<String, usize>>,
}

struct Function {
    module: Arc<Module>,
    kernel: Arc<Kernel>,
    device: i32,
}

thread_local! {
    static DEVICE: std::cell::Cell<i32> = const { std::cell::Cell::new(0) };
}

/// The calling thread's device.
pub(crate) fn current_device() -> Result<i32, hipError_t> {
    if settings().devices > 0 { Ok(DEVICE.get()) } else { Err(hipErrorNoDevice) }
}

pub(crate) fn checked_device(device: c_int) -> Result<i32, hipError_t> {
    current_device()?;
    if (0..settings().devices).contains(&device) { Ok(device) } else { Err(hipErrorInvalidDevice) }
}

/// A stream by its handle, where null is the device's own.
pub(crate) fn stream_of(handle: hipStream_t) -> Result<Arc<Stream>, hipError_t> {
    if handle.is_null() {
        return stream::null_stream(current_device()?).ok_or(hipErrorOutOfMemory);
    }
    STREAMS.get(handle.addr()).ok_or(hipErrorInvalidHandle)
}

fn event_of(handle: hipEvent_t) -> Result<Arc<Event>, hipError_t> {
    EVENTS.get(handle.addr()).ok_or(hipErrorInvalidHandle)
}

/// A handle as the pointer that C sees; nothing is ever read through it.
fn pointer<T>(handle: usize) -> *mut T {
    std::ptr::without_provenance_mut(handle)
}

/// Writes a result through a pointer that the caller gave.
///
/// # Safety
/// The pointer is null or may be written to.
pub(crate) unsafe fn give<T>(place: *mut T, value: T) -> Result<(), hipError_t> {
    if place.is_null() {
        return Err(hipErrorInvalidValue);
    }
    // SAFETY: as the caller promises.
    unsafe { place.write(value) };
    Ok(())
}

/// Defines functions of the interface, and has the compiler compare them with the bindings.
macro_rules! api {
    ($($(#[$attribute:meta])* fn $name:ident($($argument:ident: $type:ty),* $(,)?) $body:block)*) => {
        $(
            /// HIP's function of this name.
            ///
            /// # Safety
            /// As HIP's documentation says: pointers are valid, and stay so until work on a stream is done.
            $(#[$attribute])*
            #[allow(non_snake_case, reason = "HIP's names")]
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($argument: $type),*) -> hipError_t {
                let status = answer(stringify!($name), hipErrorUnknown, || $body);
                if status != hipSuccess && status != hipErrorNotReady {
                    LAST_ERROR.set(status);
                }
                status
            }
            const _: signature::$name = $name;
        )*
    };
}

api! {
    fn hipInit(flags: c_uint) {
        if flags == 0 { current_device().map(|_| ()) } else { Err(hipErrorInvalidValue) }
    }

    fn hipDriverGetVersion(version: *mut c_int) {
        // SAFETY: the caller's pointer.
        unsafe { give(version, RUNTIME_VERSION) }
    }

    fn hipRuntimeGetVersion(version: *mut c_int) {
        // SAFETY: the caller's pointer.
        unsafe { give(version, RUNTIME_VERSION) }
    }

    fn hipGetDeviceCount(count: *mut c_int) {
        // SAFETY: the caller's pointer.
        unsafe { give(count, settings().devices) }?;
        current_device().map(|_| ())
    }

    fn hipGetDevice(device: *mut c_int) {
        // SAFETY: the caller's pointer.
        unsafe { give(device, current_device()?) }
    }

    fn hipSetDevice(device: c_int) {
        DEVICE.set(checked_device(device)?);
        Ok(())
    }

    fn hipDeviceGetName(name: *mut c_char, bytes: c_int, device: hipDevice_t) {
        checked_device(device)?;
        // SAFETY: the caller's buffer.
        unsafe { give_text(name, bytes, &device_name()) }
    }

    fn hipDeviceGetPCIBusId(name: *mut c_char, bytes: c_int, device: c_int) {
        // SAFETY: the caller's buffer.
        unsafe { give_text(name, bytes, &format!("0000:{:02x}:00.0", checked_device(device)? + 1)) }
    }

    fn hipDeviceTotalMem(bytes: *mut usize, device: hipDevice_t) {
        checked_device(device)?;
        // SAFETY: the caller's pointer.
        unsafe { give(bytes, settings().memory_bytes as usize) }
    }

    fn hipMemGetInfo(free: *mut usize, total: *mut usize) {
        let all = settings().memory_bytes;
        // SAFETY: the caller's pointer.
        unsafe { give(free, all.saturating_sub(memory::allocated(current_device()?)) as usize) }?;
        // SAFETY: the caller's pointer.
        unsafe { give(total, all as usize) }
    }

    fn hipDeviceGetAttribute(value: *mut c_int, attribute: hipDeviceAttribute_t, device: c_int) {
        checked_device(device)?;
        // SAFETY: the caller's pointer.
        unsafe { give(value, attribute_value(attribute)) }
    }

    fn hipDeviceGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int) {
        // SAFETY: the caller's pointers.
        unsafe { give(least, 1) }?;
        // SAFETY: as above.
        unsafe { give(greatest, -1) }
    }

    fn hipDeviceSynchronize() {
        stream::forbid_in_capture(hipErrorStreamCaptureUnsupported)?;
        stream::streams_of(current_device()?).iter().try_for_each(|stream| stream.synchronize())
    }

    fn hipMalloc(address: *mut *mut c_void, bytes: usize) {
        stream::forbid_in_capture(hipErrorStreamCaptureUnsupported)?;
        let device = current_device()?;
        if bytes == 0 {
            // SAFETY: the caller's pointer.
            return unsafe { give(address, std::ptr::null_mut()) };
        }
        if memory::allocated(device).saturating_add(bytes as u64) > settings().memory_bytes {
            return Err(hipErrorOutOfMemory);
        }
        let place = memory::allocate(bytes, Place::Device(device)).ok_or(hipErrorOutOfMemory)?;
        // SAFETY: the caller's pointer.
        unsafe { give(address, std::ptr::with_exposed_provenance_mut(place as usize)) }
    }

    fn hipFree(address: *mut c_void) {
        stream::forbid_in_capture(hipErrorStreamCaptureUnsupported)?;
        free(address, |place| matches!(place, Place::Device(_)))
    }

    fn hipHostMalloc(address: *mut *mut c_void, bytes: usize, _flags: c_uint) {
        stream::forbid_in_capture(hipErrorStreamCaptureUnsupported)?;
        current_device()?;
        let place = memory::allocate(bytes, Place::Pinned).ok_or(hipErrorOutOfMemory)?;
        // SAFETY: the caller's pointer.
        unsafe { give(address, std::ptr::with_exposed_provenance_mut(place as usize)) }
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
        if !pageable {
            return stream.submit(operation);
        }
        // The driver copies through a buffer of its own, and has done so when the call returns.
        if stream.capture_state().is_some() {
            return Err(hipErrorStreamCaptureUnsupported);
        }
        stream.submit(operation)?;
        stream.synchronize()
    }

    fn hipMemset(to: *mut c_void, value: c_int, bytes: usize) {
        stream::forbid_in_capture(hipErrorStreamCaptureImplicit)?;
        let stream = stream_of(std::ptr::null_mut())?;
        stream.submit(fill(to, value, bytes)?)?;
        stream.synchronize()
    }

    fn hipMemsetAsync(to: *mut c_void, value: c_int, bytes: usize, stream: hipStream_t) {
        stream_of(stream)?.submit(fill(to, value, bytes)?)
    }

    fn hipStreamCreateWithFlags(stream: *mut hipStream_t, flags: c_uint) {
        let device = current_device()?;
        let blocking = flags & hip_runtime_sys::hipStreamNonBlocking == 0;
        let made = Stream::new(device, blocking).ok_or(hipErrorOutOfMemory)?;
        stream::register(&made);
        // SAFETY: the caller's pointer.
        unsafe { give(stream, pointer(STREAMS.add(made))) }
    }

    fn hipStreamCreateWithPriority(stream: *mut hipStream_t, flags: c_uint, _priority: c_int) {
        let device = current_device()?;
        let blocking = flags & hip_runtime_sys::hipStreamNonBlocking == 0;
        let made = Stream::new(device, blocking).ok_or(hipErrorOutOfMemory)?;
        stream::register(&made);
        // SAFETY: the caller's pointer.
        unsafe { give(stream, pointer(STREAMS.add(made))) }
    }

    fn hipStreamDestroy(stream: hipStream_t) {
        let stream = STREAMS.remove(stream.addr()).ok_or(hipErrorInvalidHandle)?;
        stream::unregister(&stream);
        // Work that is under way is done to its end: the thread ends after it.
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

    fn hipStreamBeginCapture(stream: hipStream_t, mode: hipStreamCaptureMode) {
        if stream.is_null() {
            return Err(hipErrorStreamCaptureUnsupported);
        }
        stream_of(stream)?.begin_capture(mode)
    }

    fn hipStreamEndCapture(stream: hipStream_t, graph: *mut hipGraph_t) {
        let captured = stream_of(stream)?.end_capture()?;
        // SAFETY: the caller's pointer.
        unsafe { give(graph, pointer(GRAPHS.add(Arc::new(captured)))) }
    }

    fn hipStreamIsCapturing(stream: hipStream_t, status: *mut hipStreamCaptureStatus) {
        let state = match stream_of(stream)?.capture_state() {
            None => hip_runtime_sys::hipStreamCaptureStatusNone,
            Some(true) => hip_runtime_sys::hipStreamCaptureStatusActive,
            Some(false) => hip_runtime_sys::hipStreamCaptureStatusInvalidated,
        };
        // SAFETY: the caller's pointer.
        unsafe { give(status, state) }
    }

    fn hipThreadExchangeStreamCaptureMode(mode: *mut hipStreamCaptureMode) {
        if mode.is_null() {
            return Err(hipErrorInvalidValue);
        }
        // SAFETY: the caller's pointer.
        let wanted = unsafe { mode.read() };
        // SAFETY: as above.
        unsafe { give(mode, CAPTURE_MODE.replace(wanted)) }
    }

    fn hipLaunchHostFunc(stream: hipStream_t, function: hipHostFn_t, data: *mut c_void) {
        let function = function.ok_or(hipErrorInvalidValue)?;
        let data = data.expose_provenance();
        stream_of(stream)?.submit(Arc::new(move || {
            // SAFETY: the caller's function, which takes this pointer.
            unsafe { function(std::ptr::with_exposed_provenance_mut(data)) };
            Ok(())
        }))
    }

    fn hipEventCreateWithFlags(event: *mut hipEvent_t, flags: c_uint) {
        current_device()?;
        let timing = flags & hip_runtime_sys::hipEventDisableTiming == 0;
        // SAFETY: the caller's pointer.
        unsafe { give(event, pointer(EVENTS.add(Arc::new(Event::new(timing))))) }
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
        // SAFETY: the caller's pointer.
        unsafe { give(milliseconds, elapsed.as_secs_f32() * 1e3) }
    }

    fn hipGraphDestroy(graph: hipGraph_t) {
        GRAPHS.remove(graph.addr()).map(|_| ()).ok_or(hipErrorInvalidHandle)
    }

    fn hipGraphGetNodes(graph: hipGraph_t, nodes: *mut hipGraphNode_t, count: *mut usize) {
        let graph = GRAPHS.get(graph.addr()).ok_or(hipErrorInvalidHandle)?;
        if count.is_null() {
            return Err(hipErrorInvalidValue);
        }
        if !nodes.is_null() {
            // SAFETY: the caller's pointer.
            let room = unsafe { count.read() };
            for number in 0..room.min(graph.len()) {
                // SAFETY: the caller's buffer has so many places.
                unsafe { nodes.add(number).write(pointer(number + 1)) };
            }
        }
        // SAFETY: the caller's pointer.
        unsafe { give(count, graph.len()) }
    }

    fn hipGraphInstantiate(
        executable: *mut hipGraphExec_t, graph: hipGraph_t, _node: *mut hipGraphNode_t, _log: *mut c_char, _bytes: usize,
    ) {
        let graph = GRAPHS.get(graph.addr()).ok_or(hipErrorInvalidHandle)?;
        // SAFETY: the caller's pointer.
        unsafe { give(executable, pointer(EXECUTABLES.add(graph))) }
    }

    fn hipGraphExecDestroy(executable: hipGraphExec_t) {
        EXECUTABLES.remove(executable.addr()).map(|_| ()).ok_or(hipErrorInvalidHandle)
    }

    fn hipGraphLaunch(executable: hipGraphExec_t, stream: hipStream_t) {
        let graph = EXECUTABLES.get(executable.addr()).ok_or(hipErrorInvalidHandle)?;
        let stream = stream_of(stream)?;
        if stream.capture_state().is_some() {
            return Err(hipErrorStreamCaptureUnsupported);
        }
        stream.submit(Arc::new(move || graph.run()))
    }

    fn hipModuleLoadData(module: *mut hipModule_t, image: *const c_void) {
        if module.is_null() || image.is_null() {
            return Err(hipErrorInvalidValue);
        }
        let device = current_device()?;
        if !crate::isa::available() {
            report("this machine lacks the vector instructions (AVX2, FMA, F16C) that the emulator is built for");
            return Err(hipErrorNotSupported);
        }
        // SAFETY: the caller's pointer to a whole image.
        let file = unsafe { code_of(image.cast()) }?;
        let loaded = Module::load(&file, &settings().architecture, device).map_err(|error| image_error(&error))?;
        let loaded = Loaded { module: Arc::new(loaded), device, functions: Mutex::default() };
        // SAFETY: the caller's pointer.
        unsafe { give(module, pointer(MODULES.add(Arc::new(loaded)))) }
    }

    fn hipModuleUnload(module: hipModule_t) {
        let module = MODULES.remove(module.addr()).ok_or(hipErrorInvalidHandle)?;
        for &function in lock(&module.functions).values() {
            FUNCTIONS.remove(function);
        }
        Ok(())
    }

    fn hipModuleGetFunction(function: *mut hipFunction_t, module: hipModule_t, name: *const c_char) {
        let loaded = MODULES.get(module.addr()).ok_or(hipErrorInvalidHandle)?;
        // SAFETY: the caller's text.
        let name = unsafe { crate::control::text(name) }.ok_or(hipErrorInvalidValue)?;
        let kernel = loaded.module.kernels.get(name).ok_or(hipErrorNotFound)?.as_ref().map_err(image_error)?;
        let mut functions = lock(&loaded.functions);
        let handle = *functions.entry(name.to_owned()).or_insert_with(|| {
            FUNCTIONS.add(Arc::new(Function {
                module: Arc::clone(&loaded.module),
                kernel: Arc::clone(kernel),
                device: loaded.device,
            }))
        });
        // SAFETY: the caller's pointer.
        unsafe { give(function, pointer(handle)) }
    }

    fn hipFuncGetAttribute(value: *mut c_int, attribute: hipFunction_attribute, function: hipFunction_t) {
        let kernel = Arc::clone(&FUNCTIONS.get(function.addr()).ok_or(hipErrorInvalidHandle)?.kernel);
        let found = match attribute {
            hip_runtime_sys::HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK => kernel.most_threads as c_int,
            hip_runtime_sys::HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES => kernel.lds_bytes as c_int,
            hip_runtime_sys::HIP_FUNC_ATTRIBUTE_NUM_REGS => kernel.vector_registers as c_int,
            hip_runtime_sys::HIP_FUNC_ATTRIBUTE_CONST_SIZE_BYTES
            | hip_runtime_sys::HIP_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES => 0,
            hip_runtime_sys::HIP_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES => {
                (MOST_LDS_BYTES - kernel.lds_bytes) as c_int
            }
            _ => return Err(hipErrorInvalidValue),
        };
        // SAFETY: the caller's pointer.
        unsafe { give(value, found) }
    }

    fn hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(
        blocks: *mut c_int, function: hipFunction_t, threads: c_int, lds_bytes: usize,
    ) {
        let kernel = Arc::clone(&FUNCTIONS.get(function.addr()).ok_or(hipErrorInvalidHandle)?.kernel);
        // A work group processor's half: two SIMDs of 1536 registers for 16 waves, and 64 KiB of LDS.
        let waves = (threads.max(1) as usize).div_ceil(32);
        let by_registers = 2 * (1536 / kernel.vector_registers.next_multiple_of(24).max(24)).min(16) / waves;
        let by_lds = MOST_LDS_BYTES as usize / (kernel.lds_bytes as usize + lds_bytes).max(1);
        // SAFETY: the caller's pointer.
        unsafe { give(blocks, by_registers.min(by_lds) as c_int) }
    }

    fn hipModuleLaunchKernel(
        function: hipFunction_t, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint,
        block_z: c_uint, lds_bytes: c_uint, stream: hipStream_t, parameters: *mut *mut c_void, extra: *mut *mut c_void,
    ) {
        let function = FUNCTIONS.get(function.addr()).ok_or(hipErrorInvalidHandle)?;
        let stream = stream_of(stream)?;
        let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
        let threads = block.iter().map(|&count| u64::from(count)).product::<u64>();
        let items = grid.iter().zip(block).all(|(&groups, items)| u64::from(groups) * u64::from(items) < 1 << 32);
        let kernel = &function.kernel;
        if grid.contains(&0) || threads == 0 || threads > u64::from(kernel.most_threads) || !items {
            report(&format!("kernel {}: grid {grid:?}, block {block:?}", kernel.name));
            return Err(hip_runtime_sys::hipErrorInvalidConfiguration);
        }
        if lds_bytes > MOST_LDS_BYTES - kernel.lds_bytes || stream.device != function.device {
            return Err(hipErrorInvalidValue);
        }
        // SAFETY: the caller's arguments.
        let mut arguments = unsafe { arguments_of(kernel, parameters, extra) }?;
        hidden_arguments(kernel, &mut arguments, grid, block, lds_bytes);
        let words = arguments.chunks(8).map(|bytes| {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            u64::from_ne_bytes(word)
        });
        let launch = Launch {
            module: Arc::clone(&function.module),
            kernel: Arc::clone(kernel),
            grid,
            block,
            dynamic_lds_bytes: lds_bytes,
            arguments: words.collect(),
            device: function.device,
        };
        stream.submit(Arc::new(move || {
            launch.run().map_err(|message| Failure { code: hipErrorLaunchFailure, message })
        }))
    }
}

/// Frees memory after all work is done, as HIP does.
fn free(address: *mut c_void, kind: impl Fn(Place) -> bool) -> Result<(), hipError_t> {
    if address.is_null() {
        return Ok(());
    }
    for stream in stream::streams_of(current_device()?) {
        if stream.capture_state().is_none() {
            // A failure is for those who wait for the stream.
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

/// Reports what is wrong with code, and gives HIP's name for it.
fn image_error(error: &LoadError) -> hipError_t {
    match error {
        LoadError::OtherArchitecture(name) => {
            report(&format!("code for {name} on {}", settings().architecture));
            hipErrorNoBinaryForGpu
        }
        LoadError::Invalid(message) => {
            report(&format!("code object: {message}"));
            hipErrorInvalidImage
        }
    }
}

fn reached(mark: &Mark) -> Result<(), hipError_t> {
    match mark.state() {
        None => Err(hipErrorNotReady),
        Some((_, failure)) => failure.map_or(Ok(()), Err),
    }
}
