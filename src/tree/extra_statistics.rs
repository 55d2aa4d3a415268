//! Additional statistics of nodes, for the searches that need them.
//!
//! The statistics are in a separate arena, at the same indices as the nodes. The first search that needs them creates
//! this arena.
//!
//! Such a search counts its visits with [`ExtraStatistics::finish_visits`]. The node's own sums keep their meaning:
//! mean value times number of visits. The mean is then the weighted mean, and the visits' true weight is stored here.
//!
//! Visits are counted under the node's lock, so that no update is lost. All fields are written with Relaxed ordering,
//! because no protocol depends on them.

use super::node::{Node, Sample, Totals, VALUE_SCALE};
use rukh_base::sync::atomic::{AtomicI64, AtomicU32, Ordering};

/// Fixed-point units per 1.0 of weight.
const WEIGHT_SCALE: f64 = (1_u64 << 20) as f64;

/// The extra statistics of the node with the same index.
#[derive(Debug, Default)]
#[cfg_attr(not(any(feature = "loom", feature = "shuttle")), derive(zerocopy::FromZeros))]
pub struct ExtraStatistics {
    /// The sum of (weight - 1) over all visits, in fixed point. Visits made before these statistics existed therefore
    /// weigh 1.
    extra_weight: AtomicI64,
    /// f32: the weighted variance of wl. Visits made before these statistics existed count as visits with the mean
    /// value.
    variance: AtomicU32,
    /// f32: the error that the network expects in its value of this node.
    error: AtomicU32,
}

impl ExtraStatistics {
    /// Clears the entry for a new leaf. Another node may have used the entry before.
    pub fn begin(&self) {
        self.extra_weight.store(0, Ordering::Relaxed);
        self.variance.store(0, Ordering::Relaxed);
        self.error.store(0, Ordering::Relaxed);
    }

    /// Stores the error that the network expects in its value of this node.
    pub fn set_error(&self, error: f32) {
        self.error.store(error.to_bits(), Ordering::Relaxed);
    }

    /// The error that the network expects in its value of this node; 0 if it is unknown.
    pub fn error(&self) -> f32 {
        f32::from_bits(self.error.load(Ordering::Relaxed))
    }

    /// The weighted variance of the visits' wl.
    pub fn variance(&self) -> f32 {
        f32::from_bits(self.variance.load(Ordering::Relaxed))
    }

    /// The sum of the weights of the node's `visits` visits.
    pub fn weight(&self, visits: u32) -> f64 {
        let extra = self.extra_weight.load(Ordering::Relaxed) as f64 / WEIGHT_SCALE;
        (f64::from(visits) + extra).max(0.0)
    }

    /// Counts finished visits with their weights, here and at the `node` that these statistics belong to.
    pub(super) fn finish_visits(&self, node: &Node, finished: &Weighted) {
        let mut values = node.lock();
        let before = values.totals();
        let visits = f64::from(before.visits);
        let weight = self.weight(before.visits);
        let total = weight + finished.weight;
        let extra = finished.weight - f64::from(finished.totals.visits);
        self.extra_weight.fetch_add((extra * WEIGHT_SCALE) as i64, Ordering::Relaxed);
        if total <= 0.0 {
            // All visits so far have the weight 0.
            values.add(Totals { visits: finished.totals.visits, m: finished.totals.m, ..Totals::default() });
            return;
        }
        let mean = |sum: i64| if before.visits > 0 { sum as f64 / visits } else { 0.0 };
        let new_mean = |sum: i64, added: i64| (weight * mean(sum) + added as f64) / total;
        // sum' = mean' * visits', with mean' = (weight * mean + added) / total
        let change = |sum: i64, added: i64| {
            let new_sum = new_mean(sum, added) * (visits + f64::from(finished.totals.visits));
            (new_sum - sum as f64).round() as i64
        };
        values.add(Totals {
            visits: finished.totals.visits,
            wl: change(before.wl, finished.totals.wl),
            d: change(before.d, finished.totals.d),
            m: finished.totals.m,
        });
        let old_wl = mean(before.wl) / VALUE_SCALE;
        let new_wl = new_mean(before.wl, finished.totals.wl) / VALUE_SCALE;
        let square = weight * (f64::from(self.variance()) + old_wl * old_wl) + finished.square;
        let variance = (square / total - new_wl * new_wl).max(0.0);
        self.variance.store((variance as f32).to_bits(), Ordering::Relaxed);
    }
}

