//! Limits on nodes: visits of the root, or playouts of this search.
//!
//! A reused tree makes the difference: `go nodes 800` on a root that already has 500 visits asks for 300 more,
//! unless `NodesAsPlayouts` says that it means 800 new ones.

use super::stopper::{IterationStats, Stopper, StopperHints};

/// Stops when the root has so many visits, reused ones included.
#[derive(Debug)]
pub struct VisitsStopper {
    limit: u64,
    tells_remaining: bool,
}

impl VisitsStopper {
    /// `tells_remaining`: lower the hint of remaining playouts, on which root moves are skipped. Wanted with
    /// smart pruning only: without it every root move is searched to the end.
    pub fn new(limit: u64, tells_remaining: bool) -> VisitsStopper {
        VisitsStopper { limit, tells_remaining }
    }
}

impl Stopper for VisitsStopper {
    fn should_stop(&mut self, stats: &IterationStats, hints: &mut StopperHints) -> bool {
        if self.tells_remaining {
            hints.limit_playouts(self.limit.saturating_sub(stats.total_nodes));
        }
        stats.total_nodes >= self.limit
    }
}

/// Stops when this search has made so many visits.
#[derive(Debug)]
pub struct PlayoutsStopper {
    limit: u64,
    tells_remaining: bool,
}

impl PlayoutsStopper {
    /// For `tells_remaining` see [`VisitsStopper::new`].
    pub fn new(limit: u64, tells_remaining: bool) -> PlayoutsStopper {
        PlayoutsStopper { limit, tells_remaining }
    }
}

impl Stopper for PlayoutsStopper {
    fn should_stop(&mut self, stats: &IterationStats, hints: &mut StopperHints) -> bool {
        if self.tells_remaining {
            hints.limit_playouts(self.limit.saturating_sub(stats.nodes_since_move_start));
        }
        stats.nodes_since_move_start >= self.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A search on a root with 500 visits from before.
    fn after(playouts: u64) -> IterationStats {
        IterationStats { total_nodes: 500 + playouts, nodes_since_move_start: playouts, ..Default::default() }
    }

    fn stops_first_at(stopper: &mut dyn Stopper) -> u64 {
        (0..2000)
            .find(|&playouts| stopper.should_stop(&after(playouts), &mut StopperHints::default()))
            .expect("the limits of these tests are below 2000")
    }

    #[test]
    fn visits_count_the_reused_tree_and_playouts_do_not() {
        assert_eq!(stops_first_at(&mut VisitsStopper::new(800, true)), 300);
        assert_eq!(stops_first_at(&mut PlayoutsStopper::new(800, true)), 800);
        assert_eq!(stops_first_at(&mut VisitsStopper::new(100, true)), 0);
    }

    #[test]
    fn remaining_playouts_are_told_only_when_wanted() {
        let mut hints = StopperHints::default();
        VisitsStopper::new(800, false).should_stop(&after(100), &mut hints);
        PlayoutsStopper::new(800, false).should_stop(&after(100), &mut hints);
        assert_eq!(hints.remaining_playouts, None);
        PlayoutsStopper::new(800, true).should_stop(&after(100), &mut hints);
        assert_eq!(hints.remaining_playouts, Some(700));
        VisitsStopper::new(800, true).should_stop(&after(100), &mut hints);
        assert_eq!(hints.remaining_playouts, Some(200));
        PlayoutsStopper::new(800, true).should_stop(&after(100), &mut hints);
        assert_eq!(hints.remaining_playouts, Some(200), "a hint is never raised");
    }

    #[test]
    fn one_playout_always_remains() {
        let mut hints = StopperHints::default();
        assert!(VisitsStopper::new(100, true).should_stop(&after(0), &mut hints));
        assert_eq!(hints.remaining_playouts, Some(1));
    }
}
