//! Executes the commands of a game: options, position, go, stop. The engine owns the backend, the tree and the running
//! search.
//!
//! One thread drives an [`Engine`] (the UCI loop or a benchmark). A search runs on its own threads and answers
//! through the [`Responder`]. A command that would disturb the search (a new position, a new game, another `go`) ends
//! it first, so the tree changes only while no search uses it.
//!
//! | module | what it does |
//! |---|---|
//! | [`game_tree`] | keeps the tree from one move to the next, or discards it |
//! | [`without_search`] | chooses a move if no search can run |
//! | [`strength`] | limits a search to what `UCI_Elo` and `NodesPerMove` allow |
//! | [`evaluator`] | makes the backend, and finds another if the options ask for one that cannot be made |
//! | [`root_tablebases`] | probes the tablebases at the root |
//! | [`known_root`] | replaces the scores of a root that the tablebases know |
//! | [`game`] | the start position and the moves played |
//! | [`error`] | the error of a command that cannot be executed |

mod error;
mod evaluator;
mod game;
mod game_tree;
mod known_root;
mod root_tablebases;
mod strength;
mod without_search;

pub use self::error::EngineError;
pub use self::known_root::KnownRoot;
pub use self::root_tablebases::RootProbe;

use self::evaluator::Evaluator;
use self::game::Game;
use self::game_tree::GameTree;
use self::root_tablebases::RootTablebases;
use self::strength::Plan;
use self::without_search::best_without_search;
use rukh_backend::Backend;
use rukh_base::sync::atomic::AtomicBool;
use rukh_base::sync::thread::JoinHandle;
use rukh_base::sync::{Arc, is_finished};
use rukh_chess::{PackedMove, Position, PositionHistory, uci_move};
use rukh_net::discover::check_network;
use rukh_options::{BACKEND_SECTION, Options, find_uci};
use rukh_registry::{BackendConfig, Recovery, evaluates_network, memory_limit};
use rukh_search::limits::{GoParams, PositionCommand};
use rukh_search::memory;
use rukh_search::time::{LagMeter, TimeManager, make_time_manager};
use rukh_search::{
    BestMove, Responder, Score, Search, SearchParams, SearchSetup, SearchStart, Stopper, ThinkingInfo,
    build_stoppers, clock_reading, counted_nodes,
};
use rukh_tree::Tree;
use std::time::{Duration, Instant};

/// If `go` follows `position` within this time, the GUI sent both together: the clock has run since `position`
/// arrived.
const TOGETHER: Duration = Duration::from_millis(100);

/// The root moves of a search.
struct RootChoice {
    /// The moves to search. If it is empty, all are searched.
    searchmoves: Vec<PackedMove>,
    /// Whether the user chose them, and not the tablebases.
    is_users_choice: bool,
}

/// The engine behind the UCI commands and the benchmarks.
pub struct Engine {
    options: Options,
    responder: Arc<dyn Responder>,
    /// The backend. The first search makes it.
    evaluator: Evaluator,
    /// The time manager and the value of `TimeManager` that it was made from.
    time_manager: Option<(String, Box<dyn TimeManager>)>,
    /// How late the moves come on this machine.
    lag: LagMeter,
    tablebases: RootTablebases,
    game: Game,
    /// Why the last position was refused, if it was. Then `game` is not the one that the GUI asks about.
    refusal: Option<String>,
    tree: GameTree,
    search: Option<Search>,
    /// Threads of ended searches that may still wait for a batch whose result nobody needs.
    retired: Vec<JoinHandle<()>>,
    /// Whether the last search has evaluated its root.
    had_evaluation: bool,
    /// Whether a `go infinite` or `go ponder` that has nothing to search waits for `stop` or `ponderhit` before it answers.
    holds_answer: bool,
    /// The moves that the last `go` asked for; empty if it did not choose.
    searchmoves_of_last_go: Vec<PackedMove>,
    /// The running `go ponder`, with the moves that it searches.
    pondering: Option<(Plan, RootChoice)>,
    /// When the last `position` arrived, and when its execution ended.
    position_times: Option<(Instant, Instant)>,
    /// The limit on the tree, in bytes, that the user was last told is too small.
    warned_of_limit: Option<u64>,
    /// Whether the user was told in this game that a device waits for positions.
    waiting_notice: Arc<AtomicBool>,
}

