//! What the threads of one search share.

use super::correction_history::CorrectionHistory;
use super::desks::Desks;
use super::info::Responder;
use super::minibatch::Gathered;
use super::{SearchParams, StopperHints};
use crate::backend::{Backend, BackendError};
use crate::chess::tablebase::Tablebases;
use crate::chess::{PackedMove, PositionHistory};
use crate::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use crate::sync::thread::JoinHandle;
use crate::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, wait_timeout};
use crate::tree::{Allocator, LinkId, Node, State, Tree};
use std::time::{Duration, Instant};

/// Everything that the workers and the controller of one search look at.
pub(super) struct Shared {
    pub(super) tree: Arc<Tree>,
    pub(super) backend: Arc<dyn Backend>,
    pub(super) params: SearchParams,
    pub(super) score_type: crate::options::ScoreType,
    /// The game up to the root.
    pub(super) history: PositionHistory,
    /// The root moves to search; empty: all.
    pub(super) searchmoves: Vec<PackedMove>,
    pub(super) tablebases: Option<Arc<Tablebases>>,
    pub(super) correction_history: Option<Arc<CorrectionHistory>>,
    /// Whether nodes keep more than usual, as uncertainty and correction history want it; see [`super::tally`].
    pub(super) keeps_annexes: bool,
    /// Whether cpuct depends on more than a node's visits; see [`super::uncertainty`].
    pub(super) scales_cpuct: bool,
    /// Bytes that the tree may take.
    pub(super) memory_limit: u64,
    /// The tree is being recycled: below the root's children nothing may be read.
    pub(super) is_recycling: AtomicBool,
    pub(super) was_told_of_recycling: AtomicBool,
    /// A search for a mate has found that there is none in time.
    pub(super) mate_is_refuted: AtomicBool,
    /// Visits that the root may have, reused ones included.
    pub(super) visit_limit: u64,
    /// Visits under way at the root.
    pub(super) root_in_flight: AtomicU32,
    /// Visits that the root had at the start.
    pub(super) initial_visits: u64,
    pub(super) responder: Arc<dyn Responder>,
    pub(super) counters: Counters,
    /// Which workers are at the tree.
    pub(super) desks: Desks,
    predecessors: Mutex<Vec<JoinHandle<()>>>,
    stop: AtomicBool,
    control: Mutex<Control>,
    control_changed: Condvar,
    /// Finished iterations of all workers: one that found only collisions sleeps until it changes.
    progress: Mutex<u64>,
    progress_changed: Condvar,
    failure: Mutex<Option<String>>,
}

/// What this search has done so far. All Relaxed: figures for stoppers and info lines, no thread waits on them.
#[derive(Default)]
pub(super) struct Counters {
    pub(super) playouts: AtomicU64,
    pub(super) depth_sum: AtomicU64,
    pub(super) seldepth: AtomicU32,
    pub(super) batches: AtomicU64,
    pub(super) network_evaluations: AtomicU64,
    pub(super) tablebase_hits: AtomicU64,
    /// Visits that counted what a shared node had from other parents.
    pub(super) absorbed: AtomicU64,
}

/// Finished visits and their depths, before they are counted.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct VisitCounts {
    visits: u64,
    depth_sum: u64,
    deepest: u32,
}

impl VisitCounts {
    /// With `visits` more that ended at `depth` plies below the root.
    pub(super) fn with(self, depth: usize, visits: u32) -> VisitCounts {
        VisitCounts {
            visits: self.visits + u64::from(visits),
            depth_sum: self.depth_sum + depth as u64 * u64::from(visits),
            deepest: self.deepest.max(depth as u32),
        }
    }
}

impl Counters {
    /// Counts finished visits that ended at `depth` plies below the root.
    pub(super) fn count_visits(&self, depth: usize, visits: u32) {
        self.count_all(VisitCounts::default().with(depth, visits));
    }

