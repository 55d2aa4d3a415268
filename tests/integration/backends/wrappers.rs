//! Backends that wrap other backends: they return the same evaluations, and failures of a wrapped backend reach the
//! caller.

use super::*;
use rukh_backend::multi::Child;
use rukh_backend::multi::DemuxBackend;
use rukh_backend::multi::MultiplexingBackend;
use rukh_backend::multi::RoundRobinBackend;
use rukh_backend::position_key::KeyRules;
use rukh_backend::synthetic::TrivialBackend;
use rukh_backend::wrap::BatchSplittingBackend;
use rukh_backend::wrap::CachingBackend;
use rukh_backend::wrap::RecordingBackend;
use rukh_backend::wrap::{CheckBackend, CheckOptions};
use rukh_net::input::encode;
use rukh_net::policy_index::index_of;
use rukh_net::{HistoryFill, InputFormat};
use std::sync::mpsc;
use std::time::Instant;

/// Each wrapper by name, around one or two backends from `make`.
fn wrapped(make: impl Fn() -> Arc<dyn Backend>) -> Vec<(&'static str, Arc<dyn Backend>)> {
    let child = || Child::new(make());
    let pair = || vec![child(), child()];
    let record_file = scratch_file(&format!("wrapped-{:?}.rec", thread::current().id()));
    let silent = Box::new(|_: &str| {});
    let every_batch = CheckOptions { frequency: 1.0, ..CheckOptions::default() };
    vec![
        ("batch split", Arc::new(BatchSplittingBackend::new(make(), 4096))),
        ("cache", Arc::new(CachingBackend::new(make(), 10_000, KeyRules::default()))),
        ("cache off", Arc::new(CachingBackend::new(make(), 0, KeyRules::default()))),
        ("check", Arc::new(CheckBackend::with_sink(make(), make(), every_batch, silent))),
        ("record", Arc::new(RecordingBackend::new(make(), &record_file).unwrap())),
        ("multiplexing", Arc::new(MultiplexingBackend::new(pair()).unwrap())),
        ("demux", Arc::new(DemuxBackend::new(pair(), 1).unwrap())),
        ("demux by threes", Arc::new(DemuxBackend::new(pair(), 3).unwrap())),
        ("roundrobin", Arc::new(RoundRobinBackend::new(child(), vec![child()]))),
    ]
}

/// Runs `work`, and fails if it takes more than ten seconds.
fn within_ten_seconds<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || sender.send(work()));
    receiver.recv_timeout(Duration::from_secs(10)).unwrap_or_else(|_| panic!("{what} hangs or has panicked"))
}

#[test]
fn every_wrapper_gives_the_answers_of_the_backend_that_it_wraps() {
    let samples = samples(100);
    let expected = evaluate(&*random(), &samples).unwrap();
    for (name, backend) in wrapped(random) {
        for size in [100, 1, 7, 0] {
            let found = evaluate(&*backend, &samples[..size]).unwrap();
            // The cache rounds priors to 12 significant bits.
            let tolerance = if name == "cache" { 1.0 / 4096.0 } else { 0.0 };
            assert_same(name, &found, &expected[..size], tolerance);
        }
    }
}

/// The search treats one device and several differently, whatever is wrapped around them.
#[test]
fn every_wrapper_tells_the_devices_that_are_in_it() {
    let two = || -> Arc<dyn Backend> {
        Arc::new(MultiplexingBackend::new(vec![Child::new(random()), Child::new(random())]).unwrap())
    };
    for (name, backend) in wrapped(two) {
        let pairs =
            if ["multiplexing", "demux", "demux by threes", "roundrobin"].contains(&name) { 2 } else { 1 };
        assert_eq!((backend.devices().total, backend.work().len()), (2 * pairs, 2 * pairs), "{name}");
    }
}

#[test]
fn batches_larger_than_a_backends_maximum_are_split() {
    let samples = samples(50);
    let small = || {
        let mut small = Faulty::slow(Duration::ZERO);
        small.attributes.maximum_batch_size = 8;
        Arc::new(small)
    };
    let inner = small();
    let split = BatchSplittingBackend::new(inner.clone(), 1024);
    let found = evaluate(&split, &samples).unwrap();
    assert_same("split", &found, &evaluate(&*random(), &samples).unwrap(), 0.0);
    assert_eq!(inner.batches.load(Ordering::Relaxed), 7);
    assert_eq!(split.attributes().maximum_batch_size, 1024);

    let two = DemuxBackend::new(vec![Child::new(small()), Child::new(small())], 1).unwrap();
    assert_eq!(two.attributes().maximum_batch_size, 16);
}

/// Backends that pass each position straight to a child take planes; the others must copy positions.
#[test]
fn several_backends_evaluate_planes_as_one_does() {
    let samples = samples(100);
    let of_planes = |name: &str, backend: &dyn Backend| {
        let mut batch = backend.new_batch();
        for sample in &samples {
            let (planes, transform) =
                encode(&sample.history, InputFormat::Classical112, HistoryFill::FenOnly);
            let side = sample.history.last().side_to_move();
            let indices: Vec<u16> = sample.moves.iter().map(|&m| index_of(m, side, transform)).collect();
            assert!(batch.add_planes(&planes, &indices), "{name}");
        }
        let evaluations = batch.submit().wait().unwrap();
        let own = |(value, priors): (Value, &[f32])| Evaluation { value, priors: priors.into() };
        evaluations.iter().map(own).collect::<Vec<_>>()
    };
    let expected = of_planes("random", &*random());
    let mut small = Faulty::slow(Duration::ZERO);
    small.attributes.maximum_batch_size = 8;
    let split: Arc<dyn Backend> = Arc::new(BatchSplittingBackend::new(Arc::new(small), 1024));
    let takes_planes = |(name, _): &(&str, _)| ["demux", "demux by threes", "roundrobin"].contains(name);
    let several = wrapped(random).into_iter().filter(takes_planes);
    for (name, backend) in several.chain([("batch split by eights", split)]) {
        assert_same(name, &of_planes(name, &*backend), &expected, 0.0);
    }
}

