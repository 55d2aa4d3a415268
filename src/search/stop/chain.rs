//! A chain of stoppers.

use super::stopper::{IterationStats, Stopper, StopperHints};
use std::time::Duration;

/// Stops as soon as one of its members does.
///
/// The order of the members matters: each member reads the hints of the members before it. Smart pruning depends on
/// these hints, so it comes last.
#[derive(Default)]
pub struct ChainStopper {
    members: Vec<Box<dyn Stopper>>,
}

impl ChainStopper {
    /// A chain that never stops anything.
    pub fn new() -> ChainStopper {
        ChainStopper::default()
    }

    /// Appends a member.
    pub fn push(&mut self, stopper: impl Stopper + 'static) {
        self.members.push(Box::new(stopper));
    }

    /// Appends a boxed member, such as the stopper of a time manager.
    pub fn push_boxed(&mut self, stopper: Box<dyn Stopper>) {
        self.members.push(stopper);
    }

    /// The number of members.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether the chain has no members, so that only the user can stop the search.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }
}

impl Stopper for ChainStopper {
    fn should_stop(&mut self, stats: &IterationStats, hints: &mut StopperHints) -> bool {
        self.members.iter_mut().any(|member| member.should_stop(stats, hints))
    }

    fn patience(&self) -> Option<Duration> {
        self.members.iter().filter_map(|member| member.patience()).min()
    }

    fn last_moment(&self) -> Option<Duration> {
        self.members.iter().filter_map(|member| member.last_moment()).min()
    }

    fn on_search_done(&mut self, stats: &IterationStats) {
        for member in &mut self.members {
            member.on_search_done(stats);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stop::{TimeLimitStopper, VisitsStopper};
    use std::sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    };
    use std::time::Duration;

    struct CountsCalls(Arc<AtomicU32>);

    impl Stopper for CountsCalls {
        fn should_stop(&mut self, _: &IterationStats, _: &mut StopperHints) -> bool {
            false
        }

        fn on_search_done(&mut self, _: &IterationStats) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn any_member_stops_and_the_lowest_hint_wins() {
        let mut chain = ChainStopper::new();
        chain.push(TimeLimitStopper::new(Duration::from_millis(900)));
        chain.push(VisitsStopper::new(500, true));
        chain.push(TimeLimitStopper::new(Duration::from_millis(600)));
        let mut stats = IterationStats {
            total_nodes: 100,
            time_since_move_start: Duration::from_millis(200),
            ..Default::default()
        };
        let mut hints = StopperHints::default();
        assert!(!chain.should_stop(&stats, &mut hints));
        assert_eq!(hints.remaining_time, Some(Duration::from_millis(400)));
        assert_eq!(hints.remaining_playouts, Some(400));

        stats.time_since_move_start = Duration::from_millis(600);
        assert!(chain.should_stop(&stats, &mut StopperHints::default()));
        stats.time_since_move_start = Duration::ZERO;
        stats.total_nodes = 500;
        assert!(chain.should_stop(&stats, &mut StopperHints::default()));
    }

    #[test]
    fn every_member_learns_that_the_search_is_done() {
        let ends = Arc::new(AtomicU32::new(0));
        let mut chain = ChainStopper::new();
        chain.push(CountsCalls(Arc::clone(&ends)));
        chain.push_boxed(Box::new(CountsCalls(Arc::clone(&ends))));
        assert_eq!((chain.len(), chain.is_empty()), (2, false));
        chain.on_search_done(&IterationStats::default());
        assert_eq!(ends.load(Ordering::Relaxed), 2);
    }
}
