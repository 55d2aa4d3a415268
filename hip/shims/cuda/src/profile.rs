//! Measures each operation, if `RUKH_CUDA_SHIM_PROFILE` names a file. For every operation that is not captured into a
//! graph, a line `microseconds<TAB>description` is written to the file, in the order of the calls.
//!
//! An operation runs once for its result, and then many times in a graph of this module for its time. In these runs an
//! in-place operation changes its own result again. The times are therefore right, but the engine's results are wrong.

use std::fs::File;
use std::io::Write;
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::driver::{CUDA_SUCCESS, Functions, Handle, Status};

/// The number of runs of an operation over which its time is averaged.
const REPETITIONS: u32 = 20;
/// The capture mode that does not restrict other threads.
const CAPTURE_THREAD_LOCAL: u32 = 1;

fn file() -> Option<&'static Mutex<File>> {
    static FILE: OnceLock<Option<Mutex<File>>> = OnceLock::new();
    FILE.get_or_init(|| File::create(std::env::var_os("RUKH_CUDA_SHIM_PROFILE")?).ok().map(Mutex::new))
        .as_ref()
}

/// Runs an operation on a stream, and writes its time if there is a file for it.
pub(crate) fn time(
    driver: &Functions,
    stream: Handle,
    name: impl FnOnce() -> String,
    run: impl Fn() -> Status,
) -> Status {
    let first = run();
    let Some(file) = file() else { return first };
    let mut capturing = 0;
    // SAFETY: the driver writes a number, and the caller passes a valid stream.
    let asked = unsafe { (driver.cuStreamIsCapturing)(stream, &mut capturing) };
    if first != CUDA_SUCCESS || asked != CUDA_SUCCESS || capturing != 0 {
        return first;
    }
    if let Some(microseconds) = repeat(driver, stream, run) {
        let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
        // If the write fails, the line is missing from the file.
        let _ = writeln!(file, "{microseconds:.3}\t{}", name());
    }
    first
}

/// The mean time of a run in microseconds. All runs are in one graph, because short operations take less time than
/// their launches.
#[allow(clippy::multiple_unsafe_ops_per_block, reason = "one chain of calls of the driver")]
fn repeat(driver: &Functions, stream: Handle, run: impl Fn() -> Status) -> Option<f32> {
    let mut events: [Handle; 2] = [std::ptr::null_mut(); 2];
    let (mut graph, mut executable) = (std::ptr::null_mut(), std::ptr::null_mut());
    let mut milliseconds = 0.0;
    let succeeds = |status| status == CUDA_SUCCESS;
    // SAFETY: the driver writes handles and a number, and the caller passes a valid stream.
    let is_measured = unsafe {
        let begun = succeeds((driver.cuStreamBeginCapture_v2)(stream, CAPTURE_THREAD_LOCAL));
        let has_run = begun && (0..REPETITIONS).all(|_| succeeds(run()));
        // The capture must end even after an error, or the stream could not be used again.
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
        // SAFETY: the handle was made above.
        unsafe { (driver.cuEventDestroy_v2)(event) };
    }
    if !executable.is_null() {
        // SAFETY: the handle was made above.
        unsafe { (driver.cuGraphExecDestroy)(executable) };
    }
    if !graph.is_null() {
        // SAFETY: the handle was made above.
        unsafe { (driver.cuGraphDestroy)(graph) };
    }
    is_measured.then(|| milliseconds * 1e3 / REPETITIONS as f32)
}
