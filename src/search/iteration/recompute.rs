//! Computes a node's value anew from its children's values, for searches whose backup is not the mean of the visits.
//!
//! The backup counts the visits first, so the sums of the node already contain the values of this batch. Then the means
//! are replaced. Steps are backed up from the leaves to the root, so the children have their new values by then.
//!
//! A node's value follows from those of its children, so one computation is enough for several values that are backed up
//! before the node's own value is read: those out of order below a node in one descent ([`recompute_later`]), and those
//! of all descents of a batch at the root ([`recompute_root`]). Only a node that has lost children ([`may_wait`]) is
//! computed each time.

use crate::search::policy::children_value::{Child, LEAST_PRIOR_UNVISITED, Mean};
use crate::search::policy::subtree_bias::SubtreeBias;
use crate::search::policy::visited_children::{LANES, VisitedChildren};
use crate::search::policy::{SearchParams, math};
use crate::search::state::{Counting, SearchContext, Step};
use crate::tree::{ExtraStatistics, MOST_EDGES, Node, NodeId, Sample, Tree};

/// A node with no more visits than this has fewer children with visits.
const FEW_VISITS: u32 = 16;
/// Nearly all nodes have no more moves than this.
const USUAL_MOVES: usize = 64;

/// Whether a node may be recomputed once for several values. A node that has lost children mixes in the mean that it had,
/// so the result depends on the number of computations.
#[inline]
pub(super) fn may_wait(node: &Node) -> bool {
    !node.was_collapsed()
}

/// Makes a step stale, or recomputes its node at once if it must not wait.
#[inline]
pub(super) fn recompute_later(context: &SearchContext, step: &mut Step) {
    match may_wait(context.tree.node(step.node)) {
        true => step.is_stale = true,
        false => recompute(context, step.node),
    }
}

/// Recomputes the node of a stale step.
#[inline]
pub(super) fn recompute_if_stale(context: &SearchContext, step: &mut Step) {
    if std::mem::take(&mut step.is_stale) {
        recompute(context, step.node);
    }
}

/// Recomputes the root after a batch.
#[inline]
pub(super) fn recompute_root(context: &SearchContext) {
    if may_wait(context.root()) {
        recompute(context, context.tree.root());
    }
}

/// Replaces the means of an expanded node whose own evaluation is known. Visits below children that have left the tree
/// keep the mean that they had.
#[inline]
pub(super) fn recompute(context: &SearchContext, id: NodeId) {
    let node = context.tree.node(id);
    if node.is_terminal() {
        return;
    }
    match (context.counting, context.params.backup.only_value_weights()) {
        (Counting::Recomputed, Some(exponent)) => weigh_children(context, id, exponent),
        (Counting::Recomputed, None) => recompute_from_list(context, id, None),
        _ => recompute_from_list(context, id, Some(context.tree.extra_statistics(id))),
    }
}

/// Replaces the means of a node by those of its own evaluation and of its children, weighted by their visits and values.
/// This is [`recompute_from_list`] without a list, for the usual case.
fn weigh_children(context: &SearchContext, id: NodeId, exponent: f32) {
    let node = context.tree.node(id);
    // The first visit is the own evaluation itself.
    let visits = node.visits();
    if visits <= 1 {
        return;
    }
    let Some((own_wl, own_d)) = context.tree.own_evaluation(id).get() else { return };
    let own = Mean { wl: f64::from(own_wl), d: f64::from(own_d), weight: 1.0 };
    // Arrays that are no longer than necessary, because all their places are filled first.
    let below = match visits {
        0..=FEW_VISITS => mean_of_children::<{ FEW_VISITS as usize / LANES }>(&context.tree, node, exponent),
        _ if node.edge_count() <= USUAL_MOVES => {
            mean_of_children::<{ USUAL_MOVES / LANES }>(&context.tree, node, exponent)
        }
        _ => mean_of_children::<{ MOST_EDGES.div_ceil(LANES) }>(&context.tree, node, exponent),
    };
    if below.weight > 0.0 {
        replace_means(node, own.with(below), below.weight as u32);
    }
}

/// The mean of the visited children, weighted by their visits and values, and the sum of their visits. If other threads
/// visit more children meanwhile than there are places, those count at the next call.
#[inline]
fn mean_of_children<const CHUNKS: usize>(tree: &Tree, node: &Node, exponent: f32) -> Mean {
    let mut children = VisitedChildren::<CHUNKS>::new();
    tree.links(node).for_each_of_rest(|_, link| {
        if let (visits @ 1.., Some(child)) = (link.visits(), link.child()) {
            let mean = tree.node(child).sample();
            children.push(visits, -f64::from(mean.wl), f64::from(mean.d));
        }
    });
    children.mean(exponent)
}

