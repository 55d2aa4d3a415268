//! The node protocol under `loom`, which tries all orders of the threads' steps with a limited number of preemptions:
//! see [`rukh_base::sync`]. Each model runs the tree's own code on a tree of a few nodes.
//!
//! In each model, a thread that only reads is started last. `loom` also lets it read values that another thread has
//! already replaced, with one exception: if the other thread loads the original value before it replaces it, `loom`
//! does not try the run in which the reader still sees the original.

use super::{
    Allocator, Bounds, Edge, Link, LinkId, Node, NodeId, Outcome, RecyclingShare, Sample, State,
    TerminalKind, Totals, Tree,
};
use loom::thread::spawn;
use rukh_base::sync::atomic::{AtomicU32, Ordering, fence};
use rukh_base::sync::{Arc, check_model};
use rukh_chess::{PackedMove, Position};

/// A position with two bare kings. White's king is in the corner and has three moves.
const THREE_MOVES: &str = "7k/8/8/8/8/8/8/K7 w - - 0 1";
const PRIORS: [f32; 3] = [0.25, 0.5, 0.125];

fn expand(tree: &Tree, node: &Node, priors: &[f32]) -> bool {
    let mut allocator = Allocator::default();
    let is_expanded = tree.expand(node, priors.iter().copied(), &mut allocator);
    tree.take_back(&mut allocator);
    is_expanded
}

/// A tree whose root has `count` links.
fn tree_with_links(count: u16) -> (Arc<Tree>, Vec<LinkId>) {
    let tree = Tree::new();
    let root = tree.node(tree.root());
    let edges: Vec<Edge> = (0..count).map(|m| Edge::new(PackedMove::from_bits(m + 64), 0.25)).collect();
    let mut allocator = Allocator::default();
    assert!(root.try_claim() && tree.link_exactly(root, &edges, &mut allocator));
    assert!(tree.expand(root, edges.iter().map(|edge| edge.prior()), &mut allocator));
    tree.take_back(&mut allocator);
    root.finish(one_visit());
    let links = tree.links(root).map(|(id, _)| id).collect();
    (Arc::new(tree), links)
}

fn one_visit() -> Totals {
    Totals::of(Sample { wl: 1.0, d: 0.0, m: 2.0 }, 1)
}

fn child_of(tree: &Tree, link: LinkId, key: Option<u64>) -> NodeId {
    let mut allocator = Allocator::default();
    let child = tree.child_or_new(tree.link(link), key, &mut allocator).expect("room is left");
    tree.take_back(&mut allocator);
    child
}

#[test]
fn one_thread_claims_and_readers_of_an_expanded_node_see_its_priors() {
    check_model(3, || {
        let tree = Arc::new(Tree::new());
        let claim = |tree: Arc<Tree>| {
            spawn(move || {
                let root = tree.node(tree.root());
                let is_mine = root.try_claim();
                assert!(!is_mine || expand(&tree, root, &PRIORS));
                is_mine
            })
        };
        let claimants = [claim(tree.clone()), claim(tree.clone())];
        let reader = {
            let tree = tree.clone();
            spawn(move || {
                let root = tree.node(tree.root());
                if root.state() == State::Expanded {
                    assert_eq!(root.edge_count(), 3);
                    assert_ne!(tree.storage.words.get(root.priors()).load(Ordering::Relaxed), 0);
                }
            })
        };
        let root = tree.node(tree.root());
        let claims: Vec<bool> = claimants.map(|thread| thread.join().unwrap()).into();
        reader.join().unwrap();
        assert_ne!(claims[0], claims[1]);
        assert_eq!((root.state(), root.edge_count()), (State::Expanded, 3));
    });
}

#[test]
fn a_cancelled_claim_can_be_taken_again_by_one_thread() {
    check_model(4, || {
        let tree = Arc::new(Tree::new());
        let claim = |tree: Arc<Tree>| {
            spawn(move || {
                let root = tree.node(tree.root());
                root.try_claim() && {
                    root.cancel_claim();
                    root.try_claim()
                }
            })
        };
        let claimants = [claim(tree.clone()), claim(tree.clone())];
        let holders =
            claimants.map(|thread| thread.join().unwrap()).into_iter().filter(|&holds| holds).count();
        let root = tree.node(tree.root());
        let expected = if root.state() == State::Evaluating { 1 } else { 0 };
        assert!(holders <= 1 && holders >= expected, "{holders} hold it, {:?}", root.state());
    });
}

