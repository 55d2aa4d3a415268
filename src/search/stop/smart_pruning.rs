//! Smart pruning: stops when the rest of the search will hardly change which move has the most visits.
//!
//! The number of playouts still to come follows from the hints of other stoppers (remaining time and nodes) and from
//! the speed so far. It is divided by the factor: with 1.33 only three quarters of the remaining playouts count. If the
//! second best move would still have fewer visits than the best with all of these, the search stops.
//!
//! The search gets the same estimate as a hint, and then skips root moves that cannot catch up. If all moves but one are
//! proven losses, the search stops at once.

use super::stopper::{IterationStats, Stopper, StopperHints};
use std::time::Duration;

/// The speed says little when a search begins. On a clock no lead in visits stops the search until this much time has
/// passed since the stopper first saw a playout (lc0's value).
const SETTLING_TIME: Duration = Duration::from_millis(200);
/// Added to the playouts when the speed is measured, so that the search stops too late rather than too early
/// (lc0's value).
const EXTRA_PLAYOUTS: u64 = 300;

/// Stops when no move can catch up with the most visited one. It reads the hints of time and node limits, so it must be
/// the last in a chain.
#[derive(Debug)]
pub struct SmartPruningStopper {
    factor: f64,
    minimum_batches: u64,
    /// The time since the move's start and the playouts when the stopper was first asked. The speed is measured from
    /// there, because after `ponderhit` many playouts are older.
    first_look: Option<(Duration, u64)>,
}

impl SmartPruningStopper {
    /// `factor` must be greater than 0; an option value of 0 means that there is no such stopper. A lead in visits
    /// stops the search only after `minimum_batches` batches.
    pub fn new(factor: f64, minimum_batches: u64) -> SmartPruningStopper {
        SmartPruningStopper { factor, minimum_batches, first_look: None }
    }

    /// The number of playouts still to come, divided by the factor. `None` if nothing limits the search. The search has
    /// made `playouts` playouts in the time `thinking`.
    fn remaining_playouts(&self, playouts: u64, thinking: Duration, hints: &StopperHints) -> Option<f64> {
        let by_time = hints.remaining_time.map(|time| {
            let measured = (playouts + EXTRA_PLAYOUTS) as f64 / thinking.as_secs_f64();
            time.as_secs_f64() * hints.nodes_per_second.map_or(measured, f64::from)
        });
        let by_nodes = hints.remaining_playouts.map(|playouts| playouts as f64);
        let remaining = match (by_time, by_nodes) {
            (Some(a), Some(b)) => a.min(b),
            (one, other) => one.or(other)?,
        };
        Some(remaining / self.factor)
    }
}

impl Stopper for SmartPruningStopper {
    fn should_stop(&mut self, stats: &IterationStats, hints: &mut StopperHints) -> bool {
        if all_others_lose(stats) {
            return true;
        }
        // A single move that the user asked for is searched to the end.
        if stats.edge_visits.len() < 2 || stats.nodes_since_move_start == 0 {
            return false;
        }
        let now = (stats.time_since_move_start, stats.nodes_since_move_start);
        let first = *self.first_look.get_or_insert(now);
        let (thinking, playouts) = (now.0.saturating_sub(first.0), now.1.saturating_sub(first.1));
        // With a clock the speed must be measured for a while. A search without a clock needs no speed, and must not
        // depend on the time.
        if hints.remaining_time.is_some() && thinking < SETTLING_TIME {
            return false;
        }
        let Some(remaining) = self.remaining_playouts(playouts, thinking, hints) else {
            return false;
        };
        // A float beyond the range of integers saturates.
        hints.limit_playouts(remaining as u64);
        stats.batches_since_move_start >= self.minimum_batches && remaining < lead(&stats.edge_visits)
    }
}

/// Whether all moves but one are proven losses. In a hopeless position the last unproven move is searched too, because
/// there is no hurry and a proven mate gives a better score.
fn all_others_lose(stats: &IterationStats) -> bool {
    let choices = stats.edge_visits.len().saturating_sub(stats.losing_edges);
    stats.losing_edges > 0 && choices <= usize::from(!stats.is_hopeless)
}

