//! A stand-in for the library of NVIDIA's display driver (`libcuda.so.1`, `nvcuda.dll`), for tests of what the engine says
//! and does on machines that nobody here has. It has the functions that `hip-on-cuda` calls. Memory and copies work, on the
//! host. Kernels do nothing, so that every figure is wrong and the engine's self-check must notice it.
//!
//! | variable | meaning | default |
//! |---|---|---|
//! | `RUKH_STAND_IN_DEVICES` | the cards, separated by commas: `sm_86:NVIDIA GeForce RTX 3060:28:1777`, the architecture, name, multiprocessors and MHz | one such card |
//! | `RUKH_STAND_IN_VERSION` | the version of CUDA that the driver knows | 12040 |
//! | `RUKH_STAND_IN_SLOW` | kernels whose names contain this text take a millisecond more for each launch, as events measure it | none |
//! | `RUKH_STAND_IN_FAIL` | calls that fail, separated by commas: `cuInit=100`, `cuMemAlloc_v2:3=2`; function, the first call that fails (1 if it is left out), and the status | none |
//! | `RUKH_STAND_IN_LOG` | `1` prints every call with its status to stderr | off |

#![allow(unsafe_code, reason = "it implements a C interface")]
#![allow(non_snake_case, missing_docs, reason = "the driver's names")]
#![allow(clippy::missing_safety_doc, reason = "the conditions are those of NVIDIA's reference")]
#![allow(clippy::multiple_unsafe_ops_per_block, reason = "a copy is a read and a write")]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

type Status = c_uint;
type Handle = *mut c_void;
type Address = u64;

const SUCCESS: Status = 0;
const INVALID_VALUE: Status = 1;
const OUT_OF_MEMORY: Status = 2;
const INVALID_DEVICE: Status = 101;

/// The memory of a card in bytes.
const MEMORY: usize = 8 << 30;
/// The alignment of the driver's allocations in bytes.
const ALIGNMENT: usize = 512;

/// A card.
struct Card {
    number: c_int,
    name: String,
    multiprocessors: c_int,
    megahertz: c_int,
}

fn setting(name: &str, default: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| default.to_owned())
}

static CARDS: LazyLock<Vec<Card>> = LazyLock::new(|| {
    let text = setting("RUKH_STAND_IN_DEVICES", "sm_86:NVIDIA GeForce RTX 3060:28:1777");
    let card = |entry: &str| {
        let words: Vec<&str> = entry.split(':').collect();
        let number = |index: usize| words.get(index).and_then(|word| word.parse().ok()).unwrap_or(1);
        let architecture = words[0].trim_start_matches("sm_").parse().unwrap_or(86);
        let name = words.get(1).copied().unwrap_or("NVIDIA").to_owned();
        Card { number: architecture, name, multiprocessors: number(2), megahertz: number(3) }
    };
    text.split(',').map(card).collect()
});

/// The calls that fail: the function, the first such call, and the status.
static FAILURES: LazyLock<Vec<(String, usize, Status)>> = LazyLock::new(|| {
    let text = setting("RUKH_STAND_IN_FAIL", "");
    let failure = |entry: &str| {
        let (call, status) = entry.split_once('=')?;
        let (function, first) = call.split_once(':').unwrap_or((call, "1"));
        Some((function.to_owned(), first.parse().ok()?, status.parse().ok()?))
    };
    text.split(',').filter_map(failure).collect()
});

static IS_LOGGED: LazyLock<bool> = LazyLock::new(|| setting("RUKH_STAND_IN_LOG", "") == "1");

static STATE: LazyLock<Mutex<State>> = LazyLock::new(Mutex::default);

#[derive(Default)]
struct State {
    calls: HashMap<&'static str, usize>,
    memory: HashMap<usize, Layout>,
    used: usize,
    capturing: HashSet<usize>,
    /// The kernels that are slow, the graphs that launch one, and the streams on which such a graph is captured.
    slow: HashSet<usize>,
    /// The number of launches of these kernels and graphs.
    slow_launches: u32,
    /// The value of `slow_launches` when each event was recorded.
    events: HashMap<usize, u32>,
}

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The status with which this call fails, if it shall.
fn failure(function: &'static str) -> Option<Status> {
    let mut state = state();
    let call = state.calls.entry(function).or_default();
    *call += 1;
    let call = *call;
    FAILURES.iter().find(|(name, first, _)| name == function && call >= *first).map(|(_, _, status)| *status)
}

/// A new handle.
fn handle() -> Handle {
    static NEXT: AtomicUsize = AtomicUsize::new(0x1000);
    std::ptr::without_provenance_mut(NEXT.fetch_add(16, Ordering::Relaxed))
}

