//! Atomics, locks and threads for the modules that several threads use. They are those of `std`, except in builds that
//! check the protocols between threads with a model checker.
//!
//! | build | source of the types | tests that need this build |
//! |---|---|---|
//! | default | `std` | none |
//! | `--features loom` | `loom` | the modules `loom_tests` |
//! | `--features shuttle` | `shuttle` | the modules `shuttle_tests` |
//!
//! `loom` runs every interleaving of a few steps, with every value that the memory orderings allow. `shuttle` runs
//! whole searches in random schedules, with all atomics sequentially consistent. `scripts/checks/concurrency.sh` runs
//! both. The builds with a model checker are only for these tests.

#[cfg(all(feature = "loom", feature = "shuttle"))]
compile_error!("the features loom and shuttle exclude each other");

use std::sync::TryLockError;
pub use std::sync::{Arc, PoisonError};

#[cfg(not(any(feature = "loom", feature = "shuttle")))]
pub use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, RwLock, atomic};

#[cfg(feature = "loom")]
pub use loom::sync::{Condvar, Mutex, MutexGuard, RwLock, atomic};

#[cfg(feature = "shuttle")]
pub use shuttle::sync::{Condvar, Mutex, MutexGuard, RwLock, atomic};

// shuttle never switches threads during an initialisation, so no thread ever has to wait at `std`'s type.
#[cfg(feature = "shuttle")]
pub use std::sync::OnceLock;

// Under loom this stays `std`'s module, because loom's tests start their threads with `loom::thread`.
#[cfg(not(feature = "shuttle"))]
pub use std::thread;

#[cfg(feature = "shuttle")]
pub use shuttle::thread;

/// Channels with a bounded number of messages.
pub mod channel {
    #[cfg(not(feature = "shuttle"))]
    pub use crossbeam_channel::{Receiver, Sender, bounded};

    #[cfg(feature = "shuttle")]
    pub use shuttle::sync::mpsc::{Receiver, SyncSender as Sender, sync_channel as bounded};
}

use std::io;
use std::time::Duration;

/// Locks a mutex if no other thread has locked it at this moment. What a mutex of this crate holds stays usable after the
/// panic of another thread.
pub fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Lets other threads run for about a tenth of a millisecond.
pub fn pause() {
    #[cfg(not(any(feature = "loom", feature = "shuttle")))]
    thread::sleep(Duration::from_micros(100));
    #[cfg(feature = "loom")]
    loom::thread::yield_now();
    #[cfg(feature = "shuttle")]
    thread::yield_now();
}

/// The size of the stack of a thread that does not search, in bytes. It is also Rust's own default, which the environment
/// can change (`RUST_MIN_STACK`).
pub const STACK_BYTES: usize = 2 << 20;

/// Starts a thread that does not search. Under shuttle it is one of shuttle's, so that its steps come in random order
/// with those of the others.
///
/// # Errors
/// The system starts no thread.
pub fn start_thread<T: Send + 'static>(
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> io::Result<thread::JoinHandle<T>> {
    thread::Builder::new().name(name.to_owned()).stack_size(STACK_BYTES).spawn(body)
}

/// [`start_thread`] with a thread of the system in every build: for a thread that waits for something that no model
/// checker knows, such as a pipe, or shares only types of `std` with others.
///
/// # Errors
/// The system starts no thread.
pub fn start_system_thread<T: Send + 'static>(
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> io::Result<std::thread::JoinHandle<T>> {
    std::thread::Builder::new().name(name.to_owned()).stack_size(STACK_BYTES).spawn(body)
}

/// Waiting for another thread that is about to end what it does, in a loop.
#[derive(Default)]
pub struct Spin {
    rounds: u32,
}

impl Spin {
    /// Waits for a moment. After some microseconds in all, other threads may run, because the one that is waited for may
    /// have lost its processor.
    #[cold]
    pub fn wait(&mut self) {
        self.rounds += 1;
        #[cfg(not(any(feature = "loom", feature = "shuttle")))]
        if self.rounds > 100 {
            thread::yield_now();
        } else {
            std::hint::spin_loop();
        }
        #[cfg(feature = "loom")]
        loom::thread::yield_now();
        #[cfg(feature = "shuttle")]
        thread::yield_now();
    }
}

/// Whether a thread has ended, so that joining it does not block. Always `false` under shuttle, which cannot tell.
pub fn is_finished<T>(thread: &thread::JoinHandle<T>) -> bool {
    #[cfg(not(feature = "shuttle"))]
    return thread.is_finished();
    #[cfg(feature = "shuttle")]
    {
        let _ = thread;
        false
    }
}

/// Waits until `changed` is notified, but no longer than `limit`. The wait may also end spuriously. `guard` must be a
/// guard of `mutex`.
pub fn wait_timeout<'a, T>(
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
    // Model checkers have no clock, so the limit may expire at any moment.
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

/// `std`'s `OnceLock` with a mutex around initialisation. `loom` sees the mutex, so it checks that one thread
/// initialises the value and that all other threads that call `get_or_init` come after that thread. `loom` does not see
/// calls of `get`. Before such a call, the thread must have synchronised with the initialising thread through other
/// atomics, and `loom` checks those.
#[cfg(feature = "loom")]
pub struct OnceLock<T> {
    value: std::sync::OnceLock<T>,
    turn: Mutex<()>,
}

#[cfg(feature = "loom")]
impl<T> OnceLock<T> {
    /// An empty cell.
    pub fn new() -> OnceLock<T> {
        OnceLock { value: std::sync::OnceLock::new(), turn: Mutex::new(()) }
    }

    /// The value; `None` if it is not initialised.
    pub fn get(&self) -> Option<&T> {
        self.value.get()
    }

    /// The value, initialised by `make` if necessary.
    pub fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.value.get_or_init(make)
    }

    /// The value of a cell that no other thread uses; `None` if it is not initialised.
    pub fn into_inner(self) -> Option<T> {
        self.value.into_inner()
    }
}

/// Runs `body` in every interleaving of its threads with at most `preemptions` preemptions, and with every value that
/// the memory orderings allow. The environment variable `LOOM_MAX_PREEMPTIONS` overrides `preemptions`.
#[cfg(feature = "loom")]
pub fn check_model(preemptions: usize, body: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(preemptions));
    builder.max_branches = builder.max_branches.max(20_000);
    builder.check(body);
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::*;

    /// A thread's name is what `ps` and a debugger show.
    #[test]
    fn a_thread_has_its_name_and_returns_its_value() {
        let name = || thread::current().name().map(str::to_owned);
        assert_eq!(start_thread("one", name).unwrap().join().unwrap().as_deref(), Some("one"));
        assert_eq!(start_system_thread("two", name).unwrap().join().unwrap().as_deref(), Some("two"));
    }
}