    /// Counts all of `counts`.
    pub(super) fn count_all(&self, counts: VisitCounts) {
        self.depth_sum.fetch_add(counts.depth_sum, Ordering::Relaxed);
        // Seldom news, and all threads read it.
        if counts.deepest > self.seldepth.load(Ordering::Relaxed) {
            self.seldepth.fetch_max(counts.deepest, Ordering::Relaxed);
        }
        self.playouts.fetch_add(counts.visits, Ordering::Relaxed);
    }

    pub(super) fn average_depth(&self) -> u32 {
        let playouts = self.playouts.load(Ordering::Relaxed).max(1);
        (self.depth_sum.load(Ordering::Relaxed) / playouts) as u32
    }
}

/// The search's clock, its stoppers and what it has said; behind one lock.
pub(super) struct Control {
    pub(super) stopper: Box<dyn super::Stopper>,
    pub(super) hints: StopperHints,
    /// When the move's clock started.
    pub(super) start: Instant,
    /// When the first batch was done.
    pub(super) first_batch: Option<Instant>,
    /// Whether the move may be told: not while the search is infinite or ponders.
    pub(super) may_respond: bool,
    /// Whether the move was told, or is not wanted any more.
    pub(super) has_responded: bool,
    /// When `stop` became known.
    pub(super) stopped_at: Option<Instant>,
    pub(super) last_report: super::report::LastReport,
}

impl Shared {
    pub(super) fn new(setup: super::SearchSetup, responder: Arc<dyn Responder>) -> Shared {
        let root = setup.tree.node(setup.tree.root());
        let initial_visits = u64::from(root.visits());
        if root.state() == State::Expanded {
            // A root that was a node like others before: now all of its moves are looked at.
            let mut allocator = Allocator::default();
            setup.tree.link_all(root, setup.history.last(), &mut allocator);
            allocator.give_back(&setup.tree);
        }
        Shared {
            initial_visits,
            root_in_flight: AtomicU32::new(0),
            desks: Desks::new(setup.params.threads.max(1)),
            predecessors: Mutex::new(setup.predecessors),
            tree: setup.tree,
            backend: setup.backend,
            keeps_annexes: setup.params.uncertainty.is_on() || setup.correction_history.is_some(),
            scales_cpuct: setup.params.uncertainty.scales_cpuct(),
            correction_history: setup.correction_history,
            params: setup.params,
            score_type: setup.score_type,
            history: setup.history,
            searchmoves: setup.searchmoves,
            tablebases: setup.tablebases,
            memory_limit: setup.memory_limit,
            is_recycling: AtomicBool::new(false),
            was_told_of_recycling: AtomicBool::new(false),
            mate_is_refuted: AtomicBool::new(false),
            visit_limit: setup.visit_limit.unwrap_or(MOST_VISITS).min(MOST_VISITS),
            responder,
            counters: Counters {
                tablebase_hits: AtomicU64::new(setup.tablebase_hits),
                ..Counters::default()
            },
            stop: AtomicBool::new(false),
            control: Mutex::new(Control {
                stopper: setup.stopper,
                hints: StopperHints::default(),
                start: setup.start,
                first_batch: None,
                may_respond: !setup.is_open_ended,
                has_responded: false,
                stopped_at: None,
                last_report: super::report::LastReport::default(),
            }),
            control_changed: Condvar::new(),
            progress: Mutex::new(0),
            progress_changed: Condvar::new(),
            failure: Mutex::new(None),
        }
    }

    pub(super) fn root(&self) -> &Node {
        self.tree.node(self.tree.root())
    }

    /// Visits that may still be announced at the root.
    pub(super) fn visits_left(&self) -> u32 {
        let started =
            u64::from(self.root().visits()) + u64::from(self.root_in_flight.load(Ordering::Relaxed));
        let left = self.visit_limit.saturating_sub(started);
        u32::try_from(left).unwrap_or(u32::MAX)
    }

    /// The root's link with the most visits among those that may be played, and its visits.
    pub(super) fn most_visited_root_link(&self) -> Option<(LinkId, u32)> {
        let mut best: Option<(LinkId, u32)> = None;
        for (id, link) in self.tree.links(self.root()) {
            let visits = link.visits();
            if visits > 0
                && self.is_searched(link.edge().packed_move())
                && best.is_none_or(|(_, most)| visits > most)
            {
                best = Some((id, visits));
            }
        }
        best
    }

