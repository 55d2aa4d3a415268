//! One side of a game: searches a position and keeps what it needs for the next one.

use super::config::{MoveChoice, PlayerConfig};
use super::instant::{self, Instant};
use crate::concurrent::evaluator::SharedEvaluator;
use crate::concurrent::memory::Shares;
use crate::concurrent::run::{FlagStopper, run_and_read};
use rukh_backend::{Backend, BackendError, Evaluation};
use rukh_chess::tablebase::Tablebases;
use rukh_chess::{Color, Move, PackedMove, PositionHistory};
use rukh_search::time::{TimeManager, TimeManagerError, make_time_manager};
use rukh_search::{
    BestMove, GoParams, Responder, RootReport, Score, Search, SearchParams, SearchSetup, SearchStart,
    ThinkingInfo, build_stoppers,
};
use rukh_tree::{Sample, Tree};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// What a game needs to know about both players' trees and the end of the tournament.
pub(super) struct Surroundings {
    /// The memory of each tree, and of the cache of one player in one game.
    pub(super) shares: Shares,
    /// Whether all games should end now. It is only a flag, so its orderings are Relaxed.
    pub(super) is_ending: Arc<AtomicBool>,
    /// Whether the players need the network's own evaluation of each position.
    pub(super) is_training: bool,
    /// How the players choose their moves.
    pub(super) choice: MoveChoice,
}

/// The result of a search.
#[derive(Clone, Debug)]
pub(super) struct Searched {
    /// The move to play.
    pub(super) chosen: Move,
    /// The moves that were chosen before it and refused, because they had too few visits.
    pub(super) refused: Vec<Move>,
    /// The score that the search has reported, and its average depth; `None` without a search.
    pub(super) report: Option<(Score, u32)>,
    /// What the search has found out.
    pub(super) root: RootReport,
    /// The network's own evaluation of the position, for training data.
    pub(super) evaluation: Option<Evaluation>,
    /// The visits that the search made.
    pub(super) playouts: u64,
}

