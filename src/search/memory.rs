//! The tree's memory: how much it may use, and when it is used up.
//!
//! A search whose memory is used up does not stop. Between two iterations one worker waits until no other worker uses
//! the tree, and recycles the part with the fewest visits ([`Tree::recycle`]). The nodes of parked minibatches stay
//! untouched, and so do the best line and all visit counts.

use crate::tree::Tree;
use sysinfo::{MemoryRefreshKind, System};

/// The share of the machine's free memory that the tree may use, in hundredths.
const DEFAULT_SHARE: u64 = 75;
/// Recycling leaves this share of the limit in use, in hundredths. A smaller share would recycle more seldom, and forget
/// more.
const SHARE_LEFT: u64 = 60;
/// Unreachable nodes are freed once they are this share of the limit, in hundredths, and half of the tree.
const SHARE_OF_WASTE: u64 = 25;
/// The most bytes that one visit may add: a node of many moves, and a link.
const BYTES_PER_VISIT: u64 = 400;
/// The least limit, in bytes: with less, a search would only recycle.
const LEAST_LIMIT: u64 = 1_000_000;

/// The number of bytes that a tree may use.
///
/// `megabytes` is the user's limit, in units of a million bytes; `bytes_beside_tree` count against it. 0 means that the
/// limit depends on the machine's free memory, to which the `tree_bytes` that the tree already uses are added.
pub(crate) fn tree_limit(megabytes: u64, bytes_beside_tree: u64, tree_bytes: u64) -> u64 {
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

/// Whether something must be freed before the next iteration, in which all workers together gather up to
/// `visits_per_iteration` leaves.
pub(crate) fn is_used_up(tree: &Tree, limit: u64, visits_per_iteration: usize) -> bool {
    let used = tree.used_bytes();
    let next = BYTES_PER_VISIT * (visits_per_iteration * 3) as u64;
    let waste = tree.unreachable_bytes();
    used.saturating_add(next.min(limit / 10)) > limit
        || (waste > used / 2 && waste / SHARE_OF_WASTE > limit / 100)
}

/// The size to which a tree of the size `limit` is recycled, in bytes.
pub(crate) fn recycled_size(limit: u64) -> u64 {
    limit / 100 * SHARE_LEFT
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