    /// Whether only the root and its children may be read, by who holds the control.
    pub(super) fn is_recycling(&self) -> bool {
        self.is_recycling.load(Ordering::Relaxed)
    }

    /// Whether the user wants this root move searched.
    pub(super) fn is_searched(&self, m: PackedMove) -> bool {
        self.searchmoves.is_empty() || self.searchmoves.contains(&m)
    }

    /// Waits until the threads of earlier searches are done with the backend.
    pub(super) fn wait_for_predecessors(&self) {
        // One worker joins them, the others wait for the lock.
        let mut predecessors = self.predecessors.lock().unwrap_or_else(PoisonError::into_inner);
        for thread in predecessors.drain(..) {
            // A panic was reported where it happened.
            let _ = thread.join();
        }
    }

    /// Takes the tree from the workers, which are stopping. Returns whether it is sound.
    pub(super) fn let_go_of_tree(&self) -> bool {
        self.desks.clear(|gathered| self.cancel(gathered))
    }

    /// Takes back all that a minibatch has claimed and announced.
    pub(super) fn cancel(&self, gathered: &Gathered) {
        for leaf in gathered.waiting.iter().flatten() {
            self.tree.node(gathered.step(leaf.step).node).cancel_claim();
        }
        for step in gathered.steps.iter().filter(|step| step.announced > 0) {
            self.withdraw(step, step.announced);
        }
    }

    /// Whether the workers should end.
    pub(super) fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Tells the workers to end and wakes everybody who sleeps.
    pub(super) fn stop_workers(&self) {
        self.stop.store(true, Ordering::Release);
        let mut control = self.control();
        control.stopped_at.get_or_insert_with(Instant::now);
        drop(control);
        self.control_changed.notify_all();
        self.count_progress();
    }

    /// As [`Shared::stop_workers`], for who holds the control already.
    pub(super) fn stop_workers_locked(&self, control: &mut Control) {
        self.stop.store(true, Ordering::Release);
        control.stopped_at.get_or_insert_with(Instant::now);
        self.control_changed.notify_all();
        self.count_progress();
    }

    /// Locks the control. A panic elsewhere does not make it unusable: it holds plain figures.
    pub(super) fn control(&self) -> MutexGuard<'_, Control> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sleeps until the control changes, at most for `limit`.
    pub(super) fn wait_for_control<'a>(
        &'a self,
        control: MutexGuard<'a, Control>,
        limit: Duration,
    ) -> MutexGuard<'a, Control> {
        wait_timeout(&self.control_changed, &self.control, control, limit)
    }

    pub(super) fn notify_control(&self) {
        self.control_changed.notify_all();
    }

    /// How many iterations were finished.
    pub(super) fn progress(&self) -> u64 {
        *self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a finished iteration and wakes who waits for one.
    pub(super) fn count_progress(&self) {
        *self.progress.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.progress_changed.notify_all();
    }

    /// Sleeps until another worker finishes an iteration after `seen`, a stop, or 10 ms.
    pub(super) fn wait_for_progress(&self, seen: u64) {
        let progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        if *progress == seen && !self.is_stopping() {
            drop(wait_timeout(&self.progress_changed, &self.progress, progress, Duration::from_millis(10)));
        }
    }

    /// Ends the search because evaluating failed. The move known so far is still told.
    pub(super) fn fail(&self, error: &BackendError) {
        self.end_with_message(format!("error: {error}"));
    }

    /// Ends the search because no node can be added.
    pub(super) fn report_full_tree(&self) {
        self.end_with_message("the tree is full: no more nodes can be added".to_owned());
    }

    fn end_with_message(&self, message: String) {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        if failure.is_none() {
            self.responder.message(&message);
            *failure = Some(message);
        }
        drop(failure);
        self.stop_workers();
    }

    /// Why the search ended early, where it did.
    pub(super) fn failure(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Visits are counted in 32 bits; this leaves room for those in flight.
const MOST_VISITS: u64 = 4_000_000_000;