/// Allocates zeroed memory on the host.
fn allocate(bytes: usize) -> Result<usize, Status> {
    let layout = Layout::from_size_align(bytes.max(1), ALIGNMENT).map_err(|_| INVALID_VALUE)?;
    let mut state = state();
    if state.used + bytes > MEMORY {
        return Err(OUT_OF_MEMORY);
    }
    // SAFETY: the layout's size is not zero.
    let address = unsafe { alloc_zeroed(layout) }.expose_provenance();
    if address == 0 {
        return Err(OUT_OF_MEMORY);
    }
    state.used += bytes;
    state.memory.insert(address, layout);
    Ok(address)
}

fn free(address: usize) -> Result<(), Status> {
    let mut state = state();
    let layout = state.memory.remove(&address).ok_or(INVALID_VALUE)?;
    state.used -= layout.size().min(state.used);
    // SAFETY: `allocate` made the memory with this layout, and it is freed once.
    unsafe { dealloc(std::ptr::with_exposed_provenance_mut(address), layout) };
    Ok(())
}

/// # Safety
/// The pointer may be written to.
unsafe fn put<T>(place: *mut T, value: T) -> Result<(), Status> {
    if place.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: as the caller promises.
    unsafe { place.write(value) };
    Ok(())
}

/// # Safety
/// The buffer has this length.
unsafe fn put_text(place: *mut c_char, bytes: c_int, text: &str) -> Result<(), Status> {
    let length = text.len().min(usize::try_from(bytes).unwrap_or(0).saturating_sub(1));
    // SAFETY: as the caller promises.
    unsafe {
        place.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), length);
        place.add(length).write(0);
    }
    Ok(())
}

fn card(device: c_int) -> Result<&'static Card, Status> {
    usize::try_from(device).ok().and_then(|index| CARDS.get(index)).ok_or(INVALID_DEVICE)
}

fn pointer(address: Address) -> *mut u8 {
    std::ptr::with_exposed_provenance_mut(address as usize)
}

macro_rules! api {
    ($(fn $name:ident($($argument:ident: $type:ty),* $(,)?) $body:block)*) => {
        $(
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($argument: $type),*) -> Status {
                $(let _ = &$argument;)*
                let body = || -> Result<(), Status> { $body };
                let status = match failure(stringify!($name)) {
                    Some(status) => status,
                    None => body().map_or_else(|status| status, |()| SUCCESS),
                };
                if *IS_LOGGED {
                    eprintln!("nvidia-stand-in: {} = {status}", stringify!($name));
                }
                status
            }
        )*
    };
}