#[test]
fn proofs_and_bounds_do_not_overwrite_each_other() {
    check_model(4, || {
        let tree = Arc::new(Tree::new());
        let root = tree.node(tree.root());
        assert!(root.try_claim() && expand(&tree, root, &PRIORS));
        let outcome = Outcome { result: 1, plies: 5, kind: TerminalKind::EndOfGame };
        let prove = |tree: Arc<Tree>| spawn(move || tree.node(tree.root()).prove(outcome).is_some());
        let provers = [prove(tree.clone()), prove(tree.clone())];
        let narrows = {
            let tree = tree.clone();
            spawn(move || {
                let root = tree.node(tree.root());
                root.narrow_bounds(Bounds { lower: 0, upper: 1 });
                assert!(root.bounds().lower >= 0);
            })
        };
        let proofs = provers.map(|thread| thread.join().unwrap());
        narrows.join().unwrap();
        assert!(proofs[0] != proofs[1]);
        assert_eq!((root.outcome(), root.edge_count()), (Some(outcome), 3));
    });
}

#[test]
fn two_threads_that_link_a_node_find_the_same_links() {
    check_model(2, || {
        let tree = Arc::new(Tree::new());
        let root = tree.node(tree.root());
        assert!(root.try_claim() && expand(&tree, root, &PRIORS));
        let link = |tree: Arc<Tree>| {
            spawn(move || {
                let position = Position::from_fen(THREE_MOVES).expect("a legal position");
                let root = tree.node(tree.root());
                let mut allocator = Allocator::default();
                assert!(tree.link_all(root, &position, &mut allocator));
                let links: Vec<LinkId> = tree.links(root).map(|(id, _)| id).collect();
                tree.take_back(&mut allocator);
                links
            })
        };
        let threads = [link(tree.clone()), link(tree.clone())];
        let links = threads.map(|thread| thread.join().unwrap());
        assert_eq!((links[0].len(), &links[0]), (3, &links[1]));
        let edges: Vec<Edge> = tree.links(root).map(|(_, link)| link.edge()).collect();
        assert!(edges.is_sorted_by(|a, b| a.prior() > b.prior()), "{edges:?}");
    });
}

#[test]
fn two_threads_find_one_child() {
    for key in [None, Some(7)] {
        check_model(3, move || {
            let (tree, links) = tree_with_links(1);
            let link = links[0];
            let find = |tree: Arc<Tree>| spawn(move || child_of(&tree, link, key));
            let threads = [find(tree.clone()), find(tree.clone())];
            // If the reader finds a child, it is a complete node, which the reader may claim.
            let reader = {
                let tree = tree.clone();
                spawn(move || {
                    if let Some(child) = tree.link(link).child() {
                        let node = tree.node(child);
                        assert!(node.is_shared() == key.is_some() && node.try_claim());
                        assert!(node.is_shared() == key.is_some() && node.state() == State::Evaluating);
                    }
                })
            };
            let children = threads.map(|thread| thread.join().unwrap());
            reader.join().unwrap();
            assert_eq!((children[0], tree.link(link).child()), (children[1], Some(children[0])));
        });
    }
}

#[test]
fn transpositions_are_one_node_while_their_shard_grows() {
    // The shard has four entries and grows when three are in use.
    check_model(2, || {
        let tree = Arc::new(Tree::new());
        let find = |tree: Arc<Tree>, keys: [u64; 2]| {
            spawn(move || {
                let mut allocator = Allocator::default();
                let nodes = keys.map(|key| {
                    tree.table.find_or_make(key, &tree.storage, &mut allocator).expect("room is left")
                });
                tree.take_back(&mut allocator);
                nodes
            })
        };
        let mut allocator = Allocator::default();
        let [first, other] = [1, 4].map(|key| tree.table.find_or_make(key, &tree.storage, &mut allocator));
        tree.take_back(&mut allocator);
        let threads = [find(tree.clone(), [2, 3]), find(tree.clone(), [3, 2])];
        let [[two, three], [three_again, two_again]] = threads.map(|thread| thread.join().unwrap());
        assert_eq!((two, three), (two_again, three_again));
        assert!(
            two != three && ![first, other].contains(&Some(two)) && ![first, other].contains(&Some(three))
        );
        assert_eq!(
            [1, 4].map(|key| tree.table.find_or_make(key, &tree.storage, &mut allocator)),
            [first, other]
        );
    });
}

#[test]
fn sums_include_at_least_the_visits_that_a_reader_sees() {
    check_model(2, || {
        let tree = Arc::new(Tree::new());
        let finish = |tree: Arc<Tree>| spawn(move || tree.node(tree.root()).finish(one_visit()));
        let threads = [finish(tree.clone()), finish(tree.clone())];
        let reader = {
            let tree = tree.clone();
            spawn(move || {
                let seen = tree.node(tree.root()).totals();
                assert!(seen.wl >= i64::from(seen.visits) * one_visit().wl, "{seen:?}");
            })
        };
        let root = tree.node(tree.root());
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        reader.join().unwrap();
        assert_eq!(root.totals(), one_visit().plus(one_visit()));
    });
}

