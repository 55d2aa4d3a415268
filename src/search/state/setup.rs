//! The arguments of a search.

use crate::policy::SearchParams;
use crate::stop::Stopper;
use rukh_backend::{Backend, Fallback};
use rukh_base::sync::Arc;
use rukh_base::sync::atomic::AtomicBool;
use rukh_base::sync::thread::JoinHandle;
use rukh_chess::tablebase::Tablebases;
use rukh_chess::{PackedMove, PositionHistory};
use rukh_options::{Options, ScoreType};
use rukh_tree::Tree;
use std::time::Instant;

/// The arguments of [`Search::start`](crate::Search::start).
pub struct SearchSetup {
    /// The tree to search. Its root is the last position of `history`.
    pub tree: Arc<Tree>,
    /// The evaluator of leaves.
    pub backend: Arc<dyn Backend>,
    /// Evaluates the root if the backend does not. Without it, the move is then any legal one.
    pub fallback: Option<Arc<dyn Fallback>>,
    /// Parameters of selection, backup, batches and reports.
    pub params: SearchParams,
    /// The unit of the scores in info lines.
    pub score_type: ScoreType,
    /// The game up to the root, which must have a legal move.
    pub history: PositionHistory,
    /// The root moves to search. If it is empty, all root moves are searched.
    pub searchmoves: Vec<PackedMove>,
    /// Endgame tablebases for leaves. `None` if none are loaded, if the search is for a mate, or if the root moves were
    /// already chosen by their distance to a win. In the last case the network must find the win.
    pub tablebases: Option<Arc<Tablebases>>,
    /// Tablebase hits from before the search began, for info lines.
    pub tablebase_hits: u64,
    /// Bytes that the tree may use. Beyond that it is recycled (see [`memory`](crate::memory)).
    pub memory_limit: u64,
    /// The maximum number of visits of the root, including those from earlier searches; `None` means no limit. If there
    /// are `searchmoves`, only the visits below those count.
    pub visit_limit: Option<u64>,
    /// Decides when the search stops.
    pub stopper: Box<dyn Stopper>,
    /// When the move's clock started.
    pub start: Instant,
    /// Whether the search is infinite or ponders. Then the best move is sent only after
    /// [`Search::stop`](crate::Search::stop) or [`Search::ponder_hit`](crate::Search::ponder_hit).
    pub is_open_ended: bool,
    /// Threads of earlier searches that may still use the backend. The workers wait for them before they begin.
    pub predecessors: Vec<JoinHandle<()>>,
    /// Whether the evaluation of a new root does not wait for them. It should wait if the last search has not got even
    /// that far, because otherwise a program that starts and stops searches quickly would make the backend evaluate more
    /// and more at a time.
    pub may_overtake: bool,
    /// Whether the user was told, since the beginning of the game, that a device waits for positions. `None` if nobody
    /// should be told.
    pub waiting_notice: Option<Arc<AtomicBool>>,
}

impl SearchSetup {
    /// A search of `tree`, whose root is the last position of `history`, until `stopper` ends it. The clock starts now.
    /// Parameters have their defaults, all root moves are searched, and there are no tablebases, limits or remains of
    /// earlier searches.
    pub fn new(
        tree: Arc<Tree>,
        backend: Arc<dyn Backend>,
        history: PositionHistory,
        stopper: Box<dyn Stopper>,
    ) -> SearchSetup {
        SearchSetup {
            tree,
            backend,
            fallback: None,
            params: SearchParams::default(),
            score_type: Options::default().score_type,
            history,
            searchmoves: Vec::new(),
            tablebases: None,
            tablebase_hits: 0,
            memory_limit: u64::MAX,
            visit_limit: None,
            stopper,
            start: Instant::now(),
            is_open_ended: false,
            predecessors: Vec::new(),
            may_overtake: true,
            waiting_notice: None,
        }
    }
}
