//! The invariants of a tree while no search runs, for tests and debugging.

use super::Tree;
use super::node::Node;
use super::node_id::NodeId;
use super::status::{State, Status};
use std::collections::HashMap;

/// A message that describes a broken invariant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("node {node:?}: {what}")]
pub struct BrokenInvariant {
    node: NodeId,
    what: String,
}

/// The state of a node during the walk.
enum Walked {
    /// The node is on the current path.
    Entered,
    Done,
}

impl Tree {
    /// Checks every reachable node: no visit is in flight, no evaluation is unfinished, edges are sorted, there is no
    /// cycle, and all parents of a node are counted. An expanded node has one visit more than its links together, for its own evaluation; a node that was
    /// proven or collapsed may have more. A link has no more visits than its child, and exactly as many if the child is
    /// not shared. Returns the number of nodes with visits.
    pub fn check_invariants(&self) -> Result<usize, BrokenInvariant> {
        let mut visited_nodes = 0;
        let mut references: HashMap<NodeId, u32> = HashMap::from([(self.root(), 1)]);
        let mut walked: HashMap<NodeId, Walked> = HashMap::new();
        let mut stack = vec![self.root()];
        while let Some(&id) = stack.last() {
            let node = self.node(id);
            match walked.get(&id) {
                Some(Walked::Done) => {
                    stack.pop();
                    continue;
                }
                // All children of the node have been checked.
                Some(Walked::Entered) => {
                    walked.insert(id, Walked::Done);
                    stack.pop();
                    continue;
                }
                None => walked.insert(id, Walked::Entered),
            };
            self.check_node(id, node)?;
            visited_nodes += usize::from(node.visits() > 0);
            for child in self.links(node).filter_map(|(_, link)| link.child()) {
                *references.entry(child).or_default() += 1;
                match walked.get(&child) {
                    Some(Walked::Entered) => {
                        return Err(BrokenInvariant {
                            node: child,
                            what: "it is its own descendant".to_owned(),
                        });
                    }
                    Some(Walked::Done) => {}
                    None => stack.push(child),
                }
            }
        }
        // Unreachable nodes may hold further references.
        let too_many = references.into_iter().find(|&(id, count)| count > self.references(id));
        match too_many {
            Some((node, count)) => {
                Err(BrokenInvariant { node, what: format!("it has {count} parents, more than are counted") })
            }
            None => Ok(visited_nodes),
        }
    }

    /// The number of references that are counted: a node that is not shared can have one.
    fn references(&self, id: NodeId) -> u32 {
        if self.node(id).is_shared() { self.table.references(id) } else { 1 }
    }

    fn check_node(&self, id: NodeId, node: &Node) -> Result<(), BrokenInvariant> {
        let broken = |what: String| Err(BrokenInvariant { node: id, what });
        let mut link_visits = 0;
        for (_, link) in self.links(node) {
            if link.in_flight() != 0 {
                return broken(format!("{} visits still in flight", link.in_flight()));
            }
            let visits = link.visits();
            link_visits += u64::from(visits);
            let child = link.child().map(|child| self.node(child));
            let child_visits = child.map_or(0, Node::visits);
            if visits > child_visits || child.is_some_and(|child| !child.is_shared() && visits < child_visits)
            {
                return broken(format!("a link has {visits} visits, but its child has {child_visits}"));
            }
            if child.is_some_and(|child| !child.status().has(Status::IN_USE)) {
                return broken("it has a link to a freed node".to_owned());
            }
        }
        let visits = u64::from(node.visits());
        let is_collapsed = node.status().has(Status::COLLAPSED);
        match node.state() {
            State::Evaluating => broken("still claimed".to_owned()),
            State::Unevaluated if visits != 0 && !is_collapsed => {
                broken(format!("{visits} visits without an evaluation"))
            }
            State::Unevaluated => Ok(()),
            State::Terminal if visits == 0 => broken("it is terminal but was never visited".to_owned()),
            // A proven node can be visited without its children, so its links may have fewer visits.
            State::Terminal if visits < link_visits => {
                broken(format!("{visits} visits, but its links have {link_visits}"))
            }
            State::Terminal => Ok(()),
            State::Expanded if visits != 1 + link_visits && !(is_collapsed && visits > link_visits) => {
                broken(format!("{visits} visits, but its links have {link_visits}"))
            }
            State::Expanded => {
                let priors: Vec<f32> = self.links(node).map(|(_, link)| link.edge().prior()).collect();
                if !priors.is_sorted_by(|a, b| a >= b) {
                    return broken("its links are not sorted by prior".to_owned());
                }
                let sample = node.sample();
                if !(sample.wl.abs() <= 1.001 && (-0.001..=1.001).contains(&sample.d) && sample.m >= -0.01) {
                    return broken(format!("impossible value {sample:?}"));
                }
                Ok(())
            }
        }
    }
}
