//! When to stop: the question that search asks after every batch, and what it tells with it.

use std::time::Duration;

/// What a stopper may know of the search so far.
#[derive(Clone, Debug, Default)]
pub struct IterationStats {
    /// Since the move's clock started.
    pub time_since_move_start: Duration,
    /// Since the first batch came back; zero before.
    pub time_since_first_batch: Duration,
    /// Visits of the root, those reused from earlier searches too.
    pub total_nodes: u64,
    /// Visits made by this search.
    pub nodes_since_move_start: u64,
    /// Batches evaluated by this search.
    pub batches_since_move_start: u64,
    /// Average depth of this search's visits.
    pub average_depth: u32,
    /// Moves to mate found for the side to move; `None`: none yet.
    pub mate_depth: Option<u32>,
    /// Visits of each root edge that may be played.
    pub edge_visits: Vec<u32>,
    /// Index into `edge_visits` of the edge that would be played now.
    pub best_edge: usize,
    /// Whether a root move is a proven win.
    pub win_found: bool,
    /// Whether all root moves are proven: there is nothing left to find out.
    pub is_solved: bool,
    /// How many root moves are proven losses.
    pub losing_edges: usize,
    /// Every visited root move is as good as lost (value at most -0.98): moving quickly wins nothing,
    /// so that the search may go on to prove the mate.
    pub is_hopeless: bool,
    /// See [`TimeUsageHint`].
    pub time_usage_hint: TimeUsageHint,
}

/// What the search feels about the clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimeUsageHint {
    /// Nothing special.
    #[default]
    Normal,
    /// The best move by value is not the best by visits.
    NeedMoreTime,
}

/// What stoppers tell the search back; each may lower a value, none may raise it.
#[derive(Clone, Debug, Default)]
pub struct StopperHints {
    /// How long the search will probably go on. The watchdog need not ask again much before.
    pub remaining_time: Option<Duration>,
    /// How many more visits there will probably be: smart pruning skips root moves that cannot catch up.
    pub remaining_playouts: Option<u64>,
    /// Nodes per second, where a stopper measured it.
    pub nodes_per_second: Option<f32>,
}

impl StopperHints {
    /// Lowers the remaining time.
    pub fn limit_time(&mut self, time: Duration) {
        self.remaining_time = Some(self.remaining_time.map_or(time, |old| old.min(time)));
    }

    /// Lowers the remaining playouts. One always remains: a search that is over its limits but still
    /// runs must be able to pick something.
    pub fn limit_playouts(&mut self, playouts: u64) {
        let playouts = playouts.max(1);
        self.remaining_playouts = Some(self.remaining_playouts.map_or(playouts, |old| old.min(playouts)));
    }
}

/// One reason to stop. Asked by one thread at a time.
pub trait Stopper: Send {
    /// Whether the search should stop now.
    fn should_stop(&mut self, stats: &IterationStats, hints: &mut StopperHints) -> bool;

    /// Called once when the search is done.
    fn on_search_done(&mut self, _stats: &IterationStats) {}
}
