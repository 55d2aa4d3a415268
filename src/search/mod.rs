//! Monte-Carlo tree search: gathers leaves into batches, selects, backs up, decides when to stop.
//!
//! The hot path starts in [`worker`]: one iteration is seven numbered steps, and the numbers stand at the calls and
//! at the functions that do them.
//!
//! | step | where |
//! |---|---|
//! | 1 initialise, 2 gather | [`gather`], choosing by [`select`] |
//! | 3 collisions | [`worker`], counted by [`gather`] |
//! | 4 prefetch | [`gather`] |
//! | 5 evaluate | [`worker`], in [`crate::backend`] |
//! | 6 fetch | [`gather`] (edges), [`worker`] |
//! | 7 back up | [`backup`] |
//!
//! What visits add up to is plain sums, unless uncertainty or a correction history is asked for: see [`tally`],
//! [`uncertainty`], [`correction_history`].
//!
//! Beside the workers one *controller* thread keeps the clock: it asks the [`stoppers`], tells news, and tells the
//! best move the moment the search stops, without waiting for workers that are still evaluating. Nor does the next
//! search wait for them to get the tree: see [`desks`]. A tree that has used up its memory makes room and goes on:
//! see [`memory`]. A search for a mate looks at less than others: see [`mate`].

mod backup;
mod best;
pub mod contempt;
mod control;
pub mod correction_history;
mod desks;
mod gather;
pub mod info;
pub mod limits;
mod mate;
pub mod math;
pub mod memory;
mod minibatch;
#[cfg(all(feature = "loom", test))]
mod models;
mod outcome_model;
pub mod params;
mod report;
#[cfg(all(feature = "shuttle", test))]
mod schedules;
pub mod select;
mod shared;
pub mod stopper;
pub mod stoppers;
mod tally;
pub mod time;
pub mod uncertainty;
mod worker;

pub use info::{BestMove, Responder, Score, ThinkingInfo};
pub use limits::{GoParams, PositionCommand, StartPosition};
pub use params::SearchParams;
pub use stopper::{IterationStats, Stopper, StopperHints, TimeUsageHint};

use crate::backend::Backend;
use crate::chess::tablebase::Tablebases;
use crate::chess::{PackedMove, PositionHistory};
use crate::options::{Options, ScoreType};
use crate::sync::Arc;
use crate::sync::thread::{self, JoinHandle};
use crate::tree::Tree;
use correction_history::CorrectionHistory;
use shared::Shared;
use std::time::Instant;

/// Search threads recurse along the line of play: room for the deepest.
const WORKER_STACK_BYTES: usize = 16 << 20;

/// All that a search needs to begin.
pub struct SearchSetup {
    /// Its root is the last position of `history`.
    pub tree: Arc<Tree>,
    /// Evaluates leaves.
    pub backend: Arc<dyn Backend>,
    /// Steers the search.
    pub params: SearchParams,
    /// How scores are shown.
    pub score_type: ScoreType,
    /// The game up to the root, which must have a legal move.
    pub history: PositionHistory,
    /// The root moves to search; empty: all.
    pub searchmoves: Vec<PackedMove>,
    /// Tables that leaves are looked up in; `None` where there are none, or where the root's moves were already
    /// chosen by distance: then the network must find the way.
    pub tablebases: Option<Arc<Tablebases>>,
    /// Look-ups that were answered before the search began.
    pub tablebase_hits: u64,
    /// What earlier searches of the game found out about the network's values, if that is wanted.
    pub correction_history: Option<Arc<CorrectionHistory>>,
    /// Bytes that the tree may take; see [`memory`].
    pub memory_limit: u64,
    /// The most visits that the root may have; `None`: no limit.
    pub visit_limit: Option<u64>,
    /// Decides when to stop.
    pub stopper: Box<dyn Stopper>,
    /// When the move's clock started.
    pub start: Instant,
    /// Infinite or pondering: the best move is told only after [`Search::stop`] or [`Search::ponder_hit`].
    pub is_open_ended: bool,
    /// Threads of earlier searches that may still evaluate: the workers wait for them, and nobody else does.
    pub predecessors: Vec<JoinHandle<()>>,
}