impl Engine {
    /// An engine at the standard start position. It loads no network yet.
    pub fn new(options: Options, responder: Arc<dyn Responder>) -> Engine {
        let reports = Arc::clone(&responder);
        Engine {
            options,
            responder,
            evaluator: Evaluator::new(Some(Recovery::new(move |text| reports.message(text)))),
            time_manager: None,
            lag: LagMeter::default(),
            tablebases: RootTablebases::default(),
            game: Game::standard_start(),
            refusal: None,
            tree: GameTree::new(),
            search: None,
            retired: Vec::new(),
            had_evaluation: true,
            holds_answer: false,
            searchmoves_of_last_go: Vec::new(),
            pondering: None,
            position_times: None,
            warned_of_limit: None,
            waiting_notice: Arc::default(),
        }
    }

    /// An engine whose searches fail if a device fails or a backend cannot be made. No other evaluator takes its place.
    pub fn without_recovery(mut self) -> Engine {
        self.evaluator = Evaluator::new(None);
        self
    }

    /// The current value of every option.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Sets an option by its UCI name. A running search keeps the old value.
    ///
    /// # Errors
    /// The name is unknown, or the value is not allowed.
    pub fn set_option(&mut self, name: &str, value: &str) -> Result<(), EngineError> {
        let mut changed = self.options.clone();
        changed.set(name, value)?;
        // A wrong description of a time manager is an error now, not at the next `go`.
        make_time_manager(&changed.time_manager)?;
        self.options = changed;
        // A user who sets such an option again may have put the missing file in its place.
        if let Some(spec) = find_uci(name).filter(|spec| spec.section == BACKEND_SECTION) {
            self.evaluator.try_again();
            if spec.field == "weights" {
                self.evaluator.notice_changed_file();
            }
        }
        Ok(())
    }

    /// The reason why the network file cannot be opened, if the options name one. This is much quicker than
    /// [`Engine::ensure_ready`], which reads the file.
    pub fn missing_network(&self) -> Option<String> {
        // Whether another backend needs the network depends on its children.
        let needs_network = evaluates_network(self.options.backend.name());
        let missing = check_network(&self.options.weights).err().filter(|_| needs_network);
        missing.map(|error| error.to_string())
    }

    /// Starts a new game: clears the tree, the cache, and what the time manager remembers. Tries again to use a device
    /// that was lost, or a backend that could not be made.
    pub fn new_game(&mut self) {
        self.end_search();
        self.tree.discard();
        self.waiting_notice = Arc::default();
        self.time_manager = None;
        self.lag.forget_move();
        self.evaluator.new_game();
    }

    /// Makes the backend, unless it exists or a search is running.
    ///
    /// # Errors
    /// No backend can be made.
    pub fn ensure_ready(&mut self) -> Result<(), EngineError> {
        if self.is_searching() {
            return Ok(());
        }
        self.backend().map(|_| ())
    }

    /// Sets the position. The part of the tree that belongs to it is kept.
    ///
    /// # Errors
    /// The FEN is malformed, or a move is illegal. The position is refused ([`Engine::refuse_position`]).
    pub fn set_position(&mut self, command: &PositionCommand) -> Result<(), EngineError> {
        let arrived = Instant::now();
        let game = Game::new(command).inspect_err(|error| self.refuse_position(error.to_string()))?;
        self.end_search();
        if game.start != self.game.start {
            // This is another game, although no `ucinewgame` came. The time saved in the last game no longer counts.
            self.time_manager = None;
            self.lag.forget_move();
        }
        self.tree.follow(&self.game, &game);
        self.game = game;
        self.refusal = None;
        self.position_times = Some((arrived, Instant::now()));
        Ok(())
    }

    /// Takes note of a position that cannot be understood. A move for the one before would be a move in another game, so
    /// until the next position every `go` is answered with the null move.
    pub fn refuse_position(&mut self, reason: String) {
        self.refusal = Some(reason);
    }