#[test]
fn new_means_and_a_finished_visit_do_not_overwrite_each_other() {
    check_model(3, || {
        let tree = Arc::new(Tree::new());
        tree.node(tree.root()).finish(one_visit());
        let finishes = {
            let tree = tree.clone();
            spawn(move || tree.node(tree.root()).finish(one_visit()))
        };
        let replaces = {
            let tree = tree.clone();
            spawn(move || replace_means(tree.node(tree.root()), (0.5, 0.25)))
        };
        finishes.join().unwrap();
        let counted = replaces.join().unwrap();
        let replaced = Totals::of(Sample { wl: 0.5, d: 0.25, m: 2.0 }, counted);
        let expected = if counted == 2 { replaced } else { replaced.plus(one_visit()) };
        assert_eq!(tree.node(tree.root()).totals(), expected);
    });
}

/// Replaces the means of a node that no other thread recomputes. Returns the number of visits that the means count for.
fn replace_means(node: &Node, means: (f32, f32)) -> u32 {
    let mut counted = 0;
    node.begin_recomputation().expect("no other thread recomputes it").replace_means(|values| {
        counted = values.visits();
        means
    });
    counted
}

#[test]
fn a_proof_outlasts_means_that_are_replaced_at_the_same_time() {
    let outcome = Outcome { result: 1, plies: 3, kind: TerminalKind::EndOfGame };
    check_model(3, move || {
        let tree = Arc::new(Tree::new());
        let root = tree.node(tree.root());
        assert!(root.try_claim() && expand(&tree, root, &PRIORS));
        root.finish(one_visit());
        let replaces = {
            let tree = tree.clone();
            spawn(move || replace_means(tree.node(tree.root()), (0.5, 0.25)))
        };
        let proves = {
            let tree = tree.clone();
            spawn(move || tree.node(tree.root()).prove(outcome).is_some())
        };
        replaces.join().unwrap();
        assert!(proves.join().unwrap());
        assert_eq!((root.mean(), root.outcome()), (outcome.sample(), Some(outcome)));
    });
}

/// Two threads each change what stands for a child and recompute the root, whose mean says which changes are in it.
#[test]
fn a_recomputed_value_contains_what_the_thread_has_changed_before() {
    check_model(3, || {
        let tree = Arc::new(Tree::new());
        tree.node(tree.root()).finish(one_visit());
        let children: Arc<[AtomicU32; 2]> = Arc::default();
        let contained = |tree: &Tree| (4.0 * tree.node(tree.root()).mean().wl) as usize;
        let work = |changed: usize| {
            let (tree, children) = (tree.clone(), children.clone());
            move || {
                children[changed].store(1, Ordering::Relaxed);
                if let Some(recomputation) = tree.node(tree.root()).begin_recomputation() {
                    let [first, second] = [0, 1].map(|index: usize| children[index].load(Ordering::Relaxed));
                    recomputation.replace_means(|_| ((first + 2 * second) as f32 / 4.0, 0.0));
                }
                assert_ne!(contained(&tree) & 1 << changed, 0, "thread {changed}");
            }
        };
        let other = spawn(work(0));
        work(1)();
        other.join().unwrap();
        assert_eq!(contained(&tree), 3);
    });
}

/// The same for two threads that find a third one at it. A plain atomic stands for the root's value, which makes the
/// model smaller.
#[test]
fn a_thread_waits_for_a_computation_that_has_begun_after_its_changes() {
    // With `LOOM_MAX_PREEMPTIONS=2` the test also fails if a thread that finds another one at it does not release its
    // changes, or does not wait for the third thread, but a run that passes takes minutes.
    check_model(1, || {
        let tree = Arc::new(Tree::new());
        let children: Arc<[AtomicU32; 2]> = Arc::default();
        let value = Arc::new(AtomicU32::new(0));
        let first = tree.node(tree.root()).begin_recomputation().expect("no other thread recomputes it yet");
        let threads = [0, 1].map(|changed: usize| {
            let (tree, children, value) = (tree.clone(), children.clone(), value.clone());
            spawn(move || {
                children[changed].store(1, Ordering::Relaxed);
                if let Some(_recomputation) = tree.node(tree.root()).begin_recomputation() {
                    let [first, second] = [0, 1].map(|index: usize| children[index].load(Ordering::Relaxed));
                    value.store(first + 2 * second, Ordering::Relaxed);
                }
                assert_ne!(value.load(Ordering::Relaxed) & 1 << changed, 0, "thread {changed}");
            })
        });
        drop(first);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(value.load(Ordering::Relaxed), 3);
    });
}

