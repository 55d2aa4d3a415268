//! Searches many positions at once on one backend.
//!
//! Each thread searches one position at a time in a tree of its own. All share the evaluation cache, because positions of
//! one game lead to each other. Positions wait in a queue: those with a higher priority come first, and among equals the
//! one that came first.
//!
//! A search of one visit asks for a single evaluation. So a thread takes several such positions at a time, and evaluates
//! them together; then their searches find everything in the cache.

use super::report::Analysis;
use crate::concurrent::evaluator::{SharedEvaluator, searches_at_once};
use crate::concurrent::memory::Shares;
use crate::concurrent::run::{FlagStopper, run_to_end};
use crossbeam_channel::{Receiver, Sender, unbounded};
use rukh_backend::multi::BatchCounts;
use rukh_backend::ticket::evaluate_one;
use rukh_backend::{Backend, BackendError, EvalRequest};
use rukh_chess::tablebase::{TablebaseError, Tablebases};
use rukh_chess::{PackedMove, PositionHistory, uci_move};
use rukh_engine::RootProbe;
use rukh_options::Options;
use rukh_search::time::{TimeManager, TimeManagerError, make_time_manager};
use rukh_search::{
    BestMove, GoParams, Responder, SearchParams, SearchSetup, SearchStart, ThinkingInfo, WORKER_STACK_BYTES,
    build_stoppers,
};
use rukh_tree::Tree;
use std::cmp::Ordering as Order;
use std::collections::BinaryHeap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// When a search ends. The limit that is reached first ends it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Limits {
    /// Visits of the root.
    pub nodes: Option<u64>,
    /// Milliseconds.
    pub movetime_ms: Option<u64>,
}

/// A position to search.
#[derive(Clone, Debug)]
pub(super) struct Task {
    /// Comes back with the result.
    pub(super) key: u64,
    /// A game, of which the position is the one at the index `ply`.
    pub(super) history: Arc<PositionHistory>,
    pub(super) ply: usize,
    pub(super) limits: Limits,
    /// The number of best lines.
    pub(super) multipv: usize,
    /// Whether the result has the policy.
    pub(super) includes_policy: bool,
    /// Whether the game stops here and nobody has won it: a rule may have drawn it.
    pub(super) ends_game: bool,
    /// The root moves to search; empty means all.
    pub(super) searchmoves: Vec<PackedMove>,
    /// Whether castling is written as king takes rook.
    pub(super) chess960: bool,
    /// Tasks with a higher priority come first.
    pub(super) priority: i64,
    /// The least time between two partial reports; `None` if none are wanted.
    pub(super) report_every: Option<Duration>,
    /// Ends the search with what it has found so far.
    pub(super) is_cancelled: Arc<AtomicBool>,
}

impl Task {
    /// The game up to the position.
    fn history_to_ply(&self) -> PositionHistory {
        let mut history = PositionHistory::clone(&self.history);
        history.truncate(self.ply + 1);
        history
    }

    /// Whether the network's evaluation of the position is the whole search.
    fn needs_one_evaluation(&self) -> bool {
        self.limits.needs_one_evaluation() && self.report_every.is_none()
    }
}

impl Limits {
    /// Whether a search ends with the evaluation of its position.
    pub(super) fn needs_one_evaluation(self) -> bool {
        self.nodes.is_some_and(|nodes| nodes <= 1)
    }
}

/// What the pool says about a task.
#[derive(Debug)]
pub(super) enum PoolEvent {
    /// What is known so far.
    Partial(u64, Analysis),
    /// The result. It is empty if the task was cancelled before anything was known.
    Done(u64, Analysis),
    /// The search has failed, for this reason.
    Failed(u64, String),
}

