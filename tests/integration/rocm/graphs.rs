//! Graphs, memory and hangs: the emulator misbehaves as ROCm and cards have been seen to do, and the answers stay right
//! or become errors in time.

use std::process::Output;
use std::time::{Duration, Instant};

use super::{FP16, KINDS, Sample, backend, check_set, evaluate, libraries, on_emulator, options, sample};
use rukh_backend::{Backend, EvalRequest, Evaluations};
use rukh_gpu::{GpuBackend, GpuOptions, GpuPrecision, Waiting};

use crate::goldens;
use crate::rocm_errors::{logged_calls, search, stdout};

/// Evaluates two different inputs in turn in every bucket: with a graph, with a forked graph, and step by step. The
/// answers must be equal to the last bit. The first batch of a bucket always runs step by step, so four batches of five
/// run as a graph.
fn two_inputs_in_turn(maximum_batch: usize) {
    for set in goldens::committed().into_iter().filter(|set| KINDS.contains(&set.name.as_str())) {
        let samples: Vec<Sample> = set.positions.iter().map(sample).collect();
        let base = || GpuOptions { streams: Some(1), ..options(maximum_batch) };
        let steps = GpuOptions { graph: Some(false), ..base() };
        let forked = GpuOptions { fork: Some(maximum_batch), ..base() };
        let [steps, graph, forked] =
            [steps, base(), forked].map(|options| backend(&set, GpuPrecision::Fp16, &options));
        for count in (1..=maximum_batch).filter(|count| count.is_power_of_two()) {
            let input = |turn: usize| samples.iter().cycle().skip(turn * 7 + 1).take(count);
            let expected: [Evaluations; 2] = [0, 1].map(|turn| evaluate(&steps, input(turn)));
            assert!(!expected[0].iter().eq(expected[1].iter()), "{}: the inputs are alike", set.name);
            for turn in [0, 1, 0, 1, 0] {
                for (what, backend) in [("a graph", &graph), ("a forked graph", &forked)] {
                    let found = evaluate(backend, input(turn));
                    let is_equal = expected[turn].iter().eq(found.iter());
                    assert!(is_equal, "{} with {what}: input {turn} of {count} positions", set.name);
                }
            }
        }
    }
}

/// ROCm 7.2 lets a large graph read the copy of a batch's input before it has arrived.
#[test]
fn a_graph_reads_the_input_of_its_own_batch() {
    let settings = [("RUKH_EMULATOR_STALE_GRAPHS", "1")];
    on_emulator("graphs::a_graph_reads_the_input_of_its_own_batch", &settings, || two_inputs_in_turn(16));
}

/// A search with two slots and three batch sizes. The GEMMs are not tuned.
fn small_search(settings: &[(&str, &str)], more_options: &str) -> Output {
    let folder = libraries();
    let options = format!("max_batch=4,streams=2,tune=off,{more_options}");
    search(folder.path(), &["--backend=rocm-fp16", "-o", &options, "--threads=1"], settings)
}

#[test]
fn batches_run_step_by_step_if_they_cannot_be_captured() {
    let plain = stdout(&small_search(&[], "graph=false"));
    let moves = |text: &str| text.lines().find(|line| line.starts_with("bestmove")).map(str::to_owned);
    // In the last two, hipStreamEndCapture fails and leaves the capture open.
    let failures = [
        ("RUKH_EMULATOR_BAD_CAPTURE", "begin", "3 of 3", "hipStreamBeginCapture failed"),
        ("RUKH_EMULATOR_BAD_CAPTURE", "work", "3 of 3", "failed: hipErrorStreamCaptureUnsupported"),
        ("RUKH_EMULATOR_BAD_CAPTURE", "end", "3 of 3", "hipStreamEndCapture failed"),
        ("RUKH_EMULATOR_BAD_CAPTURE", "instantiate", "3 of 3", "hipGraphInstantiate failed"),
        ("RUKH_EMULATOR_FAIL", "hipStreamEndCapture:1", "1 of 3", "hipStreamEndCapture failed"),
        ("RUKH_EMULATOR_FAIL", "hipStreamEndCapture:5", "1 of 3", "hipStreamEndCapture failed"),
    ];
    for (variable, value, count, reason) in failures {
        let settings = [(variable, value), ("RUKH_EMULATOR_LOG", "1")];
        let output = small_search(&settings, "time_steps=2");
        let text = stdout(&output);
        let notices: Vec<&str> = text.lines().filter(|line| line.contains("step by step")).collect();
        let begin = format!("info string graphs: {count} batch sizes run step by step, because ");
        assert!(
            notices.len() == 1 && notices[0].starts_with(&begin) && notices[0].contains(reason),
            "{value}: {text}"
        );
        assert!(!text.contains("error:") && moves(&text) == moves(&plain), "{value}: {text}");
        // The steps are timed all the same.
        assert!(
            text.contains("2 positions, ") && text.contains("steps one after another"),
            "{value}: {text}"
        );
        let launches = logged_calls(&output).iter().filter(|call| *call == "hipGraphLaunch").count();
        assert_eq!(launches == 0, count == "3 of 3", "{value}: {launches} launches");
    }
}

