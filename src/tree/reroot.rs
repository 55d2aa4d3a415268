//! Keeping a subtree when the game goes on: a copy of what can still be reached, then the old tree is dropped.
//!
//! A large subtree is copied by many threads, for the clock is running.
//!
//! Copying leaves no holes and needs no free list, and it is the one place where path-dependent results are
//! undone: a first repetition counts as a draw only while both occurrences lie within the search. When the root
//! moves past the first of them, the node must be evaluated again, and its visits leave all its ancestors, up to
//! one that is proven: that stays proven without them, and so do the visits that it has passed up.

use super::node::{Node, TerminalKind, Totals};
use super::{Allocator, NodeId, Tree};
use crate::chess::PackedMove;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A branch of fewer visits is not worth a hand-over between threads.
const SMALLEST_JOB: u32 = 1 << 13;
/// Copying waits for memory: more threads than this gain nothing.
const MOST_THREADS: usize = 16;

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
        let (_, edge_count) = source.edge_range();
        // A node that ended by the rules has no edges: as a root it must be evaluated.
        if source.visits() == 0 || edge_count == 0 {
            return None;
        }
        let copy = Tree::new();
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS);
        self.copy_all(id, &copy, threads, SMALLEST_JOB)?;
        copy.reopen_root();
        Some(copy)
    }

    /// Makes a proven root an expanded one, for its moves are what the next search is for. Its own visit counts
    /// what was proven; those that it had as a proven node, without its children, are gone.
    fn reopen_root(&self) {
        let root = self.node(self.root());
        let Some(outcome) = root.outcome() else { return };
        let children = self.children(root).flatten().map(|child| self.node(child).totals().for_parent());
        root.reopen(children.fold(Totals::of(outcome.sample(), 1), Totals::plus));
    }

    /// Copies the subtree of `source` over the root of `copy`: one thread copies the trunk, and as many as there are
    /// the branches of about `smallest_job` visits or more that it leaves. `None`: no room.
    fn copy_all(&self, source: NodeId, copy: &Tree, threads: usize, smallest_job: u32) -> Option<()> {
        let visits = self.node(source).visits();
        let mut allocator = Allocator::default();
        let whole = Job { source, target: copy.root(), ancestors: Vec::new() };
        if threads == 1 || visits < 4 * smallest_job {
            return self.copy_below(&whole, copy, &mut allocator, None).map(|_| ());
        }
        // Several jobs a thread, for they are of all sizes.
        let most_visits = (visits / (8 * threads as u32)).max(smallest_job);
        let mut jobs = Vec::new();
        self.copy_below(&whole, copy, &mut allocator, Some((most_visits, &mut jobs)))?;

        let next = AtomicUsize::new(0);
        let work = || -> Option<()> {
            let mut allocator = Allocator::default();
            while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                let lost = self.copy_below(job, copy, &mut allocator, None)?;
                copy.take_from_ancestors(&job.ancestors, lost);
            }
            Some(())
        };
        std::thread::scope(|scope| {
            let spawn = |_| std::thread::Builder::new().spawn_scoped(scope, work).ok();
            // Without helpers this thread does it all.
            let helpers: Vec<_> = (1..threads).filter_map(spawn).collect();
            let mine = work();
            let theirs = helpers.into_iter().all(|helper| matches!(helper.join(), Ok(Some(()))));
            mine.filter(|()| theirs)
        })
    }

    /// Takes what left a node, in its view, from those above it, up to one that is proven.
    fn take_from_ancestors(&self, ancestors: &[NodeId], mut lost: Totals) {
        for &id in ancestors.iter().rev() {
            let node = self.node(id);
            if lost == Totals::default() || node.is_terminal() {
                return;
            }
            lost = lost.for_parent();
            node.remove(lost);
        }
    }

    /// Copies a subtree, without the branches of at most so many visits that are left to `leave`. Returns what left
    /// its root's totals, in the root's view. `None`: no room.
    fn copy_below(
        &self,
        job: &Job,
        copy: &Tree,
        allocator: &mut Allocator,
        mut leave: Option<(u32, &mut Vec<Job>)>,
    ) -> Option<Totals> {
        // An explicit stack: a long forced line must not overflow the thread's.
        let mut stack = vec![Frame::enter(self, job.source, copy, job.target, allocator)?];
        while let Some(frame) = stack.last_mut() {
            if let Some((index, child)) = frame.children.next() {
                let Some(child) = child else { continue };
                let child_node = self.node(child);
                let parent = frame.target;
                if is_outlived_two_fold(child_node, job.ancestors.len() + stack.len()) {
                    if let Some(parent) = stack.last_mut() {
                        parent.lost = parent.lost.plus(child_node.totals().for_parent());
                    }
                    continue;
                }
                if child_node.visits() == 0 {
                    continue;
                }
                let target = copy.child_or_new(copy.node(parent), index, allocator)?;
                match &mut leave {
                    // Not the small ones: they cost less than their list.
                    Some((most, jobs)) if (*most / 64..=*most).contains(&child_node.visits()) => {
                        let ancestors = stack.iter().map(|frame| frame.target).collect();
                        jobs.push(Job { source: child, target, ancestors });
                    }
                    _ => stack.push(Frame::enter(self, child, copy, target, allocator)?),
                }
            } else if let Some(done) = stack.pop() {
                let node = copy.node(done.target);
                let lost = if node.is_terminal() { Totals::default() } else { done.lost };
                node.remove(lost);
                match stack.last_mut() {
                    Some(parent) => parent.lost = parent.lost.plus(lost.for_parent()),
                    None => return Some(lost),
                }
            }
        }
        None
    }
}

