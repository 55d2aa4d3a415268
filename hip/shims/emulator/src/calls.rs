//! Counts the calls of the C functions, makes calls fail at a test's request, and reports errors of the program under
//! test. The name `execution` stands for the execution of an operation on a stream.

use std::collections::BTreeMap;
use std::sync::Mutex;

use crate::sync::lock;

/// The beginning of the line on stderr that says which fault has happened. A test can thus tell whether it happened.
pub(crate) const INJECTED: &str = "rocm-emulator injected ";

#[derive(Default)]
struct Calls {
    /// How often each function has been called.
    counts: BTreeMap<String, u64>,
    /// The calls that will fail. An entry has the function, the number of the call, and what the call does.
    failures: Vec<(String, u64, Failure)>,
    last_report: String,
    /// Whether `RUKH_EMULATOR_FAIL` has been read.
    ready: bool,
}

/// What a failing call does.
#[derive(Clone, Copy)]
enum Failure {
    /// Returns this status.
    Status(u32),
    /// Ends the process.
    Crash,
    /// Never returns.
    Hang,
}

static CALLS: Mutex<Option<Calls>> = Mutex::new(None);

fn with_calls<T>(action: impl FnOnce(&mut Calls) -> T) -> T {
    let mut guard = lock(&CALLS);
    let calls = guard.get_or_insert_default();
    if !calls.ready {
        calls.ready = true;
        // In `RUKH_EMULATOR_FAIL=hipMalloc:3=2,hipModuleLoadData:1=crash`, an entry has the function, the number of the
        // call, and the status, `crash` or `hang`.
        let text = std::env::var("RUKH_EMULATOR_FAIL").unwrap_or_default();
        for entry in text.split(',').filter(|entry| !entry.is_empty()) {
            let (name, rest) = entry.split_once(':').unwrap_or((entry, "1"));
            let (call, code) = rest.split_once('=').unwrap_or((rest, ""));
            let call = call.parse().unwrap_or(1);
            let failure = match code {
                "crash" => Failure::Crash,
                "hang" => Failure::Hang,
                _ => Failure::Status(code.parse().unwrap_or_else(|_| usual_failure(name))),
            };
            calls.failures.push((name.to_owned(), call, failure));
        }
    }
    action(calls)
}

/// The status with which a function fails if the test does not give a status. It is out of memory for an allocation,
/// and otherwise an unknown or internal error of the function's library.
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

/// Counts a call. If a test has asked for this call to fail, returns the status to fail with, ends the process, or never
/// returns.
pub(crate) fn injected(name: &str) -> Option<u32> {
    let (call, failure) = failure_of(name)?;
    match failure {
        Failure::Status(status) => {
            eprintln!("{INJECTED}{name}:{call}={status}");
            Some(status)
        }
        Failure::Crash => {
            eprintln!("{INJECTED}{name}:{call}=crash");
            std::process::abort();
        }
        Failure::Hang => {
            eprintln!("{INJECTED}{name}:{call}=hang");
            loop {
                std::thread::park();
            }
        }
    }
}

/// Counts a call. Returns its number and what it shall do if a test has asked for it to fail.
fn failure_of(name: &str) -> Option<(u64, Failure)> {
    with_calls(|calls| {
        let call = match calls.counts.get_mut(name) {
            Some(count) => {
                *count += 1;
                *count
            }
            None => {
                calls.counts.insert(name.to_owned(), 1);
                1
            }
        };
        let found =
            calls.failures.iter().position(|(function, number, _)| function == name && *number == call)?;
        let (_, _, failure) = calls.failures.swap_remove(found);
        Some((call, failure))
    })
}

/// Reports an error of the program under test on stderr, and keeps it for `rocm_emulator_fault`.
pub(crate) fn report(message: &str) {
    eprintln!("rocm-emulator: {message}");
    with_calls(|calls| message.clone_into(&mut calls.last_report));
}

/// Makes a later call of a function fail. Call 1 is the next call. If `code` is 0, the function fails with its usual
/// status.
pub(crate) fn fail_later(name: &str, call: u64, code: u32) {
    with_calls(|calls| {
        let made = calls.counts.get(name).copied().unwrap_or_default();
        let code = if code == 0 { usual_failure(name) } else { code };
        calls.failures.push((name.to_owned(), made + call, Failure::Status(code)));
    });
}

/// Forgets all failures that have not happened yet.
pub(crate) fn clear_failures() {
    with_calls(|calls| calls.failures.clear());
}

/// The number of times that a function has been called.
pub(crate) fn count(name: &str) -> u64 {
    with_calls(|calls| calls.counts.get(name).copied().unwrap_or_default())
}

/// The last report, or an empty string.
pub(crate) fn last_report() -> String {
    with_calls(|calls| calls.last_report.clone())
}
