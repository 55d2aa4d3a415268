//! Step 1, initialise: makes room in the tree if its memory is short, and begins an empty minibatch.

use crate::search::memory::{self, Supply};
use crate::search::state::{Minibatch, Parking, Recycling, SearchContext, SharedControl, SpentMemory, Turn};
use crate::sync::pause;

/// The most nodes that a worker frees, and the most that it looks at, before it goes on with its search. Both take about
/// a millisecond.
const FREED_IN_TURN: usize = 8_000;
const LOOKED_AT_IN_TURN: u64 = 100_000;

/// Begins an iteration of the worker with this `index`. `None` means that the search has released the tree in the
/// meantime.
pub(super) fn initialise(
    context: &SearchContext,
    control: &SharedControl,
    parking: &Parking,
    recycling: &Recycling,
    index: usize,
    spent: SpentMemory,
) -> Option<Minibatch> {
    make_room(context, control, parking, recycling, index)?;
    Some(Minibatch::new(context.backend.new_batch(), spent))
}

/// Frees a little memory if the tree is short of it, and waits while the memory is used up. `None` means that the search
/// has released the tree in the meantime.
pub(crate) fn make_room(
    context: &SearchContext,
    control: &SharedControl,
    parking: &Parking,
    recycling: &Recycling,
    index: usize,
) -> Option<()> {
    // The entries that this worker has looked at since memory was last freed.
    let mut fruitless = 0;
    loop {
        let before = supply(context);
        if (before == Supply::Ample && !recycling.has_condemned()) || control.is_stopping() {
            return Some(());
        }
        // The edges of condemned nodes can be freed only when this worker, too, has been outside the tree.
        parking.pass(index)?;
        let mut has_worked = false;
        if let Some(mut turn) = recycling.try_take() {
            let work = take_turn(context, control, parking, recycling, index, &mut turn);
            fruitless = if work.freed > 0 { 0 } else { fruitless + work.looked_at };
            has_worked = work.freed > 0 || work.looked_at > 0;
        }
        // If two sweeps free nothing, all memory is in use by visits in flight. They must not wait for each other.
        if supply(context) != Supply::UsedUp || fruitless > 2 * context.tree.reserved_nodes() {
            return Some(());
        }
        if !has_worked {
            pause();
        }
    }
}

fn supply(context: &SearchContext) -> Supply {
    memory::supply(&context.tree, context.memory_limit, &context.params)
}

/// What a worker has done in its turn.
#[derive(Default)]
struct Work {
    freed: usize,
    looked_at: u64,
}

/// Frees nodes until memory is no longer short, or until the worker has done its share, or must wait for others.
fn take_turn(
    context: &SearchContext,
    control: &SharedControl,
    parking: &Parking,
    recycling: &Recycling,
    index: usize,
    turn: &mut Turn,
) -> Work {
    let mut tree = context.tree.recycling();
    let mut work = Work::default();
    let most_looked_at = LOOKED_AT_IN_TURN.min(context.tree.reserved_nodes());
    loop {
        if tree.has_condemned() {
            let have_departed = turn.users.as_ref().is_none_or(|users| parking.have_departed(users));
            // A report reads the tree under the lock of the control.
            if !have_departed || !control.is_unlocked() {
                return work;
            }
            work.freed += tree.collapse_condemned();
            recycling.note_condemned(false);
            turn.users = None;
        }
        work.freed += tree.free_unreachable(FREED_IN_TURN.saturating_sub(work.freed));
        let is_done = work.freed >= FREED_IN_TURN || work.looked_at >= most_looked_at;
        if is_done || supply(context) == Supply::Ample {
            return work;
        }
        if !tree.has_unreachable() {
            work.looked_at += tree.condemn(most_looked_at - work.looked_at);
            recycling.note_condemned(tree.has_condemned());
            turn.users = Some(parking.other_users(index));
            report(context, turn);
        }
    }
}

/// Tells the user once that memory is short.
fn report(context: &SearchContext, turn: &mut Turn) {
    if !std::mem::replace(&mut turn.has_reported, true) {
        let megabytes = context.memory_limit / 1_000_000;
        context.responder.message(&format!(
            "the tree has reached its limit of {megabytes} MB: from now on the least visited positions are removed"
        ));
    }
}
