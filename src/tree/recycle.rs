//! Recycling: frees memory in a full tree, in place, so that the search can go on.
//!
//! Nodes that the root no longer leads to are freed first. If that is not enough, nodes with few visits are
//! *collapsed*: they keep their visits and value but lose their moves, and all nodes that only they lead to are freed.
//! The next visit of a collapsed node evaluates it again, like a leaf. So no visit count changes, and neither does the
//! choice of moves above. A first walk over the tree adds up memory by visit count, which gives the threshold.
//!
//! Nodes of descents in flight and of the best line are not collapsed.

use super::Tree;
use super::allocator::Freeing;
use super::links::LINK_WORDS;
use super::node::Node;
use super::node_id::NodeId;
use super::status::{State, Status};

/// The number of classes of visit counts: four for each doubling.
const CLASSES: usize = 4 * 32;

/// The outcome of recycling.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Recycled {
    /// The number of nodes that were freed.
    pub freed_nodes: usize,
    /// The number of nodes that are left.
    pub kept_nodes: usize,
    /// Nodes with fewer visits than this were collapsed; 0 if none were.
    pub fewest_visits: u32,
}

/// A set of nodes: one bit for each entry of the arena.
struct Marks(Vec<u64>);

impl Marks {
    fn new(tree: &Tree) -> Marks {
        Marks(vec![0; tree.storage.nodes.reserved() as usize / 64 + 1])
    }

    fn has(&self, id: NodeId) -> bool {
        self.0.get(id.raw() as usize / 64).is_some_and(|word| word >> (id.raw() % 64) & 1 != 0)
    }

    /// Adds a node. Returns whether the node is new in the set.
    fn insert(&mut self, id: NodeId) -> bool {
        let Some(word) = self.0.get_mut(id.raw() as usize / 64) else { return false };
        let bit = 1 << (id.raw() % 64);
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }
}

impl Tree {
    /// Shrinks the tree to about `target_bytes`. The nodes in `in_flight` are not collapsed. For each node this set
    /// must also contain the whole path to it. No other thread may use the tree meanwhile, except to read the root and
    /// its children.
    pub fn recycle(&self, target_bytes: u64, in_flight: impl Iterator<Item = NodeId>) -> Recycled {
        let mut pinned = Marks::new(self);
        for id in in_flight.chain(self.best_line()) {
            pinned.insert(id);
        }
        let fewest_visits = self.fewest_visits_worth_keeping(target_bytes);
        let mut freeing = self.storage.free.lock_all();
        let kept = self.collapse_below(fewest_visits, &pinned, &mut freeing);
        let mut recycled = Recycled { fewest_visits, ..Recycled::default() };
        for raw in 1..self.storage.nodes.reserved() {
            let Some(id) = u32::try_from(raw).ok().and_then(NodeId::from_raw) else { continue };
            let Some(node) = self.storage.nodes.get_made(id.raw()) else { continue };
            if kept.has(id) {
                recycled.kept_nodes += 1;
            } else if node.status().has(Status::IN_USE) {
                self.storage.free_edges(node, &mut freeing);
                freeing.free_node(&self.storage, id);
                recycled.freed_nodes += 1;
            }
        }
        drop(freeing);
        self.table.retain(|id| kept.has(id));
        self.note_recycled();
        recycled
    }

    /// The nodes of the line from the root along the most visited moves.
    fn best_line(&self) -> impl Iterator<Item = NodeId> + '_ {
        std::iter::successors(Some(self.root()), |&id| {
            let links = self.links(self.node(id)).filter(|(_, link)| link.visits() > 0);
            links.max_by_key(|(_, link)| link.visits()).and_then(|(_, link)| link.child())
        })
    }

    /// The visit count below which nodes must be collapsed so that about `target_bytes` are left. 0 means none.
    fn fewest_visits_worth_keeping(&self, target_bytes: u64) -> u32 {
        let mut bytes_by_class = [0_u64; CLASSES];
        let mut seen = Marks::new(self);
        seen.insert(self.root());
        let bytes_per_node = self.bytes_per_node();
        let mut live_bytes = bytes_per_node;
        let mut stack = vec![self.root()];
        while let Some(id) = stack.pop() {
            let node = self.node(id);
            let mut bytes = self.edge_bytes(node);
            let mut grandchildren_bytes = 0;
            for child in self.links(node).filter_map(|(_, link)| link.child()) {
                if seen.insert(child) {
                    grandchildren_bytes += bytes_per_node;
                    stack.push(child);
                }
            }
            bytes += grandchildren_bytes;
            bytes_by_class[class_of(node.visits())] += bytes;
            live_bytes += bytes;
        }
        let mut class = 0;
        while live_bytes > target_bytes && class + 1 < CLASSES {
            live_bytes -= bytes_by_class[class];
            class += 1;
        }
        least_visits_of(class)
    }

    /// The size of a node's priors and links, in bytes.
    fn edge_bytes(&self, node: &Node) -> u64 {
        let count = node.edge_count();
        let links = self.links(node).count();
        4 * (count.div_ceil(4) + LINK_WORDS * links) as u64
    }

    /// Collapses nodes with fewer than `fewest_visits`. Returns the nodes that the root still leads to.
    fn collapse_below(&self, fewest_visits: u32, pinned: &Marks, freeing: &mut Freeing<'_>) -> Marks {
        let mut kept = Marks::new(self);
        kept.insert(self.root());
        let mut stack = vec![self.root()];
        while let Some(id) = stack.pop() {
            let node = self.node(id);
            if node.visits() < fewest_visits && node.edge_count() > 0 && !pinned.has(id) {
                self.storage.free_edges(node, freeing);
                node.set_status(|status| {
                    let status = status.with_edge_count(0);
                    // A proven result stays valid without the proof.
                    match status.state() {
                        State::Terminal => status,
                        _ => Status(status.0 | Status::COLLAPSED).with_state(State::Unevaluated),
                    }
                });
                continue;
            }
            let children = self.links(node).filter_map(|(_, link)| link.child());
            stack.extend(children.filter(|&child| kept.insert(child)));
        }
        kept
    }
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
