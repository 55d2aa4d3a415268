//! Backends created by name, with the options that users write.

use super::*;
use rukh_options::BackendName;
use rukh_registry::Selection;
use std::time::Instant;

#[test]
fn random_is_repeatable_and_takes_options() {
    let samples = samples(20);
    let values = |options: &str| evaluate(&*create("random", options).unwrap(), &samples).unwrap();
    assert_eq!(values("seed=5"), values("seed=5"));
    assert_ne!(values("seed=5"), values("seed=6"));
    for evaluation in values("") {
        assert!(evaluation.value.q.abs() + evaluation.value.d <= 1.0 && evaluation.value.d >= 0.0);
        assert!((evaluation.priors.iter().sum::<f32>() - 1.0).abs() < 1e-5);
    }
    for evaluation in values("uniform") {
        assert_eq!(evaluation.value.q, 0.0);
        assert!(evaluation.priors.iter().all(|prior| *prior == evaluation.priors[0]));
    }
}

#[test]
fn a_simulated_device_has_slots_and_delays() {
    let sample = &samples(1)[0];
    // The times until four batches are submitted and until they are evaluated, in milliseconds.
    let times = |options: &str| {
        let backend = create("random", options).unwrap();
        let start = Instant::now();
        let tickets: Vec<Box<dyn Ticket>> = (0..4)
            .map(|_| {
                let mut batch = backend.new_batch();
                batch.add(sample.request());
                batch.submit()
            })
            .collect();
        let submitted = start.elapsed().as_millis();
        tickets.into_iter().for_each(|ticket| drop(ticket.wait().unwrap()));
        (submitted, start.elapsed().as_millis())
    };
    // A busy machine only adds time, so the shortest of a few attempts is closest to the device's own time.
    let best = |options: &str| {
        let attempts: Vec<_> = (0..4).map(|_| times(options)).collect();
        assert!(
            attempts.iter().any(|(submitted, _)| *submitted < 35),
            "submitting must not block: {attempts:?}"
        );
        attempts.into_iter().map(|(_, evaluated)| evaluated).min().unwrap()
    };
    let (one_slot, two_slots) = (best("delay=40"), best("delay=30,per_position=10,slots=2,batch=64"));
    assert!((160..240).contains(&one_slot), "{one_slot} ms for four batches of 40 ms one after the other");
    assert!((80..160).contains(&two_slots), "{two_slots} ms for four batches of 40 ms, two at a time");
}

#[test]
fn options_name_children_and_their_options() {
    let samples = samples(9);
    let expected = evaluate(&*create("random", "seed=3").unwrap(), &samples).unwrap();
    for (backend, options, name) in [
        ("roundrobin", "backend=random,seed=3,(delay=1),(uniform=false)", "roundrobin(random, random)"),
        (
            "multiplexing",
            "random(seed=3,workers=2),b(backend=random,seed=3,max_batch=4)",
            "multiplexing(random, random)",
        ),
        (
            "demux",
            "step=2,seed=3,random,other(backend=roundrobin,x(backend=random))",
            "demux(random, roundrobin(random))",
        ),
        ("check", "seed=3,freq=1,mode=check,random,b(backend=random)", "check(random, random)"),
        ("multiplexing", "backend=random,seed=3", "multiplexing(random)"),
        // As in lc0's selfplay, whose default is `multiplexing`.
        ("auto", "backend=random,seed=3", "multiplexing(random)"),
        ("auto", "backend=random,seed=3,(delay=1),(workers=2)", "multiplexing(random, random)"),
        ("auto", "seed=3,a(backend=random)", "multiplexing(random)"),
    ] {
        let created = create(backend, options).unwrap_or_else(|error| panic!("{options}: {error}"));
        assert_eq!(created.attributes().name, name);
        assert_same(options, &evaluate(&*created, &samples).unwrap(), &expected, 0.0);
    }
}

#[test]
fn wrong_options_are_refused_by_name() {
    for (backend, options, part) in [
        ("tribial", "", "tribial"),
        ("tribial", "", "multiplexing"),
        ("random", "sed=4", "sed=4"),
        ("random", "sed=4", "seed, uniform"),
        ("random", "slots=0", "slots=0"),
        ("random", "delay=1e999", "delay=1e999"),
        ("random", "uniform=perhaps", "true or false"),
        ("random", "(seed=1", "no matching `)`"),
        ("trivial", "cpu(threads=2)", "takes no child backends"),
        ("roundrobin", "random,nonsense", "nonsense"),
        ("roundrobin", "(seed=1)", "backend="),
        ("roundrobin", "backend=roundrobin", "deep"),
        ("check", "trivial", "two backends"),
        ("check", "trivial,random,mode=loud", "display, histo"),
        ("recordreplay", "trivial", "record_file=FILE"),
        ("recordreplay", "replay_file=nowhere.bin", "nowhere.bin"),
        ("auto", "", "no such file.pb.gz"),
    ] {
        let error = creation_error(backend, options);
        assert!(error.contains(part), "{backend} -o {options}: {error}");
    }
}

#[test]
fn every_backend_that_can_be_named_has_a_row_with_a_description() {
    let rows: Vec<BackendName> = rukh_registry::BACKENDS.iter().map(|kind| kind.name).collect();
    let names = BackendName::ALL;
    assert_eq!(names[0], BackendName::Auto);
    assert_eq!(rows, names[1..], "one row for each name, in the order of the option's values");
    assert!(rukh_registry::BACKENDS.iter().all(|kind| !kind.description.is_empty()));
}

/// The options of graphics cards are read from one table, and docs/gpu.md explains them for users.
#[test]
fn each_option_of_a_graphics_card_is_explained() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/gpu.md");
    let page = std::fs::read_to_string(page).unwrap();
    let section = page.split("\n## Backend options\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let first_cells = section.lines().filter_map(|line| line.strip_prefix("| `")?.split('|').next());
    let mut explained: Vec<&str> = first_cells.flat_map(|cell| cell.split('`').step_by(2)).collect();
    explained.retain(|name| !name.trim().is_empty());
    let kind = rukh_registry::BACKENDS.iter().find(|kind| kind.name == BackendName::RocmAuto).unwrap();
    let mut known = kind.options.concat();
    explained.sort_unstable();
    known.sort_unstable();
    assert_eq!(explained, known);
}

#[test]
fn auto_tries_the_gpu_first() {
    let automatic = rukh_registry::BACKENDS.iter().filter(|kind| kind.selection == Selection::Automatic);
    let names: Vec<BackendName> = automatic.map(|kind| kind.name).collect();
    assert_eq!(names, [BackendName::RocmAuto, BackendName::CudaAuto, BackendName::CpuAuto]);
}

#[test]
fn auto_always_has_a_network() {
    let created =
        rukh_registry::create(&BackendConfig { options: "threads=2".to_owned(), ..BackendConfig::default() });
    let created = created.unwrap();
    assert_ne!(created.backend.attributes().name, "trivial");
    assert!(created.notices.iter().any(|notice| notice.starts_with("network ")), "{:?}", created.notices);
    assert!(created.cache.is_some(), "a cache must be around the backend");
}
