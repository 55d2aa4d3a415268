//! One game: options, position, go, stop. Owns the backend, the tree and the running search.
//!
//! An [`Engine`] is driven by one thread (the UCI loop, a benchmark). A search runs on its own threads and answers
//! through the [`Responder`]; whatever would disturb it (a new position, a new game, another `go`) first ends it.
//! So the tree is changed only while nobody searches it.

mod known_root;

use self::known_root::{KnownRoot, KnownScores, mating_moves};
use crate::backend::cache::BYTES_PER_ENTRY;
use crate::backend::factory::{self, BackendConfig};
use crate::backend::{Backend, BackendError};
use crate::chess::tablebase::Tablebases;
use crate::chess::{FenError, PackedMove, Position, PositionHistory, uci_move};
use crate::options::{OptionError, Options, Presses};
use crate::search::limits::{GoParams, PositionCommand, StartPosition};
use crate::search::memory::tree_limit;
use crate::search::policy::correction_history::CorrectionHistory;
use crate::search::time::{TimeManager, TimeManagerError, make_time_manager};
use crate::search::{
    BestMove, Responder, Score, Search, SearchParams, SearchSetup, SearchStart, ThinkingInfo, build_stoppers,
};
use crate::sync::thread::JoinHandle;
use crate::sync::{Arc, is_finished};
use crate::tree::Tree;
use std::time::{Duration, Instant};

/// GUIs send `go` right behind `position`: then the clock has run since `position` arrived.
const TOGETHER: Duration = Duration::from_millis(100);

