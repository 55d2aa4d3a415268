//! Step 2, gather: fills a minibatch with leaves worth evaluating, in several descents from the root.
//!
//! | module | contents |
//! |---|---|
//! | this file | descends until the minibatch is full or nothing more can be found |
//! | [`descent`] | one descent of many visits |
//! | [`leaf`] | leaves whose result the rules or a tablebase give |

mod descent;
mod leaf;

use super::collisions::collisions_allowed;
use super::scratch::Scratch;
use super::selection::RootFocus;
use crate::state::{Counters, Minibatch, SearchContext, SharedControl};
use descent::{Descent, Found};
use rukh_base::sync::atomic::Ordering;

/// After visits have passed busy children, the batches of all threads together have at most one leaf for this many visits
/// of the tree.
const VISITS_FOR_EACH_PASSING: usize = 256;
/// Visits pass busy children until one part in this many of a batch is filled. Larger batches are hardly faster, and the
/// visits would go to worse moves.
const PART_BY_PASSING: usize = 4;

/// Fills `batch` until it has [`SearchContext::minibatch_size`] leaves, a limit (on collisions, on visits out of order or
/// on all visits) is reached, a descent finds only collisions, or the search stops.
///
/// With several devices, a small batch is not over when a descent finds only collisions: then visits pass busy children,
/// as far as [`leaves_by_passing`] allows.
///
/// `remaining_playouts` is the number of visits that the search will probably still make, if a stopper knows it.
pub(super) fn gather(
    context: &SearchContext,
    counters: &Counters,
    control: &SharedControl,
    scratch: &mut Scratch,
    batch: &mut Minibatch,
    remaining_playouts: Option<u64>,
) {
    let params = &context.params;
    let minibatch_size = context.minibatch_size() as u32;
    let visits = context.root_visits();
    let in_flight = counters.root_in_flight.load(Ordering::Relaxed);
    let target = most_leaves(params.in_flight_share, visits, in_flight).min(minibatch_size);
    let max_out_of_order = ((params.max_out_of_order_factor * minibatch_size as f32) as u32).max(1);
    let tree_size = u64::from(visits);
    let mut collisions_left =
        collisions_allowed(params, remaining_playouts.map_or(tree_size, |left| left.min(tree_size)));
    let mut events_left = params.collisions.max_events;
    let focus = RootFocus::new(context, remaining_playouts);
    let leaves_by_passing = match context.devices_before.len() {
        // A single device is kept busy without this.
        0 | 1 => 0,
        _ => leaves_by_passing(visits as usize, params.threads, minibatch_size as usize),
    };
    let mut pass_busy = false;

    loop {
        // Without `OutOfOrderEval`, a leaf with a known result takes a place in the batch like any other leaf.
        let known = if params.out_of_order_eval { 0 } else { batch.gathered.out_of_order };
        let target = if pass_busy { target.min(leaves_by_passing as u32) } else { target };
        let budget = collisions_left
            .min(target.saturating_sub(batch.gathered.leaf_count as u32 + known))
            .min(max_out_of_order.saturating_sub(batch.gathered.out_of_order))
            .min(context.visits_left(counters.root_in_flight.load(Ordering::Relaxed)));
        if budget == 0 {
            return;
        }
        let events_before = batch.gathered.collision_events;
        let found = Found::default();
        let descent = Descent { context, counters, control, scratch, batch, pass_busy, found };
        let found = descent.start(budget, &focus);
        debug_assert_eq!(
            scratch.walk.history.positions().len(),
            context.history.positions().len(),
            "a descent takes back its moves"
        );
        batch.gathered.out_of_order += found.out_of_order;
        events_left = events_left.saturating_sub(batch.gathered.collision_events - events_before);
        collisions_left = collisions_left.saturating_sub(found.collisions);
        if collisions_left == 0 || events_left == 0 {
            return;
        }
        // After a descent that found only collisions, more descents of its kind would drive visits to bad moves. They
        // would also find few leaves for the time that they take, above all on flat evaluations, where collisions are
        // frequent.
        if found.leaves + found.out_of_order == 0 && std::mem::replace(&mut pass_busy, true) {
            return;
        }
        if control.is_stopping() {
            return;
        }
    }
}

/// How many leaves a batch may have after visits have passed busy children.
fn leaves_by_passing(visits: usize, threads: usize, minibatch_size: usize) -> usize {
    (visits / (VISITS_FOR_EACH_PASSING * threads)).min(minibatch_size / PART_BY_PASSING)
}

/// The most leaves of a batch, so that no more than `share` of the root's visits are in flight. It is at least one, and
/// unlimited if `share` is 0.
fn most_leaves(share: f32, visits: u32, in_flight: u32) -> u32 {
    if share == 0.0 {
        return u32::MAX;
    }
    ((share * visits as f32) as u32).saturating_sub(in_flight).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn visits_pass_busy_children_in_large_trees_only() {
        assert_eq!(leaves_by_passing(1_791, 7, 256), 0);
        assert_eq!(leaves_by_passing(17_920, 7, 256), 10);
        assert_eq!(leaves_by_passing(1_000_000, 7, 256), 64);
        assert_eq!(leaves_by_passing(1_000_000, 1, 2), 0);
    }

    #[test]
    fn a_batch_grows_with_the_tree_up_to_the_share_in_flight() {
        assert_eq!(most_leaves(0.0, 10, 5), u32::MAX);
        assert_eq!(most_leaves(0.01, 10, 0), 1);
        assert_eq!(most_leaves(0.01, 800, 0), 8);
        assert_eq!(most_leaves(0.01, 800, 5), 3);
        assert_eq!(most_leaves(0.01, 800, 50), 1);
        assert_eq!(most_leaves(1.0, u32::MAX, 0), u32::MAX);
    }
}
