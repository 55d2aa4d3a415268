//! Tests of backup, parking and recycling with `loom`, which tries all interleavings of the threads with a limited
//! number of preemptions (see [`rukh_base::sync`]).

use super::iteration::{
    Finished, WorkerScratch, back_up, back_up_batch, fetch, make_room, recompute_if_stale, stale_nodes,
};
use super::policy::visited_children::compute_deviations;
use super::state::{Gathered, Leaf, Parking, SearchState, Step};
use super::{
    BestMove, IterationStats, Responder, SearchParams, SearchSetup, Stopper, StopperHints, ThinkingInfo,
};
use loom::cell::UnsafeCell;
use loom::thread::spawn;
use rukh_backend::synthetic::RandomBackend;
use rukh_backend::{Evaluations, Value};
use rukh_base::sync::atomic::{AtomicBool, Ordering};
use rukh_base::sync::{Arc, check_model};
use rukh_chess::{PackedMove, Position, PositionHistory};
use rukh_tree::{Allocator, Edge, LinkId, NodeId, Outcome, Sample, State, TerminalKind, Totals, Tree};

/// A responder that ignores everything, and a stopper that never stops.
struct Nobody;

impl Responder for Nobody {
    fn thinking(&self, _: &[ThinkingInfo]) {}
    fn best_move(&self, _: &BestMove) {}
    fn message(&self, _: &str) {}
}

impl Stopper for Nobody {
    fn should_stop(&mut self, _: &IterationStats, _: &mut StopperHints) -> bool {
        false
    }
}

const ONE_VISIT: Sample = Sample { wl: 0.5, d: 0.25, m: 0.0 };

/// Expands the node `id` with one visit and a link for each of `moves` moves. Returns the links.
fn expand(tree: &Tree, id: NodeId, moves: u16) -> Vec<LinkId> {
    let node = tree.node(id);
    let edges: Vec<Edge> = (0..moves).map(|m| Edge::new(PackedMove::from_bits(m + 64), 0.25)).collect();
    let mut allocator = Allocator::default();
    assert!(node.try_claim() && tree.link_exactly(node, &edges, &mut allocator));
    assert!(tree.expand(node, edges.iter().map(|edge| edge.prior()), &mut allocator));
    tree.take_back(&mut allocator);
    node.finish(Totals::of(ONE_VISIT, 1));
    tree.links(node).map(|(id, _)| id).collect()
}

fn child_of(tree: &Tree, link: LinkId) -> NodeId {
    let mut allocator = Allocator::default();
    let child = tree.child_or_new(tree.link(link), None, &mut allocator).expect("room is left");
    tree.take_back(&mut allocator);
    child
}

/// A search on `tree` without threads. Its memory limit is always exceeded.
fn search_on(tree: Arc<Tree>, threads: usize) -> Arc<SearchState> {
    let position = Position::from_fen("7k/8/8/8/8/8/8/K7 w - - 0 1").expect("a legal position");
    let backend = Arc::new(RandomBackend::default());
    let setup = SearchSetup {
        params: SearchParams { threads, ..SearchParams::default() },
        memory_limit: 0,
        ..SearchSetup::new(tree, backend, PositionHistory::new(position), Box::new(Nobody))
    };
    Arc::new(SearchState::new(setup, Arc::new(Nobody)))
}

/// A tree whose root has one move with two answers. The answers have no visits yet. Returns the tree, a search on it,
/// and the links of the move and of the answers.
fn two_plies() -> (Arc<Tree>, Arc<SearchState>, LinkId, Vec<LinkId>) {
    let tree = Arc::new(Tree::new());
    let to_parent = expand(&tree, tree.root(), 1)[0];
    let answers = expand(&tree, child_of(&tree, to_parent), 2);
    tree.link(to_parent).finish(1);
    tree.node(tree.root()).finish(Totals::of(ONE_VISIT.for_parent(), 1));
    let shared = search_on(tree.clone(), 2);
    (tree, shared, to_parent, answers)
}

/// A descent along `links` with one visit in flight.
fn descend(tree: &Tree, links: &[LinkId]) -> Vec<Step> {
    let mut steps = vec![Step { parent: None, link: None, node: tree.root(), in_flight: 1, is_stale: false }];
    for &id in links {
        let link = tree.link(id);
        link.add_in_flight(1);
        let node = link.child().expect("the test has made this child");
        let parent = Some(steps.len() as u32 - 1);
        steps.push(Step { parent, link: Some(id), node, in_flight: 1, is_stale: false });
    }
    steps
}

/// Steps 6 and 7 of a minibatch.
fn finish_batch(
    shared: &SearchState,
    scratch: &mut WorkerScratch,
    gathered: Gathered,
    evaluations: &Evaluations,
) {
    let SearchState { context, counters, control, .. } = shared;
    let counts = fetch(context, counters, control, scratch, &gathered, evaluations);
    back_up_batch(context, counters, &mut scratch.values, gathered, counts);
}

