//! The decorator that plays on after a fault, with devices that fail or hang at the test's request.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rukh_backend::synthetic::{DeviceOptions, RandomBackend, SimulatedDevice};
use rukh_backend::wrap::{RecoveringBackend, RecoveryPlan};
use rukh_backend::{Added, Attributes, Backend, BackendError, Batch, EvalRequest, Evaluations, Ticket};
use rukh_chess::{Position, PositionHistory};
use rukh_options::Options;
use rukh_search::stop::{ChainStopper, PatienceStopper, VisitsStopper};
use rukh_search::{BestMove, Responder, Search, SearchParams, SearchSetup, ThinkingInfo};
use rukh_tree::Tree;

/// Random evaluations in batches of 16, each of which takes `delay`.
fn random(delay: Duration) -> SimulatedDevice {
    let random = Arc::new(RandomBackend::default());
    SimulatedDevice::new(random, DeviceOptions { delay, batch: 16, ..DeviceOptions::default() })
}

/// An evaluator that fails after some batches.
struct Failing {
    inner: SimulatedDevice,
    attributes: Attributes,
    counts: Arc<Counts>,
}

struct Counts {
    /// The number of batches before the first that fails.
    left: AtomicUsize,
    /// The number of requests in the largest batch.
    largest: AtomicUsize,
}

impl Failing {
    fn after(batches: usize) -> Failing {
        let inner = random(Duration::ZERO);
        let attributes =
            Attributes { name: "card".to_owned(), runs_on_cpu: false, ..inner.attributes().clone() };
        let counts = Counts { left: AtomicUsize::new(batches), largest: AtomicUsize::new(0) };
        Failing { inner, attributes, counts: Arc::new(counts) }
    }
}

struct FailingBatch(Box<dyn Batch>, Arc<Counts>);

struct FailingTicket(Box<dyn Ticket>, bool);

impl Backend for Failing {
    fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    fn new_batch(&self) -> Box<dyn Batch> {
        Box::new(FailingBatch(self.inner.new_batch(), Arc::clone(&self.counts)))
    }
}

impl Batch for FailingBatch {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn add(&mut self, request: EvalRequest<'_>) -> Added {
        self.0.add(request)
    }

    fn submit(self: Box<Self>) -> Box<dyn Ticket> {
        let FailingBatch(_, counts) = &*self;
        counts.largest.fetch_max(self.0.len(), Ordering::Relaxed);
        let left = counts.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        Box::new(FailingTicket(self.0.submit(), left.is_err()))
    }
}

impl Ticket for FailingTicket {
    fn wait(self: Box<Self>) -> Result<Evaluations, BackendError> {
        match self.1 {
            true => Err(BackendError::Evaluate { name: "card".to_owned(), reason: "it broke".to_owned() }),
            false => self.0.wait(),
        }
    }
}

/// Collects messages and notes when the best move arrives.
#[derive(Default)]
struct Heard {
    messages: Mutex<Vec<String>>,
    moved: Mutex<Option<Instant>>,
}

