//! Runs a search that shares its backend with others.

use super::evaluator::SharedEvaluator;
use rukh_search::stop::{IterationStats, Stopper, StopperHints};
use rukh_search::{Responder, Search, SearchSetup};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What a search says when it has ended, beside what its responder has received.
#[derive(Clone, Debug)]
pub(crate) struct Ended {
    /// The visits that the search made.
    pub(crate) playouts: u64,
    /// The error that ended the search.
    pub(crate) failure: Option<String>,
}

/// Runs a search to its end. It uses the calling thread, which needs a stack of
/// [`WORKER_STACK_BYTES`](rukh_search::WORKER_STACK_BYTES), unless the search `is_timed` or has several threads.
///
/// # Errors
/// The system starts no thread.
pub(crate) fn run_to_end(
    setup: SearchSetup,
    is_timed: bool,
    evaluator: &SharedEvaluator,
    responder: Arc<dyn Responder>,
) -> io::Result<Ended> {
    run_and_read(setup, is_timed, evaluator, responder, |_| ()).map(|(ended, ())| ended)
}

/// Runs a search like [`run_to_end`], and then calls `read` with the search, whose threads have ended.
///
/// # Errors
/// The system starts no thread.
pub(crate) fn run_and_read<T>(
    setup: SearchSetup,
    is_timed: bool,
    evaluator: &SharedEvaluator,
    responder: Arc<dyn Responder>,
    read: impl FnOnce(&Search) -> T,
) -> io::Result<(Ended, T)> {
    let threads = setup.params.threads;
    let _searching: Vec<_> = (0..threads).map(|_| evaluator.begin_search()).collect();
    let mut search = if !is_timed && threads == 1 {
        Search::run(setup, responder)
    } else {
        let search = Search::start(setup, responder)?;
        search.wait_for_move();
        search
    };
    search.end_threads();
    let read = read(&search);
    Ok((Ended { playouts: search.playouts(), failure: search.failure() }, read))
}

/// The stoppers of a search, which also end it when a flag is set. It is only a flag, so its orderings are Relaxed.
pub(crate) struct FlagStopper<S> {
    pub(crate) inner: S,
    pub(crate) is_ending: Arc<AtomicBool>,
}

impl<S: Stopper> Stopper for FlagStopper<S> {
    fn should_stop(&mut self, stats: &IterationStats, hints: &mut StopperHints) -> bool {
        self.inner.should_stop(stats, hints) || self.is_ending.load(Ordering::Relaxed)
    }

    fn patience(&self) -> Option<Duration> {
        self.inner.patience()
    }

    fn last_moment(&self) -> Option<Duration> {
        self.inner.last_moment()
    }

    fn on_search_done(&mut self, stats: &IterationStats) {
        self.inner.on_search_done(stats);
    }
}
