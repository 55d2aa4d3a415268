//! The evaluation cache: hits, keys, eviction, and threads that share it.

use super::*;
use rukh_backend::position_key::KeyRules;
use rukh_backend::wrap::CachingBackend;

#[test]
fn the_cache_answers_positions_that_it_has_seen() {
    let inner = Arc::new(Faulty::slow(Duration::ZERO));
    let cache = CachingBackend::new(inner, 10_000, KeyRules::default());
    let samples = samples(50);
    assert!(cache.cached(samples[0].request()).is_none());
    let first = evaluate(&cache, &samples).unwrap();

    let mut batch = cache.new_batch();
    for (sample, evaluation) in samples.iter().zip(&first) {
        let Added::Ready(again) = batch.add(sample.request()) else { panic!("not in the cache") };
        assert_eq!(again.value, evaluation.value);
        assert!((again.priors.iter().sum::<f32>() - 1.0).abs() < 1.0 / 4096.0);
        assert_eq!(cache.cached(sample.request()), Some(again));
    }
    assert!(batch.is_empty() && batch.submit().wait().unwrap().is_empty());
    assert!((1..20).contains(&cache.fullness_permille()));
    cache.clear_cache();
    assert!(cache.cached(samples[0].request()).is_none());
    assert_eq!(cache.fullness_permille(), 0);
}

#[test]
fn four_threads_share_a_small_cache() {
    // The cache is far too small for all positions, so entries are evicted while others are read.
    let cache = CachingBackend::new(random(), 300, KeyRules::default());
    let samples = samples(2000);
    let expected = evaluate(&*random(), &samples[..1000]).unwrap();
    let expected: Vec<_> =
        expected.into_iter().chain(evaluate(&*random(), &samples[1000..]).unwrap()).collect();
    let ready = AtomicUsize::new(0);
    thread::scope(|scope| {
        for worker in 0..4usize {
            let (cache, samples, expected, ready) = (&cache, &samples, &expected, &ready);
            scope.spawn(move || {
                for round in 0..200 {
                    let start = (round * 37 + worker * 5) % 1900;
                    let part = start..start + 60;
                    let mut probe = cache.new_batch();
                    for sample in &samples[part.clone()] {
                        if matches!(probe.add(sample.request()), Added::Ready(_)) {
                            ready.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                    let found = evaluate(cache, &samples[part.clone()]).unwrap();
                    assert_same("shared cache", &found, &expected[part], 1.0 / 4096.0);
                }
            });
        }
    });
    assert!(ready.into_inner() > 0, "without hits the test checks nothing");
    assert_eq!(cache.fullness_permille(), 1000);
}

#[test]
fn cache_keys_tell_histories_repetitions_and_fifty_move_counters_apart() {
    let orders = ["g1f3 g8f6 b1c3 b8c6", "b1c3 b8c6 g1f3 g8f6"];
    for (history_length, is_shared) in [(0, true), (1, false), (7, false)] {
        let rules = KeyRules { history_length, ..KeyRules::default() };
        let cache = CachingBackend::new(random(), 1000, rules);
        evaluate(&cache, &[Sample::after(orders[0])]).unwrap();
        assert_eq!(cache.cached(Sample::after(orders[1]).request()).is_some(), is_shared, "{history_length}");
        assert!(cache.cached(Sample::after(orders[0]).request()).is_some());
    }
    let cache = CachingBackend::new(random(), 1000, KeyRules::default());
    evaluate(&cache, &[Sample::after("g1f3 g8f6")]).unwrap();
    let repeated = Sample::after("g1f3 g8f6 f3g1 f6g8 g1f3 g8f6");
    assert!(cache.cached(repeated.request()).is_none(), "a repeated position has a key of its own");

    // The network would answer differently when the fifty-move rule is near.
    let at = |rule50: u32| {
        let fen = format!("8/5pk1/6p1/8/4P3/3K2P1/r7/5R2 b - - {rule50} 80");
        Sample::new(PositionHistory::new(Position::from_fen(&fen).unwrap()))
    };
    evaluate(&cache, &[at(3)]).unwrap();
    assert!(cache.cached(at(20).request()).is_some());
    assert!(cache.cached(at(90).request()).is_none());
    // In the last plies before the draw, each counter has a key of its own.
    evaluate(&cache, &[at(90), at(96)]).unwrap();
    assert!(cache.cached(at(91).request()).is_some());
    for rule50 in 92..100 {
        assert_eq!(cache.cached(at(rule50).request()).is_some(), rule50 == 96, "{rule50}");
    }

    let rules = KeyRules { rule50_bucket: 8, ..KeyRules::default() };
    let cache = CachingBackend::new(random(), 1000, rules);
    evaluate(&cache, &[at(3)]).unwrap();
    assert!(cache.cached(at(7).request()).is_some());
    assert!(cache.cached(at(8).request()).is_none());
}
