//! Computes a node's value anew from its children's values, for searches whose backup is not the mean of the visits.
//!
//! The backup counts the visits first, so the sums of the node already contain the values of this batch. Then the means
//! are replaced. Steps are backed up from the leaves to the root, so the children have their new values by then. Other
//! threads may do the same at the same time: one thread at a time recomputes a node, as the tree's nodes describe.
//!
//! A node's value follows from those of its children, so one computation is enough for several values that are backed up
//! before the node's own value is read: those out of order below a node in one descent ([`recompute_later`]), and those
//! of all descents of a batch at the root ([`recompute_root`]). Only a node that has lost children ([`may_wait`]) is
//! computed each time.

use crate::policy::SearchParams;
use crate::policy::children_value::Mean;
use crate::policy::visited_children::{LANES, VisitedChildren};
use crate::state::{Counting, SearchContext, Step};
use rukh_tree::{MOST_EDGES, Node, NodeId, Recomputation, Sample, Tree};

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
pub(crate) fn recompute_if_stale(context: &SearchContext, step: &mut Step) {
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
/// keep the mean that they had. The caller has changed children; their changes are in the node's value afterwards, whatever
/// other threads do ([`Node::begin_recomputation`]).
#[inline]
pub(crate) fn recompute(context: &SearchContext, id: NodeId) {
    let node = context.tree.node(id);
    if node.is_terminal() {
        return;
    }
    match context.counting {
        Counting::Weighted => recompute_weighted(context, id),
        _ => weigh_children(context, id, context.params.backup.value_weight_exponent),
    }
}

/// Replaces the means of a node by those of its own evaluation and of its children, weighted by their visits and values.
fn weigh_children(context: &SearchContext, id: NodeId, exponent: f32) {
    let node = context.tree.node(id);
    // The first visit is the own evaluation itself.
    if node.visits() <= 1 {
        return;
    }
    let Some((own_wl, own_d)) = context.tree.own_evaluation(id).get() else { return };
    let Some(recomputation) = node.begin_recomputation() else { return };
    let own = Mean { wl: f64::from(own_wl), d: f64::from(own_d), weight: 1.0 };
    let visits = node.visits();
    // Arrays that are no longer than necessary, because all their places are filled first.
    let below = match visits {
        0..=FEW_VISITS => mean_of_children::<{ FEW_VISITS as usize / LANES }>(&context.tree, node, exponent),
        _ if node.edge_count() <= USUAL_MOVES => {
            mean_of_children::<{ USUAL_MOVES / LANES }>(&context.tree, node, exponent)
        }
        _ => mean_of_children::<{ MOST_EDGES.div_ceil(LANES) }>(&context.tree, node, exponent),
    };
    if below.weight > 0.0 {
        replace_means(recomputation, own.with(below), below.weight as u32);
    }
}

/// The mean of the visited children, weighted by their visits and values, and the sum of their visits. If other threads
/// visit more children meanwhile than there are places, those threads recompute the node next.
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

/// Replaces the means of a node by `mean`, in which `counted` visits below it take part. The other visits below it keep the
/// mean that they had: those of children that have left the tree, and those of other threads that recompute it next.
fn replace_means(recomputation: Recomputation<'_>, mean: Mean, counted: u32) {
    recomputation.replace_means(|values| {
        let elsewhere = f64::from(values.visits().saturating_sub(1).saturating_sub(counted));
        let old = if elsewhere > 0.0 { values.mean() } else { Sample::default() };
        let mean = mean.with(Mean { wl: f64::from(old.wl), d: f64::from(old.d), weight: elsewhere });
        let wl = mean.wl.clamp(-1.0, 1.0) as f32;
        (wl, (mean.d as f32).clamp(0.0, 1.0 - wl.abs()))
    });
}

/// [`recompute`] for visits that have weights.
#[cold]
#[inline(never)]
fn recompute_weighted(context: &SearchContext, id: NodeId) {
    let node = context.tree.node(id);
    let Some((own_wl, own_d)) = context.tree.own_evaluation(id).get() else { return };
    let Some(recomputation) = node.begin_recomputation() else { return };
    let SearchParams { backup, uncertainty, .. } = &context.params;
    let (mut children, counted) = weighted_children(context, node);
    let below = backup.mean_of(&mut children);
    let weight = uncertainty.weight(context.tree.extra_statistics(id).error());
    let own = Mean { wl: f64::from(own_wl), d: f64::from(own_d), weight: f64::from(weight) };
    replace_means(recomputation, own.with(below), counted);
}

/// The values of the visited children with the weights of the visits through their links, and the number of these
/// visits.
fn weighted_children(context: &SearchContext, node: &Node) -> (Vec<Mean>, u32) {
    let (tree, uncertainty) = (&context.tree, &context.params.uncertainty);
    let mut children = Vec::with_capacity(32);
    let mut counted = 0;
    for (_, link) in tree.links(node) {
        let (visits @ 1.., Some(id)) = (link.visits(), link.child()) else { continue };
        let child = tree.node(id);
        let (sample, outcome) = child.sample_and_outcome();
        let weight_per_visit = match uncertainty.weighting {
            Some(_) if outcome.is_some() => f64::from(uncertainty.certain_weight()),
            Some(_) => {
                let visits = child.visits();
                tree.extra_statistics(id).weight(visits) / f64::from(visits.max(1))
            }
            None => 1.0,
        };
        counted += visits;
        children.push(Mean {
            wl: -f64::from(sample.wl),
            d: f64::from(sample.d),
            weight: f64::from(visits) * weight_per_visit,
        });
    }
    (children, counted)
}

/// The nodes whose value is not the one that a computation from their children gives, while no search runs. Nodes are left
/// out that lack it for another reason than threads that overlook each other: they have lost children, or other parents
/// have changed their children.
#[cfg(test)]
pub(crate) fn stale_nodes(context: &SearchContext) -> Vec<NodeId> {
    let tree = &context.tree;
    let mut stale = Vec::new();
    let mut seen = std::collections::HashSet::new();
    let mut stack = vec![tree.root()];
    while let Some(id) = stack.pop() {
        let node = tree.node(id);
        let children: Vec<NodeId> = tree.links(node).filter_map(|(_, link)| link.child()).collect();
        if node.is_terminal() || !seen.insert(id) {
            continue;
        }
        if may_wait(node) && children.iter().all(|&child| !tree.node(child).is_shared()) {
            let before = node.totals();
            recompute(context, id);
            if node.totals() != before {
                stale.push(id);
            }
        }
        stack.extend(children);
    }
    stale
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::*;
    use crate::stop::VisitsStopper;
    use crate::{BestMove, Responder, Search, SearchSetup, ThinkingInfo};
    use rukh_backend::synthetic::RandomBackend;
    use rukh_chess::{Position, PositionHistory};
    use std::sync::Arc;

    struct Nobody;

    impl Responder for Nobody {
        fn thinking(&self, _: &[ThinkingInfo]) {}
        fn best_move(&self, _: &BestMove) {}
        fn message(&self, _: &str) {}
    }

    #[test]
    fn after_a_search_with_several_threads_each_value_follows_from_the_children() {
        // Few moves and small minibatches let the threads meet often.
        for position in ["7k/8/5K2/8/8/8/8/6R1 w - - 0 1", "8/8/8/8/8/1p1k4/8/1K6 b - - 0 1"] {
            let backend = Arc::new(RandomBackend::default());
            for _ in 0..8 {
                let history = PositionHistory::new(Position::from_fen(position).expect("a legal position"));
                let stopper = Box::new(VisitsStopper::new(4_000, false));
                let params = SearchParams {
                    threads: 4,
                    minibatch_size: 2,
                    graph_search: false,
                    ..SearchParams::default()
                };
                let tree = Arc::new(Tree::new());
                let setup = SearchSetup {
                    params,
                    ..SearchSetup::new(tree.clone(), backend.clone(), history, stopper)
                };
                let mut search = Search::start(setup, Arc::new(Nobody)).expect("threads can be started");
                search.wait_for_move();
                search.end_threads();
                assert!(search.failure().is_none() && tree.node(tree.root()).visits() >= 4_000);
                assert_eq!(stale_nodes(&search.state.context), []);
            }
        }
    }
}