impl Heard {
    fn messages(&self) -> Vec<String> {
        std::mem::take(&mut self.messages.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Responder for Heard {
    fn thinking(&self, _: &[ThinkingInfo]) {}

    fn best_move(&self, best: &BestMove) {
        assert!(best.best.is_some());
        *self.moved.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    fn message(&self, text: &str) {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner).push(text.to_owned());
    }
}

fn plan(heard: &Arc<Heard>, spare_works: &Arc<AtomicBool>) -> RecoveryPlan {
    let (heard, spare_works) = (Arc::clone(heard), Arc::clone(spare_works));
    RecoveryPlan {
        make_spare: Box::new(move || match spare_works.load(Ordering::Relaxed) {
            true => Ok((Arc::new(random(Duration::ZERO)) as Arc<dyn Backend>, Vec::new())),
            false => Err(BackendError::Network("the file is gone".to_owned())),
        }),
        make_device: Some(Box::new(|| Ok((Arc::new(Failing::after(1000)) as Arc<dyn Backend>, Vec::new())))),
        report: Arc::new(move |text| heard.message(text)),
        on_lost: Box::new(|| ()),
    }
}

/// Searches the start position, and returns the number of visits.
fn search(backend: &Arc<dyn Backend>, stopper: ChainStopper, heard: &Arc<Heard>) -> u64 {
    search_with(&Options::default(), backend, stopper, heard)
}

fn search_with(
    options: &Options,
    backend: &Arc<dyn Backend>,
    stopper: ChainStopper,
    heard: &Arc<Heard>,
) -> u64 {
    let history = PositionHistory::new(Position::startpos());
    let params = SearchParams::from_options(options, backend.attributes(), None);
    let setup = SearchSetup {
        params,
        ..SearchSetup::new(Arc::new(Tree::new()), Arc::clone(backend), history, Box::new(stopper))
    };
    let search =
        Search::start(setup, Arc::clone(heard) as Arc<dyn Responder>).expect("threads can be started");
    search.wait_for_move();
    search.total_nodes()
}

fn visits(count: u64) -> ChainStopper {
    let mut stopper = ChainStopper::new();
    stopper.push(VisitsStopper::new(count, false));
    stopper
}

#[test]
fn a_search_survives_the_loss_of_its_device_and_the_next_game_gets_it_back() {
    for batches in [0, 1, 10] {
        let heard = Arc::new(Heard::default());
        let works = Arc::new(AtomicBool::new(true));
        let device = Arc::new(Failing::after(batches));
        let recovering = Arc::new(RecoveringBackend::new(device, plan(&heard, &works)));
        let backend = Arc::clone(&recovering) as Arc<dyn Backend>;
        assert!(search(&backend, visits(500), &heard) >= 500);
        let expected =
            "error: evaluation failed on card: it broke; the processor takes over until the next game";
        assert_eq!(heard.messages(), [expected], "after {batches} batches");
        assert_eq!(backend.attributes().name, random(Duration::ZERO).attributes().name);
        assert!(backend.devices().are_all_lost());
        recovering.retry_lost_devices();
        assert_eq!(heard.messages(), ["card evaluates again"]);
        assert_eq!((backend.attributes().name.as_str(), backend.devices().lost), ("card", 0));
        assert!(search(&backend, visits(500), &heard) >= 500);
        assert_eq!(heard.messages(), [] as [String; 0]);
    }
}

#[test]
fn a_spare_that_cannot_be_made_ends_the_search_and_is_tried_again_in_the_next() {
    let heard = Arc::new(Heard::default());
    let works = Arc::new(AtomicBool::new(false));
    let device = Arc::new(Failing::after(3));
    let backend: Arc<dyn Backend> = Arc::new(RecoveringBackend::new(device, plan(&heard, &works)));
    search(&backend, visits(5000), &heard);
    let said = heard.messages();
    assert_eq!(said.len(), 2, "{said:?}");
    assert_eq!(said[1], "error: the file is gone");
    works.store(true, Ordering::Relaxed);
    assert!(search(&backend, visits(500), &heard) >= 500);
}

/// The spare evaluator of a processor is slow, so a batch of the size that suits the card would take it seconds.
#[test]
fn a_spare_gets_small_batches_whatever_the_user_chose_for_the_card() {
    let heard = Arc::new(Heard::default());
    let mut spare = Failing::after(usize::MAX);
    spare.attributes = Attributes {
        runs_on_cpu: true,
        recommended_batch_size: 4,
        ..random(Duration::ZERO).attributes().clone()
    };
    let spare = Arc::new(spare);
    let made = Arc::clone(&spare);
    let plan = RecoveryPlan {
        make_spare: Box::new(move || Ok((Arc::clone(&made) as Arc<dyn Backend>, Vec::new()))),
        ..plan(&heard, &Arc::new(AtomicBool::new(true)))
    };
    let backend: Arc<dyn Backend> = Arc::new(RecoveringBackend::new(Arc::new(Failing::after(3)), plan));
    let options = Options { minibatch_size: 200, ..Options::default() };
    search_with(&options, &backend, visits(2000), &heard);
    assert!(spare.counts.largest.swap(0, Ordering::Relaxed) <= 16);
    // The next search begins with the spare evaluator.
    search_with(&options, &backend, visits(2000), &heard);
    assert_eq!(spare.counts.largest.load(Ordering::Relaxed), 4);
}

/// The device answers its first batch only after two seconds. A clock of one second must not run out.
#[test]
fn a_search_without_any_evaluation_answers_before_its_clock_runs_out() {
    let backend: Arc<dyn Backend> = Arc::new(random(Duration::from_secs(2)));
    let heard = Arc::new(Heard::default());
    let mut stopper = visits(500);
    stopper.push(PatienceStopper::new(Duration::from_millis(500), None));
    let start = Instant::now();
    search(&backend, stopper, &heard);
    let moved = heard.moved.lock().unwrap_or_else(PoisonError::into_inner).expect("there was a move");
    let elapsed = moved.duration_since(start);
    assert!((Duration::from_millis(400)..Duration::from_millis(1900)).contains(&elapsed), "{elapsed:?}");
}

/// A processor whose first evaluation is late gets more time than a device, but not more than the clock has.
#[test]
fn a_search_on_a_busy_processor_answers_at_the_last_moment() {
    let mut processor = Failing::after(usize::MAX);
    processor.inner = random(Duration::from_secs(2));
    processor.attributes.runs_on_cpu = true;
    let backend: Arc<dyn Backend> = Arc::new(processor);
    let heard = Arc::new(Heard::default());
    let mut stopper = visits(500);
    let ms = Duration::from_millis;
    stopper.push(PatienceStopper::new(ms(250), Some(ms(500))));
    let start = Instant::now();
    search(&backend, stopper, &heard);
    let moved = heard.moved.lock().unwrap_or_else(PoisonError::into_inner).expect("there was a move");
    let elapsed = moved.duration_since(start);
    assert!((ms(450)..ms(1900)).contains(&elapsed), "{elapsed:?}");
}