#[test]
fn a_batch_above_the_maximum_is_an_error() {
    let samples = samples(20);
    let mut batch = TrivialBackend::new().new_batch();
    for index in 0..1025 {
        batch.add(samples[index % 20].request());
    }
    let error = batch.submit().wait().unwrap_err().to_string();
    assert!(error.contains("1025") && error.contains("1024"), "{error}");
}

#[test]
fn failures_of_a_child_reach_the_caller_as_errors() {
    let faults = [Fault::ErrorInWait, Fault::PanicInWait, Fault::PanicInSubmit, Fault::TooFewEvaluations];
    for fault in faults {
        for (name, backend) in wrapped(|| Faulty::with(fault)) {
            // `roundrobin` hands out its children's own batches, so a panic in such a batch reaches the caller as a
            // panic. A cache around `roundrobin` turns it into an error.
            let backend: Arc<dyn Backend> = match name {
                "roundrobin" => Arc::new(CachingBackend::new(backend, 0, KeyRules::default())),
                _ => backend,
            };
            let what = format!("{fault:?} in {name}");
            let waiting = Arc::clone(&backend);
            let outcomes = within_ten_seconds(&what, move || {
                let samples = samples(12);
                let evaluate =
                    || evaluate(&*waiting, &samples).map(|_| ()).map_err(|error| error.to_string());
                thread::scope(|scope| {
                    let threads: Vec<_> = (0..3).map(|_| scope.spawn(evaluate)).collect();
                    threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
                })
            });
            for outcome in outcomes {
                let error = outcome.expect_err(&what);
                let expected = match fault {
                    Fault::TooFewEvaluations => "0 evaluations for",
                    Fault::ErrorInWait => "injected error",
                    _ => "injected panic",
                };
                assert!(error.contains("faulty") && error.contains(expected), "{what}: {error}");
            }
            within_ten_seconds("dropping a backend after errors", move || drop(backend));
        }
    }
}

#[test]
fn a_batch_that_outlives_its_backend_does_not_hang() {
    within_ten_seconds("a batch without its backend", || {
        let samples = samples(3);
        for (name, backend) in wrapped(random) {
            let mut batch = backend.new_batch();
            batch.add(samples[0].request());
            let mut other = backend.new_batch();
            other.add(samples[1].request());
            let ticket = other.submit();
            drop(backend);
            // The batch submitted before is evaluated; the one submitted afterwards may be refused.
            assert_eq!(ticket.wait().unwrap().len(), 1, "{name}");
            if let Err(error) = batch.submit().wait() {
                assert!(error.to_string().contains("ended before the batch"), "{name}: {error}");
            }
        }
    });
}

/// Submits each of `samples` as a batch of its own before it waits for the first.
fn submit_one_by_one(backend: &dyn Backend, samples: &[Sample]) {
    let submit = |sample: &Sample| {
        let mut batch = backend.new_batch();
        batch.add(sample.request());
        batch.submit()
    };
    let tickets: Vec<Box<dyn Ticket>> = samples.iter().map(submit).collect();
    for (ticket, expected) in tickets.into_iter().zip(evaluate(&*random(), samples).unwrap()) {
        let evaluations = ticket.wait().unwrap();
        assert_eq!(evaluations.get(0), (expected.value, &*expected.priors));
    }
}

#[test]
fn multiplexing_merges_small_batches() {
    let slow = Arc::new(Faulty::slow(Duration::from_millis(50)));
    let child = Child { threads: 1, maximum_batch: 6, ..Child::new(slow.clone()) };
    let pool = MultiplexingBackend::new(vec![child]).unwrap();
    submit_one_by_one(&pool, &samples(16));
    // At most six positions are evaluated at a time, and the first may have been evaluated alone.
    let batches = slow.batches.load(Ordering::Relaxed);
    assert!((3..16).contains(&batches), "sixteen batches of one became {batches}");
}

#[test]
fn multiplexing_uses_all_its_children() {
    let slow = || Arc::new(Faulty::slow(Duration::from_millis(20)));
    let (first, second) = (slow(), slow());
    let child = |backend: &Arc<Faulty>| Child { threads: 1, maximum_batch: 1, ..Child::new(backend.clone()) };
    let pool = MultiplexingBackend::new(vec![child(&first), child(&second)]).unwrap();
    submit_one_by_one(&pool, &samples(16));
    let used = [&first, &second].map(|child| child.batches.load(Ordering::Relaxed));
    assert!(used[0] > 1 && used[1] > 1 && used[0] + used[1] == 16, "{used:?}");
}

#[test]
fn demux_evaluates_on_all_children_at_the_same_time() {
    let samples = samples(8);
    let slow = || Child { threads: 1, ..Child::new(Arc::new(Faulty::slow(Duration::from_millis(200)))) };
    let demux = DemuxBackend::new((0..4).map(|_| slow()).collect(), 1).unwrap();
    // A busy machine only adds time, so the shortest of a few attempts counts.
    let shortest = (0..3).map(|_| {
        let start = Instant::now();
        evaluate(&demux, &samples).unwrap();
        start.elapsed()
    });
    let shortest = shortest.min().unwrap();
    assert!(shortest < Duration::from_millis(600), "{shortest:?} for four times 200 ms");
}
