//! Step 1, initialise: makes room in the tree if its memory is used up, and begins an empty minibatch.

use super::scratch::Scratch;
use crate::search::memory;
use crate::search::state::{Minibatch, Parking, SearchContext, SharedControl, SpentMemory};

/// Begins an iteration of the worker with this `index`. `None` means that the search has released the tree in the
/// meantime.
pub(super) fn initialise(
    context: &SearchContext,
    control: &SharedControl,
    parking: &Parking,
    index: usize,
    scratch: &mut Scratch,
    spent: SpentMemory,
) -> Option<Minibatch> {
    make_room(context, control, parking, index, scratch)?;
    Some(Minibatch::new(context.backend.new_batch(), spent))
}

/// Recycles the tree if its memory is used up. `None` means that the search has released the tree in the meantime.
pub(crate) fn make_room(
    context: &SearchContext,
    control: &SharedControl,
    parking: &Parking,
    index: usize,
    scratch: &mut Scratch,
) -> Option<()> {
    let limit = context.memory_limit;
    if !memory::is_used_up(&context.tree, limit, &context.params) || control.is_stopping() {
        return parking.give_way(index);
    }
    scratch.give_back(&context.tree);
    parking.work_alone(index, |parked| {
        // From now on, reports and stoppers read only the root and its children.
        control.lock().is_recycling = true;
        let in_flight = parked.flat_map(|gathered| gathered.steps.iter().map(|step| step.node));
        let recycled = context.tree.recycle(memory::recycled_size(&context.tree, limit), in_flight);
        let mut control = control.lock();
        control.is_recycling = false;
        if recycled.fewest_visits > 0 && !control.has_reported_recycling {
            control.has_reported_recycling = true;
            drop(control);
            let megabytes = limit / 1_000_000;
            context.responder.message(&format!(
                "the tree has reached its limit of {megabytes} MB: from now on the least visited positions are removed"
            ));
        }
    })
}
