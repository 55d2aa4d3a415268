//! Step 3, collisions: visits that found nothing to do.
//!
//! A visit *collides* with another one if it comes to a node that is being evaluated. It stays in flight along its path
//! until the batch is done, which drives later visits elsewhere. Enough collisions end the gathering.

use crate::search::policy::SearchParams;
use crate::search::state::{Counters, Gathered, SearchContext, SharedControl, SpentMemory};

/// Ends an iteration without leaves: removes its collisions from flight. If it has no results either, the worker sleeps
/// until the others have finished more than `progress` iterations, and so have changed the tree.
pub(super) fn give_up_collisions(
    context: &SearchContext,
    counters: &Counters,
    control: &SharedControl,
    gathered: Gathered,
    progress: u64,
) -> SpentMemory {
    let has_results = gathered.has_results();
    let spent = gathered.cancel(&context.tree, counters);
    if !has_results {
        control.wait_for_progress(progress);
    }
    spent
}

/// How many colliding visits a batch may have in a tree of this size. In a small tree there may be only a few, because
/// they would drive later visits to bad moves.
pub(super) fn collisions_allowed(params: &SearchParams, tree_size: u64) -> u32 {
    let params = &params.collisions;
    if tree_size >= params.scaling_end {
        return params.max_visits;
    }
    if tree_size <= params.scaling_start {
        return 1;
    }
    let share =
        (tree_size - params.scaling_start) as f32 / (params.scaling_end - params.scaling_start) as f32;
    // The default power without the platform's pow, so that search is the same on every machine.
    let grown = if params.scaling_power == 1.25 {
        share * share.sqrt().sqrt()
    } else {
        share.powf(params.scaling_power)
    };
    1 + ((params.max_visits - 1) as f32 * grown).round_ties_even() as u32
}