    /// Starts a search.
    ///
    /// # Errors
    /// The backend or a thread cannot be made. No best move is sent then; see [`Engine::answer_without_search`].
    pub fn go(&mut self, go: &GoParams) -> Result<(), EngineError> {
        let start = self.clock_start();
        self.end_search();
        if let Some(reason) = &self.refusal {
            self.responder.message(&format!("error: go: the last position was refused: {reason}"));
            self.answer_when_due(go);
            return Ok(());
        }
        self.lag.search_begins(clock_reading(go, self.game.history.last()));
        let searchmoves = self.searchmoves(go);
        self.searchmoves_of_last_go.clone_from(&searchmoves);
        if self.game.history.last().legal_moves().is_empty() {
            self.show_finished_game();
            self.answer_when_due(go);
            return Ok(());
        }
        self.start_search(go, searchmoves, start)
    }

    /// Answers a `go` that has nothing to search: at once, or at `stop` or `ponderhit` if UCI wants the move only then.
    fn answer_when_due(&mut self, go: &GoParams) {
        self.holds_answer = go.infinite || go.ponder;
        if !self.holds_answer {
            self.answer_without_search();
        }
    }

    /// Answers a `go` that could not be searched: with the best move by what is known or can be evaluated at once, or
    /// with the null move if there is no legal move or the position was refused.
    pub fn answer_without_search(&mut self) {
        self.holds_answer = false;
        let best = match &self.refusal {
            Some(_) => None,
            None => best_without_search(
                self.tree.tree(),
                &self.evaluator,
                &self.game.history,
                &self.searchmoves_of_last_go,
                &*self.responder,
            ),
        };
        self.responder.best_move(&BestMove { best, ponder: None });
    }

    /// Stops the running search, which then sends its best move. Does nothing if no search is running.
    pub fn stop(&mut self) {
        self.pondering = None;
        if self.holds_answer {
            self.answer_without_search();
        }
        if let Some(search) = &self.search {
            search.stop();
        }
    }

    /// The opponent played the pondered move: the search continues, now limited by the clock.
    ///
    /// # Errors
    /// No `go ponder` is running.
    pub fn ponder_hit(&mut self) -> Result<(), EngineError> {
        let start = Instant::now();
        if self.holds_answer {
            self.answer_without_search();
            return Ok(());
        }
        let (mut plan, choice) = self.pondering.take().ok_or(EngineError::NotPondering)?;
        plan.go.ponder = false;
        let stopper = self.stoppers(&plan, &choice)?;
        let search = self.search.as_ref().ok_or(EngineError::NotPondering)?;
        search.ponder_hit(stopper, start);
        Ok(())
    }

    /// Blocks until the running search has sent its best move. An open-ended search (`go infinite`) sends it only after
    /// [`Engine::stop`].
    pub fn wait(&mut self) {
        if let Some(search) = &self.search {
            search.wait_for_move();
        }
    }

    /// Whether the best move of the last `go` is still to come.
    pub fn is_searching(&self) -> bool {
        self.holds_answer || self.search.as_ref().is_some_and(|search| !search.has_responded())
    }

    /// The number of visits of the root, in the running search or otherwise in the last search. If `searchmoves` were
    /// given, only the visits below those count.
    pub fn total_nodes(&self) -> u64 {
        self.search.as_ref().map_or(0, Search::total_nodes)
    }

    /// The number of the root's visits that came from transpositions, without an evaluation.
    pub fn absorbed_visits(&self) -> u64 {
        self.search.as_ref().map_or(0, Search::absorbed_visits)
    }

    /// The current position.
    pub fn position(&self) -> &Position {
        self.game.history.last()
    }

    /// The positions of the game. The last one is the current position.
    ///
    /// # Errors
    /// The last position was refused; the text says why.
    pub fn history(&self) -> Result<&PositionHistory, &str> {
        self.refusal.as_deref().map_or(Ok(&self.game.history), Err)
    }

    /// The network of the backend that was made last: a path, or a name in angle brackets. `None` without a network.
    pub fn network(&self) -> Option<&str> {
        self.evaluator.network()
    }

    /// Whether messages tell details about the backend, such as what its number format was chosen by.
    pub fn tell_details(&mut self, is_wanted: bool) {
        self.evaluator.tell_details(is_wanted, &*self.responder);
    }

