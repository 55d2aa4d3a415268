//! The time of each operation, where `RUKH_CUDA_SHIM_PROFILE` names a file for it: a line for each operation that is
//! run outside of a graph, `microseconds<TAB>what`, in order.
//!
//! An operation is run once and then as often again as makes the time of an event small. What works in place then
//! works on its own results: the figures that come out are not to be trusted, the times are.

use std::fs::File;
use std::io::Write;
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::driver::{CUDA_SUCCESS, Functions, Handle, Status};

/// How often an operation is run for its time.
const REPETITIONS: u32 = 20;
/// Other threads may do as they like meanwhile.
const CAPTURE_THREAD_LOCAL: u32 = 1;

fn file() -> Option<&'static Mutex<File>> {
    static FILE: OnceLock<Option<Mutex<File>>> = OnceLock::new();
    FILE.get_or_init(|| File::create(std::env::var_os("RUKH_CUDA_SHIM_PROFILE")?).ok().map(Mutex::new))
        .as_ref()
}

/// Runs an operation on a stream, and notes its time if that is asked for.
pub(crate) fn time(
    driver: &Functions,
    stream: Handle,
    name: impl FnOnce() -> String,
    run: impl Fn() -> Status,
) -> Status {
    let first = run();
    let Some(file) = file() else { return first };
    let mut capturing = 0;
    // SAFETY: the driver writes a number; the caller's stream.
    let asked = unsafe { (driver.cuStreamIsCapturing)(stream, &mut capturing) };
    if first != CUDA_SUCCESS || asked != CUDA_SUCCESS || capturing != 0 {
        return first;
    }
    if let Some(microseconds) = repeat(driver, stream, run) {
        let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
        // A table that cannot be written is seen to be short.
        let _ = writeln!(file, "{microseconds:.3}\t{}", name());
    }
    first
}

/// Microseconds of one of many runs. They are one graph, or the time of short ones would be that of their launches.
#[allow(clippy::multiple_unsafe_ops_per_block, reason = "one chain of calls of the driver")]
fn repeat(driver: &Functions, stream: Handle, run: impl Fn() -> Status) -> Option<f32> {
    let mut events: [Handle; 2] = [std::ptr::null_mut(); 2];
    let (mut graph, mut executable) = (std::ptr::null_mut(), std::ptr::null_mut());
    let mut milliseconds = 0.0;
    let succeeds = |status| status == CUDA_SUCCESS;
    // SAFETY: the driver writes handles and a number; the caller's stream.
    let is_measured = unsafe {
        let begun = succeeds((driver.cuStreamBeginCapture_v2)(stream, CAPTURE_THREAD_LOCAL));
        let has_run = begun && (0..REPETITIONS).all(|_| succeeds(run()));
        // Always ended, or the stream could not be used again.
        let ended = begun && succeeds((driver.cuStreamEndCapture)(stream, &mut graph));
        has_run
            && ended
            && succeeds((driver.cuGraphInstantiateWithFlags)(&mut executable, graph, 0))
            && events.iter_mut().all(|event| succeeds((driver.cuEventCreate)(event, 0)))
            && succeeds((driver.cuGraphLaunch)(executable, stream))
            && succeeds((driver.cuEventRecord)(events[0], stream))
            && succeeds((driver.cuGraphLaunch)(executable, stream))
            && succeeds((driver.cuEventRecord)(events[1], stream))
            && succeeds((driver.cuEventSynchronize)(events[1]))
            && succeeds((driver.cuEventElapsedTime)(&mut milliseconds, events[0], events[1]))
    };
    for event in events.into_iter().filter(|event| !event.is_null()) {
        // SAFETY: made above.
        unsafe { (driver.cuEventDestroy_v2)(event) };
    }
    if !executable.is_null() {
        // SAFETY: made above.
        unsafe { (driver.cuGraphExecDestroy)(executable) };
    }
    if !graph.is_null() {
        // SAFETY: made above.
        unsafe { (driver.cuGraphDestroy)(graph) };
    }
    is_measured.then(|| milliseconds * 1e3 / REPETITIONS as f32)
}