/// HIP fills device memory asynchronously, and the slots' streams do not wait for that.
#[test]
fn new_memory_is_zero_before_a_batch_writes_to_it() {
    let settings = [("RUKH_EMULATOR_LATE_MEMSET", "100")];
    on_emulator("graphs::new_memory_is_zero_before_a_batch_writes_to_it", &settings, || {
        let set = goldens::named("micro-smolgen");
        check_set(&set, GpuPrecision::Fp16, &GpuOptions { streams: Some(1), ..options(16) }, &FP16);
    });
}

#[test]
fn branches_run_in_parallel_only_if_the_user_asks() {
    let urgent_streams = |options| {
        let output = small_search(&[("RUKH_EMULATOR_LOG", "1")], options);
        stdout(&output);
        logged_calls(&output).iter().filter(|call| *call == "hipStreamCreateWithPriority").count()
    };
    assert_eq!(urgent_streams("warm_up=false"), 0);
    assert_eq!(urgent_streams("warm_up=false,fork=0"), 0);
    assert_eq!(urgent_streams("warm_up=false,fork=4"), 4, "two side streams for each of two slots");
}

/// Evaluates single positions until the card hangs. Returns the error and the time that the last batch took.
fn evaluate_until_it_hangs(backend: &GpuBackend, samples: &[Sample]) -> (String, Duration) {
    for Sample { history, moves, .. } in samples.iter().cycle().take(1000) {
        let begin = Instant::now();
        let mut batch = backend.new_batch();
        batch.add(EvalRequest { history, moves });
        if let Err(error) = batch.submit().wait() {
            return (error.to_string(), begin.elapsed());
        }
    }
    panic!("the card did not hang");
}

/// Options with which a hang is noticed after a second, or after six seconds in the first batch of a size.
fn impatient(waiting: Waiting) -> GpuOptions {
    let (waiting, timeout) = (Some(waiting), Duration::from_secs(1));
    GpuOptions { streams: Some(2), graph: Some(false), waiting, timeout, ..options(16) }
}

/// A card that hangs in operation 600, after the backend is ready, and then never answers.
fn hangs_for_ever(waiting: Waiting) {
    let set = goldens::named("micro-smolgen");
    let samples: Vec<Sample> = set.positions.iter().map(sample).collect();
    let options = impatient(waiting);
    let backend = backend(&set, GpuPrecision::Fp16, &options);
    let (error, elapsed) = evaluate_until_it_hangs(&backend, &samples);
    assert!(error.contains("device 0 has not finished a batch within "), "{error}");
    assert!(elapsed < Duration::from_secs(20), "{elapsed:?}");
    // Nothing waits for the card any more: neither the next batch, nor the end of the backend, nor a new one.
    let begin = Instant::now();
    let (again, _) = evaluate_until_it_hangs(&backend, &samples);
    assert_eq!(again, error);
    drop(backend);
    let refused = GpuBackend::open("rocm", &options).err().expect("the card still hangs").to_string();
    assert!(refused.contains("device 0 hung earlier"), "{refused}");
    assert!(begin.elapsed() < Duration::from_millis(900), "{:?}", begin.elapsed());
}

#[test]
fn a_hang_is_an_error_for_a_thread_that_sleeps() {
    let settings = [("RUKH_EMULATOR_HANG", "600")];
    on_emulator("graphs::a_hang_is_an_error_for_a_thread_that_sleeps", &settings, || {
        hangs_for_ever(Waiting::Block);
    });
}

#[test]
fn a_hang_is_an_error_for_a_thread_that_polls() {
    let settings = [("RUKH_EMULATOR_HANG", "600")];
    on_emulator("graphs::a_hang_is_an_error_for_a_thread_that_polls", &settings, || {
        hangs_for_ever(Waiting::Spin);
    });
}

#[test]
fn a_card_that_works_again_can_be_opened_again() {
    let settings = [("RUKH_EMULATOR_HANG", "600:9000")];
    on_emulator("graphs::a_card_that_works_again_can_be_opened_again", &settings, || {
        let set = goldens::named("micro-smolgen");
        let samples: Vec<Sample> = set.positions.iter().map(sample).collect();
        let hung = backend(&set, GpuPrecision::Fp16, &impatient(Waiting::Yield));
        let (error, _) = evaluate_until_it_hangs(&hung, &samples);
        assert!(error.contains("has not finished a batch"), "{error}");
        std::thread::sleep(Duration::from_millis(9500));
        check_set(&set, GpuPrecision::Fp16, &GpuOptions { streams: Some(1), ..options(16) }, &FP16);
        drop(hung);
    });
}

/// The operations are the first fill of memory, the upload of the first tensor and of a later one, and one of the
/// warm-up.
#[test]
fn a_hang_at_the_start_is_an_error_in_time() {
    for operation in ["1", "2", "40", "150"] {
        let begin = Instant::now();
        let text = stdout(&small_search(&[("RUKH_EMULATOR_HANG", operation)], "timeout=0.2"));
        assert!(text.contains("device 0 has not finished "), "{operation}: {text}");
        assert!(begin.elapsed() < Duration::from_secs(30), "{operation}: {:?}", begin.elapsed());
    }
}