    /// Ends the search and returns its tree.
    pub fn finished_tree(&mut self) -> &Tree {
        self.end_search();
        self.tree.tree()
    }

    /// Ends the engine of a process that ends next. Threads and devices end as when an engine is dropped. The memory of
    /// the tree and of the cache is left to the operating system where that is quicker than freeing it here.
    pub fn end_with_process(mut self) {
        self.end_threads();
        self.evaluator.leave_cache_to_system();
        std::mem::take(&mut self.tree).end_with_process();
    }

    fn end_threads(&mut self) {
        self.search = None;
        for thread in self.retired.drain(..) {
            // The thread has reported its own panic already.
            let _ = thread.join();
        }
    }

    /// The backend for the current options. If they have changed since the last call, makes a new one. If that is not
    /// possible, reports the reason and returns another one ([`evaluator`]).
    ///
    /// # Errors
    /// No backend can be made.
    pub fn backend(&mut self) -> Result<Arc<dyn Backend>, EngineError> {
        let config = BackendConfig::from_options(&self.options);
        let obtained = self.evaluator.get(&config, &*self.responder)?;
        if obtained.is_new {
            // The tree contains values of another network.
            self.tree.discard();
        }
        Ok(obtained.backend)
    }

    /// Ends a running search and waits until it has sent its best move. After that, its threads no longer use the tree.
    /// This does not wait for the batch that is being evaluated, which may take a second with a large network on a CPU.
    fn end_search(&mut self) {
        self.pondering = None;
        if self.holds_answer {
            self.answer_without_search();
        }
        if let Some(search) = self.search.take() {
            search.stop();
            search.wait_for_move();
            self.lag.search_ended(search.intended_time());
            self.had_evaluation = search.has_evaluation();
            let released = search.release();
            if !released.tree_is_sound {
                self.tree.replace();
            }
            self.retired.retain(|thread| !is_finished(thread));
            self.retired.extend(released.threads);
        }
    }

    /// When the clock of a `go` that arrives now began to run. Only the first `go` after a `position` came with it.
    fn clock_start(&mut self) -> Instant {
        let now = Instant::now();
        match self.position_times.take() {
            Some((arrived, done))
                if !self.options.strict_uci_timing && now.duration_since(done) < TOGETHER =>
            {
                arrived
            }
            _ => now,
        }
    }

    /// The legal moves of `go searchmoves`. A message names each illegal move.
    fn searchmoves(&self, go: &GoParams) -> Vec<PackedMove> {
        let mut moves = Vec::new();
        for text in &go.searchmoves {
            match uci_move::parse(self.game.history.last(), text) {
                Ok(m) => moves.push(PackedMove::new(m)),
                Err(error) => self.responder.message(&format!("error: searchmoves: {error}")),
            }
        }
        moves
    }

    /// Reports the score of a game without a legal move. The best move is then UCI's null move, `0000`.
    fn show_finished_game(&self) {
        let is_mate = self.game.history.last().is_check();
        let score = if is_mate { Score::Mate(0) } else { Score::Cp(0) };
        self.responder.thinking(&[ThinkingInfo {
            depth: Some(0),
            score: Some(score),
            ..ThinkingInfo::default()
        }]);
    }

