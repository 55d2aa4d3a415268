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
use crate::search::state::{Counters, Minibatch, SearchContext, SharedControl};
use crate::sync::atomic::Ordering;
use descent::{Descent, Found};

/// Fills `batch` until it has [`SearchContext::minibatch_size`] leaves, a limit (on collisions, on visits out of order or
/// on all visits) is reached, a descent finds only collisions, or the search stops.
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
    let target = context.minibatch_size() as u32;
    let max_out_of_order = ((params.max_out_of_order_factor * target as f32) as u32).max(1);
    let tree_size = u64::from(context.root().visits());
    let mut collisions_left =
        collisions_allowed(params, remaining_playouts.map_or(tree_size, |left| left.min(tree_size)));
    let mut events_left = params.collisions.max_events;
    let focus = RootFocus::new(context, remaining_playouts);

    loop {
        // Without `OutOfOrderEval`, a leaf with a known result takes a place in the batch like any other leaf.
        let known = if params.out_of_order_eval { 0 } else { batch.gathered.out_of_order };
        let budget = collisions_left
            .min(target.saturating_sub(batch.gathered.leaf_count as u32 + known))
            .min(max_out_of_order.saturating_sub(batch.gathered.out_of_order))
            .min(context.visits_left(counters.root_in_flight.load(Ordering::Relaxed)));
        if budget == 0 {
            return;
        }
        let events_before = batch.gathered.collision_events;
        let descent = Descent { context, counters, control, scratch, batch, found: Found::default() };
        let found = descent.start(budget, &focus);
        debug_assert_eq!(
            scratch.walk.history.positions().len(),
            context.history.positions().len(),
            "a descent takes back its moves"
        );
        batch.gathered.out_of_order += found.out_of_order;
        events_left = events_left.saturating_sub(batch.gathered.collision_events - events_before);
        collisions_left = collisions_left.saturating_sub(found.collisions);
        // After a descent that found only collisions, more descents would drive visits to bad moves. They would also
        // find few leaves for the time that they take, above all on flat evaluations, where collisions are frequent.
        if collisions_left == 0 || events_left == 0 || found.leaves + found.out_of_order == 0 {
            return;
        }
        if control.is_stopping() {
            return;
        }
    }
}