/// The visits of the most visited move minus the visits of the second most visited move.
fn lead(visits: &[u32]) -> f64 {
    let (largest, second) =
        visits.iter().fold((0, 0), |(largest, second), &n| (n.max(largest), second.max(n.min(largest))));
    f64::from(largest - second)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64, edges: &[u32]) -> IterationStats {
        let playouts = edges.iter().map(|&n| u64::from(n)).sum();
        IterationStats {
            time_since_move_start: Duration::from_millis(ms),
            total_nodes: playouts + 1,
            nodes_since_move_start: playouts,
            batches_since_move_start: playouts / 100,
            edge_visits: edges.to_vec(),
            ..Default::default()
        }
    }

    fn time_left(ms: u64) -> StopperHints {
        let mut hints = StopperHints::default();
        hints.limit_time(Duration::from_millis(ms));
        hints
    }

    /// A stopper that was first asked at 0 ms, after one playout.
    fn running(factor: f64, minimum_batches: u64) -> SmartPruningStopper {
        let mut stopper = SmartPruningStopper::new(factor, minimum_batches);
        assert!(!stopper.should_stop(&at(0, &[1, 0]), &mut StopperHints::default()));
        stopper
    }

    #[test]
    fn the_lead_is_between_the_two_most_visited() {
        assert_eq!(lead(&[]), 0.0);
        assert_eq!(lead(&[7]), 7.0);
        assert_eq!(lead(&[3, 9, 5]), 4.0);
        assert_eq!(lead(&[9, 5, 9]), 0.0);
    }

    #[test]
    fn stops_exactly_when_the_lead_exceeds_the_remaining_playouts() {
        // 700 playouts in 1000 ms (+300) are 1000 a second. 133 ms give 133 more, which count as 100.
        let edges = [401, 299, 1];
        let mut hints = time_left(133);
        assert!(running(1.33, 0).should_stop(&at(1000, &edges), &mut hints));
        assert_eq!(hints.remaining_playouts, Some(100));
        assert!(!running(1.33, 0).should_stop(&at(1000, &[400, 300, 1]), &mut time_left(134)));
        assert!(!running(1.0, 0).should_stop(&at(1000, &edges), &mut time_left(133)));
    }

    #[test]
    fn a_node_limit_works_like_a_time_limit() {
        // 133 playouts to come count as 100.
        for (lead, stops) in [(101, true), (100, false)] {
            let mut hints = StopperHints::default();
            hints.limit_playouts(133);
            let stats = at(1000, &[300 + lead, 300]);
            assert_eq!(running(1.33, 0).should_stop(&stats, &mut hints), stops, "a lead of {lead}");
        }
        let mut hints = time_left(1);
        hints.limit_playouts(10_000);
        assert!(running(1.33, 0).should_stop(&at(1000, &[401, 300]), &mut hints), "the nearer end counts");
    }

    #[test]
    fn a_hint_of_the_speed_replaces_the_measurement() {
        let mut hints = time_left(1000);
        hints.nodes_per_second = Some(50.0);
        assert!(running(1.0, 0).should_stop(&at(1000, &[451, 400]), &mut hints));
        assert!(!running(1.0, 0).should_stop(&at(1000, &[451, 400]), &mut time_left(1000)));
    }

    #[test]
    fn without_any_limit_nothing_is_concluded() {
        let mut hints = StopperHints::default();
        assert!(!running(1.33, 0).should_stop(&at(100_000, &[1_000_000, 1]), &mut hints));
        assert_eq!(hints.remaining_playouts, None);
    }

    #[test]
    fn nothing_is_concluded_in_the_first_moments() {
        let mut stopper = SmartPruningStopper::new(1.33, 0);
        assert!(!stopper.should_stop(&at(5000, &[500, 1]), &mut time_left(1)));
        assert!(!stopper.should_stop(&at(5199, &[500, 1]), &mut time_left(1)));
        assert!(stopper.should_stop(&at(5200, &[500, 1]), &mut time_left(1)));
    }

    #[test]
    fn playouts_from_pondering_do_not_count_as_speed() {
        let mut stopper = SmartPruningStopper::new(1.0, 0);
        assert!(!stopper.should_stop(&at(0, &[50_000, 49_000]), &mut time_left(1000)));
        // 700 (+300) playouts since then: 1000 a second, and not 100 000.
        let stats = at(1000, &[50_700, 49_000]);
        assert!(stopper.should_stop(&stats, &mut time_left(1000)));
        assert!(!stopper.should_stop(&stats, &mut time_left(1800)));
    }

    #[test]
    fn minimum_batches_delay_the_stop_but_not_the_hint() {
        let mut hints = time_left(133);
        assert!(!running(1.33, 8).should_stop(&at(1000, &[500, 201]), &mut hints));
        assert_eq!(hints.remaining_playouts, Some(100));
        assert!(running(1.33, 7).should_stop(&at(1000, &[500, 201]), &mut time_left(133)));
    }

    #[test]
    fn stops_if_all_other_moves_lose() {
        let stops = |edges: &[u32], losing_edges, is_hopeless| {
            let stats = IterationStats { losing_edges, is_hopeless, ..at(0, edges) };
            SmartPruningStopper::new(1.33, 0).should_stop(&stats, &mut StopperHints::default())
        };
        assert!(!stops(&[1], 0, false), "a single searched move");
        assert!(!stops(&[1, 1], 0, false));
        assert!(stops(&[1, 1], 1, false), "all but one lose");
        assert!(!stops(&[1, 1], 1, true), "a lost position is searched to the end");
        assert!(stops(&[1, 1], 2, true), "unless all are proven");
        assert!(!stops(&[], 0, false), "no move is known yet");
    }

    #[test]
    fn a_single_searched_move_has_no_lead() {
        assert!(!running(1.33, 0).should_stop(&at(1000, &[700]), &mut time_left(1)));
        assert!(running(1.33, 0).should_stop(&at(1000, &[700, 0]), &mut time_left(1)));
    }
}