/// The sums over finished visits that have weights.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Weighted {
    /// Number of visits, sums of weight times wl and of weight times d, and the unweighted sum of plies left.
    pub totals: Totals,
    /// Sum of the weights.
    pub weight: f64,
    /// Sum of weight times wl².
    pub square: f64,
}

impl Weighted {
    /// The sums over `visits` visits, each with the value `sample` and the weight `weight`.
    pub fn of(sample: Sample, visits: u32, weight: f32) -> Weighted {
        let plain = Totals::of(sample, visits);
        let scaled = |sum: i64| (sum as f64 * f64::from(weight)) as i64;
        let weight = f64::from(weight) * f64::from(visits);
        let wl = plain.wl as f64 / VALUE_SCALE / f64::from(visits.max(1));
        Weighted {
            totals: Totals { wl: scaled(plain.wl), d: scaled(plain.d), ..plain },
            weight,
            square: weight * wl * wl,
        }
    }

    /// `self + other`.
    #[must_use]
    pub fn plus(self, other: Weighted) -> Weighted {
        Weighted {
            totals: self.totals.plus(other.totals),
            weight: self.weight + other.weight,
            square: self.square + other.square,
        }
    }

    /// These sums in the parent's view.
    #[must_use]
    pub fn for_parent(self) -> Weighted {
        Weighted { totals: self.totals.for_parent(), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tree;

    const WON: Sample = Sample { wl: 0.75, d: 0.25, m: 10.0 };
    const LOST: Sample = Sample { wl: -0.25, d: 0.5, m: 30.0 };

    #[test]
    fn visits_count_by_their_weights() {
        let tree = Tree::new();
        let root = tree.root();
        tree.finish_weighted(root, &Weighted::of(WON, 1, 1.0));
        tree.finish_weighted(root, &Weighted::of(LOST, 2, 0.25));
        let found = tree.node(root).sample();
        let expected = (0.75 - 0.5 * 0.25) / 1.5;
        assert!((found.wl - expected).abs() < 1e-6, "{found:?}");
        assert!((found.d - 0.5 / 1.5).abs() < 1e-6, "{found:?}");
        assert_eq!(tree.node(root).visits(), 3);
        assert!((tree.extra_statistics(root).weight(3) - 1.5).abs() < 1e-5);
        let square = (0.75_f32.powi(2) + 0.5 * 0.0625) / 1.5;
        assert!((tree.extra_statistics(root).variance() - (square - expected * expected)).abs() < 1e-6);
    }

    #[test]
    fn weights_of_one_change_nothing() {
        let (plain, weighted) = (Tree::new(), Tree::new());
        for visits in [1, 3, 200, 7] {
            for sample in [WON, LOST] {
                plain.node(plain.root()).finish(Totals::of(sample, visits));
                weighted.finish_weighted(weighted.root(), &Weighted::of(sample, visits, 1.0));
            }
        }
        let (plain, weighted) = (plain.node(plain.root()).totals(), weighted.node(weighted.root()).totals());
        assert!((plain.wl - weighted.wl).abs() < 64 && (plain.d - weighted.d).abs() < 64);
        assert_eq!((plain.visits, plain.m), (weighted.visits, weighted.m));
    }

    #[test]
    fn visits_of_weight_zero_do_not_change_the_mean() {
        let tree = Tree::new();
        let root = tree.root();
        tree.finish_weighted(root, &Weighted::of(LOST, 1, 0.0));
        assert_eq!(tree.node(root).sample().wl, 0.0);
        tree.finish_weighted(root, &Weighted::of(WON, 1, 0.5));
        assert!((tree.node(root).sample().wl - 0.75).abs() < 1e-6);
        tree.finish_weighted(root, &Weighted::of(LOST, 5, 0.0));
        assert!((tree.node(root).sample().wl - 0.75).abs() < 1e-6);
    }
}
