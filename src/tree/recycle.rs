//! Recycling: frees memory in a full tree, a little at a time, while the search goes on.
//!
//! Two kinds of nodes are freed. *Unreachable* nodes, which the root no longer leads to, are freed first. If there are
//! none, evaluated nodes with few visits are *collapsed*: they keep their visits and value but lose their moves, and all
//! nodes that only they lead to become unreachable. The next visit of a collapsed node evaluates it again, like a leaf.
//! So no visit count changes, and neither does the choice of moves above. [`super::sweep`] chooses the nodes, but those
//! of the best line are left out.
//!
//! # Protocol
//! Any number of threads recycle at the same time, each with its [`RecyclingShare`]. A thread collapses a node in two
//! steps:
//!
//! 1. It *condemns* the node ([`Node::condemn`]): from now on the node is as busy as a node under evaluation, and has no
//!    edges for anyone who looks. Other threads may still be using edges that they saw before.
//! 2. When each of these threads has since been outside the tree for a moment, it asks whether visits are in flight
//!    below the node. If not, no thread uses the edges, and none can come to use them. They are freed. Otherwise the node
//!    is *pardoned*: threads may enter it again.
//!
//! The tree does not know its threads. The caller of [`Tree::collapse_condemned`] ensures the moment between the steps. A
//! thread that is outside the tree must have the visits that it will go on with in flight along their paths.
//!
//! A node that is not shared has one link, so it becomes unreachable with its parent. A shared node becomes unreachable
//! when its last reference is let go ([`super::transpositions`]). Whoever lets go of it takes it into its share and frees
//! it. But while a node is condemned, only the thread that has condemned it frees anything of it: another thread only
//! marks it as *doomed* ([`Node::end_or_doom`]), and the first thread frees it when it would have collapsed or pardoned
//! it.
//!
//! # Speed
//! Almost every node, link or entry of the table that is freed must be loaded from memory first, which takes much longer
//! than the work on it. So nodes are freed in groups, one step at a time, and each step begins to load what the next one
//! needs.

use super::Tree;
use super::node::Node;
use super::node_id::NodeId;
use super::recycler::RecyclingShare;
use super::status::Status;

/// The number of nodes in a group.
const GROUP: usize = 32;
/// The number of nodes that a thread condemns at a time, and the part of the arena that those of all threads may be. They
/// are few, because visits avoid condemned nodes.
const MOST_CONDEMNED: u64 = 4_096;
const PART_CONDEMNED: u64 = 64;

/// A node whose edges are being freed.
struct Freed<'tree> {
    id: NodeId,
    node: &'tree Node,
    edges: usize,
}

impl Tree {
    /// Whether unreachable nodes are known that no thread has taken.
    pub fn has_unreachable(&self) -> bool {
        self.recycler.has_unreachable()
    }

    /// Frees up to about `most_nodes` unreachable nodes with their priors and links. Returns the number of freed nodes.
    pub fn free_unreachable(&self, share: &mut RecyclingShare, most_nodes: usize) -> usize {
        let guard = self.recycler.free_edges();
        let mut count = 0;
        while count < most_nodes && (!share.unreachable.is_empty() || self.recycler.take_unreachable(share)) {
            let left = share.unreachable.len().saturating_sub(GROUP);
            let ids: Vec<NodeId> = share.unreachable.drain(left..).collect();
            count += ids.len();
            ids.iter().for_each(|&id| self.node(id).load_ahead());
            let ended = ids.iter().filter_map(|&id| {
                let (node, edges) = (self.node(id), self.node(id).end_or_doom()?.stored_edge_count());
                Some(Freed { id, node, edges })
            });
            let ended: Vec<Freed<'_>> = ended.collect();
            self.free_edges(&ended, share);
            ended.iter().for_each(|freed| share.freed.keep_node(freed.id));
        }
        drop(guard);
        self.recycler.give_back_unreachable(share);
        share.freed.give_back(&self.storage);
        count
    }

