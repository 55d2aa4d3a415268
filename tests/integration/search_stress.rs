//! Searches under stress: commands at random moments, and backends that are slow, fail or panic. No search may hang,
//! answer late or not at all, or leave a tree that breaks a later search.

use rukh_backend::synthetic::RandomBackend;
use rukh_backend::{Added, Attributes, Backend, BackendError, Batch, EvalRequest, Evaluations, Ticket};
use rukh_chess::{Position, PositionHistory, uci_move};
use rukh_engine::Engine;
use rukh_options::Options;
use rukh_search::stop::{ChainStopper, VisitsStopper};
use rukh_search::{BestMove, GoParams, PositionCommand, Responder, StartPosition, ThinkingInfo};
use rukh_search::{Search, SearchParams, SearchSetup};
use rukh_tree::{State, Tree};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Counts best moves and keeps messages.
#[derive(Default)]
struct Counter {
    best_moves: AtomicU64,
    messages: Mutex<Vec<String>>,
}

impl Responder for Counter {
    fn thinking(&self, _infos: &[ThinkingInfo]) {}

    fn best_move(&self, _best: &BestMove) {
        self.best_moves.fetch_add(1, Ordering::Relaxed);
    }

    fn message(&self, text: &str) {
        self.messages.lock().expect("no test panics while it holds the lock").push(text.to_owned());
    }
}

fn engine(settings: &[(&str, &str)]) -> (Engine, Arc<Counter>) {
    let counter = Arc::new(Counter::default());
    let mut options = Options::default();
    for (name, value) in settings {
        options.set(name, value).expect("the test's settings are valid");
    }
    (Engine::new(options, counter.clone()), counter)
}

fn position(engine: &mut Engine, moves: &[String]) {
    let command = PositionCommand { start: StartPosition::Standard, moves: moves.to_vec() };
    engine.set_position(&command).expect("the test's moves are legal");
}

fn infinite() -> GoParams {
    GoParams { infinite: true, ..GoParams::default() }
}

fn nodes(count: u64) -> GoParams {
    GoParams { nodes: Some(count), ..GoParams::default() }
}

/// A linear congruential generator, so that a failure can be repeated.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// Sends random commands at random moments. Returns how many searches it started, each of which must have an answer.
fn send_random_commands(engine: &mut Engine, dice: &mut Dice, steps: usize) -> u64 {
    let mut moves: Vec<String> = Vec::new();
    let mut started = 0;
    let clock = GoParams { wtime: Some(40), btime: Some(40), ..GoParams::default() };
    for step in 0..steps {
        let begun = Instant::now();
        let action = dice.roll(12);
        match action {
            0 | 1 => {
                // Play a random move, or begin another game.
                let current = engine.position().clone();
                let legal = current.legal_moves();
                if legal.is_empty() || moves.len() > 60 {
                    moves.clear();
                } else {
                    let m = legal[dice.roll(legal.len() as u64) as usize];
                    moves.push(uci_move::text(m, false));
                }
                position(engine, &moves);
            }
            2 => position(engine, &moves),
            3 if dice.roll(4) == 0 => {
                engine.new_game();
                engine.finished_tree().check_invariants().expect("a sound tree");
            }
            3 | 4 => engine.stop(),
            5 => drop(engine.ponder_hit()),
            6 => {
                engine
                    .finished_tree()
                    .check_invariants()
                    .unwrap_or_else(|broken| panic!("step {step}: {broken}"));
            }
            other => {
                let go = match other {
                    7 => infinite(),
                    8 => GoParams { ponder: true, ..clock.clone() },
                    9 => clock.clone(),
                    10 => nodes(dice.roll(300)),
                    _ => GoParams { movetime: Some(dice.roll(10)), ..GoParams::default() },
                };
                engine.go(&go).expect("the search starts");
                started += 1;
            }
        }
        assert!(begun.elapsed() < Duration::from_secs(10), "step {step}: action {action} took too long");
        match dice.roll(4) {
            0 => std::thread::sleep(Duration::from_micros(dice.roll(4000))),
            1 => std::thread::yield_now(),
            _ => {}
        }
    }
    engine.finished_tree().check_invariants().expect("a sound tree");
    started
}

#[test]
fn any_commands_at_any_moment_leave_a_sound_tree_and_one_answer_each() {
    for (seed, settings) in [
        [("Backend", "trivial"), ("Threads", "8"), ("MinibatchSize", "3"), ("NNCacheSize", "5")],
        [("Backend", "random"), ("Threads", "4"), ("MinibatchSize", "1"), ("NNCacheSize", "0")],
        [("Backend", "random"), ("Threads", "6"), ("MinibatchSize", "7"), ("NNCacheSize", "1000")],
        [("Backend", "trivial"), ("Threads", "6"), ("RamLimitMb", "1"), ("NNCacheSize", "0")],
    ]
    .iter()
    .enumerate()
    {
        for delay in ["", "delay=1", "delay=15"] {
            if delay.is_empty() == (settings[0].1 == "random") {
                continue;
            }
            let (mut engine, counter) = engine(settings);
            engine.set_option("BackendOptions", delay).expect("a valid option");
            engine.set_option("VerboseMoveStats", "true").expect("a valid option");
            let mut dice = Dice(seed as u64 + 1);
            let started = send_random_commands(&mut engine, &mut dice, 250);
            assert_eq!(counter.best_moves.load(Ordering::Relaxed), started, "{settings:?} {delay}");
            let messages = counter.messages.lock().expect("no test panics while it holds the lock");
            assert!(!messages.iter().any(|message| message.contains("error")), "{messages:?}");
        }
    }
}