/// Finishes a visit through `link` that ends at its child.
fn finish_at(tree: &Tree, link: Link<'_>) {
    let child = tree.node(link.child().expect("the model made one"));
    child.finish(one_visit());
    link.finish(1);
    link.cancel_in_flight(1);
}

#[test]
fn a_link_never_has_more_visits_than_its_child() {
    check_model(2, || {
        let (tree, links) = tree_with_links(1);
        let link = links[0];
        // One visit from another parent.
        let child = child_of(&tree, link, Some(7));
        tree.node(child).finish(one_visit());
        let first = {
            let tree = tree.clone();
            spawn(move || {
                tree.link(link).add_in_flight(1);
                finish_at(&tree, tree.link(link));
            })
        };
        let second = {
            let tree = tree.clone();
            spawn(move || {
                let link = tree.link(link);
                link.add_in_flight(2);
                let absorbed = link.absorb(2, tree.node(child));
                link.cancel_in_flight(absorbed);
                for _ in absorbed..2 {
                    finish_at(&tree, link);
                }
            })
        };
        let reader = {
            let tree = tree.clone();
            spawn(move || {
                let visits = tree.link(link).visits();
                assert!(visits <= tree.node(child).visits());
            })
        };
        first.join().unwrap();
        second.join().unwrap();
        reader.join().unwrap();
        let (visits, of_child) = (tree.link(link).visits(), tree.node(child).visits());
        assert!(visits == 3 && visits <= of_child, "{visits} visits by the link, {of_child} of the child");
        assert_eq!(tree.link(link).in_flight(), 0);
    });
}

#[test]
fn two_threads_that_absorb_count_each_visit_once() {
    check_model(3, || {
        let (tree, links) = tree_with_links(1);
        let link = links[0];
        let child = child_of(&tree, link, Some(7));
        let absorb = |tree: Arc<Tree>| {
            spawn(move || {
                let link = tree.link(link);
                link.add_in_flight(2);
                let absorbed = link.absorb(2, tree.node(child));
                link.cancel_in_flight(2);
                absorbed
            })
        };
        let visits = {
            let tree = tree.clone();
            spawn(move || (0..2).for_each(|_| tree.node(child).finish(one_visit())))
        };
        let threads = [absorb(tree.clone()), absorb(tree.clone())];
        visits.join().unwrap();
        let absorbed: u32 = threads.map(|thread| thread.join().unwrap()).into_iter().sum();
        assert_eq!(absorbed, tree.link(link).visits());
        assert!(absorbed <= 2);
    });
}

/// [`Link::absorb`] relies on this. It loads the child's visits, then the link's visits in flight, and then the link's
/// finished visits.
#[test]
fn a_visit_that_is_no_longer_in_flight_is_counted() {
    check_model(4, || {
        let (tree, links) = tree_with_links(1);
        let link = links[0];
        let child = child_of(&tree, link, Some(7));
        let visit = {
            let tree = tree.clone();
            spawn(move || {
                tree.link(link).add_in_flight(1);
                finish_at(&tree, tree.link(link));
            })
        };
        let reader = {
            let tree = tree.clone();
            spawn(move || {
                let link = tree.link(link);
                let of_child = tree.node(child).visits();
                let in_flight = link.in_flight();
                // With the Relaxed load in `in_flight`, this fence acts as the Acquire load in `absorb`.
                fence(Ordering::Acquire);
                assert!(of_child <= in_flight + link.visits());
            })
        };
        visit.join().unwrap();
        reader.join().unwrap();
    });
}

#[test]
fn free_bytes_never_exceed_the_bytes_that_were_freed() {
    check_model(3, || {
        let tree = Arc::new(Tree::new());
        let mut allocator = Allocator::default();
        let [first, second] = [(); 2].map(|()| allocator.take_node(&tree.storage).expect("room is left"));
        let mut other = Allocator::default();
        other.keep_node(second);
        tree.node(second).begin(0, 0);
        tree.node(second).end();
        tree.node(first).end();
        allocator.keep_node(first);
        tree.take_back(&mut allocator);
        let free_node = size_of::<Node>() as u64;
        assert_eq!(tree.storage.free.free_bytes(), free_node);
        let freeing = {
            let tree = tree.clone();
            spawn(move || tree.take_back(&mut other))
        };
        let taking = {
            let tree = tree.clone();
            spawn(move || {
                let mut allocator = Allocator::default();
                assert!(allocator.take_node(&tree.storage).is_some());
                let free = tree.storage.free.free_bytes();
                assert!(free <= 2 * free_node, "{free} bytes");
                allocator
            })
        };
        freeing.join().unwrap();
        let mut allocator = taking.join().unwrap();
        tree.take_back(&mut allocator);
    });
}

