//! Events.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use hip_runtime_sys::hipError_t;

use super::capture::Capture;
use super::work::Mark;
use crate::sync::lock;

/// What an event was last recorded on.
#[derive(Clone, Default)]
pub(super) enum Recorded {
    #[default]
    Never,
    Marked(Arc<Mark>),
    /// In a capture, on this stream, after these of its nodes.
    Captured(Arc<Capture>, u64, Vec<usize>),
}

/// An event.
#[derive(Default)]
pub(crate) struct Event {
    pub(crate) timing: bool,
    pub(super) recorded: Mutex<Recorded>,
}

impl Event {
    pub(crate) fn new(timing: bool) -> Self {
        Self { timing, recorded: Mutex::default() }
    }

    /// The place it stands at: `Ok(None)` where it was never recorded, an error in a capture.
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
