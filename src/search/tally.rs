//! What finished visits add up to on their way up the tree: plainly, or weighted.
//!
//! Nearly every search counts each visit alike, and adds up [`Totals`]. One that weights visits, wants to know how far
//! apart values are, or corrects evaluations by what it has found out before, adds up [`Weighted`] and keeps an
//! [annex](crate::tree::annex) beside each node. Which of the two it is, is known before a search begins.

use super::Shared;
use super::correction_history::CorrectionHistory;
use super::gather::Gatherer;
use super::minibatch::Step;
use crate::backend::Value;
use crate::chess::Position;
use crate::tree::{NodeId, Outcome, Sample, Totals, Weighted};

/// See the module.
pub(super) trait Tally: Copy + Default {
    /// Memory that is used again from batch to batch.
    fn scratch(gatherer: &mut Gatherer) -> &mut Vec<Self>;
    /// One visit of the leaf `id`, of which the backend said `value`; `sample` is that for the search.
    fn of_leaf(shared: &Shared, id: NodeId, value: Value, sample: Sample) -> Self;
    /// Visits of a certain result.
    fn of_outcome(shared: &Shared, outcome: Outcome, visits: u32) -> Self;
    fn visits(&self) -> u32;
    #[must_use]
    fn plus(self, other: Self) -> Self;
    #[must_use]
    fn for_parent(self) -> Self;
    /// Counts the visits at the node of a step, and at the link that led there.
    fn finish(&self, shared: &Shared, step: &Step);
}

impl Tally for Totals {
    #[inline]
    fn scratch(gatherer: &mut Gatherer) -> &mut Vec<Totals> {
        &mut gatherer.totals
    }

    #[inline]
    fn of_leaf(_: &Shared, _: NodeId, _: Value, sample: Sample) -> Totals {
        Totals::of(sample, 1)
    }

    #[inline]
    fn of_outcome(_: &Shared, outcome: Outcome, visits: u32) -> Totals {
        Totals::of(outcome.sample(), visits)
    }

    #[inline]
    fn visits(&self) -> u32 {
        self.visits
    }

    #[inline]
    fn plus(self, other: Totals) -> Totals {
        Totals::plus(self, other)
    }

    #[inline]
    fn for_parent(self) -> Totals {
        Totals::for_parent(self)
    }

    #[inline]
    fn finish(&self, shared: &Shared, step: &Step) {
        shared.finish_visits(step, *self);
    }
}

impl Tally for Weighted {
    fn scratch(gatherer: &mut Gatherer) -> &mut Vec<Weighted> {
        &mut gatherer.weighted
    }

    fn of_leaf(shared: &Shared, id: NodeId, value: Value, sample: Sample) -> Weighted {
        let (sample, weight) = shared.annexed_value(id, value, sample);
        Weighted::of(sample, 1, weight)
    }

    fn of_outcome(shared: &Shared, outcome: Outcome, visits: u32) -> Weighted {
        Weighted::of(outcome.sample(), visits, shared.params.uncertainty.certain_weight())
    }

    fn visits(&self) -> u32 {
        self.totals.visits
    }

    fn plus(self, other: Weighted) -> Weighted {
        Weighted::plus(self, other)
    }

    fn for_parent(self) -> Weighted {
        Weighted::for_parent(self)
    }

    fn finish(&self, shared: &Shared, step: &Step) {
        shared.learn(step.node, self);
        shared.tree.finish_weighted(step.node, self);
        shared.finish_at_link(step, self.totals.visits);
    }
}

impl Shared {
    /// Begins the annex of a node that was claimed, if there are annexes.
    #[inline]
    pub(super) fn begin_annex(&self, id: NodeId, position: &Position) {
        if self.keeps_annexes {
            self.begin_own_annex(id, position);
        }
    }

    // What is seldom asked for stays out of the way of the usual code, here and below.
    #[cold]
    #[inline(never)]
    fn begin_own_annex(&self, id: NodeId, position: &Position) {
        let tag = self.correction_history.as_ref().map_or(0, |_| CorrectionHistory::slot(position));
        self.tree.annex(id).begin(tag);
    }

    /// The value that a leaf counts, and what its visit weighs. Its annex keeps what the network said.
    #[cold]
    #[inline(never)]
    fn annexed_value(&self, id: NodeId, value: Value, sample: Sample) -> (Sample, f32) {
        let annex = self.tree.annex(id);
        annex.set_own(sample.wl, value.e);
        let corrected = match &self.correction_history {
            Some(table) => table.correct(annex.tag(), sample, self.params.correction_lambda),
            None => sample,
        };
        (corrected, self.params.uncertainty.weight(value.e))
    }

    /// As [`Shared::annexed_value`], for a leaf that is backed up at once.
    #[inline]
    pub(super) fn leaf_value(&self, id: NodeId, value: Value, sample: Sample) -> (Sample, f32) {
        if self.keeps_annexes { self.annexed_value(id, value, sample) } else { (sample, 1.0) }
    }

    /// What a visit weighs that counts the mean of a node's.
    #[inline]
    pub(super) fn mean_weight(&self, id: NodeId) -> f32 {
        if self.keeps_annexes { self.annexed_mean_weight(id) } else { 1.0 }
    }

    #[cold]
    #[inline(never)]
    fn annexed_mean_weight(&self, id: NodeId) -> f32 {
        let visits = self.tree.node(id).visits().max(1);
        (self.tree.annex(id).weight(visits) / f64::from(visits)) as f32
    }

    /// Counts visits of one value, which weigh `weight` each, at the node of a step and at the link that led there.
    #[inline]
    pub(super) fn finish_sample(&self, step: &Step, sample: Sample, visits: u32, weight: f32) {
        if self.keeps_annexes {
            self.finish_weighted(step, sample, visits, weight);
        } else {
            self.finish_visits(step, Totals::of(sample, visits));
        }
    }

    #[cold]
    #[inline(never)]
    fn finish_weighted(&self, step: &Step, sample: Sample, visits: u32, weight: f32) {
        Weighted::of(sample, visits, weight).finish(self, step);
    }

    /// Tells the correction history what visits below a node say of the network's own value of it.
    fn learn(&self, id: NodeId, finished: &Weighted) {
        let Some(table) = &self.correction_history else { return };
        let node = self.tree.node(id);
        // The first visit is that value itself, and what is proven says nothing of the network's.
        if node.visits() == 0 || node.is_terminal() || finished.weight <= 0.0 {
            return;
        }
        let annex = self.tree.annex(id);
        table.learn(annex.tag(), annex.own_wl() - finished.mean_wl(), finished.weight as f32);
    }
}