    fn start_search(
        &mut self,
        go: &GoParams,
        searchmoves: Vec<PackedMove>,
        start: Instant,
    ) -> Result<(), EngineError> {
        let backend = self.backend()?;
        let plan = Plan::new(&self.options, go, self.game.history.last().piece_count());
        let Plan { options, go, allowed_nodes, is_weakened } = &plan;
        if go.nodes.is_none_or(|nodes| nodes > 1) {
            self.evaluator.warn_of_search(&*self.responder);
        }
        let looks_for_mate = go.mate.is_some();
        self.tree.prepare(options.clear_tree, *allowed_nodes, looks_for_mate);
        // In `go infinite`, an analysis, neither side is the player.
        let player = (!go.infinite).then(|| self.game.history.last().side_to_move());
        let mut params = SearchParams::from_options(options, backend.attributes(), player);
        params.temperature.keeps_wins = *is_weakened;
        if let Some(moves) = go.mate {
            params = params.for_mate_in(moves);
        }
        let memory_limit = self.limit_memory(&params);
        let is_users_choice = !searchmoves.is_empty();
        // The tables know which moves win, but not which of them mates first, so `go mate` cannot use the tables.
        let RootProbe { searchmoves, tablebases, tablebase_hits, known } =
            match looks_for_mate || *is_weakened {
                true => RootProbe::none(searchmoves),
                false => {
                    let history = &self.game.history;
                    self.tablebases.probe(options, history, searchmoves, &*self.responder)
                }
            };
        let choice = RootChoice { searchmoves, is_users_choice };
        let stopper = self.stoppers(&plan, &choice)?;
        let visit_limit = go.nodes.map(|nodes| match options.nodes_as_playouts {
            true => self.reused_nodes(&choice).saturating_add(nodes),
            false => nodes,
        });
        let responder: Arc<dyn Responder> = match known {
            Some(root) => {
                let draw_score = params.draw_score_for(self.game.history.last().side_to_move());
                root.report_to(self.responder.clone(), options.score_type, draw_score)
            }
            None => self.responder.clone(),
        };
        let setup = SearchSetup {
            tree: self.tree.tree().clone(),
            backend,
            fallback: self.evaluator.fallback().cloned(),
            params,
            score_type: options.score_type,
            history: self.game.history.clone(),
            searchmoves: choice.searchmoves.clone(),
            tablebases,
            tablebase_hits,
            memory_limit,
            // After `go nodes 0`, a root without visits gets one, so that the search has something to report.
            visit_limit: visit_limit.map(|limit| limit.max(1)),
            stopper,
            start,
            is_open_ended: go.infinite || go.ponder,
            predecessors: std::mem::take(&mut self.retired),
            may_overtake: self.had_evaluation,
            waiting_notice: Some(self.waiting_notice.clone()),
        };
        self.search = Some(Search::start(setup, responder)?);
        self.pondering = go.ponder.then_some((plan, choice));
        Ok(())
    }

    /// The number of bytes that the tree of the next search may use. Discards a tree that is too large for a limit of
    /// the user, and says once if the search needs more than that limit.
    fn limit_memory(&mut self, params: &SearchParams) -> u64 {
        let allowed = memory_limit(&self.options);
        let limit = memory::tree_limit(allowed, self.evaluator.cache_bytes(), self.tree.used_bytes());
        self.tree.keep_to(allowed.map(|_| limit));
        let Some(allowed) = allowed else { return limit };
        if !memory::is_enough(limit, params) && self.warned_of_limit != Some(limit) {
            self.warned_of_limit = Some(limit);
            self.responder.message(&format!(
                "the memory limit of {} MB is small for {} threads with batches of {} positions: each round of batches \
                 may exceed it by {} MB",
                allowed / 1_000_000,
                params.threads,
                params.minibatch_size,
                memory::bytes_of_next_iteration(params).div_ceil(1_000_000)
            ));
        }
        limit
    }

    /// The visits from earlier searches that count for a search of these root moves.
    fn reused_nodes(&self, choice: &RootChoice) -> u64 {
        counted_nodes(self.tree.tree(), &choice.searchmoves)
    }

    /// The stoppers for `go`, with the time manager of the current options.
    fn stoppers(&mut self, plan: &Plan, choice: &RootChoice) -> Result<Box<dyn Stopper>, EngineError> {
        let start = SearchStart::new(self.game.history.last(), self.reused_nodes(choice));
        let start = SearchStart {
            lag: self.lag.lag(),
            is_only_move: !choice.is_users_choice && (start.is_only_move || choice.searchmoves.len() == 1),
            ..start
        };
        let description = &plan.options.time_manager;
        if self.time_manager.as_ref().is_none_or(|(made_from, _)| made_from != description) {
            self.time_manager = Some((description.clone(), make_time_manager(description)?));
        }
        let Some((_, time_manager)) = &mut self.time_manager else { unreachable!("it was just made") };
        Ok(Box::new(build_stoppers(&plan.options, &plan.go, &start, time_manager.as_mut())))
    }
}

impl Drop for Engine {
    /// No thread may outlive the engine: the backend's GPU libraries must not be unloaded while a thread uses them.
    fn drop(&mut self) {
        self.end_threads();
    }
}
