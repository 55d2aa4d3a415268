//! Rerooting: when the game goes on, another node of the tree becomes the root.
//!
//! This takes little time, because nodes that are no longer reachable stay in memory until [`super::recycle`] needs
//! their space. Only results that depend on the path must be undone: a first repetition counts as a draw only
//! while both occurrences are within the search. When the root moves past the first occurrence, the node must be
//! evaluated again, and its visits are subtracted from its ancestors, up to the first proven ancestor. That one stays
//! proven, and it and the nodes above it keep those visits. Only reversible moves lead from the root to a first
//! repetition, so there is one path to it, with no shared node on that path (see [`super`]).

use super::Tree;
use super::allocator::Allocator;
use super::links::{Link, Links};
use super::node::{Node, Totals};
use super::node_id::NodeId;
use super::status::State;
use rukh_chess::PackedMove;

/// The walk through the new tree enters nodes with at least this part of the root's visits. It then takes some
/// milliseconds.
const PARTS_WALKED: u32 = 5_000;

impl Tree {
    /// Begins a new tree of one unevaluated root in the same memory, and leaves the old nodes for recycling. No search
    /// may be running. `false` if the arena is full; then nothing changes.
    pub fn clear(&self) -> bool {
        let mut allocator = Allocator::default();
        let Some(root) = allocator.take_node(&self.storage) else { return false };
        self.node(root).begin(0, 0);
        allocator.give_back(&self.storage);
        self.table.forget();
        self.leave_root(root);
        true
    }

    /// Makes the node at the end of `path`, a line of moves from the root, the new root. Returns `false` and changes
    /// nothing if that node was never visited or has no edges. No search may be running.
    pub fn reroot(&self, path: &[PackedMove]) -> bool {
        let mut id = self.root();
        let mut link_to_root = None;
        for &m in path {
            let mut links = self.links(self.node(id));
            let Some((link, child)) = links
                .find(|(_, link)| link.edge().packed_move() == m)
                .and_then(|(_, link)| Some((link, link.child()?)))
            else {
                return false;
            };
            id = child;
            link_to_root = Some(link);
        }
        let node = self.node(id);
        // A node that is terminal by the rules has no edges, but as a root it must be evaluated.
        if node.visits() == 0 || node.edge_count() == 0 {
            return false;
        }
        self.replace_root(id, link_to_root);
        self.undo_outlived_repetitions();
        self.reopen_root();
        true
    }

    /// Makes `id` the root, and leaves the old root and what only it leads to for recycling.
    fn replace_root(&self, id: NodeId, link_to_root: Option<Link<'_>>) {
        let Some(link) = link_to_root else { return };
        // The root refers to its node. A node that is not shared can have one reference, which its link gives up.
        match self.node(id).is_shared() {
            true => self.table.hold(id),
            false => link.clear_child(),
        }
        self.leave_root(id);
    }

    /// Makes `new` the root. The old root, and what only it leads to, is left for recycling.
    fn leave_root(&self, new: NodeId) {
        let old = self.root();
        self.set_root(new);
        if !self.node(old).is_shared() || self.table.let_go(old, &self.storage) {
            self.recycler.add_unreachable(old);
        }
    }

    /// Turns a proven root back into an expanded node, because the next search is for its moves. Its own visit counts
    /// the proven value. Visits that ended at the proven node, without a visit to a child, are dropped.
    fn reopen_root(&self) {
        let root = self.node(self.root());
        let Some(outcome) = root.outcome() else { return };
        let of_link = |link: Link<'_>| {
            let child = link.child().map(|id| self.node(id).sample()).unwrap_or_default();
            Totals::of(child.for_parent(), link.visits())
        };
        let own = Totals::of(outcome.sample(), 1);
        root.set_totals(self.links(root).map(|(_, link)| of_link(link)).fold(own, Totals::plus));
        root.set_status(|status| status.without_result().with_state(State::Expanded));
    }

    /// Undoes the draws by a first repetition whose earlier occurrence is now above the root, except in the parts of a
    /// large tree with few visits. There the next visit of such a draw reopens it
    /// ([`Node::reopen_outlived_repetition`]), so that a large tree causes no pause.
    fn undo_outlived_repetitions(&self) {
        let fewest_visits = self.node(self.root()).visits() / PARTS_WALKED;
        // An explicit stack, because a long forced line would overflow the thread's stack.
        let mut stack = vec![Frame::enter(self, self.root())];
        while let Some(frame) = stack.last_mut() {
            let Some((_, link)) = frame.links.next() else {
                let Some(done) = stack.pop() else { return };
                if done.lost == Totals::default() || done.node.is_terminal() {
                    continue;
                }
                done.node.set_totals(done.node.totals().minus(done.lost));
                if let (Some(parent), Some(link)) = (stack.last_mut(), done.link) {
                    link.set_visits(link.visits().saturating_sub(done.lost.visits));
                    parent.lost = parent.lost.plus(done.lost.for_parent());
                }
                continue;
            };
            let Some(id) = link.child() else { continue };
            let child = self.node(id);
            if child.is_shared() {
                continue;
            }
            let depth = stack.len();
            if child.outcome().is_some_and(|outcome| outcome.is_outlived_repetition(depth)) {
                let lost = child.totals();
                child.set_totals(Totals::default());
                child.set_status(|status| status.without_result().with_state(State::Unevaluated));
                link.set_visits(0);
                if let Some(parent) = stack.last_mut() {
                    parent.lost = parent.lost.plus(lost.for_parent());
                }
            } else if child.edge_count() > 0 && child.visits() >= fewest_visits {
                stack.push(Frame { link: Some(link), ..Frame::enter(self, id) });
            }
        }
    }
}

