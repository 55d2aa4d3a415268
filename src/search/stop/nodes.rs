//! Limits on nodes: visits of the root, or playouts of this search.
//!
//! They differ if the tree is reused. If the root already has 500 visits, `go nodes 800` makes 300 more. With the
//! option `NodesAsPlayouts` it makes 800.

use super::stopper::{IterationStats, Stopper, StopperHints};

/// Stops when the root's visits reach a limit. Visits from earlier searches count.
#[derive(Debug)]
pub struct VisitsStopper {
    limit: u64,
    hints_remaining: bool,
}

impl VisitsStopper {
    /// If `hints_remaining` is set, the stopper lowers [`StopperHints::remaining_playouts`], so that the search skips
    /// root moves that cannot catch up in visits. Without smart pruning it must not be set, because every root move must
    /// then be searched to the end.
    pub fn new(limit: u64, hints_remaining: bool) -> VisitsStopper {
        VisitsStopper { limit, hints_remaining }
    }
}

impl Stopper for VisitsStopper {
    fn should_stop(&mut self, stats: &IterationStats, hints: &mut StopperHints) -> bool {
        if self.hints_remaining {
            hints.limit_playouts(self.limit.saturating_sub(stats.total_nodes));
        }
        stats.total_nodes >= self.limit
    }
}

/// Stops when the visits made by this search reach a limit.
#[derive(Debug)]
pub struct PlayoutsStopper {
    limit: u64,
    hints_remaining: bool,
}

impl PlayoutsStopper {
    /// [`VisitsStopper::new`] explains `hints_remaining`.
    pub fn new(limit: u64, hints_remaining: bool) -> PlayoutsStopper {
        PlayoutsStopper { limit, hints_remaining }
    }
}

impl Stopper for PlayoutsStopper {
    fn should_stop(&mut self, stats: &IterationStats, hints: &mut StopperHints) -> bool {
        if self.hints_remaining {
            hints.limit_playouts(self.limit.saturating_sub(stats.nodes_since_move_start));
        }
        stats.nodes_since_move_start >= self.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A search that found 500 visits at the root and made `playouts` more.
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
    fn the_hint_of_remaining_playouts_is_optional() {
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
