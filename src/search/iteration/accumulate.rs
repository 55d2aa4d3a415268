//! Sums over finished visits, plain or weighted, which backup carries up the tree.
//!
//! By default a search adds up [`Recomputed`], because a node's value follows from its children's. Where that value
//! is the plain mean of the visits, it adds up [`Totals`], which are the same sums. A search that uses the
//! uncertainty of values adds up [`Weighted`] sums, and keeps [`ExtraStatistics`](rukh_tree::ExtraStatistics)
//! beside each node. A search never changes from one kind to another.

use super::recompute::{may_wait, recompute, recompute_later};
use crate::policy::SearchParams;
use crate::state::{Counting, SearchContext, Step};
use rukh_backend::Value;
use rukh_tree::{NodeId, Outcome, Sample, Totals, Tree, Weighted};

/// The finished visits of each step of a minibatch. Each search uses only one of the lists.
#[derive(Default)]
pub(crate) struct StepValues {
    plain: Vec<Totals>,
    recomputed: Vec<Recomputed>,
    weighted: Vec<Weighted>,
}

/// A sum over finished visits.
pub(super) trait VisitAccumulator: Copy + Default {
    /// The field of `values` that holds the sums of this kind.
    fn step_values(values: &mut StepValues) -> &mut Vec<Self>;
    /// The sum for one visit of the leaf `id`. `value` is the network's value, and `sample` is the same value after
    /// contempt and calibration.
    fn of_leaf(context: &SearchContext, id: NodeId, value: Value, sample: Sample) -> Self;
    /// The sum for visits of a node whose result is certain.
    fn of_outcome(params: &SearchParams, outcome: Outcome, visits: u32) -> Self;
    fn visits(&self) -> u32;
    #[must_use]
    fn plus(self, other: Self) -> Self;
    #[must_use]
    fn for_parent(self) -> Self;
    /// Counts the visits at the node of a step, and then at the link that led there. In this order a link never has
    /// more visits than its child.
    fn finish(&self, context: &SearchContext, step: &Step);
}

impl VisitAccumulator for Totals {
    #[inline]
    fn step_values(values: &mut StepValues) -> &mut Vec<Totals> {
        &mut values.plain
    }

    #[inline]
    fn of_leaf(_: &SearchContext, _: NodeId, _: Value, sample: Sample) -> Totals {
        Totals::of(sample, 1)
    }

    #[inline]
    fn of_outcome(_: &SearchParams, outcome: Outcome, visits: u32) -> Totals {
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
    fn finish(&self, context: &SearchContext, step: &Step) {
        context.tree.node(step.node).finish(*self);
        finish_at_link(&context.tree, step, self.visits);
    }
}

/// Sums of a search that computes each node's value anew from its children's.
#[derive(Clone, Copy, Default)]
pub(super) struct Recomputed(Totals);

impl VisitAccumulator for Recomputed {
    #[inline]
    fn step_values(values: &mut StepValues) -> &mut Vec<Recomputed> {
        &mut values.recomputed
    }

    #[inline]
    fn of_leaf(context: &SearchContext, id: NodeId, _: Value, sample: Sample) -> Recomputed {
        context.tree.own_evaluation(id).set(sample.wl, sample.d);
        Recomputed(Totals::of(sample, 1))
    }

    #[inline]
    fn of_outcome(_: &SearchParams, outcome: Outcome, visits: u32) -> Recomputed {
        Recomputed(Totals::of(outcome.sample(), visits))
    }

    #[inline]
    fn visits(&self) -> u32 {
        self.0.visits
    }

    #[inline]
    fn plus(self, other: Recomputed) -> Recomputed {
        Recomputed(self.0.plus(other.0))
    }

    #[inline]
    fn for_parent(self) -> Recomputed {
        Recomputed(self.0.for_parent())
    }

    #[inline]
    fn finish(&self, context: &SearchContext, step: &Step) {
        let node = context.tree.node(step.node);
        node.finish(self.0);
        // A batch has a step of the root for each descent. No other value depends on the root's, so it is recomputed once
        // in the end.
        if step.parent.is_some() || !may_wait(node) {
            recompute(context, step.node);
        }
        finish_at_link(&context.tree, step, self.0.visits);
    }
}

impl VisitAccumulator for Weighted {
    fn step_values(values: &mut StepValues) -> &mut Vec<Weighted> {
        &mut values.weighted
    }