#[test]
fn threads_that_fill_a_chunk_get_entries_of_their_own() {
    check_model(2, || {
        let tree = Arc::new(Tree::new());
        // This uses up the two blocks of the first chunk, so both threads need the second chunk.
        let mut allocator = Allocator::default();
        for _ in 0..4 {
            assert!(allocator.take_node(&tree.storage).is_some());
        }
        let take = |tree: Arc<Tree>| {
            spawn(move || {
                let mut allocator = Allocator::default();
                let id = allocator.take_node(&tree.storage).expect("room is left");
                tree.node(id).begin(0, 0);
                id
            })
        };
        let threads = [take(tree.clone()), take(tree.clone())];
        let taken = threads.map(|thread| thread.join().unwrap());
        assert!(taken[0] != taken[1] && !taken.contains(&tree.root()));
        assert!(taken.iter().all(|&id| tree.node(id).state() == State::Unevaluated));
    });
}

#[test]
fn a_node_that_is_found_while_it_is_let_go_is_freed_once() {
    check_model(3, || {
        let tree = Arc::new(Tree::new());
        let mut allocator = Allocator::default();
        let id = tree.table.find_or_make(7, &tree.storage, &mut allocator).expect("room is left");
        tree.take_back(&mut allocator);
        let lets_go = {
            let tree = tree.clone();
            spawn(move || tree.table.let_go(id, &tree.storage).then_some(id))
        };
        let finds = {
            let tree = tree.clone();
            spawn(move || {
                let mut allocator = Allocator::default();
                let found = tree.table.find_or_make(7, &tree.storage, &mut allocator).expect("room is left");
                tree.take_back(&mut allocator);
                (found, tree.table.let_go(found, &tree.storage).then_some(found))
            })
        };
        let first = lets_go.join().unwrap();
        let (found, second) = finds.join().unwrap();
        // The second thread has found the node before it was removed, or has made another one.
        match found == id {
            true => assert!(first.is_some() != second.is_some(), "{first:?} {second:?}"),
            false => assert_eq!((first, second), (Some(id), Some(found))),
        }
    });
}

/// A share that has condemned `id`.
fn share_that_condemns(tree: &Tree, id: NodeId) -> RecyclingShare {
    assert!(tree.node(id).condemn());
    let mut share = RecyclingShare::default();
    share.condemned.push(id);
    share
}

#[test]
fn a_node_that_one_thread_condemned_and_another_one_made_unreachable_is_freed_once() {
    check_model(2, || {
        // The root leads to a parent, its child and its grandchild. One thread collapses the parent, the other one the
        // child.
        let (tree, links) = tree_with_links(1);
        let parent = child_of(&tree, links[0], None);
        let child = child_of(&tree, link_below(&tree, parent), None);
        let grandchild = child_of(&tree, link_below(&tree, child), Some(7));
        let free_before = tree.storage.free.free_nodes();
        let shares = [parent, child].map(|id| share_that_condemns(&tree, id));
        let threads = shares.map(|mut share| {
            let tree = tree.clone();
            spawn(move || {
                tree.collapse_condemned(&mut share);
                tree.free_unreachable(&mut share, 8);
            })
        });
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(!tree.has_unreachable());
        assert_eq!(tree.node(parent).state(), State::Unevaluated);
        assert_eq!(tree.storage.free.free_nodes(), free_before + 2);
        let mut allocator = Allocator::default();
        let mut reused: Vec<NodeId> = (0..2).filter_map(|_| allocator.take_node(&tree.storage)).collect();
        reused.sort_unstable_by_key(|id| id.raw());
        assert_eq!(reused, [child, grandchild]);
    });
}

/// Expands the node `id`. Returns its only link.
fn link_below(tree: &Tree, id: NodeId) -> LinkId {
    let (node, edge) = (tree.node(id), Edge::new(PackedMove::from_bits(64), 1.0));
    let mut allocator = Allocator::default();
    assert!(node.try_claim() && tree.link_exactly(node, &[edge], &mut allocator));
    assert!(tree.expand(node, [1.0].into_iter(), &mut allocator));
    tree.take_back(&mut allocator);
    node.finish(one_visit());
    tree.links(node).map(|(id, _)| id).next().expect("the link was just made")
}
