//! The tree's memory: how much it may use, and whether it is used up.
//!
//! A search whose memory is used up goes on. Between two iterations one worker waits until no other worker uses the
//! tree, and recycles the part with the fewest visits ([`Tree::recycle`]). The nodes of parked minibatches, the best
//! line and all visit counts are kept.

use crate::tree::Tree;
use sysinfo::{MemoryRefreshKind, System};

/// The share of the machine's free memory that the tree may use, in hundredths.
const DEFAULT_SHARE: u64 = 75;
/// Recycling leaves this share of the limit in use, in hundredths. With a smaller share the tree would be recycled less
/// often, but would lose more.
const SHARE_LEFT: u64 = 60;
/// Unreachable nodes are freed once they take up this share of the limit, in hundredths, and more than half of the
/// tree.
const SHARE_OF_WASTE: u64 = 25;
/// A generous estimate of the bytes that one visit adds: a node with many moves, and a link.
const BYTES_PER_VISIT: u64 = 400;
/// The smallest limit, in bytes. With less, a search would only recycle.
const LEAST_LIMIT: u64 = 1_000_000;

/// The number of bytes that a tree may use.
///
/// `megabytes` is the user's limit, in units of a million bytes. `bytes_beside_tree` is subtracted from it. If
/// `megabytes` is 0, the limit is a share of the sum of the machine's free memory and the `tree_bytes` that the tree
/// already uses.
pub(crate) fn tree_limit(megabytes: u64, bytes_beside_tree: u64, tree_bytes: u64) -> u64 {
    if megabytes > 0 {
        return megabytes.saturating_mul(1_000_000).saturating_sub(bytes_beside_tree).max(LEAST_LIMIT);
    }
    available_bytes()
        .map_or(u64::MAX, |free| ((free + tree_bytes) / 100 * DEFAULT_SHARE).max(tree_bytes).max(LEAST_LIMIT))
}

/// The memory that this process could still allocate: the free memory of the system or of its control group, whichever
/// is less. `None` if it is unknown.
fn available_bytes() -> Option<u64> {
    let mut system = System::new().ok()?;
    system.refresh_memory_specifics(MemoryRefreshKind::nothing().with_ram());
    let available = system.available_memory();
    // The group's own figure of free memory is too small, because it counts the kernel's file cache as used.
    let in_group =
        system.cgroup_limits().map_or(u64::MAX, |group| group.total_memory.saturating_sub(group.rss));
    Some(available.min(in_group)).filter(|&bytes| bytes > 0)
}

/// Whether memory must be freed before the next iteration, in which all workers together gather up to
/// `visits_per_iteration` leaves. Room for three times as many visits is kept free, but at most a tenth of the limit.
pub(crate) fn is_used_up(tree: &Tree, limit: u64, visits_per_iteration: usize) -> bool {
    let used = tree.used_bytes();
    let next = BYTES_PER_VISIT * (visits_per_iteration * 3) as u64;
    let waste = tree.unreachable_bytes();
    used.saturating_add(next.min(limit / 10)) > limit
        || (waste > used / 2 && waste / SHARE_OF_WASTE > limit / 100)
}

/// The size in bytes to which a tree is recycled when it has reached `limit`.
pub(crate) fn recycled_size(limit: u64) -> u64 {
    limit / 100 * SHARE_LEFT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_set_by_the_user_or_by_free_memory() {
        assert_eq!(tree_limit(100, 20_000_000, 5), 80_000_000);
        assert_eq!(tree_limit(10, 20_000_000, 5), LEAST_LIMIT);
        let fitting = tree_limit(0, 0, 0);
        assert!(fitting > 50_000_000, "{fitting} bytes");
        // Memory that the tree already uses counts as free.
        assert!(tree_limit(0, 0, 1 << 50) >= 1 << 50);
    }
}
