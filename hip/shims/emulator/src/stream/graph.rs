//! Graphs. A graph is captured work, which runs again at every launch.
//!
//! A graph runs its nodes in the order of their capture. At every second launch it runs the latest nodes as early as
//! their dependences allow, so that a missing dependence between the streams of a capture shows.

use std::sync::atomic::{AtomicU64, Ordering};

use super::work::{Failure, Operation};
use crate::settings::settings;

#[derive(Clone)]
pub(super) struct Node {
    pub(super) operation: Operation,
    /// The nodes that must run before this node.
    pub(super) after: Vec<usize>,
}

pub(crate) struct Graph {
    nodes: Vec<Node>,
    launches: AtomicU64,
}

impl Graph {
    /// Makes a graph from nodes in the order of their capture.
    pub(super) fn new(nodes: Vec<Node>) -> Self {
        Self { nodes, launches: AtomicU64::new(0) }
    }

    /// The number of nodes.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Runs every node once.
    pub(crate) fn run(&self) -> Result<(), Failure> {
        if settings().is_wrong("graph") {
            // A node in the middle does not run, and nobody reports it.
            let missing = self.nodes.len() / 2;
            let nodes = self.nodes.iter().enumerate().filter(|(index, _)| *index != missing);
            return nodes.map(|(_, node)| node).try_for_each(|node| (node.operation)());
        }
        if self.launches.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) {
            return self.nodes.iter().try_for_each(|node| (node.operation)());
        }
        let mut done = vec![false; self.nodes.len()];
        let is_ready = |done: &[bool], &index: &usize| {
            !done[index] && self.nodes[index].after.iter().all(|&earlier| done[earlier])
        };
        // Among the nodes that may run now, the one that was captured last runs first.
        while let Some(index) = (0..done.len()).rev().find(|index| is_ready(&done, index)) {
            (self.nodes[index].operation)()?;
            done[index] = true;
        }
        Ok(())
    }
}
