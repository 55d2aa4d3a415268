//! `RamLimitMb`: the tree may grow so far.
//!
//! The tree says how many bytes it takes, so nothing is estimated but the next step: what is asked is not
//! whether the limit is passed, but whether the tree could pass it before the next question, judged by the
//! largest growth seen between two questions. The arena's own capacity is the hard bound behind this one.

use crate::search::{IterationStats, Stopper, StopperHints};

/// Stops before the tree and what lies beside it take more than a limit.
#[derive(Debug)]
pub struct MemoryStopper {
    /// Bytes left for the tree: the limit without what lies beside the tree.
    tree_limit: u64,
    tells_remaining: bool,
    previous_bytes: Option<u64>,
    largest_growth: u64,
}

impl MemoryStopper {
    /// `megabytes` are of a million bytes; `bytes_beside_tree` is what counts against the limit and does not
    /// grow with the search (the evaluation cache). For `tells_remaining` see
    /// [`VisitsStopper::new`](super::VisitsStopper::new).
    pub fn new(megabytes: u64, bytes_beside_tree: u64, tells_remaining: bool) -> MemoryStopper {
        MemoryStopper {
            tree_limit: megabytes.saturating_mul(1_000_000).saturating_sub(bytes_beside_tree),
            tells_remaining,
            previous_bytes: None,
            largest_growth: 0,
        }
    }
}

impl Stopper for MemoryStopper {
    fn should_stop(&mut self, stats: &IterationStats, hints: &mut StopperHints) -> bool {
        let previous = self.previous_bytes.replace(stats.tree_bytes).unwrap_or(stats.tree_bytes);
        self.largest_growth = self.largest_growth.max(stats.tree_bytes.saturating_sub(previous));
        let free = self.tree_limit.saturating_sub(stats.tree_bytes);
        if self.tells_remaining {
            let bytes_per_node = (stats.tree_bytes / stats.total_nodes.max(1)).max(1);
            hints.limit_playouts(free / bytes_per_node);
        }
        free == 0 || free < self.largest_growth
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_tree(megabytes: u64) -> IterationStats {
        IterationStats {
            tree_bytes: megabytes * 1_000_000,
            total_nodes: megabytes * 5_000,
            ..Default::default()
        }
    }

    #[test]
    fn stops_before_the_step_that_would_pass_the_limit() {
        let mut stopper = MemoryStopper::new(100, 20_000_000, true);
        let answers = [1, 31, 61].map(|mb| stopper.should_stop(&with_tree(mb), &mut StopperHints::default()));
        // 80 MB are left for the tree: from 61 a step of 30 would lead to 91.
        assert_eq!(answers, [false, false, true]);
    }

    #[test]
    fn small_steps_come_near_the_limit_and_never_pass_it() {
        let mut stopper = MemoryStopper::new(100, 0, false);
        let stopped_at = (0..).find(|&mb| stopper.should_stop(&with_tree(mb), &mut StopperHints::default()));
        assert_eq!(stopped_at, Some(100));
    }

    #[test]
    fn tells_how_many_more_visits_fit() {
        let mut hints = StopperHints::default();
        MemoryStopper::new(100, 0, true).should_stop(&with_tree(40), &mut hints);
        // 200 bytes a node, 60 MB free.
        assert_eq!(hints.remaining_playouts, Some(300_000));
    }

    #[test]
    fn a_limit_below_what_is_there_already_stops_at_once() {
        let mut stopper = MemoryStopper::new(10, 20_000_000, true);
        let mut hints = StopperHints::default();
        assert!(stopper.should_stop(&with_tree(0), &mut hints));
        assert_eq!(hints.remaining_playouts, Some(1));
    }
}
