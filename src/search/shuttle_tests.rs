//! Tests of whole searches with `shuttle`. Each run uses a new random schedule, in which threads may switch at every
//! atomic, lock and sleep (see [`rukh_base::sync`]). Searches are stopped at random moments, and the next search reuses the
//! tree. After each search the tree must be sound, each node's value must be the one that follows from its children, and
//! exactly one best move must have been sent.
//!
//! `RUKH_SCHEDULES` sets the number of schedules that a test runs; the test of caches and queues runs a quarter of it.
//! A failing test prints how to replay its schedule.

use super::iteration::stale_nodes;
use super::stop::VisitsStopper;
use super::{BestMove, Released, Responder, Search, SearchParams, SearchSetup, ThinkingInfo};
use rukh_backend::Backend;
use rukh_backend::multi::Child;
use rukh_backend::multi::DemuxBackend;
use rukh_backend::multi::MultiplexingBackend;
use rukh_backend::position_key::KeyRules;
use rukh_backend::synthetic::{DeviceOptions, RandomBackend, SimulatedDevice};
use rukh_backend::wrap::CachingBackend;
use rukh_base::sync::Arc;
use rukh_base::sync::thread::{JoinHandle, yield_now};
use rukh_chess::{Position, PositionHistory};
use rukh_tree::{State, Tree};
use shuttle::rand::{Rng, thread_rng};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Positions close to mates, draws, transpositions and captures. They have few moves, so that threads often meet.
const POSITIONS: [&str; 4] = [
    "7k/8/5K2/8/8/8/8/6R1 w - - 0 1",
    "8/8/8/8/8/1p1k4/8/1K6 b - - 0 1",
    "8/8/1p1p4/1P1P4/k7/8/K7/8 w - - 0 1",
    "8/8/4k3/8/3pP3/8/4K3/8 b - e3 0 1",
];

/// Records the reports of a search. Its atomics and locks are not shuttle's, so no schedule depends on them.
#[derive(Default)]
struct Heard {
    best_moves: AtomicU64,
    messages: Mutex<Vec<String>>,
}

impl Responder for Heard {
    fn thinking(&self, _: &[ThinkingInfo]) {}

    fn best_move(&self, _: &BestMove) {
        self.best_moves.fetch_add(1, Ordering::Relaxed);
    }

    fn message(&self, text: &str) {
        self.messages.lock().expect("nothing panics here").push(text.to_owned());
    }
}

fn random_backend() -> Arc<dyn Backend> {
    // Other threads may run during a delay of any length.
    let delay = Duration::from_nanos(1);
    let random = Arc::new(RandomBackend::default());
    Arc::new(SimulatedDevice::new(random, DeviceOptions { delay, batch: 4, ..DeviceOptions::default() }))
}

/// Runs one search. If it has not ended after `stops_after` switches to other threads, it is stopped.
fn search(
    tree: &Arc<Tree>,
    backend: &Arc<dyn Backend>,
    visits: u64,
    stops_after: Option<u32>,
    is_graph: bool,
    predecessors: Vec<JoinHandle<()>>,
    position: &str,
) -> Released {
    let mut rng = thread_rng();
    let heard = Arc::new(Heard::default());
    let history = PositionHistory::new(Position::from_fen(position).expect("a legal position"));
    let stopper = Box::new(VisitsStopper::new(visits, false));
    let setup = SearchSetup {
        params: SearchParams {
            threads: rng.gen_range(2..=3),
            minibatch_size: rng.gen_range(1..=3),
            graph_search: is_graph,
            ..SearchParams::default()
        },
        // The low limit is reached at once, so that the workers recycle the tree again and again.
        memory_limit: if rng.gen_bool(0.3) { 4_000 } else { u64::MAX },
        visit_limit: Some(visits),
        predecessors,
        ..SearchSetup::new(tree.clone(), backend.clone(), history, stopper)
    };
    let search = Search::start(setup, heard.clone()).expect("threads can be started");
    if let Some(switches) = stops_after {
        for _ in 0..switches {
            yield_now();
        }
        search.stop();
    }
    search.wait_for_move();
    assert_eq!(search.failure(), None);
    let state = search.state.clone();
    let released = search.release();
    assert!(released.tree_is_sound);
    assert_eq!(heard.best_moves.load(Ordering::Relaxed), 1);
    let messages = heard.messages.lock().expect("nothing panics here").clone();
    assert!(messages.iter().all(|text| text.starts_with("the tree has reached its limit")), "{messages:?}");
    tree.check_invariants().unwrap_or_else(|broken| panic!("{position}: {broken}"));
    assert_eq!(stale_nodes(&state.context), [], "{position}");
    released
}

/// Runs two or three searches on one tree. The last search is not stopped.
fn searches(backend: &Arc<dyn Backend>) {
    let mut rng = thread_rng();
    let position = POSITIONS[rng.gen_range(0..POSITIONS.len())];
    let tree = Arc::new(Tree::new());
    let is_graph = rng.gen_bool(0.5);
    let mut threads = Vec::new();
    for _ in 0..rng.gen_range(1..=2) {
        let stops_after = rng.gen_range(0..200);
        threads = search(&tree, backend, 1_000, Some(stops_after), is_graph, threads, position).threads;
    }
    let root = tree.node(tree.root());
    let visits = u64::from(root.visits()) + rng.gen_range(1..=12);
    threads = search(&tree, backend, visits, None, is_graph, threads, position).threads;
    assert_eq!(root.state(), State::Expanded);
    assert!(u64::from(root.visits()) >= visits, "{} visits, expected at least {visits}", root.visits());
    for thread in threads {
        thread.join().expect("panics are caught in the threads");
    }
    tree.check_invariants().unwrap_or_else(|broken| panic!("{position}: {broken}"));
}

fn run(scheduler: impl Scheduler + 'static, backend: fn() -> Arc<dyn Backend>) {
    let mut config = shuttle::Config::new();
    config.stack_size = 1 << 20;
    config.max_steps = shuttle::MaxSteps::FailAfter(5_000_000);
    shuttle::Runner::new(scheduler, config).run(move || searches(&backend()));
}

fn schedules() -> usize {
    std::env::var("RUKH_SCHEDULES").ok().and_then(|count| count.parse().ok()).unwrap_or(200)
}

#[test]
fn searches_are_sound_on_random_schedules() {
    run(RandomScheduler::new(schedules()), random_backend);
}

/// Runs schedules with few switches. A thread runs for long between two switches, which is rare in random schedules.
#[test]
fn searches_are_sound_on_schedules_of_few_switches() {
    run(PctScheduler::new(4, schedules()), random_backend);
}

#[test]
fn searches_share_a_cache_and_a_queue_of_backends() {
    run(RandomScheduler::new(schedules() / 4), || {
        let children = || vec![Child::new(random_backend()), Child::new(random_backend())];
        let backend: Arc<dyn Backend> = if thread_rng().gen_bool(0.5) {
            Arc::new(MultiplexingBackend::new(children()).expect("threads can be started"))
        } else {
            Arc::new(DemuxBackend::new(children(), 1).expect("threads can be started"))
        };
        Arc::new(CachingBackend::new(backend, 100, KeyRules::default()))
    });
}