    fn of_leaf(context: &SearchContext, id: NodeId, value: Value, sample: Sample) -> Weighted {
        Weighted::of(sample, 1, store_weighted(context, id, value, sample))
    }

    fn of_outcome(params: &SearchParams, outcome: Outcome, visits: u32) -> Weighted {
        Weighted::of(outcome.sample(), visits, params.uncertainty.certain_weight())
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

    fn finish(&self, context: &SearchContext, step: &Step) {
        context.tree.finish_weighted(step.node, self);
        if context.params.backup.is_on() {
            recompute(context, step.node);
        }
        finish_at_link(&context.tree, step, self.totals.visits);
    }
}

#[inline]
fn finish_at_link(tree: &Tree, step: &Step, visits: u32) {
    if let Some(link) = step.link {
        tree.link(link).finish(visits);
    }
}

/// Begins the extra statistics of a claimed node, if the search keeps them, and forgets the own evaluation of a node that
/// had the same place before, if this search stores no other.
#[inline]
pub(super) fn begin_extra_statistics(context: &SearchContext, id: NodeId) {
    if context.counting == Counting::Weighted {
        clear_extra_statistics(&context.tree, id);
    }
    if context.clears_own_evaluations {
        context.tree.own_evaluation(id).clear();
    }
}

// Here and below, rarely used code is kept out of line, so that the usual path stays short.
#[cold]
#[inline(never)]
fn clear_extra_statistics(tree: &Tree, id: NodeId) {
    tree.extra_statistics(id).begin();
}

/// Stores what the network says of a leaf. Returns the weight of the leaf's visit.
#[cold]
#[inline(never)]
fn store_weighted(context: &SearchContext, id: NodeId, value: Value, sample: Sample) -> f32 {
    context.tree.extra_statistics(id).set_error(value.e);
    context.tree.own_evaluation(id).set(sample.wl, sample.d);
    context.params.uncertainty.weight(value.e)
}

/// Stores what the search needs to know of a leaf that is backed up out of order. Returns the weight of its visit.
#[inline]
pub(super) fn store_leaf(context: &SearchContext, id: NodeId, value: Value, sample: Sample) -> f32 {
    match context.counting {
        Counting::Plain => 1.0,
        Counting::Recomputed => {
            context.tree.own_evaluation(id).set(sample.wl, sample.d);
            1.0
        }
        Counting::Weighted => store_weighted(context, id, value, sample),
    }
}

/// The mean weight of a node's visits.
#[inline]
pub(super) fn mean_weight(context: &SearchContext, id: NodeId) -> f32 {
    if context.counting == Counting::Weighted { recorded_mean_weight(&context.tree, id) } else { 1.0 }
}

#[cold]
#[inline(never)]
fn recorded_mean_weight(tree: &Tree, id: NodeId) -> f32 {
    let visits = tree.node(id).visits().max(1);
    (tree.extra_statistics(id).weight(visits) / f64::from(visits)) as f32
}

/// Counts visits that have the same value and weight, at the node of a step and at the link that led there. A node that
/// is computed from its children is computed later.
#[inline]
pub(super) fn finish_sample(
    context: &SearchContext,
    step: &mut Step,
    sample: Sample,
    visits: u32,
    weight: f32,
) {
    match context.counting {
        Counting::Plain => Totals::of(sample, visits).finish(context, step),
        Counting::Recomputed => {
            context.tree.node(step.node).finish(Totals::of(sample, visits));
            recompute_later(context, step);
            finish_at_link(&context.tree, step, visits);
        }
        Counting::Weighted => finish_weighted_sample(context, step, sample, visits, weight),
    }
}

#[cold]
#[inline(never)]
fn finish_weighted_sample(context: &SearchContext, step: &Step, sample: Sample, visits: u32, weight: f32) {
    Weighted::of(sample, visits, weight).finish(context, step);
}
