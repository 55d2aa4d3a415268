//! Counters that any worker may update and any thread may read.

use rukh_base::cache_line::OwnLines;
use rukh_base::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// The counters of one search. All orderings are Relaxed: stoppers, limits and info lines only read the values, and
/// no thread waits for a counter to change.
///
/// They lie in cache lines of their own, beside which nothing lies that threads read all the time.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct Counters {
    /// Visits that this search has finished.
    pub(crate) playouts: AtomicU64,
    /// The sum of the depths of the visits in `playouts`.
    depth_sum: AtomicU64,
    /// The greatest depth of a visit.
    pub(crate) seldepth: AtomicU32,
    /// The number of iterations that have finished any visits.
    pub(crate) batches: AtomicU64,
    pub(crate) network_evaluations: AtomicU64,
    /// Those of `network_evaluations` that were for leaves, and not for the cache only.
    pub(crate) evaluated_leaves: AtomicU64,
    pub(crate) tablebase_hits: AtomicU64,
    /// Visits that needed no evaluation, because a shared node had already received them through other parents.
    pub(crate) absorbed: AtomicU64,
    /// Visits in flight at the root, which no link counts. Each descent adds to them and each backup subtracts.
    pub(crate) root_in_flight: OwnLines<AtomicU32>,
    /// Whether a search for a mate has shown that no mate exists within its limit.
    pub(crate) mate_is_refuted: AtomicBool,
}

/// Finished visits and their depths, before they are added to the [`Counters`].
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct VisitCounts {
    visits: u64,
    depth_sum: u64,
    deepest: u32,
}

impl VisitCounts {
    /// Returns these counts plus `visits` visits to a leaf at `depth`. The root has the depth 1.
    pub(crate) fn with(self, depth: usize, visits: u32) -> VisitCounts {
        VisitCounts {
            visits: self.visits + u64::from(visits),
            depth_sum: self.depth_sum + depth as u64 * u64::from(visits),
            deepest: self.deepest.max(depth as u32),
        }
    }
}

impl Counters {
    /// The counters of a new search. `tablebase_hits` root moves were found in the tablebases before it started.
    pub(super) fn new(tablebase_hits: u64) -> Counters {
        Counters { tablebase_hits: AtomicU64::new(tablebase_hits), ..Counters::default() }
    }

    /// Adds finished visits.
    pub(crate) fn count_visits(&self, counts: VisitCounts) {
        self.depth_sum.fetch_add(counts.depth_sum, Ordering::Relaxed);
        // All threads read the depth, and it seldom grows. A needless write would take its cache line from the readers.
        if counts.deepest > self.seldepth.load(Ordering::Relaxed) {
            self.seldepth.fetch_max(counts.deepest, Ordering::Relaxed);
        }
        self.playouts.fetch_add(counts.visits, Ordering::Relaxed);
    }

    /// The mean depth of this search's visits, rounded down.
    pub(crate) fn average_depth(&self) -> u32 {
        let playouts = self.playouts.load(Ordering::Relaxed).max(1);
        (self.depth_sum.load(Ordering::Relaxed) / playouts) as u32
    }
}
