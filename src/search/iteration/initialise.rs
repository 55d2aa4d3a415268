//! Step 1, initialise: makes room in the tree if its memory is short, and begins an empty minibatch.

use crate::memory::{self, Supply};
use crate::state::{Minibatch, Parking, Recycling, SearchContext, Share, SharedControl, SpentMemory};
use rukh_base::sync::pause;

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
        let work = recycle(context, control, parking, recycling, index);
        fruitless = if work.freed > 0 { 0 } else { fruitless + work.looked_at };
        // If two sweeps free nothing, all memory is in use by visits in flight. They must not wait for each other.
        if supply(context) != Supply::UsedUp || fruitless > 2 * context.tree.reserved_nodes() {
            return Some(());
        }
        if work.freed == 0 && work.looked_at == 0 {
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

/// Frees nodes until memory is no longer short, or until the worker has done its part, or must wait for others. Also
/// frees what workers have condemned that are away, so that their evaluations keep no nodes busy.
fn recycle(
    context: &SearchContext,
    control: &SharedControl,
    parking: &Parking,
    recycling: &Recycling,
    index: usize,
) -> Work {
    let mut work = Work::default();
    if let Some(mut share) = recycling.try_take(index) {
        take_turn(context, control, parking, recycling, index, &mut share, &mut work);
    }
    for other in (0..recycling.shares()).filter(|&other| other != index) {
        if recycling.has_condemned()
            && parking.is_away(other)
            && let Some(mut share) = recycling.try_take(other)
        {
            collapse_condemned(context, control, parking, recycling, &mut share, &mut work);
        }
    }
    work
}

fn take_turn(
    context: &SearchContext,
    control: &SharedControl,
    parking: &Parking,
    recycling: &Recycling,
    index: usize,
    share: &mut Share,
    work: &mut Work,
) {
    let tree = &context.tree;
    let most_looked_at = LOOKED_AT_IN_TURN.min(tree.reserved_nodes());
    loop {
        let must_wait = !collapse_condemned(context, control, parking, recycling, share, work);
        work.freed += tree.free_unreachable(&mut share.nodes, FREED_IN_TURN.saturating_sub(work.freed));
        let is_done = work.freed >= FREED_IN_TURN || work.looked_at >= most_looked_at;
        if must_wait || is_done || supply(context) == Supply::Ample {
            return;
        }
        if !tree.has_unreachable() {
            let most = most_looked_at - work.looked_at;
            work.looked_at += tree.condemn(&mut share.nodes, most, recycling.shares());
            recycling.note_condemned(share);
            share.users = Some(parking.other_users(index));
            report(context, recycling);
        }
    }
}

/// Collapses the condemned nodes of a share, unless other threads may still use their edges. `false` in this case.
fn collapse_condemned(
    context: &SearchContext,
    control: &SharedControl,
    parking: &Parking,
    recycling: &Recycling,
    share: &mut Share,
    work: &mut Work,
) -> bool {
    if !share.nodes.has_condemned() {
        return true;
    }
    let have_departed = share.users.as_ref().is_none_or(|users| parking.have_departed(users));
    // A report reads the tree under the lock of the control.
    if !have_departed || !control.is_unlocked() {
        return false;
    }
    work.freed += context.tree.collapse_condemned(&mut share.nodes);
    recycling.note_none_condemned();
    share.users = None;
    true
}

/// Tells the user once that memory is short.
fn report(context: &SearchContext, recycling: &Recycling) {
    if recycling.may_report() {
        let megabytes = context.memory_limit / 1_000_000;
        context.responder.message(&format!(
            "the tree has reached its limit of {megabytes} MB: from now on the least visited positions are removed"
        ));
    }
}
