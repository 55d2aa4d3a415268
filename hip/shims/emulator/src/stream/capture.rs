//! Captures in progress. During a capture, operations that are submitted to its streams become nodes of a graph.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;

use hip_runtime_sys::{hipError_t, hipStreamCaptureMode};

use super::graph::Node;
use super::work::Operation;
use crate::sync::lock;

const GLOBAL: hipStreamCaptureMode = hip_runtime_sys::hipStreamCaptureModeGlobal;
const THREAD_LOCAL: hipStreamCaptureMode = hip_runtime_sys::hipStreamCaptureModeThreadLocal;
pub(super) const RELAXED: hipStreamCaptureMode = hip_runtime_sys::hipStreamCaptureModeRelaxed;

/// A capture in progress.
pub(super) struct Capture {
    pub(super) mode: hipStreamCaptureMode,
    pub(super) origin: u64,
    pub(super) thread: ThreadId,
    pub(super) work: Mutex<CapturedWork>,
    pub(super) invalid: AtomicBool,
    /// For each stream that takes part, except the origin: whether another stream has waited for all of its operations.
    pub(super) branches: Mutex<BTreeMap<u64, bool>>,
}

/// The operations that have been captured so far.
#[derive(Default)]
pub(super) struct CapturedWork {
    pub(super) nodes: Vec<Node>,
    /// For each stream that takes part, the nodes that its next operation must come after.
    ends: BTreeMap<u64, Vec<usize>>,
}

impl CapturedWork {
    /// The nodes that the stream's next operation must come after.
    pub(super) fn ends_of(&self, stream: u64) -> Vec<usize> {
        self.ends.get(&stream).cloned().unwrap_or_default()
    }

    pub(super) fn add(&mut self, stream: u64, operation: Operation) {
        let after = self.ends_of(stream);
        self.ends.insert(stream, vec![self.nodes.len()]);
        self.nodes.push(Node { operation, after });
    }

    /// Adds these nodes to those that the stream's next operation must come after.
    pub(super) fn join(&mut self, stream: u64, nodes: &[usize]) {
        let ends = self.ends.entry(stream).or_default();
        ends.extend(nodes);
        ends.sort_unstable();
        ends.dedup();
    }
}

/// All captures in progress.
pub(super) static CAPTURES: Mutex<Vec<Arc<Capture>>> = Mutex::new(Vec::new());

thread_local! {
    /// The thread's capture mode, which decides the calls that it may make while a capture is in progress.
    pub(crate) static CAPTURE_MODE: Cell<hipStreamCaptureMode> =
        const { Cell::new(GLOBAL) };
}

/// If a capture in progress forbids the call, invalidates that capture and returns `code`.
pub(crate) fn forbid_in_capture(code: hipError_t) -> Result<(), hipError_t> {
    let here = std::thread::current().id();
    let mine = CAPTURE_MODE.get();
    let captures = lock(&CAPTURES);
    let conflict = captures.iter().find(|capture| match mine {
        RELAXED => false,
        THREAD_LOCAL => capture.thread == here && capture.mode != RELAXED,
        _ => capture.mode == GLOBAL || (capture.thread == here && capture.mode == THREAD_LOCAL),
    });
    match conflict {
        Some(capture) => {
            capture.invalid.store(true, Ordering::Release);
            Err(code)
        }
        None => Ok(()),
    }
}

impl Capture {
    /// Notes that another stream has waited for all operations of the stream with this number.
    pub(super) fn join(&self, stream: u64) {
        if let Some(joined) = lock(&self.branches).get_mut(&stream) {
            *joined = true;
        }
    }
}
