//! Monte-Carlo tree search: gathers leaves into batches, evaluates them, backs their values up, and decides when to
//! stop.
//!
//! # The seven steps
//! The hot path is in [`iteration`]: each worker repeats seven steps until the search stops. Each step is a function in
//! a file of its name. Its signature shows the parts of the [`state`] that it reads and changes.
//!
//! | step | file | reads and changes |
//! |---|---|---|
//! | 1 initialise | `iteration/initialise.rs` | frees memory in the tree if it is full, begins a minibatch |
//! | 2 gather | `iteration/gather/` | adds leaves to the minibatch, and visits in flight to the tree |
//! | 3 collisions | `iteration/collisions.rs` | cancels a minibatch without leaves |
//! | 4 prefetch | `iteration/prefetch.rs` | adds positions for the cache to the minibatch |
//! | 5 evaluate | `iteration/evaluate.rs` | parks the minibatch, and turns it into evaluations |
//! | 6 fetch | `iteration/fetch.rs` | expands the leaves in the tree |
//! | 7 back up | `iteration/backup.rs` | counts the visits up to the root, and ends the minibatch |
//!
//! Beside the workers there is one [`watchdog`] thread for the clock. As soon as the search stops, this thread or a
//! worker sends the best move, without waiting for workers that are still evaluating. The next search does not wait for
//! them either: it gets the tree as soon as no worker uses it ([`state`], `Parking`).
//!
//! # The modules
//! Each module uses only modules below it.
//!
//! | module | contents |
//! |---|---|
//! | this file | [`Search`]: starts, stops and ends the threads |
//! | [`iteration`] | the worker and its seven steps |
//! | [`watchdog`] | asks the stoppers, reports, sends the best move |
//! | [`first_choice`] | the move of a search whose root was never evaluated |
//! | [`report`] | the best move, info lines, statistics of moves |
//! | [`state`] | the state that the threads share |
//! | [`stop_conditions`] | chooses the stoppers for one `go` |
//! | [`time`] | the time managers |
//! | [`stop`] | the stoppers |
//! | [`memory`] | how much memory the tree may use |
//! | [`policy`] | the formulas for the scores of moves and the corrections of values |
//! | [`info`] | info lines and the best move as plain data |
//! | [`limits`] | the arguments of `position` and `go` as plain data |

pub mod first_choice;
pub mod info;
mod iteration;
pub mod limits;
#[cfg(all(feature = "loom", test))]
mod loom_tests;
pub mod memory;
pub(crate) mod policy;
pub mod report;
#[cfg(all(feature = "shuttle", test))]
mod shuttle_tests;
mod state;
pub mod stop;
mod stop_conditions;
pub mod time;
mod watchdog;

pub use info::{BestMove, Responder, Score, ThinkingInfo};
pub use limits::{GoParams, PositionCommand, StartPosition};
pub use policy::SearchParams;
pub use state::SearchSetup;
pub use stop::{IterationStats, Stopper, StopperHints, TimeUsageHint};
pub use stop_conditions::{SearchStart, build_stoppers, clock_reading};

pub use report::{RootMove, RootReport};
pub use state::counted_nodes;

use rukh_base::sync::Arc;
use rukh_base::sync::atomic::Ordering;
use rukh_base::sync::thread::{self, JoinHandle};
use rukh_chess::Move;
use state::SearchState;
use std::time::{Duration, Instant};

/// The stack of a search thread, which recurses along the line of play. It has room for the maximum depth.
pub const WORKER_STACK_BYTES: usize = 16 << 20;

/// The remains of a search that has released its tree.
pub struct Released {
    /// The threads of the search, which may still use the backend.
    pub threads: Vec<JoinHandle<()>>,
    /// Whether the tree may be used again. It may not if a thread panicked while it changed the tree.
    pub tree_is_sound: bool,
}

/// A running or finished search. Dropping this value stops the search without sending a move.
pub struct Search {
    state: Arc<SearchState>,
    threads: Vec<JoinHandle<()>>,
}

impl Search {
    /// Starts the threads of a search. It sends its reports and its best move to `responder`.
    ///
    /// # Errors
    /// If the system cannot start the watchdog, or not even one worker. If it starts fewer workers than requested, the
    /// search runs with them and sends a message.
    pub fn start(setup: SearchSetup, responder: Arc<dyn Responder>) -> std::io::Result<Search> {
        let worker_count = setup.params.threads.max(1);
        let state = Arc::new(SearchState::new(setup, responder));
        let mut search = Search { state, threads: Vec::new() };
        if watchdog::answers_at_once(&search.state) {
            search.threads = search.state.take_predecessors();
            return Ok(search);
        }
        let state = search.state.clone();
        search.threads.push(spawn("watchdog", move || watchdog::run_watchdog(&state))?);
        for index in 0..worker_count {
            let state = search.state.clone();
            match spawn(&format!("worker {index}"), move || iteration::run_worker(&state, index)) {
                Ok(thread) => search.threads.push(thread),
                Err(error) if index == 0 => return Err(error),
                Err(error) => {
                    let responder = &search.state.context.responder;
                    responder.message(&format!("only {index} search threads could be started: {error}"));
                    break;
                }
            }
        }
        Ok(search)
    }

