//! What must hold of every tree while no search runs, for tests and debugging.

use super::node::{Node, State};
use super::{NodeId, Tree};

/// A broken invariant, in words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("node {node:?}: {what}")]
pub struct BrokenInvariant {
    node: NodeId,
    what: String,
}

impl Tree {
    /// Checks every reachable node: nothing in flight, nothing half evaluated, edges sorted, and an expanded
    /// node's visits are one (its own evaluation) plus its children's. Returns the number of nodes with visits.
    pub fn check_invariants(&self) -> Result<usize, BrokenInvariant> {
        let mut visited_nodes = 0;
        let mut stack = vec![self.root()];
        while let Some(id) = stack.pop() {
            let node = self.node(id);
            let children: Vec<NodeId> = self.children(node).flatten().collect();
            self.check_node(id, node, &children)?;
            visited_nodes += usize::from(node.visits() > 0);
            stack.extend(children);
        }
        Ok(visited_nodes)
    }

    fn check_node(&self, id: NodeId, node: &Node, children: &[NodeId]) -> Result<(), BrokenInvariant> {
        let broken = |what: String| Err(BrokenInvariant { node: id, what });
        if node.in_flight() != 0 {
            return broken(format!("{} visits still in flight", node.in_flight()));
        }
        let visits = node.visits();
        let children_visits: u64 = children.iter().map(|&child| u64::from(self.node(child).visits())).sum();
        match node.state() {
            State::Evaluating => broken("still claimed".to_owned()),
            State::Unevaluated if visits != 0 => broken(format!("{visits} visits without an evaluation")),
            State::Unevaluated => Ok(()),
            State::Terminal if visits == 0 => broken("terminal and never visited".to_owned()),
            // A proven node goes on being visited without its children.
            State::Terminal if u64::from(visits) < children_visits => {
                broken(format!("{visits} visits, children {children_visits}"))
            }
            State::Terminal => Ok(()),
            State::Expanded if u64::from(visits) != 1 + children_visits => {
                broken(format!("{visits} visits, children {children_visits}"))
            }
            State::Expanded => {
                let priors: Vec<f32> = self.edges(node).map(|edge| edge.prior()).collect();
                if !priors.is_sorted_by(|a, b| a >= b) {
                    return broken("edges are not sorted by prior".to_owned());
                }
                let sample = node.sample();
                if !(sample.wl.abs() <= 1.001 && (-0.001..=1.001).contains(&sample.d) && sample.m >= -0.001) {
                    return broken(format!("impossible value {sample:?}"));
                }
                Ok(())
            }
        }
    }
}
