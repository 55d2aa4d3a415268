//! Kullback-Leibler gain: stops when more visits no longer change the distribution of visits.
//!
//! After each interval the distribution of visits over the root moves is compared with the previous one. The gain per
//! visit is the Kullback-Leibler divergence of the two distributions, divided by the number of visits between them.

use super::stopper::{IterationStats, Stopper, StopperHints};

/// Stops when the gain per visit falls below a minimum.
#[derive(Debug)]
pub struct KldGainStopper {
    minimum_gain: f64,
    interval: u64,
    previous: Vec<u32>,
    previous_total: f64,
}

impl KldGainStopper {
    /// `minimum_gain` is in nats per visit. `interval` is the number of visits between two comparisons.
    pub fn new(minimum_gain: f64, interval: u64) -> KldGainStopper {
        KldGainStopper { minimum_gain, interval, previous: Vec::new(), previous_total: 0.0 }
    }
}

impl Stopper for KldGainStopper {
    fn should_stop(&mut self, stats: &IterationStats, _hints: &mut StopperHints) -> bool {
        // The first visit of the root evaluates the root itself and belongs to no child.
        let total = stats.total_nodes.saturating_sub(1) as f64;
        let new_visits = total - self.previous_total;
        if new_visits < self.interval as f64 {
            return false;
        }
        let is_comparable = self.previous_total > 0.0 && self.previous.len() == stats.edge_visits.len();
        let gain = divergence(&self.previous, self.previous_total, &stats.edge_visits, total);
        self.previous.clone_from(&stats.edge_visits);
        self.previous_total = total;
        is_comparable && gain / new_visits < self.minimum_gain
    }
}

/// The Kullback-Leibler divergence `sum(p * ln(p / q))` in nats, where p and q are the shares of visits in `old` and
/// `new`.
fn divergence(old: &[u32], old_total: f64, new: &[u32], new_total: f64) -> f64 {
    old.iter()
        .zip(new)
        .filter(|&(&o, &n)| o > 0 && n > 0)
        .map(|(&o, &n)| {
            let (p, q) = (f64::from(o) / old_total, f64::from(n) / new_total);
            p * (p / q).ln()
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visits(edges: &[u32]) -> IterationStats {
        IterationStats {
            total_nodes: 1 + edges.iter().map(|&n| u64::from(n)).sum::<u64>(),
            edge_visits: edges.to_vec(),
            ..Default::default()
        }
    }

    fn answers(stopper: &mut KldGainStopper, sequence: &[&[u32]]) -> Vec<bool> {
        sequence
            .iter()
            .map(|edges| stopper.should_stop(&visits(edges), &mut StopperHints::default()))
            .collect()
    }

    #[test]
    fn an_unchanged_distribution_stops_the_search() {
        let mut stopper = KldGainStopper::new(1e-6, 100);
        let sequence: [&[u32]; 3] = [&[60, 40], &[90, 60], &[120, 80]];
        // The second comparison comes too early, after 50 visits.
        assert_eq!(answers(&mut stopper, &sequence), [false, false, true]);
    }

    #[test]
    fn a_moving_distribution_goes_on() {
        // Half and half, then one to three: 0.5 ln 2 + 0.5 ln (2/3) = 0.1438 nats over 100 visits.
        let sequence: [&[u32]; 2] = [&[50, 50], &[50, 150]];
        assert_eq!(answers(&mut KldGainStopper::new(0.00143, 100), &sequence), [false, false]);
        assert_eq!(answers(&mut KldGainStopper::new(0.00145, 100), &sequence), [false, true]);
    }

    #[test]
    fn compares_with_the_previous_distribution_and_not_the_first() {
        let mut stopper = KldGainStopper::new(1e-4, 100);
        let sequence: [&[u32]; 4] = [&[100, 0], &[100, 100], &[200, 200], &[300, 300]];
        assert_eq!(answers(&mut stopper, &sequence)[..3], [false, false, true]);
    }

    #[test]
    fn the_first_comparison_never_stops() {
        assert!(!KldGainStopper::new(1.0, 1).should_stop(&visits(&[3, 3]), &mut StopperHints::default()));
    }
}
