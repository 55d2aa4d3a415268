//! Atomics, locks and threads, as the modules take them in which threads meet: those of `std`, and in a build that
//! checks the protocols between threads those of a model checker.
//!
//! | build | types | what is run |
//! |---|---|---|
//! | any other | `std`'s, nothing between | |
//! | `--features loom` | `loom`'s: all orders of a few steps, and all values that each ordering lets a thread see | the modules `loom_tests` |
//! | `--features shuttle` | `shuttle`'s: random schedules of whole searches, all atomics sequentially consistent | `search::shuttle_tests` |
//!
//! `scripts/checks/concurrency.sh` runs both. These are not for use: nothing but those tests runs in such a build.

#[cfg(all(feature = "loom", feature = "shuttle"))]
compile_error!("loom and shuttle take each other's place: one feature at a time");

pub(crate) use std::sync::{Arc, PoisonError};

#[cfg(not(any(feature = "loom", feature = "shuttle")))]
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, RwLock, atomic};

#[cfg(feature = "loom")]
pub use loom::sync::{Condvar, Mutex, MutexGuard, RwLock, atomic};

#[cfg(feature = "shuttle")]
pub use shuttle::sync::{Condvar, Mutex, MutexGuard, RwLock, atomic};

// Initialising is never interrupted in a schedule: `std`'s never blocks there.
#[cfg(feature = "shuttle")]
pub use std::sync::OnceLock;

// The models start their own threads.
#[cfg(not(feature = "shuttle"))]
pub(crate) use std::thread;

#[cfg(feature = "shuttle")]
pub use shuttle::thread;

/// Channels of a bounded number of messages.
pub(crate) mod channel {
    #[cfg(not(feature = "shuttle"))]
    pub(crate) use crossbeam_channel::{Receiver, Sender, bounded};

    #[cfg(feature = "shuttle")]
    pub use shuttle::sync::mpsc::{Receiver, SyncSender as Sender, sync_channel as bounded};
}

use std::time::Duration;

/// Whether a thread has ended, so that joining it takes no time. A schedule does not tell: `false`.
pub(crate) fn is_finished<T>(thread: &thread::JoinHandle<T>) -> bool {
    #[cfg(not(feature = "shuttle"))]
    return thread.is_finished();
    #[cfg(feature = "shuttle")]
    {
        let _ = thread;
        false
    }
}

/// Sleeps until `changed` is notified, at most for `limit`; it may also wake for no reason. `mutex` is the guard's.
pub(crate) fn wait_timeout<'a, T>(
    changed: &Condvar,
    mutex: &'a Mutex<T>,
    guard: MutexGuard<'a, T>,
    limit: Duration,
) -> MutexGuard<'a, T> {
    #[cfg(not(any(feature = "loom", feature = "shuttle")))]
    {
        let _ = mutex;
        changed.wait_timeout(guard, limit).unwrap_or_else(PoisonError::into_inner).0
    }
    // No time passes in a model: the limit may be over at any moment.
    #[cfg(any(feature = "loom", feature = "shuttle"))]
    {
        let _ = (changed, limit);
        drop(guard);
        #[cfg(feature = "loom")]
        loom::thread::yield_now();
        #[cfg(feature = "shuttle")]
        thread::yield_now();
        mutex.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `std`'s, whose readers `loom` cannot follow: it sees who initialises, and that every other thread that does so too
/// comes after. Who only reads must have learned from one of these that there is something: that `loom` checks at the
/// atomics inside.
#[cfg(feature = "loom")]
pub struct OnceLock<T> {
    value: std::sync::OnceLock<T>,
    turn: Mutex<()>,
}

#[cfg(feature = "loom")]
impl<T> OnceLock<T> {
    /// Without a value.
    pub fn new() -> OnceLock<T> {
        OnceLock { value: std::sync::OnceLock::new(), turn: Mutex::new(()) }
    }

    /// The value, if there is one.
    pub fn get(&self) -> Option<&T> {
        self.value.get()
    }

    /// The value, made if there is none.
    pub fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.value.get_or_init(make)
    }
}

/// Runs `body` in all orders of its threads' steps that have at most `preemptions` switches away from a thread that
/// could go on (`LOOM_MAX_PREEMPTIONS` says otherwise), and with all values that it may see.
#[cfg(all(feature = "loom", test))]
pub(crate) fn check_model(preemptions: usize, body: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(preemptions));
    builder.max_branches = builder.max_branches.max(20_000);
    builder.check(body);
}
