//! Measures how busy the search keeps a device. `cargo test --test integration in_flight -- --nocapture` prints the
//! measured shares of the time.

use crate::search::{MIDDLEGAME, Session};
use rukh_backend::synthetic::{DeviceOptions, RandomBackend, SimulatedDevice};
use rukh_backend::{Added, Attributes, Backend, BackendError, Batch, EvalRequest, Evaluations, Ticket};
use rukh_chess::{Position, PositionHistory};
use rukh_options::Options;
use rukh_search::stop::{ChainStopper, TimeLimitStopper};
use rukh_search::{BestMove, GoParams, Responder, Search, SearchParams, SearchSetup, ThinkingInfo};
use rukh_tree::Tree;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Batches that the simulated device evaluates at the same time.
const SLOTS: usize = 2;
/// Shares are measured over each of three windows of this length.
const WINDOW: Duration = Duration::from_secs(1);

/// The record of the batches on a device.
#[derive(Default)]
struct Log {
    /// The moments at which the number of batches in flight changed, with the new number.
    changes: Vec<(Instant, usize)>,
    /// The number of positions submitted so far.
    positions: usize,
}

/// A simulated device, with a log of when batches begin and end.
struct Watched {
    inner: SimulatedDevice,
    log: Arc<Mutex<Log>>,
}

struct WatchedBatch {
    inner: Box<dyn Batch>,
    log: Arc<Mutex<Log>>,
}

struct WatchedTicket {
    inner: Box<dyn Ticket>,
    log: Arc<Mutex<Log>>,
}

/// Logs that there are now `change` (1 or -1) more batches in flight.
fn change(log: &Mutex<Log>, change: isize) {
    let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
    let before = log.changes.last().map_or(0, |&(_, count)| count);
    log.changes.push((Instant::now(), before.saturating_add_signed(change)));
}

impl Backend for Watched {
    fn attributes(&self) -> &Attributes {
        self.inner.attributes()
    }

    fn new_batch(&self) -> Box<dyn Batch> {
        Box::new(WatchedBatch { inner: self.inner.new_batch(), log: self.log.clone() })
    }
}

impl Batch for WatchedBatch {
    fn len(&self) -> usize {
        self.inner.len()
    }

    fn add(&mut self, request: EvalRequest<'_>) -> Added {
        self.inner.add(request)
    }

    fn submit(self: Box<Self>) -> Box<dyn Ticket> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).positions += self.inner.len();
        change(&self.log, 1);
        Box::new(WatchedTicket { inner: self.inner.submit(), log: self.log })
    }
}

impl Ticket for WatchedTicket {
    fn wait(self: Box<Self>) -> Result<Evaluations, BackendError> {
        let evaluations = self.inner.wait();
        change(&self.log, -1);
        evaluations
    }
}

impl Log {
    /// The share of the time from `start` to `end` in which at least `count` batches were in flight.
    fn share(&self, count: usize, start: Instant, end: Instant) -> f64 {
        let ends = self.changes.iter().skip(1).map(|&(at, _)| at).chain([end]);
        let busy = self.changes.iter().zip(ends).filter(|((_, in_flight), _)| *in_flight >= count);
        let seconds = busy.map(|(&(from, _), until)| {
            until.min(end).saturating_duration_since(from.max(start)).as_secs_f64()
        });
        seconds.sum::<f64>() / (end - start).as_secs_f64()
    }
}

/// Ignores everything that a search reports.
struct Silent;

impl Responder for Silent {
    fn thinking(&self, _infos: &[ThinkingInfo]) {}

    fn best_move(&self, _best: &BestMove) {}

    fn message(&self, _text: &str) {}
}

/// For each window of a search, the share of the time with at least one batch in flight, and with all slots in use.
fn shares_of_a_search() -> Vec<[f64; 2]> {
    let log = Arc::new(Mutex::new(Log::default()));
    let random = Arc::new(RandomBackend::default());
    let device = DeviceOptions {
        delay: Duration::from_millis(2),
        slots: SLOTS,
        batch: 256,
        ..DeviceOptions::default()
    };
    let backend = Watched { inner: SimulatedDevice::new(random, device), log: log.clone() };
    let params = SearchParams::from_options(&Options::default(), backend.attributes(), None);
    let threads = params.threads;
    let mut stopper = ChainStopper::new();
    stopper.push(TimeLimitStopper::new(3 * WINDOW));
    let start = Instant::now();
    let history = PositionHistory::new(Position::startpos());
    let setup = SearchSetup {
        params,
        start,
        ..SearchSetup::new(Arc::new(Tree::new()), Arc::new(backend), history, Box::new(stopper))
    };
    let search = Search::start(setup, Arc::new(Silent)).expect("threads can be started");
    search.wait_for_move();
    drop(search);
    let log = log.lock().unwrap_or_else(PoisonError::into_inner);
    let shares: Vec<[f64; 2]> = (0..3)
        .map(|window| {
            let from = start + window * WINDOW;
            [1, SLOTS].map(|count| log.share(count, from, from + WINDOW))
        })
        .collect();
    println!("{threads} threads, {SLOTS} slots, {} positions", log.positions);
    for (window, [one, all]) in shares.iter().enumerate() {
        println!("second {}: busy {:.1} %, all slots {:.1} %", window + 1, 100.0 * one, 100.0 * all);
    }
    shares
}

#[test]
fn the_search_keeps_a_device_busy() {
    // Other processes may take the processors for a while: one quiet attempt of a few is enough. On an idle machine the
    // share is above 0.97.
    let is_busy = |shares: &[[f64; 2]]| shares.iter().all(|&[one, _]| one > 0.5);
    assert!((0..3).any(|_| is_busy(&shares_of_a_search())), "the shares are printed above");
}

/// Searches with simulated cards that take 20 ms for a batch, for longer than the shortest search that gets a notice.
/// Returns the notices of each of two searches in one game.
fn notices(backend: &str, card: &str, settings: &[(&str, &str)]) -> [Vec<String>; 2] {
    let device =
        [("Backend", backend), ("BackendOptions", card), ("Threads", "0"), ("SmartPruningFactor", "0")];
    let mut session = Session::new(&[&device, settings].concat());
    [4000, 3200].map(|milliseconds| {
        session.forget();
        session.position(Some(MIDDLEGAME), "");
        session.go(GoParams { movetime: Some(milliseconds), ..GoParams::default() });
        // Visits that have passed busy children have ended, too.
        session.engine.finished_tree().check_invariants().expect("a sound tree");
        session.infos().into_iter().map(|info| info.comment).filter(|text| text.contains("waited")).collect()
    })
}

#[test]
fn a_notice_says_once_that_a_card_waits_and_what_to_change() {
    const CARD: &str = "times=16:20000/256:21000,slots=2";
    let two_cards = format!("backend=trivial,({CARD}),({CARD})");
    let silence = [const { Vec::<String>::new() }; 2];
    std::thread::scope(|scope| {
        let told = scope.spawn(|| notices("multiplexing", &two_cards, &[("Threads", "1")]));
        // Where other processes take the processors, the cards do wait and the notice is right: one attempt of three
        // without it is enough.
        let busy = scope.spawn(|| (0..3).any(|_| notices("multiplexing", &two_cards, &[]) == silence));
        let one_card = scope.spawn(|| notices("trivial", CARD, &[("Threads", "1")]));
        let told = told.join().expect("the search does not panic").concat();
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].contains("Threads 1 is too few for 2 cards; 0 means 6"), "{told:?}");
        assert!(busy.join().expect("the search does not panic"), "six threads keep two cards busy");
        assert_eq!(one_card.join().expect("the search does not panic"), silence);
    });
}