#[test]
fn one_of_two_simultaneous_terminal_leaves_proves_their_parent() {
    // No preemption is allowed, because the values that loads may return already give very many combinations. (The test
    // still fails if the fence is weakened.)
    check_model(0, || {
        let (tree, shared, to_parent, moves) = two_plies();
        let end = |last: LinkId| {
            let (tree, shared) = (tree.clone(), shared.clone());
            let child = child_of(&tree, last);
            assert!(tree.node(child).try_claim());
            let mut steps = descend(&tree, &[to_parent, last]);
            shared.counters.root_in_flight.fetch_add(1, Ordering::Relaxed);
            spawn(move || {
                let outcome = Outcome { result: 1, plies: 0, kind: TerminalKind::EndOfGame };
                tree.node(child).publish_terminal(outcome);
                let finished = Finished { sample: outcome.sample(), visits: 1, weight: 1.0, is_proof: true };
                back_up(&shared.context, &shared.counters, &mut steps, 2, finished);
            })
        };
        let threads = [end(moves[0]), end(moves[1])];
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let parent = tree.link(to_parent).child().expect("the test has made this child");
        let outcome = tree.node(parent).outcome().map(|outcome| (outcome.result, outcome.plies));
        assert_eq!(outcome, Some((-1, 1)));
        assert_eq!(tree.check_invariants().map_err(|broken| broken.to_string()), Ok(4));
    });
}

#[test]
fn visits_are_backed_up_by_two_threads_and_nothing_is_left_in_flight() {
    check_model(2, || {
        let (tree, shared, to_parent, moves) = two_plies();
        let visit = |last: LinkId| {
            let (tree, shared) = (tree.clone(), shared.clone());
            let child = child_of(&tree, last);
            spawn(move || {
                let mut steps = descend(&tree, &[to_parent, last]);
                shared.counters.root_in_flight.fetch_add(1, Ordering::Relaxed);
                assert!(tree.node(child).try_claim());
                let mut allocator = Allocator::default();
                assert!(tree.expand(tree.node(child), [1.0].into_iter(), &mut allocator));
                let finished = Finished { sample: ONE_VISIT, visits: 1, weight: 1.0, is_proof: false };
                back_up(&shared.context, &shared.counters, &mut steps, 2, finished);
            })
        };
        let threads = [visit(moves[0]), visit(moves[1])];
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(tree.check_invariants().map_err(|broken| broken.to_string()), Ok(4));
        assert_eq!(
            (shared.context.root().visits(), shared.counters.root_in_flight.load(Ordering::Relaxed)),
            (4, 0)
        );
    });
}

/// A thread backs up one visit below an answer, either as a leaf of a minibatch or out of order.
#[derive(Clone, Copy)]
enum BackedUp {
    InBatch,
    OutOfOrder,
}

#[test]
fn a_value_contains_what_two_threads_have_found_in_batches() {
    check_values_of_two_threads([BackedUp::InBatch; 2]);
}

#[test]
fn a_value_contains_what_two_threads_have_found_in_a_batch_and_out_of_order() {
    check_values_of_two_threads([BackedUp::InBatch, BackedUp::OutOfOrder]);
}

#[test]
fn a_value_contains_what_two_threads_have_found_out_of_order() {
    check_values_of_two_threads([BackedUp::OutOfOrder; 2]);
}

/// The value of each node contains what both threads have found. The nodes have own evaluations, so that their values
/// are computed from their children's.
fn check_values_of_two_threads(ways: [BackedUp; 2]) {
    // Computed here once, because the stack of a model's thread is too small for it.
    compute_deviations();
    check_model(1, move || {
        let (tree, shared, to_parent, answers) = two_plies();
        for id in [tree.root(), child_of(&tree, to_parent)] {
            tree.own_evaluation(id).set(ONE_VISIT.wl, ONE_VISIT.d);
        }
        let visit = |last: LinkId, way: BackedUp, q: f32| {
            let shared = shared.clone();
            let child = child_of(&tree, last);
            assert!(tree.node(child).try_claim());
            let mut steps = descend(&tree, &[to_parent, last]);
            shared.counters.root_in_flight.fetch_add(1, Ordering::Relaxed);
            spawn(move || {
                let SearchState { context, counters, .. } = &*shared;
                match way {
                    BackedUp::InBatch => {
                        let leaf = Leaf { step: 2, depth: 3, moves: 0..1 };
                        let gathered = Gathered {
                            waiting: vec![Some(leaf)],
                            steps,
                            moves: vec![PackedMove::from_bits(64)],
                            leaf_count: 1,
                            ..Gathered::default()
                        };
                        let mut evaluations = Evaluations::default();
                        evaluations.push(Value { q, d: 0.0, m: 0.0, e: 0.0 }, [1.0]);
                        let mut scratch = WorkerScratch::new(context.history.clone());
                        finish_batch(&shared, &mut scratch, gathered, &evaluations);
                        scratch.give_back(&context.tree);
                    }
                    BackedUp::OutOfOrder => {
                        let outcome = Outcome { result: 0, plies: 0, kind: TerminalKind::EndOfGame };
                        context.tree.node(child).publish_terminal(outcome);
                        let sample = outcome.sample();
                        let finished = Finished { sample, visits: 1, weight: 1.0, is_proof: false };
                        back_up(context, counters, &mut steps, 2, finished);
                        steps.iter_mut().rev().for_each(|step| recompute_if_stale(context, step));
                    }
                }
            })
        };
        let threads = [visit(answers[0], ways[0], 0.75), visit(answers[1], ways[1], -0.5)];
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(tree.check_invariants().map_err(|broken| broken.to_string()), Ok(4));
        assert_eq!(shared.context.root().visits(), 4);
        assert_eq!(stale_nodes(&shared.context), []);
    });
}

