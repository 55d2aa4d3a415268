//! Step 7, back up: values go up the paths of their descents, and proofs go up with them.
//!
//! [`back_up_batch`] backs up all leaves of an evaluated minibatch in one pass. [`back_up`] backs up the visits whose
//! value is known while gathering (*out of order*). Both end the visits in flight of the steps that they pass.

use super::accumulate::{StepValues, VisitAccumulator, finish_sample};
use super::proof::{Proof, try_prove};
use crate::search::state::{Counters, Gathered, SearchContext, SpentMemory, Step, StepIndex, VisitCounts};
use crate::tree::{Sample, Totals, Weighted};

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

/// Counts finished visits of the step `from` at once, from there up to the root. They must be in flight at each step.
pub(crate) fn back_up(
    context: &SearchContext,
    counters: &Counters,
    steps: &mut [Step],
    from: StepIndex,
    finished: Finished,
) {
    let Finished { mut sample, visits, weight, is_proof } = finished;
    let mut may_prove = is_proof && context.params.sticky_endgames;
    // What a proof below changes in the sums of everything above it.
    let mut correction = Totals::default();
    let mut next = Some(from);
    while let Some(index) = next {
        let step = &mut steps[index as usize];
        let node = context.tree.node(step.node);
        let mut own_change = Totals::default();
        // The root stays open, because the search is for its moves.
        if may_prove && index != from && step.parent.is_some() {
            match try_prove(&context.tree, node) {
                Proof::Nothing => may_prove = false,
                Proof::Narrowed => {}
                Proof::Proven(change) => own_change = change,
            }
        }
        if let Some(outcome) = node.outcome() {
            // Proven, now or since the visit began: from here up the exact value counts.
            sample = outcome.sample();
            correction = own_change;
        } else if correction != Totals::default() {
            node.adjust(correction);
        }
        if correction != Totals::default() {
            // The parent has counted those visits that it made itself.
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

/// Backs up the leaves of an evaluated minibatch, whose values are at their steps, in one pass over the steps, last to
/// first. The visits that collided are removed from flight with the others. `counts` are the leaves' visits.
pub(crate) fn back_up_batch(
    context: &SearchContext,
    counters: &Counters,
    values: &mut StepValues,
    gathered: Gathered,
    counts: VisitCounts,
) -> SpentMemory {
    match context.keeps_extra_statistics {
        false => back_up_batch_as::<Totals>(context, counters, values, &gathered.steps),
        true => back_up_weighted_batch(context, counters, values, &gathered.steps),
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
            // Proven meanwhile: from here up the exact value counts.
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