    /// Runs a search on the calling thread until it has sent its best move. A program that runs hundreds of searches
    /// saves the threads: nothing watches a clock, so `setup` must have no limit of time, and nothing stops the search
    /// from outside but its stopper. The calling thread needs a stack of [`WORKER_STACK_BYTES`].
    pub fn run(setup: SearchSetup, responder: Arc<dyn Responder>) -> Search {
        let mut setup = setup;
        setup.params.threads = 1;
        let search = Search { state: Arc::new(SearchState::new(setup, responder)), threads: Vec::new() };
        if !watchdog::answers_at_once(&search.state) {
            iteration::run_worker(&search.state, 0);
            watchdog::answer(&search.state);
        }
        search
    }

    /// Stops the search. The best move is sent at once.
    pub fn stop(&self) {
        self.state.control.lock().may_respond = true;
        self.state.control.stop();
    }

    /// Stops the search without sending a move.
    pub fn abort(&self) {
        self.state.control.lock().has_responded = true;
        self.state.control.stop();
    }

    /// Continues as an ordinary search, because the opponent has played the expected move. From now on `stopper`
    /// decides when to stop, and the clock has run since `start`.
    pub fn ponder_hit(&self, stopper: Box<dyn Stopper>, start: Instant) {
        let SearchState { context, counters, control: shared, .. } = &*self.state;
        let mut control = shared.lock();
        control.stopper = stopper;
        control.start = start;
        control.may_respond = true;
        // The stoppers are asked now, because the time may be up before the running batch is done.
        watchdog::consult_stoppers(context, counters, shared, &mut control);
        drop(control);
        shared.notify();
    }

    /// Blocks until the best move has been sent.
    pub fn wait_for_move(&self) {
        let shared = &self.state.control;
        let mut control = shared.lock();
        while !control.has_responded {
            control = shared.wait(control, Duration::from_secs(1));
        }
    }

    /// Whether the best move has been sent.
    pub fn has_responded(&self) -> bool {
        self.state.control.lock().has_responded
    }

    /// Visits that this search has made.
    pub fn playouts(&self) -> u64 {
        self.state.counters.playouts.load(Ordering::Relaxed)
    }

    /// Visits of this search that needed no evaluation, because a shared node already had them from other parents
    /// ([`rukh_tree`]).
    pub fn absorbed_visits(&self) -> u64 {
        self.state.counters.absorbed.load(Ordering::Relaxed)
    }

    /// Visits of the root, including those from earlier searches. If only some of its moves are searched, only the visits
    /// below those count.
    pub fn total_nodes(&self) -> u64 {
        self.state.context.nodes(self.playouts())
    }

    /// Whether the root has been evaluated, by this search or an earlier one.
    pub fn has_evaluation(&self) -> bool {
        self.state.context.root().visits() > 0
    }

    /// How long the search was meant to take: until the end that its clock planned, or until it stopped before that. `None`
    /// if it has no clock or has not stopped.
    pub fn intended_time(&self) -> Option<Duration> {
        let control = self.state.control.lock();
        let stopped = control.stopped_at?.duration_since(control.start);
        control.planned_end.map(|planned| planned.min(stopped))
    }

    /// The message of the error that ended the search. `None` if there was no error.
    pub fn failure(&self) -> Option<String> {
        self.state.control.lock().failure.clone()
    }

    /// Stops the search without sending a move, and releases the tree. Afterwards no thread of the search touches the
    /// tree. Some threads may still wait for evaluations that are no longer needed; this function does not wait for
    /// these threads.
    pub fn release(mut self) -> Released {
        self.abort();
        let tree_is_sound = self.state.release_tree();
        Released { threads: std::mem::take(&mut self.threads), tree_is_sound }
    }

    /// What the search has found out about its root. [`Search::end_threads`] must have been called.
    pub fn root_report(&self) -> RootReport {
        report::root_report(&self.state.context)
    }

    /// Chooses a move once more, which may be another one if the temperature is not 0. [`Search::end_threads`] must have
    /// been called.
    pub fn choose_again(&self) -> Option<Move> {
        let context = &self.state.context;
        report::best_move(context, &report::ranked_root_moves(context)).best
    }

    /// Stops the search without sending a move, and waits for its threads.
    pub fn end_threads(&mut self) {
        self.abort();
        for thread in self.threads.drain(..) {
            // `run_worker` has reported a worker's panic.
            let _ = thread.join();
        }
    }
}

impl Drop for Search {
    fn drop(&mut self) {
        self.end_threads();
    }
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
    thread::Builder::new().name(name.to_owned()).stack_size(WORKER_STACK_BYTES).spawn(body)
}
