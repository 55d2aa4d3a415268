//! Captures in progress: the work that their streams are given becomes nodes of a graph.

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
    /// Streams other than the origin that take part: whether their work has been waited for since the last of it.
    pub(super) branches: Mutex<BTreeMap<u64, bool>>,
}

/// What a capture has taken down so far.
#[derive(Default)]
pub(super) struct CapturedWork {
    pub(super) nodes: Vec<Node>,
    /// Of each stream that takes part: what its next work comes after.
    ends: BTreeMap<u64, Vec<usize>>,
}

impl CapturedWork {
    /// What the stream's next work comes after.
    pub(super) fn ends_of(&self, stream: u64) -> Vec<usize> {
        self.ends.get(&stream).cloned().unwrap_or_default()
    }

    pub(super) fn add(&mut self, stream: u64, operation: Operation) {
        let after = self.ends_of(stream);
        self.ends.insert(stream, vec![self.nodes.len()]);
        self.nodes.push(Node { operation, after });
    }

    /// The stream's next work comes after these nodes, too.
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
    /// What this thread may do while a capture is in progress.
    pub(crate) static CAPTURE_MODE: Cell<hipStreamCaptureMode> =
        const { Cell::new(GLOBAL) };
}

/// Refuses calls that may not be made now because a capture is in progress, and spoils the capture.
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
    /// Notes that a stream's captured work has been waited for.
    pub(super) fn join(&self, stream: u64) {
        if let Some(joined) = lock(&self.branches).get_mut(&stream) {
            *joined = true;
        }
    }
}
