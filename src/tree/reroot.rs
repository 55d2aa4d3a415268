//! Keeping a subtree when the game goes on: a copy of what can still be reached, then the old tree is dropped.
//!
//! Copying leaves no holes and needs no free list, and it is the one place where path-dependent results are
//! undone: a first repetition counts as a draw only while both occurrences lie within the search. When the root
//! moves past the first of them, the node must be evaluated again, and its visits leave all its ancestors.

use super::node::{Node, State, TerminalKind, Totals};
use super::{Allocator, NodeId, Tree};
use crate::chess::PackedMove;
use std::sync::atomic::Ordering;

impl Tree {
    /// The tree below the root's moves `path`, or `None` where it was never visited. Only while no search runs.
    pub fn subtree(&self, path: &[PackedMove]) -> Option<Tree> {
        let mut id = self.root();
        for &m in path {
            let node = self.node(id);
            let index = self.edges(node).position(|edge| edge.packed_move() == m)?;
            id = self.child(node, index)?;
        }
        let source = self.node(id);
        // A proven or drawn node has no edges to play: the new root must be evaluated as a root.
        if source.state() != State::Expanded || source.visits() == 0 {
            return None;
        }
        let copy = Tree::new();
        self.copy_below(id, &copy, &mut Allocator::default())?;
        Some(copy)
    }

    /// Copies the subtree of `source_root` over the root of `copy`. `None`: no room.
    fn copy_below(&self, source_root: NodeId, copy: &Tree, allocator: &mut Allocator) -> Option<()> {
        // An explicit stack: a long forced line must not overflow the thread's.
        let mut stack = vec![Frame::enter(self, source_root, copy, copy.root(), allocator)?];
        while let Some(frame) = stack.last_mut() {
            if let Some((index, child)) = frame.children.next() {
                let Some(child) = child else { continue };
                let child_node = self.node(child);
                let depth = stack.len();
                if is_outlived_two_fold(child_node, depth) {
                    let lost = child_node.totals();
                    if let Some(parent) = stack.last_mut() {
                        parent.lost = parent.lost.plus(lost.for_parent());
                    }
                    continue;
                }
                if child_node.visits() == 0 {
                    continue;
                }
                let Some(parent) = stack.last() else {
                    return Some(());
                };
                let target = copy.child_or_new(copy.node(parent.target), index, allocator)?;
                stack.push(Frame::enter(self, child, copy, target, allocator)?);
            } else if let Some(done) = stack.pop() {
                let node = copy.node(done.target);
                node.set_totals(node.totals().minus(done.lost));
                if let Some(parent) = stack.last_mut() {
                    parent.lost = parent.lost.plus(done.lost.for_parent());
                }
            }
        }
        Some(())
    }
}

/// One node of the path being copied.
struct Frame<'tree> {
    target: NodeId,
    children: std::iter::Enumerate<super::children::Children<'tree>>,
    /// Visits that must leave this node, in its view.
    lost: Totals,
}

impl<'tree> Frame<'tree> {
    fn enter(
        source_tree: &'tree Tree,
        source: NodeId,
        copy: &Tree,
        target: NodeId,
        allocator: &mut Allocator,
    ) -> Option<Frame<'tree>> {
        let node = source_tree.node(source);
        let (_, edge_count) = node.edge_range();
        let first_edge = allocator.take_words(copy, edge_count.max(1) as u32)?;
        for (word, edge) in copy.words.slice(first_edge, edge_count).iter().zip(source_tree.edges(node)) {
            word.store(edge.bits(), Ordering::Relaxed);
        }
        let target_node = copy.node(target);
        target_node.copy_state(node, first_edge);
        target_node.set_totals(node.totals());
        Some(Frame { target, children: source_tree.children(node).enumerate(), lost: Totals::default() })
    }
}

/// Whether this node counts as a draw only because of a position that now lies before the root.
fn is_outlived_two_fold(node: &Node, depth: usize) -> bool {
    node.outcome()
        .is_some_and(|outcome| outcome.kind == TerminalKind::TwoFold && depth < usize::from(outcome.plies))
}