// SAFETY of all of them: the caller passes valid pointers and handles, as NVIDIA's reference demands.
api! {
    fn cuInit(flags: c_uint) { Ok(()) }
    fn cuDriverGetVersion(version: *mut c_int) {
        // SAFETY: see above.
        unsafe { put(version, setting("RUKH_STAND_IN_VERSION", "12040").parse().unwrap_or(12040)) }
    }
    fn cuDeviceGetCount(count: *mut c_int) {
        // SAFETY: see above.
        unsafe { put(count, CARDS.len() as c_int) }
    }
    fn cuDeviceGet(device: *mut c_int, ordinal: c_int) {
        card(ordinal)?;
        // SAFETY: see above.
        unsafe { put(device, ordinal) }
    }
    fn cuDeviceGetName(name: *mut c_char, bytes: c_int, device: c_int) {
        // SAFETY: see above.
        unsafe { put_text(name, bytes, &card(device)?.name) }
    }
    fn cuDeviceGetPCIBusId(name: *mut c_char, bytes: c_int, device: c_int) {
        // SAFETY: see above.
        unsafe { put_text(name, bytes, &format!("0000:{:02x}:00.0", device + 1)) }
    }
    fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: c_int) {
        let card = card(device)?;
        let found = match attribute {
            1 => 1024,
            2..=7 => 65_535,
            8 | 97 => 48 << 10,
            10 => 32,
            12 | 82 => 65_536,
            13 => card.megahertz * 1000,
            16 => card.multiprocessors,
            75 => card.number / 10,
            76 => card.number % 10,
            _ => 0,
        };
        // SAFETY: see above.
        unsafe { put(value, found) }
    }
    fn cuDeviceTotalMem_v2(bytes: *mut usize, device: c_int) {
        // SAFETY: see above.
        unsafe { put(bytes, MEMORY) }
    }
    fn cuDevicePrimaryCtxRetain(context: *mut Handle, device: c_int) {
        // SAFETY: see above.
        unsafe { put(context, handle()) }
    }
    fn cuCtxSetCurrent(context: Handle) { Ok(()) }
    fn cuCtxSynchronize() { Ok(()) }
    fn cuCtxGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int) {
        // SAFETY: see above.
        unsafe { put(least, 0).and(put(greatest, -5)) }
    }
    fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) {
        let used = state().used;
        // SAFETY: see above.
        unsafe { put(free, MEMORY - used.min(MEMORY)).and(put(total, MEMORY)) }
    }
    fn cuMemAlloc_v2(address: *mut Address, bytes: usize) {
        // SAFETY: see above.
        unsafe { put(address, allocate(bytes)? as Address) }
    }
    fn cuMemFree_v2(address: Address) { free(address as usize) }
    fn cuMemHostAlloc(address: *mut *mut c_void, bytes: usize, flags: c_uint) {
        // SAFETY: see above.
        unsafe { put(address, std::ptr::with_exposed_provenance_mut(allocate(bytes)?)) }
    }
    fn cuMemHostGetDevicePointer_v2(device: *mut Address, host: *mut c_void, flags: c_uint) {
        // SAFETY: see above.
        unsafe { put(device, host.expose_provenance() as Address) }
    }
    fn cuMemFreeHost(address: *mut c_void) { free(address.expose_provenance()) }
    fn cuMemcpy(to: Address, from: Address, bytes: usize) {
        // SAFETY: see above. Both are memory of the host.
        unsafe { pointer(from).copy_to(pointer(to), bytes) };
        Ok(())
    }
    fn cuMemcpyAsync(to: Address, from: Address, bytes: usize, stream: Handle) {
        // SAFETY: see above. Both are memory of the host.
        unsafe { pointer(from).copy_to(pointer(to), bytes) };
        Ok(())
    }
    fn cuMemsetD8_v2(to: Address, value: u8, bytes: usize) {
        // SAFETY: see above.
        unsafe { pointer(to).write_bytes(value, bytes) };
        Ok(())
    }
    fn cuMemsetD8Async(to: Address, value: u8, bytes: usize, stream: Handle) {
        // SAFETY: see above.
        unsafe { pointer(to).write_bytes(value, bytes) };
        Ok(())
    }
    fn cuStreamCreate(stream: *mut Handle, flags: c_uint) {
        // SAFETY: see above.
        unsafe { put(stream, handle()) }
    }
    fn cuStreamCreateWithPriority(stream: *mut Handle, flags: c_uint, priority: c_int) {
        // SAFETY: see above.
        unsafe { put(stream, handle()) }
    }
    fn cuStreamDestroy_v2(stream: Handle) { Ok(()) }
    fn cuStreamQuery(stream: Handle) { Ok(()) }
    fn cuStreamSynchronize(stream: Handle) { Ok(()) }
    fn cuStreamWaitEvent(stream: Handle, event: Handle, flags: c_uint) { Ok(()) }
    fn cuStreamBeginCapture_v2(stream: Handle, mode: c_uint) {
        state().capturing.insert(stream.addr());
        Ok(())
    }
    fn cuStreamEndCapture(stream: Handle, graph: *mut Handle) {
        let new = handle();
        let mut state = state();
        state.capturing.remove(&stream.addr());
        if state.slow.remove(&stream.addr()) {
            state.slow.insert(new.addr());
        }
        // SAFETY: see above.
        unsafe { put(graph, new) }
    }
    fn cuStreamIsCapturing(stream: Handle, status: *mut c_uint) {
        let is_capturing = state().capturing.contains(&stream.addr());
        // SAFETY: see above.
        unsafe { put(status, c_uint::from(is_capturing)) }
    }
    fn cuThreadExchangeStreamCaptureMode(mode: *mut c_uint) { Ok(()) }
    fn cuEventCreate(event: *mut Handle, flags: c_uint) {
        // SAFETY: see above.
        unsafe { put(event, handle()) }
    }
    fn cuEventDestroy_v2(event: Handle) { Ok(()) }
    fn cuEventRecord(event: Handle, stream: Handle) {
        let mut state = state();
        let launches = state.slow_launches;
        state.events.insert(event.addr(), launches);
        Ok(())
    }
    fn cuEventQuery(event: Handle) { Ok(()) }
    fn cuEventSynchronize(event: Handle) { Ok(()) }
    fn cuEventElapsedTime(milliseconds: *mut f32, start: Handle, stop: Handle) {
        let state = state();
        let [start, stop] = [start, stop].map(|event| state.events.get(&event.addr()).copied().unwrap_or(0));
        // SAFETY: see above.
        unsafe { put(milliseconds, 0.1 + stop.saturating_sub(start) as f32) }
    }
    fn cuModuleLoadData(module: *mut Handle, image: *const c_void) {
        // SAFETY: see above.
        unsafe { put(module, handle()) }
    }
    fn cuModuleUnload(module: Handle) { Ok(()) }
    fn cuModuleGetFunction(function: *mut Handle, module: Handle, name: *const c_char) {
        let new = handle();
        // SAFETY: see above.
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
        let slow = setting("RUKH_STAND_IN_SLOW", "");
        if !slow.is_empty() && name.contains(&slow) {
            state().slow.insert(new.addr());
        }
        // SAFETY: see above.
        unsafe { put(function, new) }
    }
    fn cuFuncGetAttribute(value: *mut c_int, attribute: c_int, function: Handle) {
        // SAFETY: see above.
        unsafe { put(value, 32) }
    }
    fn cuFuncSetAttribute(function: Handle, attribute: c_int, value: c_int) { Ok(()) }
    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
        blocks: *mut c_int, function: Handle, threads: c_int, shared_bytes: usize,
    ) {
        // SAFETY: see above.
        unsafe { put(blocks, 2) }
    }
    fn cuLaunchKernel(
        function: Handle, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint,
        block_z: c_uint, shared_bytes: c_uint, stream: Handle, parameters: *mut *mut c_void, extra: *mut *mut c_void,
    ) {
        let mut state = state();
        match state.slow.contains(&function.addr()) {
            true if state.capturing.contains(&stream.addr()) => {
                state.slow.insert(stream.addr());
            }
            is_slow => state.slow_launches += u32::from(is_slow),
        }
        Ok(())
    }
    fn cuLaunchHostFunc(stream: Handle, function: Option<unsafe extern "C" fn(*mut c_void)>, data: *mut c_void) {
        let function = function.ok_or(INVALID_VALUE)?;
        // SAFETY: see above. It runs at once, even during a capture.
        unsafe { function(data) };
        Ok(())
    }
    fn cuGraphDestroy(graph: Handle) { Ok(()) }
    fn cuGraphGetNodes(graph: Handle, nodes: *mut Handle, count: *mut usize) {
        // SAFETY: see above.
        unsafe { put(count, 1) }
    }
    fn cuGraphInstantiateWithFlags(executable: *mut Handle, graph: Handle, flags: u64) {
        let new = handle();
        let mut state = state();
        if state.slow.contains(&graph.addr()) {
            state.slow.insert(new.addr());
        }
        // SAFETY: see above.
        unsafe { put(executable, new) }
    }
    fn cuGraphLaunch(executable: Handle, stream: Handle) {
        let mut state = state();
        state.slow_launches += u32::from(state.slow.contains(&executable.addr()));
        Ok(())
    }
    fn cuGraphExecDestroy(executable: Handle) { Ok(()) }
    fn cuLinkCreate_v2(count: c_uint, options: *mut c_int, values: *mut *mut c_void, link: *mut Handle) {
        // SAFETY: see above.
        unsafe { put(link, handle()) }
    }
    fn cuLinkAddData_v2(
        link: Handle, kind: c_int, data: *mut c_void, bytes: usize, name: *const c_char, count: c_uint,
        options: *mut c_int, values: *mut *mut c_void,
    ) {
        Ok(())
    }
    fn cuLinkComplete(link: Handle, code: *mut *mut c_void, bytes: *mut usize) {
        static CODE: [u8; 128] = [0x7f; 128];
        // SAFETY: see above.
        unsafe { put(code, CODE.as_ptr().cast_mut().cast()).and(put(bytes, CODE.len())) }
    }
    fn cuLinkDestroy(link: Handle) { Ok(()) }
}