/// Why a command was refused. Nothing has changed then.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum EngineError {
    #[error(transparent)]
    Option(#[from] OptionError),
    #[error(transparent)]
    Fen(#[from] FenError),
    #[error("position: {0}")]
    Move(#[from] uci_move::UciMoveError),
    #[error(transparent)]
    Backend(#[from] BackendError),
    #[error(transparent)]
    TimeManager(#[from] TimeManagerError),
    #[error("cannot start a search thread: {0}")]
    Thread(#[from] std::io::Error),
    #[error("ponderhit: no `go ponder` is running")]
    NotPondering,
}

/// See the module.
pub struct Engine {
    options: Options,
    responder: Arc<dyn Responder>,
    /// The backend and what it was made from; made when first needed.
    backend: Option<(BackendConfig, Arc<dyn Backend>)>,
    time_manager: Option<(String, Box<dyn TimeManager>)>,
    /// The tables of `SyzygyPath`, and the path they were opened from.
    tablebases: (String, Option<Arc<Tablebases>>),
    /// What the searches of this game have found out about the network, if that was ever wanted.
    correction_history: Option<Arc<CorrectionHistory>>,
    game: Game,
    tree: Arc<Tree>,
    search: Option<Search>,
    /// Threads of ended searches that may still evaluate what nobody needs any more.
    retired: Vec<JoinHandle<()>>,
    /// How often `ClearTree` was pressed when the tree was last cleared for it.
    tree_cleared_at: Presses,
    /// The last search looked for a mate.
    tree_served_mate: bool,
    /// An endless `go` where no move can be played: its answer waits for `stop` or `ponderhit`.
    holds_answer: bool,
    /// The `go ponder` that is running.
    pondering: Option<GoParams>,
    /// When the last `position` arrived and when it was done.
    position_times: Option<(Instant, Instant)>,
}

/// What a search gets from the tablebases.
struct Consulted {
    /// The root's moves to be searched; empty: all.
    searchmoves: Vec<PackedMove>,
    /// For the leaves.
    tablebases: Option<Arc<Tablebases>>,
    /// How many look-ups it took.
    tablebase_hits: u64,
    /// The root's result.
    known: Option<KnownRoot>,
}

/// A start and the moves since.
struct Game {
    start: StartPosition,
    moves: Vec<PackedMove>,
    history: PositionHistory,
}

impl Game {
    fn new(command: &PositionCommand) -> Result<Game, EngineError> {
        let position = match &command.start {
            StartPosition::Standard => Position::startpos(),
            StartPosition::Fen(fen) => Position::from_fen(fen)?,
        };
        let mut history = PositionHistory::new(position);
        let mut moves = Vec::with_capacity(command.moves.len());
        for text in &command.moves {
            let m = uci_move::parse(history.last(), text)?;
            history.push(m);
            moves.push(PackedMove::new(m));
        }
        Ok(Game { start: command.start.clone(), moves, history })
    }
}

impl Engine {
    /// An engine at the usual start. Loads nothing yet.
    pub fn new(options: Options, responder: Arc<dyn Responder>) -> Engine {
        let start = StartPosition::Standard;
        let history = PositionHistory::new(Position::startpos());
        Engine {
            options,
            responder,
            backend: None,
            time_manager: None,
            correction_history: None,
            tablebases: (String::new(), None),
            game: Game { start, moves: Vec::new(), history },
            tree: Arc::new(Tree::new()),
            search: None,
            retired: Vec::new(),
            tree_cleared_at: Presses::default(),
            tree_served_mate: false,
            holds_answer: false,
            pondering: None,
            position_times: None,
        }
    }

    /// The options as they are.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Sets an option by its UCI name. A running search goes on with the old value.
    ///
    /// # Errors
    /// An unknown name, or a value that is not allowed.
    pub fn set_option(&mut self, name: &str, value: &str) -> Result<(), EngineError> {
        let mut changed = self.options.clone();
        changed.set(name, value)?;
        // A time manager's description is checked here, where the user can see what is wrong with it.
        make_time_manager(&changed.time_manager)?;
        self.options = changed;
        Ok(())
    }

    /// Begins a new game: forgets the tree, the cache and the time manager's memory.
    pub fn new_game(&mut self) {
        self.end_search();
        self.tree = Arc::new(Tree::new());
        self.time_manager = None;
        self.correction_history = None;
        if let Some((_, backend)) = &self.backend {
            backend.clear_cache();
        }
    }

    /// Makes sure that the backend is there.
    ///
    /// # Errors
    /// Why it cannot be made.
    pub fn ensure_ready(&mut self) -> Result<(), EngineError> {
        if self.is_searching() {
            return Ok(());
        }
        self.backend().map(|_| ())
    }

    /// Sets the position, and keeps what the tree knows about it.
    ///
    /// # Errors
    /// A broken FEN or an illegal move; the old position stays.
    pub fn set_position(&mut self, command: &PositionCommand) -> Result<(), EngineError> {
        let arrived = Instant::now();
        let game = Game::new(command)?;
        self.end_search();
        if game.start != self.game.start {
            // Another game without `ucinewgame`: what was saved in the last one is gone.
            self.time_manager = None;
            self.correction_history = None;
        }
        self.tree = self.tree_for(&game);
        self.game = game;
        self.position_times = Some((arrived, Instant::now()));
        Ok(())
    }

    /// Starts a search.
    ///
    /// # Errors
    /// The backend or a thread could not be made. No move is told then: see [`Engine::answer_without_search`].
    pub fn go(&mut self, go: &GoParams) -> Result<(), EngineError> {
        let start = self.clock_start();
        self.end_search();
        let searchmoves = self.searchmoves(go);
        if self.game.history.last().legal_moves().is_empty() {
            self.show_finished_game();
            self.holds_answer = go.infinite || go.ponder;
            if !self.holds_answer {
                self.answer_without_search();
            }
            return Ok(());
        }
        self.start_search(go, searchmoves, start)
    }

    /// Tells any legal move, or that there is none: the answer to a `go` that could not be searched.
    pub fn answer_without_search(&mut self) {
        self.holds_answer = false;
        let any = self.game.history.last().legal_moves().first().copied();
        self.responder.best_move(&BestMove { best: any, ponder: None });
    }

    /// Stops the running search; its best move is told. Without one, nothing happens.
    pub fn stop(&mut self) {
        self.pondering = None;
        if self.holds_answer {
            self.answer_without_search();
        }
        if let Some(search) = &self.search {
            search.stop();
        }
    }

    /// The pondered move was played: the search goes on under the clock.
    ///
    /// # Errors
    /// If no `go ponder` is running.
    pub fn ponder_hit(&mut self) -> Result<(), EngineError> {
        let start = Instant::now();
        if self.holds_answer {
            self.answer_without_search();
            return Ok(());
        }
        let mut go = self.pondering.take().ok_or(EngineError::NotPondering)?;
        go.ponder = false;
        let chain = self.stoppers(&go)?;
        let search = self.search.as_ref().ok_or(EngineError::NotPondering)?;
        search.ponder_hit(chain, start);
        Ok(())
    }

    /// Blocks until the running search has told its move. An open-ended search (`go infinite`) that nobody could
    /// stop meanwhile is not waited for.
    pub fn wait(&mut self) {
        if let Some(search) = &self.search {
            search.wait_for_move();
        }
    }

    /// Whether a search is running whose move was not told yet.
    pub fn is_searching(&self) -> bool {
        self.holds_answer || self.search.as_ref().is_some_and(|search| !search.has_responded())
    }

    /// The running or last search's visits of the root.
    pub fn total_nodes(&self) -> u64 {
        self.search.as_ref().map_or(0, Search::total_nodes)
    }

    /// Of those, what the running or last search took over from other orders of moves, without an evaluation.
    pub fn absorbed_visits(&self) -> u64 {
        self.search.as_ref().map_or(0, Search::absorbed_visits)
    }

    /// The current position.
    pub fn position(&self) -> &Position {
        self.game.history.last()
    }

    /// The search tree. Ends the search first, so that it can be looked at.
    pub fn finished_tree(&mut self) -> &Tree {
        self.end_search();
        &self.tree
    }

    /// The backend, made now if need be.
    ///
    /// # Errors
    /// Why it cannot be made.
    pub fn backend(&mut self) -> Result<Arc<dyn Backend>, EngineError> {
        let config = BackendConfig::from_options(&self.options);
        if let Some((made_from, backend)) = &self.backend
            && *made_from == config
        {
            return Ok(backend.clone());
        }
        let created = factory::create(&config)?;
        for notice in &created.notices {
            self.responder.message(notice);
        }
        self.tree = Arc::new(Tree::new());
        // It knew another network.
        self.correction_history = None;
        self.backend = Some((config, created.backend.clone()));
        Ok(created.backend)
    }

    /// Ends a running search; its best move is told first. Its threads let go of the tree, but a batch that is
    /// under evaluation is not waited for here: a large network on a CPU may take a second for it.
    fn end_search(&mut self) {
        self.pondering = None;
        if self.holds_answer {
            self.answer_without_search();
        }
        if let Some(search) = self.search.take() {
            search.stop();
            search.wait_for_move();
            let released = search.release();
            if !released.tree_is_sound {
                self.tree = Arc::new(Tree::new());
            }
            self.retired.retain(|thread| !is_finished(thread));
            self.retired.extend(released.threads);
        }
    }

    /// The part of the tree that belongs to `game`, or a new one.
    fn tree_for(&self, game: &Game) -> Arc<Tree> {
        let old = &self.game;
        if game.start != old.start || !game.moves.starts_with(&old.moves) {
            return Arc::new(Tree::new());
        }
        let played_since = &game.moves[old.moves.len()..];
        if played_since.is_empty() {
            return self.tree.clone();
        }
        if self.tree.reroot(played_since) { self.tree.clone() } else { Arc::new(Tree::new()) }
    }

    fn clock_start(&self) -> Instant {
        let now = Instant::now();
        match self.position_times {
            Some((arrived, done))
                if !self.options.strict_uci_timing && now.duration_since(done) < TOGETHER =>
            {
                arrived
            }
            _ => now,
        }
    }

    /// The legal ones of `go searchmoves`; the others are named in a message.
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

    /// What is shown of a game in which no move can be played; the answer to `go` is the null move, UCI's `0000`.
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
        // What is proven is not searched again: a longer mate of an earlier search would hide a shorter one. And after a
        // search for a mate longer ones are open that an ordinary search takes for proven.
        let looks_for_mate = go.mate.is_some();
        if self.tree_cleared_at != self.options.clear_tree || looks_for_mate || self.tree_served_mate {
            self.tree_cleared_at = self.options.clear_tree;
            self.tree = Arc::new(Tree::new());
        }
        self.tree_served_mate = looks_for_mate;
        // In an endless analysis nobody is the player.
        let player = (!go.infinite).then(|| self.game.history.last().side_to_move());
        let mut params = SearchParams::from_options(&self.options, backend.attributes(), player);
        if let Some(moves) = go.mate {
            params = params.for_mate_in(moves);
        }
        let stopper = self.stoppers(go)?;
        let Consulted { searchmoves, tablebases, tablebase_hits, known } =
            self.consult_tablebases(searchmoves, looks_for_mate);
        let reused = u64::from(self.tree.node(self.tree.root()).visits());
        let bytes_beside_tree = u64::from(self.options.nncache) * BYTES_PER_ENTRY;
        let memory_limit =
            tree_limit(u64::from(self.options.ramlimit_mb), bytes_beside_tree, self.tree.used_bytes());
        let visit_limit = go.nodes.map(|nodes| match self.options.nodes_as_playouts {
            true => reused.saturating_add(nodes),
            false => nodes,
        });
        let responder: Arc<dyn Responder> = match known {
            Some(root) => Arc::new(KnownScores {
                responder: self.responder.clone(),
                root,
                score_type: self.options.score_type,
                draw_score: params.draw_score_for(self.game.history.last().side_to_move()),
            }),
            None => self.responder.clone(),
        };
        let correction_history = self.options.use_correction_history.then(|| {
            Arc::clone(self.correction_history.get_or_insert_with(|| Arc::new(CorrectionHistory::new())))
        });
        let setup = SearchSetup {
            tree: self.tree.clone(),
            backend,
            params,
            score_type: self.options.score_type,
            history: self.game.history.clone(),
            searchmoves,
            tablebases,
            tablebase_hits,
            correction_history,
            memory_limit,
            // A root that has its visits already is looked at once more, so that there is something to report.
            visit_limit: visit_limit.map(|limit| limit.max(1)),
            stopper,
            start,
            is_open_ended: go.infinite || go.ponder,
            predecessors: std::mem::take(&mut self.retired),
        };
        self.search = Some(Search::start(setup, responder)?);
        self.pondering = go.ponder.then(|| go.clone());
        Ok(())
    }

    /// What the tablebases say of the root: its moves that keep the best result (unless the user chose moves), and
    /// the tables for the leaves. Where the moves are chosen by distance the leaves are not looked up: all of them
    /// would be won, and the network must tell which way to go. A search for a mate gets nothing: the tables know wins,
    /// and not which of them mates first.
    fn consult_tablebases(&mut self, searchmoves: Vec<PackedMove>, looks_for_mate: bool) -> Consulted {
        if looks_for_mate {
            return Consulted { searchmoves, tablebases: None, tablebase_hits: 0, known: None };
        }
        let paths = &self.options.syzygy_paths;
        if self.tablebases.0 != *paths {
            let opened = if paths.is_empty() { None } else { Some(Tablebases::open(paths)) };
            let tables = match opened {
                None => None,
                Some(Ok(tables)) => {
                    let (files, men) = (tables.files(), tables.max_pieces());
                    self.responder.message(&format!("{files} tablebase files, up to {men} men"));
                    Some(Arc::new(tables))
                }
                Some(Err(error)) => {
                    self.responder.message(&format!("error: {error}"));
                    None
                }
            };
            self.tablebases = (paths.clone(), tables);
        }
        let mut consulted =
            Consulted { searchmoves, tablebases: self.tablebases.1.clone(), tablebase_hits: 0, known: None };
        let history = &self.game.history;
        if let Some(tables) = &self.tablebases.1
            && consulted.searchmoves.is_empty()
            && let Some(root) = tables.root_moves(history, self.options.syzygy_fast_play)
        {
            consulted.searchmoves = root.best;
            consulted.tablebase_hits = 1;
            if root.by_distance {
                consulted.tablebases = None;
                consulted.known = KnownRoot::look_up(tables, history);
                let mates = mating_moves(history, &consulted.searchmoves);
                if !mates.is_empty() {
                    consulted.searchmoves = mates;
                    consulted.known = Some(KnownRoot::Mate);
                }
            }
        }
        consulted
    }

    fn stoppers(&mut self, go: &GoParams) -> Result<Box<dyn crate::search::Stopper>, EngineError> {
        let reused_nodes = u64::from(self.tree.node(self.tree.root()).visits());
        let start = SearchStart::new(self.game.history.last(), reused_nodes);
        let description = &self.options.time_manager;
        if self.time_manager.as_ref().is_none_or(|(made_from, _)| made_from != description) {
            self.time_manager = Some((description.clone(), make_time_manager(description)?));
        }
        let Some((_, time_manager)) = &mut self.time_manager else { unreachable!("it was just made") };
        Ok(Box::new(build_stoppers(&self.options, go, &start, time_manager.as_mut())))
    }
}

impl Drop for Engine {
    /// No thread outlives the engine: the backend's library may not like to be unloaded under it.
    fn drop(&mut self) {
        self.search = None;
        for thread in self.retired.drain(..) {
            // A panic was reported where it happened.
            let _ = thread.join();
        }
    }
}
