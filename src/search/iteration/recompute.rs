//! Computes a node's value anew from its children's values, for searches whose backup is not the mean of the visits.
//!
//! The backup counts the visits first, so the sums of the node already contain the values of this batch. Then the means
//! are replaced. Steps are backed up from the leaves to the root, so the children have their new values by then.

use crate::search::policy::children_value::{Child, LEAST_PRIOR_UNVISITED, Mean};
use crate::search::policy::subtree_bias::SubtreeBias;
use crate::search::policy::{SearchParams, math};
use crate::search::state::SearchContext;
use crate::tree::{ExtraStatistics, Node, NodeId, Sample};

/// Replaces the means of an expanded node whose own evaluation is known. Visits below children that have left the tree
/// keep the mean that they had.
pub(super) fn recompute(context: &SearchContext, id: NodeId) {
    let node = context.tree.node(id);
    let extra = context.tree.extra_statistics(id);
    let (Some((own_wl, own_d)), false) = (extra.own_evaluation(), node.is_terminal()) else { return };
    let params = &context.params;
    let (mut children, counted) = children_of(context, node);
    let visits = node.visits();
    let below = params.backup.mean_of(&mut children, f64::from(extra.variance()));
    let raw = Sample { wl: own_wl, d: own_d, m: 0.0 };
    let corrected = match &context.correction_history {
        Some(table) => table.correct(extra.tag(), raw, params.correction_lambda),
        None => raw,
    };
    let bias = match (&context.subtree_bias, params.backup.bias) {
        (Some(table), Some(bias)) => {
            let weight = (below.weight > 0.0).then(|| bias_weight(below.weight, bias.exponent));
            bias.factor * learn_bias(table, extra, below.wl as f32 - own_wl, weight)
        }
        _ => 0.0,
    };
    let weight = f64::from(params.uncertainty.weight(extra.error()));
    let own = Mean { wl: f64::from(corrected.wl + bias).clamp(-1.0, 1.0), d: f64::from(corrected.d), weight };
    let old = node.mean();
    let elsewhere = f64::from(visits.saturating_sub(1).saturating_sub(counted));
    let rest = Mean { wl: f64::from(old.wl), d: f64::from(old.d), weight: elsewhere };
    let mean = own.with(below).with(rest);
    let wl = mean.wl.clamp(-1.0, 1.0) as f32;
    node.replace_means(wl, (mean.d as f32).clamp(0.0, 1.0 - wl.abs()));
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
                let (extra, support) = (tree.extra_statistics(id), child.visits());
                let weight_per_visit = match uncertainty.weighting {
                    Some(_) if outcome.is_some() => f64::from(uncertainty.certain_weight()),
                    Some(_) => extra.weight(support) / f64::from(support.max(1)),
                    None => 1.0,
                };
                counted += visits;
                children.push(Child {
                    wl: -f64::from(sample.wl),
                    d: f64::from(sample.d),
                    weight: f64::from(visits) * weight_per_visit,
                    support: f64::from(support),
                    variance: f64::from(extra.variance()),
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
