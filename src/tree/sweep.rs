//! Which nodes are collapsed in a full tree.
//!
//! A hand sweeps over the arena of nodes, in the order of memory. It hands out ranges of entries, and the threads condemn
//! the nodes there that have less than a threshold of visits. The threshold comes from a random sample of nodes: it is
//! such that a sweep frees about a quarter of the tree.

use super::Tree;
use super::links::LINK_WORDS;
use super::node::Node;
use super::recycler::Sweep;
use super::status::{State, Status};
use std::ops::Range;

/// The number of classes of visit counts: four for each doubling.
const CLASSES: usize = 4 * 32;
/// The share of the tree that a sweep over all nodes is to free, in hundredths.
const SHARE_OF_SWEEP: u64 = 25;
/// The number of arena entries that a sample looks at at most. A loom model branches at each look.
const SAMPLE_ENTRIES: u64 = if cfg!(feature = "loom") { 8 } else { 1 << 12 };
/// A new sample is taken when the hand has passed this part of the arena. A sample looks at no more than this part of the
/// entries that the hand then passes.
const SAMPLES_IN_SWEEP: u64 = 8;
const PART_SAMPLED: u64 = 16;
/// The hand of a small arena passes so many entries, or all of it several times, before the next sample.
const LEAST_UNTIL_SAMPLE: u64 = 1 << 12;
/// The most entries that a thread gets at once.
const RANGE: u64 = 1 << 10;

/// Entries of the arena in which one thread condemns nodes.
pub(super) struct Swath<'tree> {
    pub(super) nodes: &'tree [Node],
    pub(super) indices: Range<u32>,
    pub(super) threshold: u32,
}

impl Sweep {
    /// The next entries of the arena, at most `most` of them. There are none when the hand has reached the end of the
    /// arena; then it goes back to the beginning.
    pub(super) fn next<'tree>(&mut self, tree: &'tree Tree, most: u64) -> Swath<'tree> {
        let arena = &tree.storage.nodes;
        if self.until_sample == 0 {
            let until_next = (arena.reserved() / SAMPLES_IN_SWEEP).max(LEAST_UNTIL_SAMPLE);
            self.threshold =
                self.fewest_visits_worth_keeping(tree, (until_next / PART_SAMPLED).min(SAMPLE_ENTRIES));
            self.until_sample = until_next;
        }
        let most =
            most.min(RANGE).min(self.until_sample).min(arena.reserved().saturating_sub(self.hand.into()));
        let entries = arena.made_from(self.hand);
        let nodes = &entries[..entries.len().min(most as usize)];
        let (start, length) = (self.hand, nodes.len() as u32);
        self.hand = if nodes.is_empty() { 0 } else { start.checked_add(length).unwrap_or(0) };
        self.until_sample -= u64::from(length);
        Swath { nodes, indices: start..start.saturating_add(length), threshold: self.threshold }
    }

    /// Takes back the entries from `first` on, which a thread has not looked at. Other threads may have gone on beyond
    /// them. Then the next sweep comes to them.
    pub(super) fn give_back(&mut self, swath: &Swath<'_>, first: u32) {
        if self.hand == swath.indices.end {
            self.hand = first;
            self.until_sample += u64::from(swath.indices.end - first);
        }
    }

    /// The visit count below which nodes must be collapsed so that a sweep frees its share of the tree, estimated from a
    /// sample of `entries` of the arena.
    fn fewest_visits_worth_keeping(&mut self, tree: &Tree, entries: u64) -> u32 {
        // The sample may contain unreachable nodes.
        let _no_edges_are_freed = tree.recycler.keep_edges();
        let nodes = &tree.storage.nodes;
        let mut bytes_by_class = [0_u64; CLASSES];
        for _ in 0..entries {
            // A linear congruential generator, with Knuth's factor and increment for MMIX.
            let random = &mut self.random;
            *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let raw = ((u128::from(*random) * u128::from(nodes.reserved())) >> 64) as u32;
            if let Some(node) = nodes.get_made(raw).filter(|node| is_evaluated(node.status())) {
                bytes_by_class[class_of(node.visits())] += bytes_below(tree, node);
            }
        }
        let total: u64 = bytes_by_class.iter().sum();
        let mut freed = 0;
        let class = bytes_by_class.iter().position(|&bytes| {
            freed += bytes;
            freed * 100 >= total * SHARE_OF_SWEEP
        });
        least_visits_of(class.map_or(CLASSES - 1, |class| (class + 1).min(CLASSES - 1)))
    }
}

impl Swath<'_> {
    /// The nodes with few visits, with their indices.
    pub(super) fn of_little_worth(&self) -> impl Iterator<Item = (u32, &Node)> {
        let entries = self.indices.clone().zip(self.nodes);
        entries.filter(|(_, node)| is_evaluated(node.status()) && node.visits() < self.threshold)
    }
}

/// The size of a node's priors, links and children, in bytes.
fn bytes_below(tree: &Tree, node: &Node) -> u64 {
    let mut links = 0;
    let mut children = 0;
    for (_, link) in tree.links(node) {
        links += 1;
        children += u64::from(link.child().is_some());
    }
    let words = node.edge_count().div_ceil(4) + LINK_WORDS * links;
    4 * words as u64 + children * size_of::<Node>() as u64
}

fn is_evaluated(status: Status) -> bool {
    matches!(status.state(), State::Expanded | State::Terminal) && status.edge_count() > 0
}

fn class_of(visits: u32) -> usize {
    // The class consists of the exponent and the two bits below the leading one.
    let visits = visits.max(1);
    let exponent = visits.ilog2();
    let fraction = (u64::from(visits) << 2 >> exponent) as usize & 3;
    4 * exponent as usize + fraction
}

/// The smallest visit count in a class. Some low classes contain no whole number; for these it is the smallest visit
/// count of the next class that contains one.
fn least_visits_of(class: usize) -> u32 {
    let (exponent, fraction) = (class / 4, class as u64 % 4);
    if class == 0 { 0 } else { ((4 + fraction) << exponent).div_ceil(4) as u32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_rise_with_the_visits() {
        let classes: Vec<usize> = (0..5_000).map(class_of).collect();
        assert!(classes.is_sorted());
        assert_eq!((classes[0], classes[1], class_of(2), class_of(3)), (0, 0, 4, 6));
        assert_eq!(class_of(u32::MAX), CLASSES - 1);
        for class in 1..CLASSES {
            let least = least_visits_of(class);
            assert!(class_of(least) >= class && class_of(least - 1) < class, "{class}: {least}");
        }
    }

    #[test]
    fn the_hand_passes_every_entry_once_and_takes_back_what_was_not_looked_at() {
        let tree = Tree::new();
        let mut sweep = Sweep::default();
        let reserved = tree.reserved_nodes() as u32;
        let first = sweep.next(&tree, 5);
        assert_eq!((first.indices.clone(), first.nodes.len()), (0..5, 5));
        sweep.give_back(&first, 3);
        let second = sweep.next(&tree, 4);
        assert_eq!(second.indices, 3..7);
        let third = sweep.next(&tree, u64::MAX);
        assert_eq!(third.indices, 7..reserved);
        // Another thread has gone on, so these entries are left to the next sweep.
        sweep.give_back(&second, 4);
        assert_eq!(sweep.next(&tree, u64::MAX).nodes.len(), 0);
        assert_eq!(sweep.next(&tree, 2).indices, 0..2);
    }
}