/// A node on the current path of the walk.
struct Frame<'tree> {
    node: &'tree Node,
    /// The link from the parent.
    link: Option<Link<'tree>>,
    links: Links<'tree>,
    /// The visits to subtract from this node, in its view.
    lost: Totals,
}

impl<'tree> Frame<'tree> {
    fn enter(tree: &'tree Tree, id: NodeId) -> Frame<'tree> {
        let node = tree.node(id);
        Frame { node, link: None, links: tree.links(node), lost: Totals::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Edge, Outcome, Sample, TerminalKind};
    use super::*;

    const SAMPLE: Sample = Sample { wl: 0.25, d: 0.5, m: 20.0 };

    /// A tree under construction. Its moves are arbitrary numbers.
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

        /// The links along `path`.
        fn links(&self, path: &[u16]) -> Vec<Link<'_>> {
            let mut id = self.tree.root();
            let step = |&index: &u16| {
                let mut links = self.tree.links(self.tree.node(id));
                let (_, link) = links.nth(usize::from(index)).expect("the path exists");
                id = link.child().unwrap_or(id);
                link
            };
            path.iter().map(step).collect()
        }

        fn node(&self, path: &[u16]) -> &Node {
            let id = self.links(path).last().map_or(self.tree.root(), |link| link.child().expect("a child"));
            self.tree.node(id)
        }

        /// Evaluates the node at the end of `path`, with three edges.
        fn expand(&mut self, path: &[u16]) {
            self.spawn(path);
            let edges: Vec<Edge> =
                (0..3).map(|index| Edge::new(PackedMove::from_bits(index + 64), 0.3)).collect();
            let mut allocator = std::mem::take(&mut self.allocator);
            let node = self.node(path);
            assert!(node.try_claim() && self.tree.link_exactly(node, &edges, &mut allocator));
            assert!(self.tree.expand(node, [0.3; 3].into_iter(), &mut allocator));
            self.allocator = allocator;
            self.visit(path, SAMPLE, 1);
        }

        /// Makes the node at the end of `path` terminal and counts `visits` visits of it.
        fn finish(&mut self, path: &[u16], outcome: Outcome, visits: u32) {
            self.spawn(path);
            assert!(self.node(path).try_claim());
            self.node(path).publish_terminal(outcome);
            self.visit(path, outcome.sample(), visits);
        }

        fn spawn(&mut self, path: &[u16]) {
            let mut allocator = std::mem::take(&mut self.allocator);
            if let Some(&link) = self.links(path).last() {
                assert!(self.tree.child_or_new(link, None, &mut allocator).is_some());
            }
            self.allocator = allocator;
        }

        fn visit(&self, path: &[u16], mut sample: Sample, visits: u32) {
            for length in (0..=path.len()).rev() {
                let node = self.node(&path[..length]);
                sample = node.outcome().map_or(sample, Outcome::sample);
                node.finish(Totals::of(sample, visits));
                if let Some(link) = self.links(&path[..length]).last() {
                    link.finish(visits);
                }
                sample = sample.for_parent();
            }
        }

        /// Proves a node, as the search does when the node's children prove it.
        fn prove(&self, path: &[u16], outcome: Outcome) {
            let mut change = self.node(path).prove(outcome).expect("the test proves a node once");
            for length in (0..path.len()).rev() {
                change = change.for_parent();
                self.node(&path[..length]).adjust(change);
            }
        }

        fn reroots_to(&self, path: &[u16]) -> bool {
            self.tree.check_invariants().expect("the test builds a sound tree");
            let moves: Vec<PackedMove> = path.iter().map(|&bits| PackedMove::from_bits(bits + 64)).collect();
            let moved = self.tree.reroot(&moves);
            self.tree.check_invariants().expect("a sound tree");
            moved
        }
    }

