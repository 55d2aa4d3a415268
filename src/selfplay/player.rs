//! One side of a game: searches a position and keeps what it needs for the next one.

use super::config::PlayerConfig;
use crate::backend::{Backend, BackendError};
use crate::chess::tablebase::Tablebases;
use crate::chess::{Color, Move, PackedMove, PositionHistory};
use crate::concurrent::evaluator::SharedEvaluator;
use crate::concurrent::memory::Shares;
use crate::concurrent::run::{FlagStopper, run_to_end};
use crate::search::policy::correction_history::CorrectionHistory;
use crate::search::policy::subtree_bias::SubtreeBias;
use crate::search::time::{TimeManager, TimeManagerError, make_time_manager};
use crate::search::{
    BestMove, GoParams, Responder, SearchParams, SearchSetup, SearchStart, ThinkingInfo, build_stoppers,
};
use crate::tree::{Sample, Tree};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// What a game needs to know about both players' trees and the end of the tournament.
pub(super) struct Surroundings {
    /// The memory of each tree, and of the cache of one player in one game.
    pub(super) shares: Shares,
    /// Whether all games should end now. It is only a flag, so its orderings are Relaxed.
    pub(super) is_ending: Arc<AtomicBool>,
}

/// The result of a search.
#[derive(Clone, Copy, Debug)]
pub(super) struct Searched {
    pub(super) best: Move,
    /// The value of the position from the player's view: that of the best move.
    pub(super) value: Sample,
    /// The visits that the search made.
    pub(super) playouts: u64,
}

/// Why a player has no move.
#[derive(Debug)]
pub(super) enum NoMove {
    /// The tournament is ending.
    Ending,
    /// The search has failed, for this reason.
    Failed(String),
}

/// One side of a game. It is used for one game after another.
pub(super) struct Player {
    config: Arc<PlayerConfig>,
    evaluator: Arc<SharedEvaluator>,
    backend: Arc<dyn Backend>,
    /// The parameters of the search with white and with black.
    params: [SearchParams; 2],
    time_manager: Box<dyn TimeManager>,
    tablebases: Option<Arc<Tablebases>>,
    correction_history: Option<Arc<CorrectionHistory>>,
    subtree_bias: Option<Arc<SubtreeBias>>,
    tree_bytes: u64,
    is_ending: Arc<AtomicBool>,
    listener: Arc<Listener>,
}

/// Why a player cannot be made.
#[derive(Debug, thiserror::Error)]
pub(super) enum PlayerError {
    #[error(transparent)]
    Backend(#[from] BackendError),
    #[error(transparent)]
    TimeManager(#[from] TimeManagerError),
}

impl Player {
    pub(super) fn new(
        config: Arc<PlayerConfig>,
        evaluator: Arc<SharedEvaluator>,
        tablebases: Option<Arc<Tablebases>>,
        surroundings: &Surroundings,
    ) -> Result<Player, PlayerError> {
        let backend = evaluator.with_cache(&config.options, surroundings.shares.cache_entries)?;
        let params = [Color::White, Color::Black]
            .map(|color| SearchParams::from_options(&config.options, evaluator.attributes(), Some(color)));
        let visits = config.limits.visits.max(config.limits.playouts);
        Ok(Player {
            time_manager: make_time_manager(&config.options.time_manager)?,
            config,
            backend,
            evaluator,
            params,
            tablebases,
            correction_history: None,
            subtree_bias: None,
            tree_bytes: surroundings.shares.tree_bytes_for(visits),
            is_ending: Arc::clone(&surroundings.is_ending),
            listener: Arc::default(),
        })
    }

    pub(super) fn config(&self) -> &PlayerConfig {
        &self.config
    }

    /// Forgets the last game.
    pub(super) fn new_game(&mut self) {
        self.backend.clear_cache();
        let [params, _] = &self.params;
        self.correction_history = params.uses_correction_history.then(|| Arc::new(CorrectionHistory::new()));
        self.subtree_bias = params.backup.has_bias().then(|| Arc::new(SubtreeBias::new()));
    }

    /// Searches the last position of `history`, which has a legal move and is the root of `tree`.
    pub(super) fn search(&mut self, tree: &Arc<Tree>, history: &PositionHistory) -> Result<Searched, NoMove> {
        let position = history.last();
        let limits = self.config.limits;
        let reused = u64::from(tree.node(tree.root()).visits());
        let playouts = limits.playouts.map(|playouts| reused.saturating_add(playouts));
        let nodes = limits.visits.into_iter().chain(playouts).min();
        let go = GoParams { nodes, movetime: limits.movetime_ms, ..GoParams::default() };
        let start = SearchStart::new(position, reused);
        let stopper = build_stoppers(&self.config.options, &go, &start, &mut *self.time_manager);
        let stopper = Box::new(FlagStopper { inner: stopper, is_ending: Arc::clone(&self.is_ending) });
        let params = self.params[usize::from(position.side_to_move() == Color::Black)].clone();
        let setup = SearchSetup {
            params,
            score_type: self.config.options.score_type,
            tablebases: self.tablebases.clone(),
            correction_history: self.correction_history.clone(),
            subtree_bias: self.subtree_bias.clone(),
            memory_limit: self.tree_bytes,
            // A root without visits gets one, so that there is a move.
            visit_limit: nodes.map(|nodes| nodes.max(1)),
            ..SearchSetup::new(Arc::clone(tree), Arc::clone(&self.backend), history.clone(), stopper)
        };
        let responder = Arc::clone(&self.listener) as Arc<dyn Responder>;
        let ended = run_to_end(setup, limits.movetime_ms.is_some(), &self.evaluator, responder)
            .map_err(|error| NoMove::Failed(format!("cannot start a search: {error}")))?;
        let best = self.listener.take();
        if self.is_ending.load(Ordering::Relaxed) {
            return Err(NoMove::Ending);
        }
        if let Some(failure) = ended.failure {
            return Err(NoMove::Failed(failure));
        }
        let Some(best) = best else {
            return Err(NoMove::Failed(format!("no move in {}", position.to_fen())));
        };
        // A move that was chosen at random says nothing about the position.
        let is_random = self.config.options.temperature > 0.0;
        let valued = if is_random { most_visited_move(tree) } else { Some(PackedMove::new(best)) };
        let value = valued.map_or(Sample::default(), |m| value_of_move(tree, m));
        Ok(Searched { best, value, playouts: ended.playouts })
    }
}

fn most_visited_move(tree: &Tree) -> Option<PackedMove> {
    let links = tree.links(tree.node(tree.root())).map(|(_, link)| link);
    links.max_by_key(|link| link.visits()).map(|link| link.edge().packed_move())
}

/// The value of a root move, from the view of the side that makes it. Zero if the move was never visited.
fn value_of_move(tree: &Tree, m: PackedMove) -> Sample {
    let mut links = tree.links(tree.node(tree.root())).map(|(_, link)| link);
    let link = links.find(|link| link.edge().packed_move() == m);
    let child = link.filter(|link| link.visits() > 0).and_then(|link| link.child());
    child.map_or(Sample::default(), |child| tree.node(child).sample().for_parent())
}

/// Receives the move of a search.
#[derive(Default)]
struct Listener(Mutex<Option<Move>>);

impl Listener {
    fn take(&self) -> Option<Move> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Responder for Listener {
    fn thinking(&self, _infos: &[ThinkingInfo]) {}

    fn best_move(&self, best: &BestMove) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = best.best;
    }

    // A failure is read from the search, and nobody needs the other messages of hundreds of searches.
    fn message(&self, _text: &str) {}
}