/// A minibatch that a test can recognise.
fn marked(mark: u32) -> Gathered {
    Gathered { out_of_order: mark, ..Gathered::default() }
}

/// Parking, and a cell in place of the tree. `loom` checks that no thread changes the cell while another thread uses
/// it.
struct SharedTree {
    parking: Parking,
    tree: UnsafeCell<u32>,
}

impl SharedTree {
    fn new(workers: usize) -> Arc<SharedTree> {
        Arc::new(SharedTree { parking: Parking::new(workers), tree: UnsafeCell::new(0) })
    }

    /// Reads the cell, which other workers may do at the same time.
    fn work(&self) {
        self.tree.with(|_| loom::thread::yield_now());
    }

    fn work_alone(&self) {
        self.tree.with_mut(|_| ());
    }
}

#[test]
fn a_parked_minibatch_is_resumed_or_cancelled_once() {
    check_model(3, || {
        let shared = SharedTree::new(2);
        let worker = |index: usize| {
            let shared = shared.clone();
            spawn(move || {
                let Some(_) = shared.parking.resume(index) else { return 0 };
                shared.work();
                shared.parking.park(index, marked(1));
                // Here a worker would wait for the evaluation.
                let Some(gathered) = shared.parking.resume(index) else { return 0 };
                shared.work();
                shared.parking.leave(index);
                gathered.out_of_order
            })
        };
        let workers = [worker(0), worker(1)];
        let cancelled = std::cell::Cell::new(0);
        assert!(shared.parking.close(|gathered| cancelled.set(cancelled.get() + gathered.out_of_order)));
        // From here on, no worker of the search uses the tree.
        shared.work_alone();
        let finished: u32 = workers.map(|thread| thread.join().unwrap()).into_iter().sum();
        // A worker that never began had no visits to finish or cancel.
        assert!(finished + cancelled.get() <= 2);
        assert!(shared.parking.close(|_| panic!("all have left")));
    });
}

#[test]
fn a_worker_that_has_departed_uses_nothing_that_it_saw_before() {
    check_model(3, || {
        let shared = SharedTree::new(2);
        let is_condemned = Arc::new(AtomicBool::new(false));
        let frees = {
            let (shared, is_condemned) = (shared.clone(), is_condemned.clone());
            spawn(move || {
                assert!(shared.parking.resume(0).is_some());
                is_condemned.store(true, Ordering::Relaxed);
                let users = shared.parking.other_users(0);
                if shared.parking.have_departed(&users) {
                    shared.work_alone();
                }
                shared.parking.leave(0);
            })
        };
        let uses = {
            let shared = shared.clone();
            spawn(move || {
                for _ in 0..2 {
                    if shared.parking.resume(1).is_some() && !is_condemned.load(Ordering::Relaxed) {
                        shared.work();
                    }
                    shared.parking.park(1, marked(7));
                }
                shared.parking.leave(1);
            })
        };
        frees.join().unwrap();
        uses.join().unwrap();
        assert!(shared.parking.close(|_| panic!("all have left")));
    });
}

#[test]
fn a_panic_leaves_no_thread_waiting() {
    check_model(3, || {
        let shared = SharedTree::new(2);
        let works = {
            let shared = shared.clone();
            spawn(move || {
                if shared.parking.resume(0).is_some() && shared.parking.pass(0).is_some() {
                    shared.parking.leave(0);
                }
            })
        };
        let panics = {
            let shared = shared.clone();
            spawn(move || {
                let is_here = shared.parking.resume(1).is_some();
                if is_here {
                    shared.work();
                }
                assert_eq!(shared.parking.leave_in_panic(1, |_| ()), is_here);
                is_here
            })
        };
        let is_sound = shared.parking.close(|_| ());
        shared.work_alone();
        works.join().unwrap();
        let was_here = panics.join().unwrap();
        assert_eq!(is_sound, !was_here);
    });
}

