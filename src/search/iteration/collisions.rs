//! Step 3, collisions: visits that came to a node that is already being evaluated.
//!
//! Such a visit *collides* with the visit that is evaluating the node. It stays in flight along its path until the
//! batch is done, so that later visits take other paths. Gathering ends after a limited number of collisions.

use crate::policy::SearchParams;
use crate::state::{Counters, Gathered, SearchContext, SharedControl, SpentMemory};

/// Ends an iteration without leaves: cancels its visits in flight. If it has no other results, the worker sleeps until
/// all workers together have finished more than `progress` iterations, because only then has the tree changed. It
/// sleeps for 10 ms at most.
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

/// The maximum number of colliding visits in a batch, for a tree of this size. It is low in a small tree, where many
/// collisions would drive later visits to bad moves.
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
    // The default power is computed without the platform's pow, so that searches are the same on every machine.
    let grown = if params.scaling_power == 1.25 {
        share * share.sqrt().sqrt()
    } else {
        share.powf(params.scaling_power)
    };
    1 + ((params.max_visits - 1) as f32 * grown).round_ties_even() as u32
}