    /// Goes on with the sweep over at most `most_entries` entries of the arena, each at most once, and condemns nodes with
    /// few visits. `sharers` threads may do so at the same time. Returns the number of entries that it has passed. It
    /// stops early if enough nodes are condemned.
    pub fn condemn(&self, share: &mut RecyclingShare, most_entries: u64, sharers: usize) -> u64 {
        let reserved = self.reserved_nodes();
        let most_condemned = (reserved / PART_CONDEMNED / sharers as u64).clamp(1, MOST_CONDEMNED) as usize;
        let most_entries = most_entries.min(reserved);
        let mut best_line: Vec<u32> = self.best_line().map(NodeId::raw).collect();
        best_line.sort_unstable();
        let mut passed = 0;
        while passed < most_entries && share.condemned.len() < most_condemned {
            let swath = self.recycler.sweep().next(self, most_entries - passed);
            // A sweep over an arena without entries would never end.
            passed += (swath.nodes.len() as u64).max(1);
            for (raw, node) in swath.of_little_worth() {
                if let Some(id) = NodeId::from_raw(raw)
                    && best_line.binary_search(&raw).is_err()
                    && node.condemn()
                {
                    share.condemned.push(id);
                    if share.condemned.len() >= most_condemned {
                        passed -= u64::from(swath.indices.end - (raw + 1));
                        self.recycler.sweep().give_back(&swath, raw + 1);
                        break;
                    }
                }
            }
        }
        passed
    }

    /// Collapses the condemned nodes below which no visit is in flight, and pardons the others. Each thread that used the
    /// tree when the nodes were condemned must have been outside of it since. Returns the number of collapsed nodes.
    pub fn collapse_condemned(&self, share: &mut RecyclingShare) -> usize {
        let _right = self.recycler.free_edges();
        let condemned = std::mem::take(&mut share.condemned);
        let mut count = 0;
        for ids in condemned.chunks(GROUP) {
            ids.iter().for_each(|&id| self.node(id).load_ahead());
            let of_id = |&id: &NodeId| {
                let node = self.node(id);
                Freed { id, node, edges: node.status().stored_edge_count() }
            };
            let mut group: Vec<Freed<'_>> = ids.iter().map(of_id).collect();
            let mut has_in_flight = [false; GROUP];
            let edges = group.iter().map(|freed| (freed.node, freed.edges));
            self.storage.read_together(edges, |place, segment| {
                has_in_flight[place] |= segment.links().any(|link| link.has_in_flight());
            });
            let mut in_flight = has_in_flight.iter();
            group.retain(|freed| !(in_flight.next() == Some(&true) && freed.node.pardon()));
            self.free_edges(&group, share);
            for Freed { id, node, .. } in &group {
                if !node.collapse() {
                    self.storage.unmake_node(*id, &mut share.freed);
                }
            }
            count += group.len();
        }
        share.condemned = condemned;
        share.condemned.clear();
        // The share's worker may be away for long.
        self.recycler.give_back_unreachable(share);
        share.freed.give_back(&self.storage);
        count
    }

    /// Pardons all condemned nodes of a share, except the doomed ones, which it frees.
    pub fn pardon_condemned(&self, share: &mut RecyclingShare) {
        while let Some(id) = share.condemned.pop() {
            let node = self.node(id);
            if !node.pardon() {
                self.free_edges(&[Freed { id, node, edges: node.status().stored_edge_count() }], share);
                self.storage.unmake_node(id, &mut share.freed);
            }
        }
        self.recycler.give_back_unreachable(share);
        share.freed.give_back(&self.storage);
    }

    /// The nodes of the line from the root along the most visited moves.
    fn best_line(&self) -> impl Iterator<Item = NodeId> + '_ {
        std::iter::successors(Some(self.root()), |&id| {
            let links = self.links(self.node(id)).filter(|(_, link)| link.visits() > 0);
            links.max_by_key(|(_, link)| link.visits()).and_then(|(_, link)| link.child())
        })
    }

    /// Frees the priors and links of nodes that no other thread uses. Children that become unreachable go into `share`.
    fn free_edges(&self, nodes: &[Freed<'_>], share: &mut RecyclingShare) {
        let RecyclingShare { unreachable, freed, .. } = share;
        let mut children = Vec::new();
        for Freed { node, edges, .. } in nodes.iter().filter(|freed| freed.edges > 0) {
            freed.keep_run(node.priors(), edges.div_ceil(4) as u32);
        }
        self.storage.read_together(nodes.iter().map(|freed| (freed.node, freed.edges)), |_, segment| {
            for child in segment.links().filter_map(|link| link.child()) {
                self.node(child).load_ahead();
                children.push(child);
            }
            let (start, words) = segment.run();
            freed.keep_run(start, words);
        });
        children.retain(|&child| {
            let is_shared = self.node(child).status().has(Status::SHARED);
            if !is_shared {
                unreachable.push(child);
            }
            is_shared
        });
        self.table.let_go_all(&mut children, &self.storage, |child| unreachable.push(child));
    }
}