#[test]
fn a_minibatch_that_is_parked_during_recycling_is_backed_up() {
    // More preemptions take minutes, because making room has many steps.
    check_model(2, || {
        let tree = Arc::new(Tree::new());
        let links = expand(&tree, tree.root(), 3);
        // One child has few visits, one has many and is the best line, and one is being evaluated.
        let old = child_of(&tree, links[1]);
        expand(&tree, old, 1);
        tree.link(links[1]).finish(1);
        let best = child_of(&tree, links[2]);
        let outcome = Outcome { result: 0, plies: 0, kind: TerminalKind::EndOfGame };
        assert!(tree.node(best).try_claim());
        tree.node(best).publish_terminal(outcome);
        tree.node(best).finish(Totals::of(outcome.sample(), 2));
        tree.link(links[2]).finish(2);
        tree.node(tree.root()).finish(Totals::of(ONE_VISIT, 3));
        let child = child_of(&tree, links[0]);
        assert!(tree.node(child).try_claim());
        let shared = search_on(tree.clone(), 2);
        let steps = descend(&tree, &[links[0]]);
        shared.counters.root_in_flight.fetch_add(1, Ordering::Relaxed);
        let moves = vec![PackedMove::from_bits(64)];
        let leaf = Leaf { step: 1, depth: 2, moves: 0..1 };
        let gathered =
            Gathered { waiting: vec![Some(leaf)], steps, moves, leaf_count: 1, ..Gathered::default() };
        assert!(shared.parking.resume(1).is_some());
        shared.parking.park(1, gathered);
        let recycles = {
            let shared = shared.clone();
            spawn(move || {
                assert!(shared.parking.resume(0).is_some());
                let SearchState { context, control, parking, recycling, .. } = &*shared;
                assert!(make_room(context, control, parking, recycling, 0).is_some());
                shared.parking.leave(0);
            })
        };
        let comes_back = {
            let shared = shared.clone();
            spawn(move || {
                let mut evaluations = Evaluations::default();
                evaluations.push(Value { q: 0.5, d: 0.25, m: 0.0, e: 0.0 }, [1.0]);
                let gathered = shared.parking.resume(1).expect("the search has not released the tree");
                let mut scratch = WorkerScratch::new(shared.context.history.clone());
                finish_batch(&shared, &mut scratch, gathered, &evaluations);
                scratch.give_back(&shared.context.tree);
                shared.parking.leave(1);
            })
        };
        recycles.join().unwrap();
        comes_back.join().unwrap();
        // The visits are the same whether the tree was recycled before or after.
        assert_eq!((shared.context.root().visits(), tree.node(child).visits()), (5, 1));
        assert_eq!(tree.node(old).state(), State::Unevaluated, "a child with few visits is collapsed");
        assert_eq!(tree.check_invariants().map_err(|broken| broken.to_string()), Ok(4));
    });
}

#[test]
fn the_tree_is_released_while_workers_evaluate() {
    check_model(2, || {
        let tree = Arc::new(Tree::new());
        let link = expand(&tree, tree.root(), 1)[0];
        let child = child_of(&tree, link);
        let shared = search_on(tree.clone(), 1);
        let worker = {
            let (tree, shared) = (tree.clone(), shared.clone());
            spawn(move || {
                if shared.parking.resume(0).is_none() {
                    return;
                }
                assert!(tree.node(child).try_claim());
                shared.counters.root_in_flight.fetch_add(1, Ordering::Relaxed);
                let leaf = Leaf { step: 1, depth: 2, moves: 0..1 };
                let gathered = Gathered {
                    waiting: vec![Some(leaf)],
                    steps: descend(&tree, &[link]),
                    moves: vec![PackedMove::from_bits(64)],
                    leaf_count: 1,
                    ..Gathered::default()
                };
                shared.parking.park(0, gathered);
                let Some(gathered) = shared.parking.resume(0) else { return };
                let mut evaluations = Evaluations::default();
                evaluations.push(Value { q: 0.5, d: 0.25, m: 0.0, e: 0.0 }, [1.0]);
                let mut scratch = WorkerScratch::new(shared.context.history.clone());
                finish_batch(&shared, &mut scratch, gathered, &evaluations);
                shared.parking.leave(0);
                scratch.give_back(&shared.context.tree);
            })
        };
        assert!(shared.release_tree());
        // No node is claimed and no visit is in flight, although the worker may still run.
        let nodes = tree.check_invariants().map_err(|broken| broken.to_string());
        assert_eq!(nodes, Ok(1 + tree.node(child).visits() as usize));
        worker.join().unwrap();
    });
}