/// Why positions cannot be searched.
#[derive(Debug, thiserror::Error)]
pub enum PoolError {
    /// The backend or its cache cannot be made.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// The time manager cannot be made.
    #[error(transparent)]
    TimeManager(#[from] TimeManagerError),
    /// The tablebases cannot be opened.
    #[error(transparent)]
    Tablebases(#[from] TablebaseError),
    /// The system starts no thread.
    #[error("cannot start a thread for a search: {0}")]
    Thread(std::io::Error),
}

/// The threads that search, and their queue.
pub struct Pool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    events: Receiver<PoolEvent>,
}

struct Shared {
    options: Options,
    evaluator: SharedEvaluator,
    /// The evaluator inside its cache.
    backend: Arc<dyn Backend>,
    params: SearchParams,
    tablebases: Option<Arc<Tablebases>>,
    shares: Shares,
    /// The most positions that a thread takes at a time if each needs one evaluation.
    positions_at_once: usize,
    queue: Mutex<Queue>,
    changed: Condvar,
    /// Set when all searches should end. It is only a flag, so its orderings are Relaxed.
    is_closing: AtomicBool,
}

#[derive(Default)]
struct Queue {
    tasks: BinaryHeap<Queued>,
    /// The number of tasks that ever waited.
    count: u64,
    /// The flags of the tasks that are being searched.
    running: Vec<Arc<AtomicBool>>,
    /// The number of threads that take tasks.
    threads: usize,
}

/// A task with its place in the order of arrival.
struct Queued {
    task: Task,
    number: u64,
}

impl PartialEq for Queued {
    fn eq(&self, other: &Queued) -> bool {
        self.cmp(other) == Order::Equal
    }
}

impl Eq for Queued {}

impl PartialOrd for Queued {
    fn partial_cmp(&self, other: &Queued) -> Option<Order> {
        Some(self.cmp(other))
    }
}

impl Ord for Queued {
    /// The task that comes first is the greatest.
    fn cmp(&self, other: &Queued) -> Order {
        self.task.priority.cmp(&other.task.priority).then(other.number.cmp(&self.number))
    }
}

impl Shared {
    /// Ignores poisoning: a panic cannot leave the queue invalid.
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Blocks until there is a task. Returns several if each needs one evaluation. `None` if the pool is closing.
    fn next(&self) -> Option<Vec<Task>> {
        let mut queue = self.lock();
        loop {
            if self.is_closing.load(Ordering::Relaxed) {
                return None;
            }
            let Queue { tasks, running, threads, .. } = &mut *queue;
            if let Some(Queued { task, .. }) = tasks.pop() {
                let mut taken = vec![task];
                // Other threads get their share.
                let most = (tasks.len() / (*threads).max(1) + 1).min(self.positions_at_once);
                while taken.len() < most
                    && taken[0].needs_one_evaluation()
                    && tasks.peek().is_some_and(|next| next.task.needs_one_evaluation())
                {
                    taken.extend(tasks.pop().map(|next| next.task));
                }
                running.extend(taken.iter().map(|task| Arc::clone(&task.is_cancelled)));
                return Some(taken);
            }
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Pool {
    /// Loads the network, and starts `parallelism` threads; `None` chooses a number that keeps the backend busy with
    /// searches that usually have these limits.
    ///
    /// # Errors
    /// The network, the backend or the tablebases cannot be used, or no thread can be started.
    pub fn new(options: &Options, parallelism: Option<usize>, usual: Limits) -> Result<Pool, PoolError> {
        // A limit on nodes is one on visits, whatever `go nodes` means. Each line shows the visits of its move.
        let options = Options { nodes_as_playouts: false, per_pv_counters: true, ..options.clone() };
        let evaluator = SharedEvaluator::new(&options)?;
        let minibatch = (options.minibatch_size as usize).max(1);
        let to_fill = match usual.needs_one_evaluation() && options.nncache > 0 {
            true => evaluator.threads_to_fill(minibatch),
            false => evaluator.searches_to_fill(&options),
        };
        let parallelism = parallelism.unwrap_or_else(|| searches_at_once(to_fill)).max(1);
        let shares = Shares::new(&options, options.nncache, parallelism, 1);
        // What the threads evaluate ahead must stay in the cache until they come to it.
        let has_room = shares.cache_entries / 4 >= parallelism * minibatch;
        let backend = evaluator.with_cache(&options, shares.cache_entries);
        let params = SearchParams::from_options(&options, evaluator.attributes(), None);
        let path = &options.syzygy_paths;
        let tablebases = (!path.is_empty()).then(|| Tablebases::open(path).map(Arc::new)).transpose()?;
        let shared = Arc::new(Shared {
            evaluator,
            backend,
            params,
            tablebases,
            shares,
            positions_at_once: if has_room { minibatch } else { 1 },
            queue: Mutex::default(),
            changed: Condvar::new(),
            is_closing: AtomicBool::new(false),
            options,
        });
        let (sender, events) = unbounded();
        let mut pool = Pool { shared, threads: Vec::new(), events };
        for index in 0..parallelism {
            match pool.start_thread(&sender) {
                Ok(thread) => pool.threads.push(thread),
                Err(error) if index == 0 => return Err(error),
                // Fewer searches at once are only slower.
                Err(_) => break,
            }
        }
        pool.shared.lock().threads = pool.threads.len();
        Ok(pool)
    }

    fn start_thread(&self, sender: &Sender<PoolEvent>) -> Result<JoinHandle<()>, PoolError> {
        let shared = Arc::clone(&self.shared);
        let mut searcher = Searcher {
            time_manager: make_time_manager(&shared.options.time_manager)?,
            tree: Arc::new(Tree::new()),
            events: sender.clone(),
            shared,
        };
        let builder = Builder::new().name("analysis".to_owned()).stack_size(WORKER_STACK_BYTES);
        builder.spawn(move || searcher.search_all()).map_err(PoolError::Thread)
    }

    /// The number of searches that run at once.
    pub fn parallelism(&self) -> usize {
        self.threads.len()
    }

    /// The number of positions with these limits that are searched or prepared at once.
    pub(super) fn positions_at_once(&self, limits: Limits) -> usize {
        let of_each = if limits.needs_one_evaluation() { self.shared.positions_at_once } else { 1 };
        self.parallelism() * of_each
    }

    /// The path of the network, or the name of a backend without one.
    pub fn network(&self) -> &str {
        &self.shared.evaluator.name
    }

    /// Messages about the backend for the user.
    pub fn notices(&self) -> &[String] {
        &self.shared.evaluator.notices
    }

    /// What is wrong with the tablebases, from the fault `first` on; each was found once.
    pub fn tablebase_faults(&self, first: usize) -> Vec<String> {
        let tables = self.shared.tablebases.as_ref();
        tables.map_or_else(Vec::new, |tables| tables.faults(first))
    }

    /// The batches that the backend has evaluated; `None` if it evaluates without collecting batches.
    pub fn evaluated(&self) -> Option<BatchCounts> {
        self.shared.evaluator.counts()
    }

    /// Empties the evaluation cache.
    pub(super) fn clear_cache(&self) {
        self.shared.backend.clear_cache();
    }

    /// Lets a position wait for its search.
    pub(super) fn submit(&self, task: Task) {
        let mut queue = self.shared.lock();
        let number = queue.count;
        queue.count += 1;
        queue.tasks.push(Queued { task, number });
        drop(queue);
        self.shared.changed.notify_one();
    }

    /// What the searches report.
    pub(super) fn events(&self) -> &Receiver<PoolEvent> {
        &self.events
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.is_closing.store(true, Ordering::Relaxed);
        let queue = self.shared.lock();
        queue.running.iter().for_each(|flag| flag.store(true, Ordering::Relaxed));
        drop(queue);
        self.shared.evaluator.close();
        self.shared.changed.notify_all();
        for thread in self.threads.drain(..) {
            // A panic was reported as an event.
            let _ = thread.join();
        }
    }
}

/// A thread that searches one position after another.
struct Searcher {
    shared: Arc<Shared>,
    time_manager: Box<dyn TimeManager>,
    tree: Arc<Tree>,
    events: Sender<PoolEvent>,
}

impl Searcher {
    fn search_all(&mut self) {
        while let Some(tasks) = self.shared.next() {
            if tasks.len() > 1 {
                self.evaluate_ahead(&tasks);
            }
            tasks.into_iter().for_each(|task| self.search_and_report(&task));
        }
    }

    /// Puts the positions' evaluations into the cache. If that fails, so will the searches, which report it.
    fn evaluate_ahead(&self, tasks: &[Task]) {
        let _searching = self.shared.evaluator.begin_search();
        let mut batch = self.shared.backend.new_batch();
        let mut moves = Vec::new();
        for task in tasks {
            let history = task.history_to_ply();
            history.last().packed_moves(&mut moves);
            if !moves.is_empty() {
                let _ = batch.add(EvalRequest { history: &history, moves: &moves });
            }
        }
        let _ = batch.submit().wait();
    }

    fn search_and_report(&mut self, task: &Task) {
        let searched = catch_unwind(AssertUnwindSafe(|| self.search(task)));
        if searched.is_err() {
            // The panic may have left the tree in any state.
            self.tree = Arc::new(Tree::new());
        }
        let event = match searched {
            Ok(Ok(analysis)) => PoolEvent::Done(task.key, analysis),
            Ok(Err(reason)) => PoolEvent::Failed(task.key, reason),
            Err(_) => PoolEvent::Failed(task.key, "the thread of the search panicked".to_owned()),
        };
        self.shared.lock().running.retain(|flag| !Arc::ptr_eq(flag, &task.is_cancelled));
        // If the pool is closing, nobody listens.
        let _ = self.events.send(event);
    }

    /// Searches the position of `task`.
    fn search(&mut self, task: &Task) -> Result<Analysis, String> {
        if task.is_cancelled.load(Ordering::Relaxed) {
            return Ok(Analysis::default());
        }
        let history = task.history_to_ply();
        if let Some(end) = Analysis::of_end(&history, task.ends_game) {
            return Ok(end);
        }
        if !self.tree.clear() {
            self.tree = Arc::new(Tree::new());
        }
        let shared = &self.shared;
        let Limits { nodes, movetime_ms } = task.limits;
        let go = GoParams { nodes, movetime: movetime_ms, ..GoParams::default() };
        let start = SearchStart { prunes_as_lc0: true, ..SearchStart::new(history.last(), 0) };
        let stopper = build_stoppers(&shared.options, &go, &start, &mut *self.time_manager);
        let root = Root {
            moves: history.last().legal_moves().into_iter().map(PackedMove::new).collect(),
            history: history.clone(),
            backend: Arc::clone(&shared.backend),
            chess960: task.chess960,
            includes_policy: task.includes_policy,
        };
        let listener = Arc::new(Listener {
            tree: Arc::clone(&self.tree),
            key: task.key,
            root,
            partial: task.report_every.map(|every| (every, self.events.clone())),
            state: Mutex::new(ListenerState { last_report: Instant::now(), result: None }),
        });
        let score_type = shared.options.score_type.in_centipawns();
        let RootProbe { searchmoves, tablebases, tablebase_hits, known } = RootProbe::of(
            shared.tablebases.as_ref(),
            &history,
            task.searchmoves.clone(),
            shared.options.syzygy_fast_play,
        );
        let draw_score = shared.params.draw_score_for(history.last().side_to_move());
        let setup = SearchSetup {
            params: SearchParams { multi_pv: task.multipv.max(1), ..shared.params.clone() },
            score_type,
            searchmoves,
            tablebases,
            tablebase_hits,
            memory_limit: shared.shares.tree_bytes_for(nodes),
            // A root without visits gets one, so that there is a move.
            visit_limit: nodes.map(|nodes| nodes.max(1)),
            ..SearchSetup::new(
                Arc::clone(&self.tree),
                Arc::clone(&shared.backend),
                history,
                Box::new(FlagStopper { inner: stopper, is_ending: Arc::clone(&task.is_cancelled) }),
            )
        };
        let mut responder = Arc::clone(&listener) as Arc<dyn Responder>;
        if let Some(root) = known {
            responder = root.report_to(responder, score_type, draw_score);
        }
        let ended = run_to_end(setup, movetime_ms.is_some(), &shared.evaluator, responder)
            .map_err(|error| format!("cannot start a search: {error}"))?;
        match (ended.failure, listener.take()) {
            (Some(failure), _) => Err(failure),
            (None, Some(mut analysis)) => {
                if !analysis.is_empty() && !listener.root.add_cached(&mut analysis) {
                    listener.root.add_evaluated(&mut analysis, &shared.evaluator);
                }
                Ok(analysis)
            }
            (None, None) => Err("the search has no result".to_owned()),
        }
    }
}

/// The position that is searched, for the network's own opinion of its moves.
struct Root {
    history: PositionHistory,
    /// The legal moves.
    moves: Vec<PackedMove>,
    backend: Arc<dyn Backend>,
    chess960: bool,
    includes_policy: bool,
}

impl Root {
    fn request(&self) -> EvalRequest<'_> {
        EvalRequest { history: &self.history, moves: &self.moves }
    }

    /// Adds what the cache has. Nearly always, that is the evaluation which the search has begun with.
    fn add_cached(&self, analysis: &mut Analysis) -> bool {
        let cached = self.backend.cached(self.request());
        cached.inspect(|evaluation| self.add(analysis, &evaluation.priors)).is_some()
    }

    /// Evaluates the position once more. If that fails, the analysis stays without priors.
    fn add_evaluated(&self, analysis: &mut Analysis, evaluator: &SharedEvaluator) {
        let _searching = evaluator.begin_search();
        if let Ok(evaluation) = evaluate_one(&*self.backend, self.request()) {
            self.add(analysis, &evaluation.priors);
        }
    }

    fn add(&self, analysis: &mut Analysis, priors: &[f32]) {
        let position = self.history.last();
        let text = |m: &PackedMove| uci_move::text(m.unpack(position), self.chess960);
        let priors = self.moves.iter().map(text).zip(priors.iter().copied()).collect();
        analysis.add_priors(priors, self.includes_policy);
    }
}

/// Receives the info lines of a search.
struct Listener {
    tree: Arc<Tree>,
    key: u64,
    root: Root,
    /// The least time between two partial reports, and where they go.
    partial: Option<(Duration, Sender<PoolEvent>)>,
    state: Mutex<ListenerState>,
}

struct ListenerState {
    last_report: Instant,
    result: Option<Analysis>,
}

impl Listener {
    fn state(&self) -> MutexGuard<'_, ListenerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Option<Analysis> {
        self.state().result.take()
    }

    fn analysis(&self, infos: &[ThinkingInfo]) -> Analysis {
        let nodes = u64::from(self.tree.node(self.tree.root()).visits());
        Analysis::of_infos(infos, nodes, self.root.chess960)
    }
}

impl Responder for Listener {
    fn thinking(&self, infos: &[ThinkingInfo]) {
        let Some((every, events)) = &self.partial else { return };
        let mut state = self.state();
        if state.last_report.elapsed() >= *every {
            state.last_report = Instant::now();
            let mut analysis = self.analysis(infos);
            self.root.add_cached(&mut analysis);
            let _ = events.send(PoolEvent::Partial(self.key, analysis));
        }
    }

    /// A search that is ended before the evaluation of its root has a move and no info lines.
    fn best_move(&self, _best: &BestMove) {
        self.state().result.get_or_insert_default();
    }

    fn answer(&self, infos: &[ThinkingInfo], _best: &BestMove) {
        let analysis = self.analysis(infos);
        self.state().result = Some(analysis);
    }

    // A failure is read from the search, and nobody needs the other messages of hundreds of searches.
    fn message(&self, _text: &str) {}
}
