//! Graphs: captured work that runs again at every launch.
//!
//! A graph runs in the order of the calls and, at every second launch, in the order most unlike it that its
//! dependences allow, so that a missing dependence between the streams of a capture shows.

use std::sync::atomic::{AtomicU64, Ordering};

use super::work::{Failure, Operation};

/// A piece of captured work.
#[derive(Clone)]
pub(super) struct Node {
    pub(super) operation: Operation,
    /// The nodes that it comes after.
    pub(super) after: Vec<usize>,
}

/// A graph, ready to run.
pub(crate) struct Graph {
    nodes: Vec<Node>,
    launches: AtomicU64,
}

impl Graph {
    /// A graph of nodes in the order of their capture.
    pub(super) fn new(nodes: Vec<Node>) -> Self {
        Self { nodes, launches: AtomicU64::new(0) }
    }

    /// How many pieces of work it has.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Does all of it once.
    pub(crate) fn run(&self) -> Result<(), Failure> {
        if self.launches.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) {
            return self.nodes.iter().try_for_each(|node| (node.operation)());
        }
        let mut done = vec![false; self.nodes.len()];
        let is_ready = |done: &[bool], &index: &usize| {
            !done[index] && self.nodes[index].after.iter().all(|&earlier| done[earlier])
        };
        // What was captured last is done as soon as it may be.
        while let Some(index) = (0..done.len()).rev().find(|index| is_ready(&done, index)) {
            (self.nodes[index].operation)()?;
            done[index] = true;
        }
        Ok(())
    }
}