impl Searched {
    /// The value of the position from the player's view: that of the best move.
    pub(super) fn value(&self) -> Sample {
        self.root.moves.first().map_or(self.root.sample, |best| self.root.value_of(best))
    }
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
    tree_bytes: u64,
    is_ending: Arc<AtomicBool>,
    is_training: bool,
    choice: MoveChoice,
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
        let backend = evaluator.with_cache(&config.options, surroundings.shares.cache_entries);
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
            tree_bytes: surroundings.shares.tree_bytes_for(visits),
            is_ending: Arc::clone(&surroundings.is_ending),
            is_training: surroundings.is_training,
            choice: surroundings.choice,
            listener: Arc::default(),
        })
    }

    pub(super) fn config(&self) -> &PlayerConfig {
        &self.config
    }

    /// Forgets the last game.
    pub(super) fn new_game(&mut self) {
        self.backend.clear_cache();
    }

    /// Searches the last position of `history`, which has a legal move and is the root of `tree`.
    pub(super) fn search(&mut self, tree: &Arc<Tree>, history: &PositionHistory) -> Result<Searched, NoMove> {
        match self.choice {
            MoveChoice::Search => {}
            MoveChoice::Policy => return self.choose_instantly(history, instant::by_policy),
            MoveChoice::Value => return self.choose_instantly(history, instant::by_value),
        }
        let position = history.last();
        let evaluation = if self.is_training { self.evaluation(history) } else { None };
        let limits = self.config.limits;
        let reused = u64::from(tree.node(tree.root()).visits());
        let playouts = limits.playouts.map(|playouts| reused.saturating_add(playouts));
        let nodes = limits.visits.into_iter().chain(playouts).min();
        let go = GoParams { nodes, movetime: limits.movetime_ms, ..GoParams::default() };
        let start = SearchStart { prunes_as_lc0: true, ..SearchStart::new(position, reused) };
        let stopper = build_stoppers(&self.config.options, &go, &start, &mut *self.time_manager);
        let stopper = Box::new(FlagStopper { inner: stopper, is_ending: Arc::clone(&self.is_ending) });
        let params = self.params[usize::from(position.side_to_move() == Color::Black)].clone();
        let setup = SearchSetup {
            params,
            score_type: self.config.options.score_type.in_centipawns(),
            tablebases: self.tablebases.clone(),
            memory_limit: self.tree_bytes,
            // A root without visits gets one, so that there is a move.
            visit_limit: nodes.map(|nodes| nodes.max(1)),
            ..SearchSetup::new(Arc::clone(tree), Arc::clone(&self.backend), history.clone(), stopper)
        };
        let responder = Arc::clone(&self.listener) as Arc<dyn Responder>;
        let is_timed = limits.movetime_ms.is_some();
        let read = |search: &Search| (search.root_report(), self.choose(search));
        let (ended, (root, choice)) = run_and_read(setup, is_timed, &self.evaluator, responder, read)
            .map_err(|error| NoMove::Failed(format!("cannot start a search: {error}")))?;
        if self.is_ending.load(Ordering::Relaxed) {
            return Err(NoMove::Ending);
        }
        if let Some(failure) = ended.failure {
            return Err(NoMove::Failed(failure));
        }
        let Some((Answer { chosen, report }, refused)) = choice else {
            return Err(NoMove::Failed(format!("no move in {}", position.to_fen())));
        };
        Ok(Searched { chosen, refused, report, root, evaluation, playouts: ended.playouts })
    }

    /// Chooses a move without a search.
    fn choose_instantly(
        &self,
        history: &PositionHistory,
        choose: fn(&dyn Backend, &PositionHistory) -> Result<Option<Instant>, BackendError>,
    ) -> Result<Searched, NoMove> {
        let chosen = {
            let _searching = self.evaluator.begin_search();
            choose(&*self.backend, history)
        };
        if self.is_ending.load(Ordering::Relaxed) {
            return Err(NoMove::Ending);
        }
        let chosen = chosen.map_err(|error| NoMove::Failed(error.to_string()))?;
        let Some(Instant { chosen, value, evaluations }) = chosen else {
            return Err(NoMove::Failed(format!("no move in {}", history.last().to_fen())));
        };
        let root = RootReport { visits: 1, sample: value, moves: Vec::new() };
        Ok(Searched {
            chosen,
            refused: Vec::new(),
            report: None,
            root,
            evaluation: None,
            playouts: evaluations,
        })
    }

    /// The move that an ended search has sent, or another one if it has too few visits, and the moves that were refused.
    fn choose(&self, search: &Search) -> Option<(Answer, Vec<Move>)> {
        /// After so many refusals the chosen move is played all the same. It takes so many only if nearly none is allowed.
        const MOST_REFUSALS: usize = 1000;
        let Answer { mut chosen, report } = self.listener.take()?;
        let (mut refused, mut refusals) = (Vec::new(), 0);
        if self.config.minimum_allowed_visits == 0 {
            return Some((Answer { chosen, report }, refused));
        }
        let root = search.root_report();
        let needed = self.config.minimum_allowed_visits.min(root.most_visits());
        let best = root.moves.first().map(|best| best.packed);
        let is_allowed = |m: Move| {
            let found = root.find(PackedMove::new(m));
            Some(PackedMove::new(m)) == best || found.is_none_or(|found| found.visits >= needed)
        };
        while !is_allowed(chosen) && refusals < MOST_REFUSALS {
            if !refused.contains(&chosen) {
                refused.push(chosen);
            }
            refusals += 1;
            chosen = search.choose_again()?;
        }
        Some((Answer { chosen, report }, refused))
    }

    /// The network's own evaluation of the last position of `history`. The search then finds it in the cache, so that it
    /// is usually made only once. `None` if the backend fails, which the search will report.
    fn evaluation(&self, history: &PositionHistory) -> Option<Evaluation> {
        let _searching = self.evaluator.begin_search();
        instant::evaluate(&*self.backend, history).ok()
    }
}

/// What a search has sent.
#[derive(Clone, Copy)]
struct Answer {
    chosen: Move,
    /// The score of the best line, and the average depth.
    report: Option<(Score, u32)>,
}

/// Receives the answer of a search.
#[derive(Default)]
struct Listener(Mutex<Option<Answer>>);

impl Listener {
    fn take(&self) -> Option<Answer> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn put(&self, best: &BestMove, report: Option<(Score, u32)>) {
        let answer = best.best.map(|chosen| Answer { chosen, report });
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = answer;
    }
}

impl Responder for Listener {
    fn thinking(&self, _infos: &[ThinkingInfo]) {}

    fn best_move(&self, best: &BestMove) {
        self.put(best, None);
    }

    fn answer(&self, infos: &[ThinkingInfo], best: &BestMove) {
        self.put(best, infos.iter().find_map(|info| Some((info.score?, info.depth?))));
    }

    // A failure is read from the search, and nobody needs the other messages of hundreds of searches.
    fn message(&self, _text: &str) {}
}
