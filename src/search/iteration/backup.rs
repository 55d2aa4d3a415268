//! Step 7, back up: adds the values of leaves, and proofs, to all nodes on the paths to the root.
//!
//! [`back_up_batch`] backs up all leaves of an evaluated minibatch in one pass. [`back_up`] backs up the visits whose
//! value is known while gathering (*out of order*). Both remove the visits in flight from the steps that they pass.

use super::accumulate::{Recomputed, StepValues, VisitAccumulator, finish_sample};
use super::proof::{Proof, try_prove};
use super::recompute::{recompute_if_stale, recompute_root};
use crate::state::{Counters, Counting, Gathered, SearchContext, SpentMemory, Step, StepIndex, VisitCounts};
use rukh_tree::{Sample, Totals, Weighted};

/// Finished visits of one node with one value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Finished {
    /// The value in the view of the node.
    pub(crate) sample: Sample,
    pub(crate) visits: u32,
    /// The weight of each visit, if the search weights visits.
    pub(crate) weight: f32,
    /// Whether the node is terminal and its parent may not know it yet, so that the parent may be proven too.
    pub(crate) is_proof: bool,
}

/// Counts finished visits at the step `from` and at every step above it, up to the root. The visits must be in flight
/// at each of these steps. Where a node's value is computed from its children's, the steps are then stale: the descent
/// calls [`recompute_if_stale`] once for all that it has backed up.
pub(crate) fn back_up(
    context: &SearchContext,
    counters: &Counters,
    steps: &mut [Step],
    from: StepIndex,
    finished: Finished,
) {
    let Finished { mut sample, visits, weight, is_proof } = finished;
    let mut may_prove = is_proof && context.params.sticky_endgames;
    // The change that a proof makes to the sums of all nodes above the proven one.
    let mut correction = Totals::default();
    let mut next = Some(from);
    while let Some(index) = next {
        let step = &mut steps[index as usize];
        let node = context.tree.node(step.node);
        let mut own_change = Totals::default();
        // The root is never made terminal, because the search must still choose one of its moves.
        if may_prove && index != from && step.parent.is_some() {
            // A proof changes the sums of the nodes above by its difference from the node's value.
            recompute_if_stale(context, step);
            match try_prove(&context.tree, node) {
                Proof::Nothing => may_prove = false,
                Proof::Narrowed => {}
                Proof::Proven(change) => own_change = change,
            }
        }
        if let Some(outcome) = node.outcome() {
            // The node was proven, just now or since the visit began. From here up the exact value counts.
            sample = outcome.sample();
            correction = own_change;
        } else if correction != Totals::default() {
            node.adjust(correction);
        }
        if correction != Totals::default() {
            // The parent's sums contain only the visits that went through its own link.
            let counted = step.link.map_or(0, |link| context.tree.link(link).visits());
            correction = correction.share(counted, node.visits()).for_parent();
        }
        finish_sample(context, step, sample, visits, weight);
        step.cancel_in_flight(&context.tree, counters, visits);
        step.in_flight -= visits;
        sample = sample.for_parent();
        next = step.parent;
    }
}

/// Backs up the leaves of an evaluated minibatch in one pass over the steps, from the last to the first. `values` holds
/// the value of each leaf at its step. The visits in flight at every step are removed, including colliding visits.
/// `counts` are the visits of the leaves.
pub(crate) fn back_up_batch(
    context: &SearchContext,
    counters: &Counters,
    values: &mut StepValues,
    gathered: Gathered,
    counts: VisitCounts,
) -> SpentMemory {
    match context.counting {
        Counting::Plain => back_up_batch_as::<Totals>(context, counters, values, &gathered.steps),
        Counting::Recomputed => {
            back_up_batch_as::<Recomputed>(context, counters, values, &gathered.steps);
            recompute_root(context);
        }
        Counting::Weighted => back_up_weighted_batch(context, counters, values, &gathered.steps),
    }
    counters.count_visits(counts);
    gathered.into_memory()
}

#[cold]
#[inline(never)]
fn back_up_weighted_batch(
    context: &SearchContext,
    counters: &Counters,
    values: &mut StepValues,
    steps: &[Step],
) {
    back_up_batch_as::<Weighted>(context, counters, values, steps);
}

#[inline(always)]
fn back_up_batch_as<T: VisitAccumulator>(
    context: &SearchContext,
    counters: &Counters,
    values: &mut StepValues,
    steps: &[Step],
) {
    let values = &mut T::step_values(values)[..steps.len()];
    for (index, step) in steps.iter().enumerate().rev() {
        let mut finished = values[index];
        if finished.visits() > 0 {
            // The node was proven in the meantime. From here up the exact value counts.
            if let Some(outcome) = context.tree.node(step.node).outcome() {
                finished = T::of_outcome(&context.params, outcome, finished.visits());
            }
            finished.finish(context, step);
            if let Some(parent) = step.parent {
                let parent = &mut values[parent as usize];
                *parent = parent.plus(finished.for_parent());
            }
        }
        if step.in_flight > 0 {
            step.cancel_in_flight(&context.tree, counters, step.in_flight);
        }
    }
}