impl SearchSetup {
    /// A search of `tree`, whose root is the last position of `history`, until `stopper` ends it: with default
    /// parameters and all of the root's moves, from now on, and without tables, limits or anything from earlier
    /// searches.
    pub fn new(
        tree: Arc<Tree>,
        backend: Arc<dyn Backend>,
        history: PositionHistory,
        stopper: Box<dyn Stopper>,
    ) -> SearchSetup {
        SearchSetup {
            tree,
            backend,
            params: SearchParams::default(),
            score_type: Options::default().score_type,
            history,
            searchmoves: Vec::new(),
            tablebases: None,
            tablebase_hits: 0,
            correction_history: None,
            memory_limit: u64::MAX,
            visit_limit: None,
            stopper,
            start: Instant::now(),
            is_open_ended: false,
            predecessors: Vec::new(),
        }
    }
}

/// What is left of a search that let go of its tree.
pub struct Released {
    /// Its threads, which may still evaluate.
    pub threads: Vec<JoinHandle<()>>,
    /// Whether the tree may be used again. Not if a thread panicked while it worked on it.
    pub tree_is_sound: bool,
}

/// A running (or finished) search. Dropping it stops it without a word.
pub struct Search {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Search {
    /// Starts the threads.
    ///
    /// # Errors
    /// If the system gives no thread at all; a smaller number of workers is not an error.
    pub fn start(setup: SearchSetup, responder: Arc<dyn Responder>) -> std::io::Result<Search> {
        let worker_count = setup.params.threads.max(1);
        let shared = Arc::new(Shared::new(setup, responder));
        let mut search = Search { shared, threads: Vec::new() };
        let shared = search.shared.clone();
        search.threads.push(spawn("controller", move || shared.run_controller())?);
        for index in 0..worker_count {
            let shared = search.shared.clone();
            match spawn(&format!("worker {index}"), move || shared.run_worker(index)) {
                Ok(thread) => search.threads.push(thread),
                Err(error) if index == 0 => return Err(error),
                Err(error) => {
                    search.shared.responder.message(&format!("only {index} search threads: {error}"));
                    break;
                }
            }
        }
        Ok(search)
    }

    /// Stops: the best move is told at once.
    pub fn stop(&self) {
        self.shared.control().may_respond = true;
        self.shared.stop_workers();
    }

    /// Stops without telling a move.
    pub fn abort(&self) {
        self.shared.control().has_responded = true;
        self.shared.stop_workers();
    }

    /// The pondered move was played: from now on `stopper` decides, and the clock runs since `start`.
    pub fn ponder_hit(&self, stopper: Box<dyn Stopper>, start: Instant) {
        let mut control = self.shared.control();
        control.stopper = stopper;
        control.start = start;
        control.may_respond = true;
        // Now, not after the batch under way: the time may be up before it.
        self.shared.consult_stoppers(&mut control);
        drop(control);
        self.shared.notify_control();
    }

    /// Blocks until the best move was told.
    pub fn wait_for_move(&self) {
        let mut control = self.shared.control();
        while !control.has_responded {
            control = self.shared.wait_for_control(control, std::time::Duration::from_secs(1));
        }
    }

    /// Whether the best move was told.
    pub fn has_responded(&self) -> bool {
        self.shared.control().has_responded
    }

    /// Visits that this search has made.
    pub fn playouts(&self) -> u64 {
        self.shared.counters.playouts.load(crate::sync::atomic::Ordering::Relaxed)
    }

    /// Visits of this search that cost nothing, for a shared node had them from other parents ([`crate::tree`]).
    pub fn absorbed_visits(&self) -> u64 {
        self.shared.counters.absorbed.load(crate::sync::atomic::Ordering::Relaxed)
    }

    /// Visits of the root, reused ones included.
    pub fn total_nodes(&self) -> u64 {
        self.shared.initial_visits + self.playouts()
    }

    /// Why the search ended early, where it did.
    pub fn failure(&self) -> Option<String> {
        self.shared.failure()
    }

    /// Stops without telling a move, and lets go of the tree: afterwards nothing touches it, though threads may
    /// still wait for an evaluation that nobody needs. Does not wait for them.
    pub fn release(mut self) -> Released {
        self.abort();
        let tree_is_sound = self.shared.let_go_of_tree();
        Released { threads: std::mem::take(&mut self.threads), tree_is_sound }
    }

    fn end_threads(&mut self) {
        self.abort();
        for thread in self.threads.drain(..) {
            // A worker's panic was reported by `run_worker`; there is nothing more to say here.
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
