//! What a node keeps besides its 40 bytes, where a search asks for it: in an array of its own, made by the first search
//! that does, entry beside entry with the nodes.
//!
//! A search that weights its visits, or wants to know how far apart their values are, ends them with
//! [`Tree::finish_weighted`]. The node's sums stay what everybody takes them for: the mean value times the visits. Only
//! that mean is the weighted one, and what the visits weigh in truth stands here.
//!
//! Written by backup, all Relaxed: figures that no protocol depends on. An update that is lost between two threads is a
//! batch's worth of a statistic, once.

use super::sizes::PerNode;
use super::{NodeId, Sample, Totals, Tree};
use crate::sync::atomic::{AtomicI64, AtomicU32, Ordering};

/// Fixed-point units per 1.0 of wl, as in [`Totals`].
const VALUE_SCALE: f64 = (1_u64 << 30) as f64;
/// Fixed-point units per 1.0 of weight.
const WEIGHT_SCALE: f64 = (1_u64 << 20) as f64;

/// See the module.
#[derive(Debug, Default)]
pub struct Annex {
    /// What the visits weigh above 1 each, in fixed point. So a node whose annex was made late has weights of 1 until
    /// then.
    extra_weight: AtomicI64,
    /// f32: weighted variance of wl. Visits from before there was an annex count as if they had the mean.
    variance: AtomicU32,
    /// f32: what the node's own evaluation says it may be off by.
    error: AtomicU32,
    /// f32: wl of the node's own evaluation, as it came.
    own_wl: AtomicU32,
    /// What the search wants to find again for this position; 0: nothing.
    tag: AtomicU32,
}

impl Annex {
    /// Begins a leaf's: nothing is left of a node that had the place before.
    pub fn begin(&self, tag: u32) {
        self.extra_weight.store(0, Ordering::Relaxed);
        self.variance.store(0, Ordering::Relaxed);
        self.error.store(0, Ordering::Relaxed);
        self.own_wl.store(0, Ordering::Relaxed);
        self.tag.store(tag, Ordering::Relaxed);
    }

    /// Notes the node's own evaluation.
    pub fn set_own(&self, wl: f32, error: f32) {
        self.own_wl.store(wl.to_bits(), Ordering::Relaxed);
        self.error.store(error.to_bits(), Ordering::Relaxed);
    }

    /// wl of the node's own evaluation, as it came.
    pub fn own_wl(&self) -> f32 {
        f32::from_bits(self.own_wl.load(Ordering::Relaxed))
    }

    /// What the node's own evaluation says it may be off by; 0 where nothing is known.
    pub fn error(&self) -> f32 {
        f32::from_bits(self.error.load(Ordering::Relaxed))
    }

    /// What [`Annex::begin`] was told.
    pub fn tag(&self) -> u32 {
        self.tag.load(Ordering::Relaxed)
    }

    /// How far apart the values of the visits are: the weighted variance of wl.
    pub fn variance(&self) -> f32 {
        f32::from_bits(self.variance.load(Ordering::Relaxed))
    }

    /// What `visits` visits of the node weigh.
    pub fn weight(&self, visits: u32) -> f64 {
        let extra = self.extra_weight.load(Ordering::Relaxed) as f64 / WEIGHT_SCALE;
        (f64::from(visits) + extra).max(0.0)
    }
}

/// Finished visits, weighted.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Weighted {
    /// The visits; sums of weight times wl and weight times d, and of plies left.
    pub totals: Totals,
    /// Sum of the weights.
    pub weight: f64,
    /// Sum of weight times wl².
    pub square: f64,
}

impl Weighted {
    /// `visits` visits of value (`wl`, `d`, `m`) that weigh `weight` each.
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

    /// The weighted mean of wl.
    pub fn mean_wl(&self) -> f32 {
        (self.totals.wl as f64 / VALUE_SCALE / self.weight) as f32
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

    /// The same in the parent's view.
    #[must_use]
    pub fn for_parent(self) -> Weighted {
        Weighted { totals: self.totals.for_parent(), ..self }
    }
}

impl Tree {
    /// Makes room beside every node for what the search asks for; nothing happens if there is.
    pub(super) fn annexes(&self) -> &PerNode<Annex> {
        self.annexes.get_or_init(PerNode::default)
    }

    /// A node's annex.
    pub fn annex(&self, id: NodeId) -> &Annex {
        self.annexes().get_or_make(id.raw())
    }

    /// Ends visits at a node that count by their weights.
    pub fn finish_weighted(&self, id: NodeId, finished: &Weighted) {
        let (node, annex) = (self.node(id), self.annex(id));
        let before = node.totals();
        let visits = f64::from(before.visits);
        let weight = annex.weight(before.visits);
        let total = weight + finished.weight;
        let extra = finished.weight - f64::from(finished.totals.visits);
        annex.extra_weight.fetch_add((extra * WEIGHT_SCALE) as i64, Ordering::Relaxed);
        if total <= 0.0 {
            // All that was ever seen here weighs nothing.
            node.finish(Totals { visits: finished.totals.visits, m: finished.totals.m, ..Totals::default() });
            return;
        }
        let mean = |sum: i64| if before.visits > 0 { sum as f64 / visits } else { 0.0 };
        let new_mean = |sum: i64, added: i64| (weight * mean(sum) + added as f64) / total;
        // sum' = mean' * visits', with mean' = (weight * mean + added) / total
        let change = |sum: i64, added: i64| {
            let new_sum = new_mean(sum, added) * (visits + f64::from(finished.totals.visits));
            (new_sum - sum as f64).round() as i64
        };
        node.finish(Totals {
            visits: finished.totals.visits,
            wl: change(before.wl, finished.totals.wl),
            d: change(before.d, finished.totals.d),
            m: finished.totals.m,
        });
        let old_wl = mean(before.wl) / VALUE_SCALE;
        let new_wl = new_mean(before.wl, finished.totals.wl) / VALUE_SCALE;
        let square = weight * (f64::from(annex.variance()) + old_wl * old_wl) + finished.square;
        let variance = (square / total - new_wl * new_wl).max(0.0);
        annex.variance.store((variance as f32).to_bits(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert!((tree.annex(root).weight(3) - 1.5).abs() < 1e-5);
        let square = (0.75_f32.powi(2) + 0.5 * 0.0625) / 1.5;
        assert!((tree.annex(root).variance() - (square - expected * expected)).abs() < 1e-6);
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
    fn what_weighs_nothing_changes_no_mean() {
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