    fn outcome(result: i8, plies: u16, kind: TerminalKind) -> Outcome {
        Outcome { result, plies, kind }
    }

    #[test]
    fn visits_of_an_outlived_repetition_are_subtracted_from_its_ancestors() {
        let mut builder = Builder::new();
        for path in [&[0][..], &[0, 0], &[0, 0, 0]] {
            builder.expand(path);
        }
        builder.finish(&[0, 0, 0, 1], outcome(0, 4, TerminalKind::TwoFold), 5);
        // A repetition stays while both occurrences are in the search.
        builder.finish(&[0, 0, 1], outcome(0, 2, TerminalKind::TwoFold), 1);
        assert!(builder.reroots_to(&[0]));
        let root = builder.node(&[]);
        assert_eq!((root.visits(), root.sample().wl), (4, 0.25 / 4.0));
        assert_eq!(builder.node(&[0, 0, 1]).state(), State::Unevaluated);
        assert_eq!(builder.node(&[0, 1]).outcome(), Some(outcome(0, 2, TerminalKind::TwoFold)));
    }

    #[test]
    fn the_visits_of_a_proven_node_stay_in_its_ancestors() {
        let mut builder = Builder::new();
        for path in [&[0][..], &[0, 0], &[0, 0, 0]] {
            builder.expand(path);
        }
        builder.finish(&[0, 0, 0, 1], outcome(0, 4, TerminalKind::TwoFold), 5);
        builder.finish(&[0, 0, 0, 2], outcome(-1, 0, TerminalKind::EndOfGame), 1);
        builder.prove(&[0, 0, 0], outcome(1, 1, TerminalKind::EndOfGame));
        assert!(builder.reroots_to(&[0]));
        // The root's own visit of 0.25, the reply's visit of -0.25, and seven wins two plies below.
        let root = builder.node(&[]);
        assert_eq!((root.visits(), root.sample().wl), (9, 7.0 / 9.0));
    }

    #[test]
    fn an_outlived_repetition_with_few_visits_above_it_is_reopened_by_its_next_visit() {
        let mut builder = Builder::new();
        for path in [&[0][..], &[0, 0], &[0, 0, 0]] {
            builder.expand(path);
        }
        builder.finish(&[0, 0, 0, 1], outcome(0, 4, TerminalKind::TwoFold), 5);
        builder.finish(&[0, 1], outcome(0, 0, TerminalKind::EndOfGame), 10 * PARTS_WALKED);
        assert!(builder.reroots_to(&[0]));
        // The walk has not entered the node [0, 0], whose seven visits are too few.
        let draw = builder.node(&[0, 0, 1]);
        assert_eq!(draw.outcome(), Some(outcome(0, 4, TerminalKind::TwoFold)));
        assert!(!draw.reopen_outlived_repetition(4) && draw.reopen_outlived_repetition(3));
        assert!(!draw.reopen_outlived_repetition(3));
        assert_eq!((draw.state(), draw.visits()), (State::Unevaluated, 5));
        assert!(draw.try_claim());
    }

    #[test]
    fn a_proven_root_keeps_its_subtree() {
        let mut builder = Builder::new();
        builder.expand(&[0]);
        builder.expand(&[0, 1]);
        builder.finish(&[0, 2], outcome(-1, 0, TerminalKind::EndOfGame), 4);
        builder.prove(&[0], outcome(1, 1, TerminalKind::EndOfGame));
        builder.visit(&[0], Sample { wl: 1.0, d: 0.0, m: 1.0 }, 10);
        // Nothing is kept below a node that the rules make terminal, or below a node that was never visited.
        assert!(!builder.reroots_to(&[0, 2]) && !builder.reroots_to(&[1]));
        assert!(builder.reroots_to(&[0]));
        let root = builder.node(&[]);
        assert!(!root.is_terminal() && root.edge_count() == 3);
        assert_eq!((root.visits(), root.sample().wl), (6, (1.0 - 0.25 + 4.0) / 6.0));
        assert_eq!(builder.node(&[2]).outcome(), Some(outcome(-1, 0, TerminalKind::EndOfGame)));
    }
}
