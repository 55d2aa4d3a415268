//! The tree's memory: how much it may take, and what happens when it is used up.
//!
//! The search does not stop then. At the border of an iteration one worker waits until no other is at the tree, and
//! recycles the least visited part ([`crate::tree::recycle`]); those whose batches are under evaluation find all that
//! they hold untouched. The best line and all visit counts stay.

use super::Shared;
use super::worker::Worker;
use crate::sync::atomic::Ordering;
use sysinfo::{MemoryRefreshKind, System};

/// Of the memory that is free when a search starts, the tree may take this much (in hundredths).
const DEFAULT_SHARE: u64 = 75;
/// Recycling leaves this much of the limit in use (in hundredths): less is done more seldom, and forgets more.
const SHARE_LEFT: u64 = 60;
/// What an old root has left behind is freed once it is this much of the limit (in hundredths), and half of all.
const SHARE_OF_WASTE: u64 = 25;
/// Bytes that one visit may add at most: a node of many moves, and a link.
const BYTES_PER_VISIT: u64 = 400;
/// The least limit with which a search gets anywhere.
const LEAST_LIMIT: u64 = 1_000_000;

/// The bytes that a tree may take. `megabytes`: the user's limit, of a million bytes each, which `bytes_beside_tree`
/// count against; 0: what fits the machine, where the tree has `tree_bytes` of what is not free now.
pub fn tree_limit(megabytes: u64, bytes_beside_tree: u64, tree_bytes: u64) -> u64 {
    if megabytes > 0 {
        return megabytes.saturating_mul(1_000_000).saturating_sub(bytes_beside_tree).max(LEAST_LIMIT);
    }
    available_bytes()
        .map_or(u64::MAX, |free| ((free + tree_bytes) / 100 * DEFAULT_SHARE).max(tree_bytes).max(LEAST_LIMIT))
}

/// Memory that this process could still get: the system's, or what its control group leaves. `None`: unknown.
fn available_bytes() -> Option<u64> {
    let mut system = System::new().ok()?;
    system.refresh_memory_specifics(MemoryRefreshKind::nothing().with_ram());
    let available = system.available_memory();
    // Not what it calls free: files that the kernel keeps count as used there.
    let in_group =
        system.cgroup_limits().map_or(u64::MAX, |group| group.total_memory.saturating_sub(group.rss));
    Some(available.min(in_group)).filter(|&bytes| bytes > 0)
}

impl Shared {
    /// Whether something must be freed before the next iteration.
    fn is_memory_used_up(&self) -> bool {
        let used = self.tree.used_bytes();
        let next = BYTES_PER_VISIT * (self.params.threads * self.params.minibatch_size * 3) as u64;
        let waste = self.tree.unreachable_bytes();
        used.saturating_add(next.min(self.memory_limit / 10)) > self.memory_limit
            || (waste > used / 2 && waste / SHARE_OF_WASTE > self.memory_limit / 100)
    }
}

impl Worker<'_> {
    /// Recycles if the memory is used up. `None`: the search has let go of the tree meanwhile.
    pub(super) fn make_room(&mut self) -> Option<()> {
        let shared = self.shared;
        if !shared.is_memory_used_up() || shared.is_stopping() {
            return shared.desks.give_way(self.index);
        }
        self.gatherer.give_back(shared);
        shared.desks.alone(self.index, |away| {
            // Who tells the state of the search reads the tree from now on no deeper than the root's moves.
            let control = shared.control();
            shared.is_recycling.store(true, Ordering::Relaxed);
            drop(control);
            let under_way = away.flat_map(|gathered| gathered.steps.iter().map(|step| step.node));
            let recycled = shared.tree.recycle(shared.memory_limit / 100 * SHARE_LEFT, under_way);
            let control = shared.control();
            shared.is_recycling.store(false, Ordering::Relaxed);
            drop(control);
            if recycled.fewest_visits > 0 && !shared.was_told_of_recycling.swap(true, Ordering::Relaxed) {
                let megabytes = shared.memory_limit / 1_000_000;
                shared.responder.message(&format!(
                    "the tree has used up its {megabytes} MB: what was visited least makes room from now on"
                ));
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_what_the_user_says_or_what_the_machine_has() {
        assert_eq!(tree_limit(100, 20_000_000, 5), 80_000_000);
        assert_eq!(tree_limit(10, 20_000_000, 5), LEAST_LIMIT);
        let fitting = tree_limit(0, 0, 0);
        assert!(fitting > 50_000_000, "{fitting} bytes");
        // What the tree has already is not counted as taken.
        assert!(tree_limit(0, 0, 1 << 50) >= 1 << 50);
    }
}
