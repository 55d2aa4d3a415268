//! Step 6, fetch: stores the evaluations as priors and values of the leaves that waited for them.

use super::accumulate::{Recomputed, VisitAccumulator};
use super::expand::{expand, value_at};
use super::mate::rule_mate_out;
use super::scratch::Scratch;
use crate::state::{Counters, Counting, Gathered, SearchContext, SharedControl, VisitCounts};
use rukh_backend::Evaluations;
use rukh_base::sync::atomic::Ordering;
use rukh_tree::{Totals, Weighted};

/// Expands the leaves of a minibatch, and stores the value of each leaf at its step in `scratch` for backup. Returns
/// the finished visits: one visit for each leaf for which the tree had room.
pub(crate) fn fetch(
    context: &SearchContext,
    counters: &Counters,
    control: &SharedControl,
    scratch: &mut Scratch,
    gathered: &Gathered,
    evaluations: &Evaluations,
) -> VisitCounts {
    let evaluated = gathered.waiting.len() as u64;
    counters.network_evaluations.fetch_add(evaluated, Ordering::Relaxed);
    counters.evaluated_leaves.fetch_add(gathered.leaf_count as u64, Ordering::Relaxed);
    match context.counting {
        Counting::Plain => fetch_as::<Totals>(context, counters, control, scratch, gathered, evaluations),
        Counting::Recomputed => {
            fetch_as::<Recomputed>(context, counters, control, scratch, gathered, evaluations)
        }
        Counting::Weighted => fetch_weighted(context, counters, control, scratch, gathered, evaluations),
    }
}

#[cold]
#[inline(never)]
fn fetch_weighted(
    context: &SearchContext,
    counters: &Counters,
    control: &SharedControl,
    scratch: &mut Scratch,
    gathered: &Gathered,
    evaluations: &Evaluations,
) -> VisitCounts {
    fetch_as::<Weighted>(context, counters, control, scratch, gathered, evaluations)
}

#[inline(always)]
fn fetch_as<T: VisitAccumulator>(
    context: &SearchContext,
    counters: &Counters,
    control: &SharedControl,
    scratch: &mut Scratch,
    gathered: &Gathered,
    evaluations: &Evaluations,
) -> VisitCounts {
    let mut values = std::mem::take(T::step_values(&mut scratch.values));
    values.clear();
    values.resize(gathered.steps.len(), T::default());
    let mut counts = VisitCounts::default();
    // Leaves are expanded from the last to the first, which is the order in which backup goes through the steps. So the
    // allocator gives each leaf the same place in memory as if backup had expanded it.
    for (index, leaf) in gathered.waiting.iter().enumerate().rev() {
        let Some(leaf) = leaf else { continue };
        let step = gathered.step(leaf.step);
        let node = context.tree.node(step.node);
        let (value, priors) = evaluations.get(index);
        let moves = &gathered.moves[leaf.moves.clone()];
        let depth = leaf.depth as usize - 1;
        if expand(context, control, scratch, node, depth, moves, priors) {
            rule_mate_out(context, counters, &gathered.steps, leaf.step, depth);
            let sample = value_at(context, value, depth);
            values[leaf.step as usize] = T::of_leaf(context, step.node, value, sample);
            counts = counts.with(leaf.depth as usize, 1);
        }
    }
    *T::step_values(&mut scratch.values) = values;
    counts
}
