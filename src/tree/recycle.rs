//! Recycling: frees memory in a full tree, a little at a time, while the search goes on.
//!
//! Two kinds of nodes are freed. *Unreachable* nodes, which the root no longer leads to, are freed first. If there are
//! none, evaluated nodes with few visits are *collapsed*: they keep their visits and value but lose their moves, and all
//! nodes that only they lead to become unreachable. The next visit of a collapsed node evaluates it again, like a leaf.
//! So no visit count changes, and neither does the choice of moves above.
//!
//! # Protocol
//! One thread at a time recycles. It collapses a node in two steps:
//!
//! 1. It *condemns* the node ([`Node::condemn`]): from now on the node is as busy as a node under evaluation, and has no
//!    edges for anyone who looks. Other threads may still be using edges that they saw before.
//! 2. When each of these threads has since been outside the tree for a moment, it asks whether visits are in flight
//!    below the node. If not, no thread uses the edges, and none can come to use them. They are freed. Otherwise the node
//!    is *pardoned*: threads may enter it again.
//!
//! The tree does not know its threads. The caller of [`Recycling::collapse_condemned`] ensures the moment between the
//! steps. A thread that is outside the tree must have the visits that it will go on with in flight along their paths.
//!
//! A node that is not shared has one link, so it becomes unreachable with its parent. A shared node becomes unreachable
//! when its last reference is let go ([`super::transpositions`]).
//!
//! # Which nodes are collapsed
//! A hand sweeps over the arena of nodes, in the order of memory, and condemns the nodes with less than a threshold of
//! visits. The threshold comes from a random sample of nodes: it is such that a sweep frees about a quarter of the tree.
//! The nodes of the best line are left out.

use super::Tree;
use super::links::LINK_WORDS;
use super::node::Node;
use super::node_id::NodeId;
use super::recycler::Recycler;
use super::status::{State, Status};
use crate::sync::{MutexGuard, PoisonError};

/// The number of classes of visit counts: four for each doubling.
const CLASSES: usize = 4 * 32;
/// The share of the tree that a sweep over all nodes is to free, in hundredths.
const SHARE_OF_SWEEP: u64 = 25;
/// The number of arena entries that a sample looks at at most.
const SAMPLE_ENTRIES: u64 = 1 << 12;
/// A new sample is taken when the hand has passed this part of the arena. A sample looks at no more than this part of the
/// entries that the hand then passes.
const SAMPLES_IN_SWEEP: u64 = 8;
const PART_SAMPLED: u64 = 16;
/// The hand of a small arena passes so many entries, or all of it several times, before the next sample.
const LEAST_UNTIL_SAMPLE: u64 = 1 << 12;
/// The number of nodes that are condemned at a time, and the part of the arena that they may be. They are few, because
/// visits avoid condemned nodes.
const MOST_CONDEMNED: u64 = 4_096;
const PART_CONDEMNED: u64 = 64;

/// The right to recycle a tree. The caller's thread must use no node of the tree meanwhile.
pub struct Recycling<'tree> {
    tree: &'tree Tree,
    state: MutexGuard<'tree, Recycler>,
}

impl Tree {
    /// The right to recycle the tree. Waits for another thread that has it.
    pub fn recycling(&self) -> Recycling<'_> {
        Recycling { tree: self, state: self.recycler.lock().unwrap_or_else(PoisonError::into_inner) }
    }

    /// The nodes of the line from the root along the most visited moves.
    fn best_line(&self) -> impl Iterator<Item = NodeId> + '_ {
        std::iter::successors(Some(self.root()), |&id| {
            let links = self.links(self.node(id)).filter(|(_, link)| link.visits() > 0);
            links.max_by_key(|(_, link)| link.visits()).and_then(|(_, link)| link.child())
        })
    }
}

