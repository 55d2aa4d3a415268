//! Events. An event marks a point in a stream's order or in a capture.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use hip_runtime_sys::hipError_t;

use super::capture::Capture;
use super::work::Mark;
use crate::sync::lock;

/// The point at which an event was last recorded.
#[derive(Clone, Default)]
pub(super) enum Recorded {
    #[default]
    Never,
    Marked(Arc<Mark>),
    /// The event was recorded in this capture, on the stream with this number, after these nodes.
    Captured(Arc<Capture>, u64, Vec<usize>),
}

#[derive(Default)]
pub(crate) struct Event {
    pub(crate) timing: bool,
    pub(super) recorded: Mutex<Recorded>,
}

impl Event {
    pub(crate) fn new(timing: bool) -> Self {
        Self { timing, recorded: Mutex::default() }
    }

    /// The mark at which the event was recorded, or `Ok(None)` if it was never recorded. If the event was recorded in a
    /// capture, the call fails and invalidates the capture.
    pub(crate) fn mark(&self) -> Result<Option<Arc<Mark>>, hipError_t> {
        match &*lock(&self.recorded) {
            Recorded::Never => Ok(None),
            Recorded::Marked(mark) => Ok(Some(Arc::clone(mark))),
            Recorded::Captured(capture, ..) => {
                capture.invalid.store(true, Ordering::Release);
                Err(hip_runtime_sys::hipErrorCapturedEvent)
            }
        }
    }
}