/// A subtree to be copied.
struct Job {
    source: NodeId,
    /// Where to, in the copy.
    target: NodeId,
    /// Of the target, the copy's root first.
    ancestors: Vec<NodeId>,
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

#[cfg(test)]
mod tests {
    use super::super::{Edge, Node, Outcome, Sample};
    use super::*;

    const SAMPLE: Sample = Sample { wl: 0.25, d: 0.5, m: 20.0 };

    /// A tree under construction. Moves are just numbers here.
    struct Builder {
        tree: Tree,
        allocator: Allocator,
    }

    impl Builder {
        fn new() -> Builder {
            let mut builder = Builder { tree: Tree::new(), allocator: Allocator::default() };
            builder.expand(&[]);
            builder
        }

        fn node(&self, path: &[u16]) -> &Node {
            let step = |id, &index: &u16| self.tree.child(self.tree.node(id), usize::from(index));
            let found = path.iter().try_fold(self.tree.root(), step);
            self.tree.node(found.expect("the path exists"))
        }

        /// Evaluates the node at the end of `path`, with three edges.
        fn expand(&mut self, path: &[u16]) {
            self.spawn(path);
            let edges: Vec<Edge> = (0..3).map(|index| Edge::new(PackedMove::from_bits(index), 0.3)).collect();
            let mut allocator = std::mem::take(&mut self.allocator);
            assert!(self.node(path).try_claim() && self.tree.expand(self.node(path), &edges, &mut allocator));
            self.allocator = allocator;
            self.visit(path, SAMPLE, 1);
        }

        /// The node at the end of `path` ends the game, `visits` times.
        fn finish(&mut self, path: &[u16], outcome: Outcome, visits: u32) {
            self.spawn(path);
            assert!(self.node(path).try_claim());
            self.node(path).publish_terminal(outcome);
            self.visit(path, outcome.sample(), visits);
        }

        fn spawn(&mut self, path: &[u16]) {
            let Some((&last, parents)) = path.split_last() else { return };
            let mut allocator = std::mem::take(&mut self.allocator);
            let child = self.tree.child_or_new(self.node(parents), usize::from(last), &mut allocator);
            assert!(child.is_some());
            self.allocator = allocator;
        }

        fn visit(&self, path: &[u16], mut sample: Sample, visits: u32) {
            for length in (0..=path.len()).rev() {
                let node = self.node(&path[..length]);
                sample = node.outcome().map_or(sample, Outcome::sample);
                node.add_in_flight(visits);
                node.finish_visits(sample, visits);
                sample = sample.for_parent();
            }
        }

        /// As the search does where the children of a node prove it.
        fn prove(&self, path: &[u16], outcome: Outcome) {
            let node = self.node(path);
            let before = node.totals();
            assert!(node.try_prove(outcome));
            let mut change =
                Totals { visits: 0, ..Totals::of(outcome.sample(), before.visits).minus(before) };
            for length in (0..=path.len()).rev() {
                self.node(&path[..length]).adjust(change);
                change = change.for_parent();
            }
        }

        fn after(&self, path: &[u16]) -> Option<Tree> {
            self.tree.check_invariants().expect("the test builds a sound tree");
            let moves: Vec<PackedMove> = path.iter().map(|&bits| PackedMove::from_bits(bits)).collect();
            let copy = self.tree.subtree(&moves)?;
            copy.check_invariants().expect("a copy is sound");
            Some(copy)
        }
    }