/// The names and descriptions of the errors that tests ask for.
fn texts(status: Status) -> Option<(&'static CStr, &'static CStr)> {
    Some(match status {
        0 => (c"CUDA_SUCCESS", c"no error"),
        1 => (c"CUDA_ERROR_INVALID_VALUE", c"invalid argument"),
        2 => (c"CUDA_ERROR_OUT_OF_MEMORY", c"out of memory"),
        100 => (c"CUDA_ERROR_NO_DEVICE", c"no CUDA-capable device is detected"),
        222 => (
            c"CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
            c"the provided PTX was compiled with an unsupported toolchain.",
        ),
        719 => (c"CUDA_ERROR_LAUNCH_FAILED", c"unspecified launch failure"),
        803 => (
            c"CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
            c"system has unsupported display driver / cuda driver combination",
        ),
        _ => return None,
    })
}

/// # Safety
/// The pointer may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetErrorName(status: Status, name: *mut *const c_char) -> Status {
    let text = texts(status).map_or(std::ptr::null(), |(name, _)| name.as_ptr());
    // SAFETY: as the caller promises.
    unsafe { put(name, text) }.map_or_else(|status| status, |()| SUCCESS)
}

/// # Safety
/// The pointer may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetErrorString(status: Status, text: *mut *const c_char) -> Status {
    let found = texts(status).map_or(std::ptr::null(), |(_, text)| text.as_ptr());
    // SAFETY: as the caller promises.
    unsafe { put(text, found) }.map_or_else(|status| status, |()| SUCCESS)
}
