//! Waits that end even if the device hangs.
//!
//! HIP's own waits block until the device is done, and a hung device never is. So a thread asks again and again whether
//! the work is done, and gives up after a limit. From then on the device counts as hung. Nothing waits for it any more,
//! and its memory, streams and handles are leaked: the calls that free them would wait for the device too, or would
//! give away memory that the device may still use.

use super::super::error::{GpuError, Result};
use hip_runtime_sys as sys;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// The way in which a slot's thread waits for its batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waiting {
    /// Sleeps between two polls. This takes almost no processor time, but the end of a short batch is noticed some 50
    /// microseconds late, and that of a long one up to a 64th of its duration late (at most a millisecond).
    Block,
    /// Polls, and yields the processor between two polls.
    Yield,
    /// Polls without yielding the processor.
    Spin,
}

/// The time between two polls without sleep. Each poll takes the driver's lock, which other slots need too.
const POLL_INTERVAL: Duration = Duration::from_micros(2);

/// The shortest and the longest sleep between two polls. Between them, a sleep lasts a [`SLEEP_SHARE`]th of the time
/// that the thread has waited so far.
const SHORTEST_SLEEP: Duration = Duration::from_micros(20);
const LONGEST_SLEEP: Duration = Duration::from_millis(1);
const SLEEP_SHARE: u32 = 64;

/// Before its first poll, a thread sleeps for half of the work's usual time, if that half is longer than this.
const SHORTEST_FIRST_SLEEP: Duration = Duration::from_micros(400);

/// Work counts as hung after this multiple of its usual time, if that is longer than the device's patience.
const USUAL_TIMES: u32 = 20;

/// Work that may be the first of its kind counts as hung after this multiple of the device's patience, because
/// libraries load code at first use.
const FIRST_TIMES: u32 = 6;

/// The patience with a device, unless [`Health::set_patience`] changes it.
pub(crate) const DEFAULT_PATIENCE: Duration = Duration::from_secs(10);

/// Whether an opened device still answers.
pub(crate) struct Health {
    ordinal: i32,
    patience_milliseconds: AtomicU64,
    /// The reason why the device counts as hung.
    hang: OnceLock<String>,
}

/// Work on a stream that a thread waits for.
pub(super) struct Work<'a> {
    pub(super) hip: &'static sys::Hip,
    pub(super) stream: sys::hipStream_t,
    /// The work in words, for the error message.
    pub(super) name: &'a str,
    /// The time that such work took before; `None` if this may be the first work of its kind.
    pub(super) usual: Option<Duration>,
}

/// A leaked stream of a device that hung.
struct Unfinished {
    hip: &'static sys::Hip,
    ordinal: i32,
    stream: sys::hipStream_t,
}

// SAFETY: HIP's streams may be used from any thread.
unsafe impl Send for Unfinished {}

/// The streams whose work was given up, of all devices of this process.
static UNFINISHED: Mutex<Vec<Unfinished>> = Mutex::new(Vec::new());

impl Health {
    /// The health of device number `ordinal`, which must be the thread's current device. It lives until the process
    /// ends.
    ///
    /// # Errors
    /// The device hung before in this process, and still has not finished that work.
    pub(super) fn of(ordinal: i32) -> Result<&'static Health> {
        let mut unfinished = UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner);
        unfinished.retain(|work| {
            // SAFETY: a stream whose work was given up is never destroyed.
            let is_running = || unsafe { (work.hip.hipStreamQuery)(work.stream) } == sys::hipErrorNotReady;
            work.ordinal != ordinal || is_running()
        });
        if unfinished.iter().any(|work| work.ordinal == ordinal) {
            return Err(GpuError::Hang(format!(
                "device {ordinal} hung earlier and still has not finished its work"
            )));
        }
        let patience_milliseconds = AtomicU64::new(DEFAULT_PATIENCE.as_millis() as u64);
        Ok(Box::leak(Box::new(Health { ordinal, patience_milliseconds, hang: OnceLock::new() })))
    }

    /// Sets the time after which work that usually is short counts as hung.
    pub(super) fn set_patience(&self, patience: Duration) {
        self.patience_milliseconds.store(patience.as_millis() as u64, Ordering::Relaxed);
    }

    /// Whether the device has left work unfinished. Nothing may then wait for it or free what it may still use.
    pub(super) fn is_hung(&self) -> bool {
        self.hang.get().is_some()
    }

    /// Fails if the device is hung.
    pub(super) fn check(&self) -> Result<()> {
        match self.hang.get() {
            Some(reason) => Err(GpuError::Hang(reason.clone())),
            None => Ok(()),
        }
    }

    /// Waits until `is_done` returns true.
    ///
    /// # Errors
    /// `is_done` fails, or the device is hung.
    pub(super) fn wait(
        &self,
        work: &Work<'_>,
        waiting: Waiting,
        is_done: impl Fn() -> Result<bool>,
    ) -> Result<()> {
        let begin = Instant::now();
        if let Some(usual) = work.usual
            && usual / 2 > SHORTEST_FIRST_SLEEP
        {
            std::thread::sleep(usual / 2);
        }
        loop {
            // The time is read before the device is asked, so that a process that was stopped meanwhile asks again.
            let elapsed = begin.elapsed();
            if is_done()? {
                return Ok(());
            }
            self.check()?;
            if elapsed > self.limit(work.usual) {
                return Err(self.give_up(work));
            }
            pause(waiting, elapsed);
        }
    }

    fn limit(&self, usual: Option<Duration>) -> Duration {
        let patience = Duration::from_millis(self.patience_milliseconds.load(Ordering::Relaxed));
        match usual {
            Some(usual) => patience.max(usual.saturating_mul(USUAL_TIMES)),
            None => patience.saturating_mul(FIRST_TIMES),
        }
    }

    /// Notes that the device has not finished the work in time.
    fn give_up(&self, work: &Work<'_>) -> GpuError {
        let &Work { hip, stream, name, usual } = work;
        let (ordinal, seconds) = (self.ordinal, self.limit(usual).as_secs_f32());
        UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner).push(Unfinished { hip, ordinal, stream });
        let reason = format!("device {ordinal} has not finished {name} within {seconds} s");
        GpuError::Hang(self.hang.get_or_init(|| reason).clone())
    }
}

/// Passes the time until the next poll. `elapsed` is the time since the wait began.
fn pause(waiting: Waiting, elapsed: Duration) {
    let between_polls = match waiting {
        Waiting::Block => {
            return std::thread::sleep((elapsed / SLEEP_SHARE).clamp(SHORTEST_SLEEP, LONGEST_SLEEP));
        }
        Waiting::Yield => std::thread::yield_now,
        Waiting::Spin => std::hint::spin_loop,
    };
    let polled = Instant::now();
    while polled.elapsed() < POLL_INTERVAL {
        between_polls();
    }
}