    fn outcome(result: i8, plies: u16, kind: TerminalKind) -> Outcome {
        Outcome { result, plies, kind }
    }

    #[test]
    fn an_outlived_repetition_leaves_its_ancestors() {
        let mut builder = Builder::new();
        for path in [&[0][..], &[0, 0], &[0, 0, 0]] {
            builder.expand(path);
        }
        builder.finish(&[0, 0, 0, 1], outcome(0, 4, TerminalKind::TwoFold), 5);
        let copy = builder.after(&[0]).expect("the move was searched");
        let root = copy.node(copy.root());
        assert_eq!((root.visits(), root.sample().wl), (3, 0.25 / 3.0));
    }

    #[test]
    fn what_a_proven_node_passed_up_stays() {
        let mut builder = Builder::new();
        for path in [&[0][..], &[0, 0], &[0, 0, 0]] {
            builder.expand(path);
        }
        builder.finish(&[0, 0, 0, 1], outcome(0, 4, TerminalKind::TwoFold), 5);
        builder.finish(&[0, 0, 0, 2], outcome(-1, 0, TerminalKind::EndOfGame), 1);
        builder.prove(&[0, 0, 0], outcome(1, 1, TerminalKind::EndOfGame));
        let copy = builder.after(&[0]).expect("the move was searched");
        // Its own visit of 0.25, the reply's -0.25, and seven wins two plies below.
        let root = copy.node(copy.root());
        assert_eq!((root.visits(), root.sample().wl), (9, 7.0 / 9.0));
    }

    #[test]
    fn a_proven_root_keeps_its_subtree() {
        let mut builder = Builder::new();
        builder.expand(&[0]);
        builder.expand(&[0, 1]);
        builder.finish(&[0, 2], outcome(-1, 0, TerminalKind::EndOfGame), 4);
        builder.prove(&[0], outcome(1, 1, TerminalKind::EndOfGame));
        builder.visit(&[0], Sample { wl: 1.0, d: 0.0, m: 1.0 }, 10);
        let copy = builder.after(&[0]).expect("the move was searched");
        let root = copy.node(copy.root());
        assert!(!root.is_terminal() && copy.edges(root).len() == 3);
        assert_eq!((root.visits(), root.sample().wl), (6, (1.0 - 0.25 + 4.0) / 6.0));
        let mate = copy.child(root, 2).map(|id| copy.node(id).outcome());
        assert_eq!(mate, Some(Some(outcome(-1, 0, TerminalKind::EndOfGame))));
        // Where the rules end the game there is nothing to keep.
        assert!(builder.after(&[0, 2]).is_none());
    }

    #[test]
    fn many_threads_copy_what_one_does() {
        // Everything to depth 6, where some nodes are repetitions of one that the new root leaves behind.
        let mut builder = Builder::new();
        let mut paths = vec![vec![]];
        while let Some(path) = paths.pop() {
            for edge in 0..3 {
                let mut longer: Vec<u16> = path.clone();
                longer.push(edge);
                match longer.len() {
                    6 => builder.finish(&longer, outcome(0, 6, TerminalKind::TwoFold), 1),
                    5 if edge == 2 => builder.finish(&longer, outcome(0, 4, TerminalKind::TwoFold), 2),
                    _ => {
                        builder.expand(&longer);
                        paths.push(longer);
                    }
                }
            }
        }
        builder.prove(&[1, 1, 1], outcome(1, 3, TerminalKind::EndOfGame));
        let source = builder.tree.child(builder.node(&[]), 1).expect("the move was searched");
        let copies = [1, 3].map(|threads| {
            let copy = Tree::new();
            builder.tree.copy_all(source, &copy, threads, 4).expect("there is room");
            copy.check_invariants().expect("a copy is sound");
            copy
        });
        let mut pairs = vec![copies.each_ref().map(Tree::root)];
        let mut compared = 0;
        while let Some([one, many]) = pairs.pop() {
            let (one, many) = (copies[0].node(one), copies[1].node(many));
            assert_eq!((one.totals(), one.state()), (many.totals(), many.state()));
            compared += 1;
            for index in 0..3 {
                let children = (copies[0].child(one, index), copies[1].child(many, index));
                match children {
                    (Some(one), Some(many)) => pairs.push([one, many]),
                    (None, None) => {}
                    other => panic!("{other:?}"),
                }
            }
        }
        assert!(compared > 50, "{compared}");
    }
}
