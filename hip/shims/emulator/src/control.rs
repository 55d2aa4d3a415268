//! How a test steers the emulator: settings from the environment, calls that are made to fail, and what went wrong.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::{CStr, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// What the emulator pretends to be; each has an environment variable, read once.
pub(crate) struct Settings {
    /// `RUKH_EMULATOR_ARCH`: gfx1100 unless set.
    pub(crate) architecture: String,
    /// `RUKH_EMULATOR_DEVICES`: 1 unless set; 0 is a machine with the libraries and no card.
    pub(crate) devices: i32,
    /// `RUKH_EMULATOR_MEMORY_MIB`: memory of a device; 16384 unless set.
    pub(crate) memory_bytes: u64,
    /// `RUKH_EMULATOR_ROCBLAS`: what rocBLAS has kernels for, `gfx1100,gfx1151`; everything unless set. On other
    /// cards it ends the process, as the real one does.
    pub(crate) rocblas: Option<String>,
    /// `RUKH_EMULATOR_LOG`: prints every call.
    pub(crate) log: bool,
}

pub(crate) fn settings() -> &'static Settings {
    static SETTINGS: OnceLock<Settings> = OnceLock::new();
    SETTINGS.get_or_init(|| {
        let text = |name: &str| std::env::var(name).ok();
        let number =
            |name: &str, default: u64| text(name).and_then(|text| text.parse().ok()).unwrap_or(default);
        Settings {
            architecture: text("RUKH_EMULATOR_ARCH").unwrap_or_else(|| "gfx1100".to_owned()),
            devices: number("RUKH_EMULATOR_DEVICES", 1) as i32,
            memory_bytes: number("RUKH_EMULATOR_MEMORY_MIB", 16_384) << 20,
            rocblas: text("RUKH_EMULATOR_ROCBLAS"),
            log: text("RUKH_EMULATOR_LOG").is_some_and(|text| text != "0"),
        }
    })
}

#[derive(Default)]
struct Control {
    /// Calls of each function so far.
    calls: BTreeMap<String, u64>,
    /// Calls that are to fail: the function, the number of the call, the status it gives.
    failures: Vec<(String, u64, u32)>,
    fault: String,
    ready: bool,
}

static CONTROL: Mutex<Option<Control>> = Mutex::new(None);

fn with_control<T>(action: impl FnOnce(&mut Control) -> T) -> T {
    let mut guard: MutexGuard<'_, Option<Control>> = CONTROL.lock().unwrap_or_else(PoisonError::into_inner);
    let control = guard.get_or_insert_default();
    if !control.ready {
        control.ready = true;
        // `RUKH_EMULATOR_FAIL=hipMalloc:3=2,hipModuleLoadData:1=999`: function, number of the call, status.
        let text = std::env::var("RUKH_EMULATOR_FAIL").unwrap_or_default();
        for entry in text.split(',').filter(|entry| !entry.is_empty()) {
            let (name, rest) = entry.split_once(':').unwrap_or((entry, "1"));
            let (call, code) = rest.split_once('=').unwrap_or((rest, ""));
            let call = call.parse().unwrap_or(1);
            control.failures.push((
                name.to_owned(),
                call,
                code.parse().unwrap_or_else(|_| usual_failure(name)),
            ));
        }
    }
    action(control)
}

/// What a function fails with where a test does not say: no memory if it is to give some, and an unknown or internal
/// error of its library otherwise.
fn usual_failure(name: &str) -> u32 {
    match name {
        "hipMalloc" | "hipHostMalloc" => hip_runtime_sys::hipErrorOutOfMemory,
        "execution" => hip_runtime_sys::hipErrorLaunchFailure,
        _ if name.starts_with("rocblas") => rocblas_sys::rocblas_status_internal_error,
        _ if name.starts_with("hipblasLt") => hipblaslt_sys::HIPBLAS_STATUS_INTERNAL_ERROR,
        _ if name.starts_with("hiprtc") => hip_runtime_sys::hiprtc_bindings::HIPRTC_ERROR_INTERNAL_ERROR,
        _ => hip_runtime_sys::hipErrorUnknown,
    }
}