#[test]
fn stop_is_answered_at_once_while_an_older_batch_is_being_evaluated() {
    // Each batch takes two seconds, as with a very large network on a CPU.
    let (mut engine, counter) = engine(&[
        ("Backend", "random"),
        ("BackendOptions", "delay=2000"),
        ("Threads", "2"),
        ("MinibatchSize", "8"),
    ]);
    position(&mut engine, &[]);
    engine.go(&nodes(1)).expect("the search starts");
    engine.wait();
    let mut moves = Vec::new();
    let mut answered = ["e2e4", "e7e5", "g1f3", "b8c6", "f1b5"].map(|next| {
        engine.go(&infinite()).expect("the search starts");
        std::thread::sleep(Duration::from_millis(30));
        moves.push(next.to_owned());
        let asked = Instant::now();
        position(&mut engine, &moves);
        engine.go(&infinite()).expect("the search starts");
        engine.stop();
        engine.wait();
        asked.elapsed()
    });
    answered.sort();
    // The requirement is 50 ms; a loaded test machine gets some more, and may delay some answers for longer. None waits
    // for a batch.
    assert!(answered[2] < Duration::from_millis(150), "answered after {answered:?}");
    assert!(answered[4] < Duration::from_millis(1500), "answered after {answered:?}");
    assert_eq!(counter.best_moves.load(Ordering::Relaxed), 11);
    engine.finished_tree().check_invariants().expect("a sound tree");
}

/// How a batch fails.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    /// It ends only after the test says so.
    Held,
    Error,
    PanicInWait,
    PanicInAdd,
    MissingResults,
}

/// `random`, except that every `period`-th batch fails.
struct Flaky {
    inner: RandomBackend,
    fault: Fault,
    period: u64,
    batches: Arc<AtomicU64>,
    hold: Arc<Hold>,
}

/// What the test and the batches of [`Fault::Held`] tell each other.
#[derive(Default)]
struct Hold {
    has_batch_begun: AtomicBool,
    is_over: OnceLock<()>,
    has_batch_ended: AtomicBool,
}

struct FlakyBatch {
    inner: Box<dyn Batch>,
    fault: Option<Fault>,
    hold: Arc<Hold>,
}

struct FlakyTicket {
    inner: Box<dyn Ticket>,
    fault: Option<Fault>,
    hold: Arc<Hold>,
}

impl Backend for Flaky {
    fn attributes(&self) -> &Attributes {
        self.inner.attributes()
    }

    fn new_batch(&self) -> Box<dyn Batch> {
        let number = self.batches.fetch_add(1, Ordering::Relaxed) + 1;
        let fault = number.is_multiple_of(self.period).then_some(self.fault);
        Box::new(FlakyBatch { inner: self.inner.new_batch(), fault, hold: self.hold.clone() })
    }
}

impl Batch for FlakyBatch {
    fn len(&self) -> usize {
        self.inner.len()
    }

    fn add(&mut self, request: EvalRequest<'_>) -> Added {
        assert!(self.fault != Some(Fault::PanicInAdd), "injected panic in add");
        self.inner.add(request)
    }

    fn submit(self: Box<Self>) -> Box<dyn Ticket> {
        Box::new(FlakyTicket { inner: self.inner.submit(), fault: self.fault, hold: self.hold })
    }
}

impl Ticket for FlakyTicket {
    fn wait(self: Box<Self>) -> Result<Evaluations, BackendError> {
        let reason = "injected error".to_owned();
        match self.fault {
            Some(Fault::Held) => {
                self.hold.has_batch_begun.store(true, Ordering::Relaxed);
                self.hold.is_over.wait();
                let evaluations = self.inner.wait();
                self.hold.has_batch_ended.store(true, Ordering::Relaxed);
                evaluations
            }
            Some(Fault::Error) => Err(BackendError::Evaluate { name: "flaky".to_owned(), reason }),
            Some(Fault::PanicInWait) => panic!("injected panic in wait"),
            Some(Fault::MissingResults) => Ok(Evaluations::default()),
            Some(Fault::PanicInAdd) | None => self.inner.wait(),
        }
    }
}