/// Replaces the means of a node by `mean`, in which `counted` visits below it take part. The other visits below it, which
/// went to children that have left the tree, keep the mean that they had.
fn replace_means(node: &Node, mean: Mean, counted: u32) {
    let elsewhere = f64::from(node.visits().saturating_sub(1).saturating_sub(counted));
    let old = if elsewhere > 0.0 { node.mean() } else { Sample::default() };
    let mean = mean.with(Mean { wl: f64::from(old.wl), d: f64::from(old.d), weight: elsewhere });
    let wl = mean.wl.clamp(-1.0, 1.0) as f32;
    node.replace_means(wl, (mean.d as f32).clamp(0.0, 1.0 - wl.abs()));
}

/// [`recompute`] for all kinds of backup. `extra` are the node's extra statistics, if the search keeps them.
#[cold]
#[inline(never)]
fn recompute_from_list(context: &SearchContext, id: NodeId, extra: Option<&ExtraStatistics>) {
    let node = context.tree.node(id);
    let Some((own_wl, own_d)) = context.tree.own_evaluation(id).get() else { return };
    let params = &context.params;
    let (mut children, counted) = children_of(context, node);
    let variance = extra.map_or(0.0, |extra| f64::from(extra.variance()));
    let below = params.backup.mean_of(&mut children, variance);
    let raw = Sample { wl: own_wl, d: own_d, m: 0.0 };
    let corrected = match (&context.correction_history, extra) {
        (Some(table), Some(extra)) => table.correct(extra.tag(), raw, params.correction_lambda),
        _ => raw,
    };
    let bias = match (&context.subtree_bias, params.backup.bias, extra) {
        (Some(table), Some(bias), Some(extra)) => {
            let weight = (below.weight > 0.0).then(|| bias_weight(below.weight, bias.exponent));
            bias.factor * learn_bias(table, extra, below.wl as f32 - own_wl, weight)
        }
        _ => 0.0,
    };
    let weight = extra.map_or(1.0, |extra| f64::from(params.uncertainty.weight(extra.error())));
    let own = Mean { wl: f64::from(corrected.wl + bias).clamp(-1.0, 1.0), d: f64::from(corrected.d), weight };
    replace_means(node, own.with(below), counted);
}

/// The children that take part, in the order of their priors, and the visits through their links.
fn children_of(context: &SearchContext, node: &Node) -> (Vec<Child>, u32) {
    let (tree, SearchParams { backup, uncertainty, .. }) = (&context.tree, &context.params);
    let mut children = Vec::with_capacity(32);
    let mut counted = 0;
    for (_, link) in tree.links(node) {
        let (visits, prior) = (link.visits(), link.edge().prior());
        match link.child() {
            Some(id) if visits > 0 => {
                let child = tree.node(id);
                let (sample, outcome) = child.sample_and_outcome();
                let extra = (context.counting == Counting::Weighted).then(|| tree.extra_statistics(id));
                let support = child.visits();
                let weight_per_visit = match uncertainty.weighting {
                    Some(_) if outcome.is_some() => f64::from(uncertainty.certain_weight()),
                    Some(_) => extra.map_or(1.0, |extra| extra.weight(support) / f64::from(support.max(1))),
                    None => 1.0,
                };
                counted += visits;
                children.push(Child {
                    wl: -f64::from(sample.wl),
                    d: f64::from(sample.d),
                    weight: f64::from(visits) * weight_per_visit,
                    support: f64::from(support),
                    variance: extra.map_or(0.0, |extra| f64::from(extra.variance())),
                    prior: f64::from(prior),
                    is_certain: outcome.is_some(),
                });
            }
            _ if backup.wants_unvisited() && prior >= LEAST_PRIOR_UNVISITED => children.push(Child {
                wl: 0.0,
                d: 0.0,
                weight: 0.0,
                support: 0.0,
                variance: 0.0,
                prior: f64::from(prior),
                is_certain: false,
            }),
            _ => {}
        }
    }
    (children, counted)
}

/// Replaces the node's contribution to its slot, if its children have any weight, and returns the slot's bias.
fn learn_bias(table: &SubtreeBias, extra: &ExtraStatistics, difference: f32, weight: Option<f32>) -> f32 {
    let slot = extra.bias_slot();
    if let (Some(weight), 1..) = (weight, slot) {
        let sum = difference * weight;
        let (old_sum, old_weight) = extra.replace_bias(sum, weight);
        table.add(slot, sum - old_sum, weight - old_weight);
    }
    table.bias(slot)
}

/// `visits^exponent`
fn bias_weight(visits: f64, exponent: f32) -> f32 {
    math::exponential(f64::from(exponent * math::natural_log(visits as f32))) as f32
}