/// Counts a call, and gives the status that it is to fail with, if it is.
pub(crate) fn injected(name: &str) -> Option<u32> {
    with_control(|control| {
        let call = match control.calls.get_mut(name) {
            Some(calls) => {
                *calls += 1;
                *calls
            }
            None => {
                control.calls.insert(name.to_owned(), 1);
                1
            }
        };
        let found =
            control.failures.iter().position(|(function, number, _)| function == name && *number == call)?;
        Some(control.failures.swap_remove(found).2)
    })
}

/// Reports something that is wrong in the program under test, on stderr and to [`rocm_emulator_fault`].
pub(crate) fn report(message: &str) {
    eprintln!("rocm-emulator: {message}");
    with_control(|control| message.clone_into(&mut control.fault));
}

thread_local! {
    /// What `hipGetLastError` gives.
    pub(crate) static LAST_ERROR: Cell<u32> = const { Cell::new(0) };
}

/// Answers one call of a C function: counts it, fails if it is to, and turns a panic into a status.
pub(crate) fn answer(name: &'static str, internal: u32, body: impl FnOnce() -> Result<(), u32>) -> u32 {
    let status = match injected(name) {
        Some(code) => code,
        None => match catch_unwind(AssertUnwindSafe(body)) {
            Ok(Ok(())) => 0,
            Ok(Err(code)) => code,
            Err(_) => {
                report(&format!("panic in {name}"));
                internal
            }
        },
    };
    if settings().log {
        eprintln!("rocm-emulator: {name} = {status}");
    }
    status
}

/// A C text, or nothing where it is null or not UTF-8.
///
/// # Safety
/// The pointer is null or points to a text that ends with zero.
pub(crate) unsafe fn text<'a>(pointer: *const c_char) -> Option<&'a str> {
    if pointer.is_null() {
        return None;
    }
    // SAFETY: as the caller promises.
    unsafe { CStr::from_ptr(pointer) }.to_str().ok()
}

/// Makes a later call of a function fail: the next one is number 1. `code` 0 stands for the usual failure. Besides
/// the libraries' functions there is `execution`: the start of a piece of work on a stream, which then fails later.
///
/// # Safety
/// `name` is a text that ends with zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocm_emulator_fail(name: *const c_char, call: u64, code: u32) {
    // SAFETY: as the caller promises.
    let Some(name) = (unsafe { text(name) }) else { return };
    with_control(|control| {
        let calls = control.calls.get(name).copied().unwrap_or_default();
        let code = if code == 0 { usual_failure(name) } else { code };
        control.failures.push((name.to_owned(), calls + call, code));
    });
}

/// Forgets all failures that have not happened yet.
#[unsafe(no_mangle)]
pub extern "C" fn rocm_emulator_clear() {
    with_control(|control| control.failures.clear());
}

/// How often a function has been called.
///
/// # Safety
/// `name` is a text that ends with zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocm_emulator_calls(name: *const c_char) -> u64 {
    // SAFETY: as the caller promises.
    let name = unsafe { text(name) }.unwrap_or_default();
    with_control(|control| control.calls.get(name).copied().unwrap_or_default())
}

/// Copies the last report, cut to the buffer and ended with zero, and gives its whole length in bytes.
///
/// # Safety
/// `buffer` has `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocm_emulator_fault(buffer: *mut c_char, bytes: usize) -> usize {
    let fault = with_control(|control| control.fault.clone());
    if bytes > 0 && !buffer.is_null() {
        let count = fault.len().min(bytes - 1);
        // SAFETY: as the caller promises.
        unsafe { buffer.cast::<u8>().copy_from_nonoverlapping(fault.as_ptr(), count) };
        // SAFETY: as above.
        unsafe { buffer.add(count).write(0) };
    }
    fault.len()
}

/// Wave instructions that kernels have executed in this process.
#[unsafe(no_mangle)]
pub extern "C" fn rocm_emulator_instructions() -> u64 {
    crate::launch::instructions_executed()
}
