//! Operations of a stream, and marks between them.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use hip_runtime_sys::hipError_t;

use crate::launch;
use crate::settings::{Clock, settings};
use crate::sync::lock;

/// The failure of an operation.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) code: hipError_t,
    pub(crate) message: String,
}

/// One operation of a stream. If it was captured, its graph runs it again at every launch.
pub(crate) type Operation = Arc<dyn Fn() -> Result<(), Failure> + Send + Sync>;

/// The nanoseconds that operations have added to the clock, unless it is the machine's.
static ADDED: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// Whether a kernel was the last thing that the thread of a stream has computed, and not a GEMM of rocBLAS.
    pub(crate) static AFTER_KERNEL: Cell<bool> = const { Cell::new(false) };
}

/// Lets so much time pass on the clock that events read.
pub(crate) fn spend(time: Duration) {
    match settings().clock {
        Clock::Real => std::thread::sleep(time),
        Clock::Instructions | Clock::Lines => {
            ADDED.fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
        }
    }
}

/// The time on the clock that events read.
fn now() -> Instant {
    static START: OnceLock<Instant> = OnceLock::new();
    let nanoseconds = match settings().clock {
        Clock::Real => return Instant::now(),
        Clock::Instructions => launch::instructions_executed(),
        Clock::Lines => 100 * launch::lines_loaded(),
    };
    *START.get_or_init(Instant::now) + Duration::from_nanos(nanoseconds + ADDED.load(Ordering::Relaxed))
}

/// A point between a stream's operations that other threads can wait for.
#[derive(Default)]
pub(crate) struct Mark {
    /// The time at which the stream reached the mark, and the error if the stream had failed before.
    reached: Mutex<Option<(Instant, Option<hipError_t>)>>,
    changed: Condvar,
}

impl Mark {
    pub(super) fn reach(&self, failure: Option<hipError_t>) {
        *lock(&self.reached) = Some((now(), failure));
        self.changed.notify_all();
    }

    /// Waits until the stream reaches the mark. Returns the time at which it did, and the error if the stream had
    /// failed before.
    pub(crate) fn wait(&self) -> (Instant, Option<hipError_t>) {
        let mut reached = lock(&self.reached);
        loop {
            if let Some(result) = *reached {
                return result;
            }
            reached = self.changed.wait(reached).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Returns the same as [`Mark::wait`], or `None` if the stream has not reached the mark yet.
    pub(crate) fn state(&self) -> Option<(Instant, Option<hipError_t>)> {
        *lock(&self.reached)
    }
}
