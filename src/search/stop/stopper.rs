//! The interface between the search and its stoppers.

use std::time::Duration;

/// The statistics of the search so far, by which a stopper decides.
#[derive(Clone, Debug, Default)]
pub struct IterationStats {
    /// The time since the move's clock started.
    pub time_since_move_start: Duration,
    /// The time since the first batch was evaluated. It is zero before that.
    pub time_since_first_batch: Duration,
    /// Visits of the root or, if only some of its moves are searched, visits below those. Visits from earlier searches
    /// are included.
    pub total_nodes: u64,
    /// Those of `total_nodes` that this search has made.
    pub nodes_since_move_start: u64,
    /// The number of batches that this search has evaluated.
    pub batches_since_move_start: u64,
    /// The average depth of this search's visits. The root has the depth 1.
    pub average_depth: u32,
    /// The shortest mate found for the side to move, in moves. `None` if there is none yet.
    pub mate_depth: Option<u32>,
    /// The visits of each searched root edge.
    pub edge_visits: Vec<u32>,
    /// Whether a root move is a proven win.
    pub win_found: bool,
    /// Whether all root moves are proven, so that more search finds out nothing.
    pub is_solved: bool,
    /// The number of root moves that are proven losses.
    pub losing_edges: usize,
    /// Whether every visited root move is as good as lost (value at most -0.98). A quick move gains nothing then, so
    /// the search may go on to prove the mate.
    pub is_hopeless: bool,
    /// Whether the search needs more time than usual.
    pub time_usage_hint: TimeUsageHint,
}

/// The search's own estimate of how much time it needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimeUsageHint {
    /// The move needs no more time than others.
    #[default]
    Normal,
    /// The move with the best value is not the one with the most visits.
    NeedMoreTime,
}

/// The hints that stoppers give to the search and to later stoppers. A stopper may lower a remaining quantity, and must
/// not raise it.
#[derive(Clone, Debug, Default)]
pub struct StopperHints {
    /// The time for which the search will probably go on. The watchdog need not ask again much earlier.
    pub remaining_time: Option<Duration>,
    /// The number of visits that will probably still be made. With smart pruning the search skips root moves that
    /// cannot catch up within that number.
    pub remaining_playouts: Option<u64>,
    /// When the time limit ends the search at the latest, counted from the start of the move's clock.
    pub planned_end: Option<Duration>,
    /// The speed in nodes per second, if a stopper knows it.
    pub nodes_per_second: Option<f32>,
}

impl StopperHints {
    /// Lowers the remaining time to `time`.
    pub fn limit_time(&mut self, time: Duration) {
        self.remaining_time = Some(self.remaining_time.map_or(time, |old| old.min(time)));
    }

    /// The search ends at the time `end`, counted from the start of the move's clock, unless another stopper ends it
    /// earlier. `now` is counted from there too.
    pub fn plan_end(&mut self, end: Duration, now: Duration) {
        self.planned_end = Some(self.planned_end.map_or(end, |old| old.min(end)));
        self.limit_time(end.saturating_sub(now));
    }

    /// Lowers the remaining playouts to `playouts`, but not below 1: a search that is over its limit and still runs
    /// must be able to select a move.
    pub fn limit_playouts(&mut self, playouts: u64) {
        let playouts = playouts.max(1);
        self.remaining_playouts = Some(self.remaining_playouts.map_or(playouts, |old| old.min(playouts)));
    }
}

/// A reason to stop the search. Only one thread at a time calls it.
pub trait Stopper: Send {
    /// Whether the search should stop now. The root has been evaluated.
    fn should_stop(&mut self, stats: &IterationStats, hints: &mut StopperHints) -> bool;

    /// The time after which the search must send a move even if it has not evaluated anything. `None` means that it waits
    /// for an evaluation.
    fn patience(&self) -> Option<Duration> {
        None
    }

    /// The last moment at which an answer still reaches the GUI in time, counted from the start of the clock. A search
    /// that has no evaluation by then answers with any legal move, whatever evaluates. `None` means that there is none.
    fn last_moment(&self) -> Option<Duration> {
        None
    }

    /// Called once, before the best move is sent. It is not called if the search is aborted.
    fn on_search_done(&mut self, _stats: &IterationStats) {}
}