/// On a busy processor the last batch of a search takes long. The next search, whose clock runs, needs one evaluation
/// before it has a move, and must not wait for that batch.
#[test]
fn a_new_root_does_not_wait_for_an_older_batch() {
    let inner = RandomBackend::default();
    let hold = Arc::new(Hold::default());
    // The first batch is the root, and the second takes long.
    let (batches, fault) = (Arc::default(), Fault::Held);
    let backend: Arc<dyn Backend> = Arc::new(Flaky { inner, fault, period: 2, batches, hold: hold.clone() });
    let counter = Arc::new(Counter::default());
    let setup = |stopper, predecessors| SearchSetup {
        params: SearchParams { threads: 1, minibatch_size: 4, ..SearchParams::default() },
        predecessors,
        ..SearchSetup::new(
            Arc::new(Tree::new()),
            backend.clone(),
            PositionHistory::new(Position::startpos()),
            stopper,
        )
    };
    let endless = Search::start(setup(Box::new(ChainStopper::new()), Vec::new()), counter.clone())
        .expect("threads can be started");
    while !hold.has_batch_begun.load(Ordering::Relaxed) {
        std::thread::yield_now();
    }
    // A search that waits for the older batch gets its move only after the ten seconds below.
    let (has_move, moved) = channel();
    let held = hold.clone();
    let holder = std::thread::spawn(move || {
        let _ = moved.recv_timeout(Duration::from_secs(10));
        // If it did not wait for the older threads, `drop(search)` would return during this sleep.
        std::thread::sleep(Duration::from_millis(100));
        held.is_over.set(())
    });
    let released = endless.release();
    let mut one_visit = ChainStopper::new();
    one_visit.push(VisitsStopper::new(1, false));
    let search = Search::start(setup(Box::new(one_visit), released.threads), counter.clone())
        .expect("threads can be started");
    search.wait_for_move();
    assert!(hold.is_over.get().is_none(), "the search has waited for the older batch");
    assert!(search.total_nodes() >= 1);
    has_move.send(()).expect("the holder waits");
    drop(search);
    assert!(hold.has_batch_ended.load(Ordering::Relaxed), "the older threads end before the search does");
    holder.join().expect("the holder does not panic").expect("it is set once");
}

/// Runs one search of 300 nodes. Returns whether its tree is sound, and the search's threads, which may still run.
fn search_once(
    tree: &Arc<Tree>,
    backend: Arc<dyn Backend>,
    threads: usize,
    counter: &Arc<Counter>,
) -> (bool, Vec<JoinHandle<()>>) {
    let mut stopper = ChainStopper::new();
    stopper.push(VisitsStopper::new(300, false));
    let history = PositionHistory::new(Position::startpos());
    let setup = SearchSetup {
        params: SearchParams { threads, minibatch_size: 4, ..SearchParams::default() },
        visit_limit: Some(300),
        ..SearchSetup::new(tree.clone(), backend, history, Box::new(stopper))
    };
    let before = counter.best_moves.load(Ordering::Relaxed);
    let begun = Instant::now();
    let search = Search::start(setup, counter.clone()).expect("threads can be started");
    search.wait_for_move();
    assert!(begun.elapsed() < Duration::from_secs(10), "the answer took {:?}", begun.elapsed());
    let released = search.release();
    assert_eq!(counter.best_moves.load(Ordering::Relaxed), before + 1);
    (released.tree_is_sound, released.threads)
}

#[test]
fn a_search_whose_backend_fails_or_panics_gives_a_move_and_hides_no_broken_tree() {
    for fault in [Fault::Error, Fault::PanicInWait, Fault::MissingResults, Fault::PanicInAdd] {
        for threads in [1, 4] {
            for period in [1, 2, 5, 13] {
                let what = format!("{fault:?}, every {period}th batch, {threads} threads");
                let counter = Arc::new(Counter::default());
                let batches = Arc::new(AtomicU64::new(0));
                let inner = || RandomBackend::default();
                let hold = Arc::default();
                let flaky: Arc<dyn Backend> =
                    Arc::new(Flaky { inner: inner(), fault, period, batches: batches.clone(), hold });
                let mut tree = Arc::new(Tree::new());
                for _ in 0..4 {
                    let (is_sound, left) = search_once(&tree, flaky.clone(), threads, &counter);
                    if is_sound {
                        tree.check_invariants().unwrap_or_else(|broken| panic!("{what}: {broken}"));
                    } else {
                        // Only a panic in the middle of a change to the tree may leave it unsound.
                        assert_eq!(fault, Fault::PanicInAdd, "{what}");
                        tree = Arc::new(Tree::new());
                    }
                    for thread in left {
                        thread.join().expect("panics are caught in the threads");
                    }
                }
                assert!(
                    !counter.messages.lock().expect("no test panics while it holds the lock").is_empty(),
                    "{what}: no message was sent"
                );
                // A search with a working backend can go on with the same tree.
                let (is_sound, _) = search_once(&tree, Arc::new(inner()), threads, &counter);
                assert!(is_sound, "{what}");
                let visits = tree.node(tree.root()).visits();
                assert!(
                    tree.node(tree.root()).state() == State::Expanded && visits >= 300,
                    "{what}: {visits}"
                );
                tree.check_invariants().unwrap_or_else(|broken| panic!("{what}: {broken}"));
            }
        }
    }
}