impl Recycling<'_> {
    /// Adds a node that nothing refers to any more.
    pub(super) fn add_unreachable(&mut self, id: NodeId) {
        self.state.unreachable.push(id);
    }

    /// Whether nodes are condemned.
    pub fn has_condemned(&self) -> bool {
        !self.state.condemned.is_empty()
    }

    /// Whether unreachable nodes are known.
    pub fn has_unreachable(&self) -> bool {
        !self.state.unreachable.is_empty()
    }

    /// Frees up to about `most_nodes` unreachable nodes with their priors and links. Returns the number of freed nodes.
    pub fn free_unreachable(&mut self, most_nodes: usize) -> usize {
        let Recycler { unreachable, freed, .. } = &mut *self.state;
        let storage = &self.tree.storage;
        let mut count = 0;
        while count < most_nodes
            && let Some(id) = unreachable.pop()
        {
            let node = storage.node(id);
            storage.free_edges(node, freed, |child| let_go(self.tree, child, unreachable));
            storage.unmake_node(id, freed);
            count += 1;
        }
        freed.give_back(storage);
        count
    }

    /// Goes on with the sweep over at most `most_entries` entries of the arena, each at most once, and condemns nodes with
    /// few visits. Returns the number of entries that it has passed. It stops early if enough nodes are condemned.
    pub fn condemn(&mut self, most_entries: u64) -> u64 {
        let tree = self.tree;
        let mut best_line: Vec<NodeId> = tree.best_line().collect();
        best_line.sort_unstable_by_key(|id| id.raw());
        let most_condemned =
            (tree.storage.nodes.reserved() / PART_CONDEMNED).clamp(1, MOST_CONDEMNED) as usize;
        let most_entries = most_entries.min(tree.storage.nodes.reserved());
        let mut passed = 0;
        while passed < most_entries && self.state.condemned.len() < most_condemned {
            if self.state.until_sample == 0 {
                let until_next = (tree.storage.nodes.reserved() / SAMPLES_IN_SWEEP).max(LEAST_UNTIL_SAMPLE);
                self.state.threshold =
                    self.fewest_visits_worth_keeping((until_next / PART_SAMPLED).min(SAMPLE_ENTRIES));
                self.state.until_sample = until_next;
            }
            let state = &mut *self.state;
            let most = (most_entries - passed).min(state.until_sample);
            let entries = tree.storage.nodes.made_from(state.hand);
            if entries.is_empty() || u64::from(state.hand) >= tree.storage.nodes.reserved() {
                state.hand = 0;
                // A sweep over an arena without entries would never end.
                passed += 1;
                continue;
            }
            let mut looked_at = 0;
            for (node, raw) in entries.iter().zip(state.hand..).take(most as usize) {
                looked_at += 1;
                if is_worth_little(node, state.threshold)
                    && let Some(id) = NodeId::from_raw(raw)
                    && best_line.binary_search_by_key(&raw, |id| id.raw()).is_err()
                    && node.condemn()
                {
                    state.condemned.push(id);
                    if state.condemned.len() >= most_condemned {
                        break;
                    }
                }
            }
            state.hand = state.hand.saturating_add(looked_at);
            state.until_sample -= u64::from(looked_at);
            passed += u64::from(looked_at);
        }
        passed
    }

    /// Collapses the condemned nodes below which no visit is in flight, and pardons the others. Each thread that used the
    /// tree when the nodes were condemned must have been outside of it since. Returns the number of collapsed nodes.
    pub fn collapse_condemned(&mut self) -> usize {
        let tree = self.tree;
        let Recycler { unreachable, condemned, freed, .. } = &mut *self.state;
        let mut collapsed = 0;
        for id in condemned.drain(..) {
            let node = tree.node(id);
            // A condemned node below another one may have been freed, and its entry may be in use again.
            if !node.status().is_condemned() {
                continue;
            }
            if has_visits_in_flight(tree, node) {
                node.pardon();
                continue;
            }
            tree.storage.free_edges(node, freed, |child| let_go(tree, child, unreachable));
            node.collapse();
            collapsed += 1;
        }
        freed.give_back(&tree.storage);
        collapsed
    }

    /// Pardons all condemned nodes.
    pub fn pardon_condemned(&mut self) {
        let tree = self.tree;
        for id in self.state.condemned.drain(..) {
            let node = tree.node(id);
            if node.status().is_condemned() {
                node.pardon();
            }
        }
    }

    /// The visit count below which nodes must be collapsed so that a sweep frees its share of the tree, estimated from a
    /// sample of `entries` of the arena.
    fn fewest_visits_worth_keeping(&mut self, entries: u64) -> u32 {
        let nodes = &self.tree.storage.nodes;
        let mut bytes_by_class = [0_u64; CLASSES];
        for _ in 0..entries {
            // A linear congruential generator, with Knuth's factor and increment for MMIX.
            let random = &mut self.state.random;
            *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let raw = ((u128::from(*random) * u128::from(nodes.reserved())) >> 64) as u32;
            if let Some(node) = nodes.get_made(raw).filter(|node| is_evaluated(node.status())) {
                bytes_by_class[class_of(node.visits())] += self.bytes_below(node);
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

    /// The size of a node's priors, links and children, in bytes. Children that have other parents count in part.
    fn bytes_below(&self, node: &Node) -> u64 {
        let mut links = 0;
        let mut children = 0;
        for (_, link) in self.tree.links(node) {
            links += 1;
            children += u64::from(link.child().is_some());
        }
        let words = node.edge_count().div_ceil(4) + LINK_WORDS * links;
        4 * words as u64 + children * size_of::<Node>() as u64
    }
}

/// Lets go of a child whose parent loses its links.
fn let_go(tree: &Tree, child: NodeId, unreachable: &mut Vec<NodeId>) {
    let is_last = !tree.node(child).status().has(Status::SHARED) || tree.table.let_go(child, &tree.storage);
    if is_last {
        unreachable.push(child);
    }
}

fn is_evaluated(status: Status) -> bool {
    matches!(status.state(), State::Expanded | State::Terminal) && status.edge_count() > 0
}

fn is_worth_little(node: &Node, threshold: u32) -> bool {
    is_evaluated(node.status()) && node.visits() < threshold
}

/// Whether a thread has a visit in flight below `node`.
fn has_visits_in_flight(tree: &Tree, node: &Node) -> bool {
    tree.storage.stored_links(node).any(|(_, link)| link.has_in_flight())
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
}
