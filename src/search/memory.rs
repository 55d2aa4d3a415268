//! The tree's memory: how much it may use, and whether it is used up.
//!
//! A search whose memory is used up goes on. Before each iteration a worker frees a little of the tree: what the root no
//! longer leads to, and then the parts with the fewest visits (`Recycling` in [`rukh_tree`]). The nodes of minibatches in
//! flight, the best line and all visit counts are kept.

use super::policy::SearchParams;
use rukh_base::available_memory::available_bytes;
use rukh_tree::Tree;

/// The share of the machine's free memory that the tree may use, in hundredths.
const DEFAULT_SHARE: u64 = 75;
/// A generous estimate of the bytes that one visit adds: a node with many moves, and a link.
const BYTES_PER_VISIT: u64 = 400;
/// Room for the next iteration is at most this part of the limit. With more, little would be left for the tree.
const PART_FOR_NEXT: u64 = 5;
/// The lists of free entries, and free pieces of memory that nothing fits into, take at most this part of the limit.
const PART_FOR_FREE: u64 = 8;
/// For each byte that the arenas have grown beyond the limit, this many bytes less may be in use.
const LESS_FOR_EXCESS: u64 = 3;
/// The smallest limit, in bytes. With less, a search would only recycle.
const LEAST_LIMIT: u64 = 700_000;

/// The memory of the evaluation cache, which a search fills beside its tree, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct CacheBytes {
    /// What it takes when it is full.
    pub full: u64,
    /// The part of it that the system has not provided yet.
    pub missing: u64,
}

/// The number of bytes that a tree may use.
///
/// `allowed` is the user's limit in bytes. The full cache, and a part for free entries ([`PART_FOR_FREE`]), are
/// subtracted from it. Without a limit by the user, the limit is [`DEFAULT_SHARE`] of what the process can still get
/// and the `tree_bytes` that the tree already uses, less what the cache will still take.
pub fn tree_limit(allowed: Option<u64>, cache: CacheBytes, tree_bytes: u64) -> u64 {
    match allowed {
        Some(allowed) => {
            let for_tree = allowed.saturating_sub(cache.full);
            (for_tree - for_tree / PART_FOR_FREE).max(LEAST_LIMIT)
        }
        None => default_limit(available_bytes(), cache, tree_bytes),
    }
}

/// The limit without one by the user, if the process can still get `available` bytes.
fn default_limit(available: Option<u64>, cache: CacheBytes, tree_bytes: u64) -> u64 {
    let Some(available) = available else { return u64::MAX };
    let for_tree = (available + tree_bytes).saturating_sub(cache.missing);
    (for_tree / 100 * DEFAULT_SHARE).max(tree_bytes).max(LEAST_LIMIT)
}

/// How much of its memory a tree has left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Supply {
    /// Enough.
    Ample,
    /// Enough for one more iteration of each worker, but some should be freed.
    Short,
    /// Less than that.
    UsedUp,
}

/// The most bytes that the next iteration of all workers adds to the tree. A worker looks at the memory only before an
/// iteration, and several workers may look at the same time. Besides its minibatch, an iteration makes visits that need
/// no evaluation, which also add nodes.
pub fn bytes_of_next_iteration(params: &SearchParams) -> u64 {
    let visits_per_leaf = 1.0 + f64::from(params.max_out_of_order_factor.max(0.0));
    (BYTES_PER_VISIT as f64 * visits_per_leaf * (params.threads * params.minibatch_size) as f64) as u64
}

/// Whether a tree with this limit has room for the next iteration of a search with these parameters.
pub fn is_enough(limit: u64, params: &SearchParams) -> bool {
    bytes_of_next_iteration(params) <= limit / PART_FOR_NEXT
}

/// The supply of a tree that may use `limit` bytes, in a search with these parameters. Tells the tree whether it may grow.
pub(crate) fn supply(tree: &Tree, limit: u64, params: &SearchParams) -> Supply {
    let reserved = tree.reserved_bytes();
    tree.allow_growth(reserved < limit);
    let limit = usable(reserved, limit);
    let next = bytes_of_next_iteration(params).min(limit / PART_FOR_NEXT);
    let used = reserved.saturating_sub(tree.free_bytes());
    match limit.saturating_sub(used) {
        left if left <= next => Supply::UsedUp,
        left if left <= 2 * next => Supply::Short,
        _ => Supply::Ample,
    }
}

/// The part of the limit that may be in use by a tree with so many `reserved` bytes. The free memory in the arenas has
/// pieces of all lengths. When those of one
/// length run out, the arenas grow, even beyond the limit, although pieces of other lengths are free. The more they
/// have grown, the more is kept free, so that this soon ends.
fn usable(reserved: u64, limit: u64) -> u64 {
    let excess = reserved.saturating_sub(limit);
    limit - excess.saturating_mul(LESS_FOR_EXCESS).min(limit / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_set_by_the_user_or_by_free_memory() {
        let cache = CacheBytes { full: 20_000_000, missing: 10_000_000 };
        assert_eq!(tree_limit(Some(100_000_000), cache, 5), 70_000_000);
        assert_eq!(tree_limit(Some(10_000_000), cache, 5), LEAST_LIMIT);
        let fitting = tree_limit(None, CacheBytes::default(), 0);
        assert!(fitting > 50_000_000, "{fitting} bytes");
        // Memory that the tree already uses counts as free, and that which the cache will take does not.
        assert_eq!(default_limit(Some(100_000_000), cache, 30_000_000), 90_000_000);
        assert_eq!(default_limit(Some(5_000_000), cache, 30_000_000), 30_000_000);
        assert_eq!(default_limit(Some(5_000_000), cache, 0), LEAST_LIMIT);
        assert_eq!(default_limit(None, cache, 0), u64::MAX);
    }
}
