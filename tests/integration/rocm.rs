//! The ROCm backend on the emulator (`hip/shims/emulator`), which runs the kernels' machine code: every network,
//! number format and batch size is compared with lc0's own evaluations.
//!
//! An environment variable names the folder of ROCm's libraries. Each test therefore starts itself again in a process
//! of its own, in which that variable names the emulator.

mod byte_weights;
mod fp8;
mod graphs;
mod int8;
mod launches;
mod own;
mod smoke;
mod true_widths;
mod value_error;
mod versions;

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use rukh_backend::{Backend, EvalRequest, Evaluations};
use rukh_chess::{PackedMove, Position, PositionHistory, uci_move};
use rukh_cpu::{CpuBackend, CpuOptions, Precision};
use rukh_gpu::{GemmLibrary, GpuBackend, GpuOptions, GpuPrecision, Tuning, Waiting};
use rukh_net::input::HistoryFill;
use rukh_net::network::{Body, EncoderStack};
use rukh_net::weights::Dense;
use rukh_net::{HeadSelection, Network};

use crate::goldens::{self, GoldenPosition, GoldenSet};

/// A temporary folder with the emulator under the names of ROCm's libraries.
pub(crate) fn libraries() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    rocm_emulator::install::install(folder.path()).unwrap_or_else(|error| panic!("the emulator: {error}"));
    folder
}

/// The environment variable that tells a test that it runs in the process with the emulator.
const INSIDE: &str = "RUKH_TEST_ON_EMULATOR";

/// Starts a process that runs only `test` (its path below `rocm::`), with the emulator as ROCm's libraries and with the
/// environment variables `settings`. In that process, this function runs `body`.
fn on_emulator(test: &str, settings: &[(&str, &str)], body: impl FnOnce()) {
    // In that process the libraries are in place.
    let folder = std::env::var_os(INSIDE).is_none().then(libraries);
    on_machine(folder.as_ref().map_or(Path::new(""), |folder| folder.path()), test, settings, body);
}

/// Does the same as [`on_emulator`] with the libraries in `folder`.
fn on_machine(folder: &Path, test: &str, settings: &[(&str, &str)], body: impl FnOnce()) {
    if let Some(stderr) = inside(folder, test, settings, body) {
        assert!(!stderr.contains("rocm-emulator: "), "the emulator reports an error:\n{stderr}");
    }
}

/// Starts a process that runs only `test`, as [`on_emulator`] does, and returns its stderr. In that process, this
/// function runs `body` and returns `None`. A test may call it with several settings: each process runs the body only
/// where the settings are its own.
fn inside(folder: &Path, test: &str, settings: &[(&str, &str)], body: impl FnOnce()) -> Option<String> {
    if std::env::var_os(INSIDE).is_some() {
        if settings.iter().all(|&(name, value)| std::env::var_os(name).is_some_and(|own| own == value)) {
            body();
        }
        return None;
    }
    let program = std::env::current_exe().expect("the test's own path");
    let name = format!("rocm::{test}");
    let output = Command::new(program)
        .args(["--exact", &name, "--nocapture", "--test-threads=1", "--include-ignored"])
        .env("RUKH_ROCM_LIBRARY_PATH", folder)
        .env("RUKH_CUDA_LIBRARY_PATH", nowhere())
        .env("XDG_CACHE_HOME", folder)
        .env(INSIDE, "1")
        .envs(settings.iter().copied())
        .output()
        .expect("the test starts");
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    print!("{stdout}");
    assert!(output.status.success() && stdout.contains("1 passed"), "{stdout}\n{stderr}");
    Some(stderr.into_owned())
}

/// A golden position as a request. The moves are in the order of the golden file.
struct Sample {
    history: PositionHistory,
    moves: Vec<PackedMove>,
    /// The softmax of lc0's logits.
    priors: Vec<f32>,
    golden: GoldenPosition,
}

fn sample(golden: &GoldenPosition) -> Sample {
    let start = Position::from_fen(&golden.fen).unwrap_or_else(|error| panic!("{}: {error}", golden.id));
    let mut history = PositionHistory::new(start);
    let parse = |history: &PositionHistory, text: &str| {
        uci_move::parse(history.last(), text).unwrap_or_else(|error| panic!("{}: {error}", golden.id))
    };
    for text in &golden.moves {
        let next = parse(&history, text);
        history.push(next);
    }
    let moves = golden.policy_raw.iter().map(|(text, _, _)| PackedMove::new(parse(&history, text))).collect();
    let logits = || golden.policy_raw.iter().map(|(_, _, logit)| *logit);
    let largest = logits().fold(f32::NEG_INFINITY, f32::max);
    let total: f32 = logits().map(|logit| (logit - largest).exp()).sum();
    let priors = logits().map(|logit| (logit - largest).exp() / total).collect();
    Sample { history, moves, priors, golden: golden.clone() }
}

/// Options that keep every batch size. On Windows the default leaves out those that take more than half a second, as they
/// may on an emulated card.
fn options(maximum_batch: usize) -> GpuOptions {
    GpuOptions {
        maximum_batch: Some(maximum_batch),
        warm_up: false,
        longest_batch: Duration::from_secs(3600),
        ..GpuOptions::default()
    }
}

fn backend(set: &GoldenSet, precision: GpuPrecision, options: &GpuOptions) -> GpuBackend {
    let network =
        Network::load_bytes(&set.network, &set.heads).unwrap_or_else(|error| panic!("{}: {error}", set.name));
    backend_of(&network, precision, options)
}

fn backend_of(network: &Network, precision: GpuPrecision, options: &GpuOptions) -> GpuBackend {
    let device = GpuBackend::open("rocm", options).unwrap_or_else(|error| panic!("{error}"));
    GpuBackend::new(device, network.clone(), precision, options, 1.0, HistoryFill::FenOnly)
        .unwrap_or_else(|error| panic!("{error}"))
}

fn evaluate<'a>(backend: &dyn Backend, samples: impl IntoIterator<Item = &'a Sample>) -> Evaluations {
    let mut batch = backend.new_batch();
    for Sample { history, moves, .. } in samples {
        batch.add(EvalRequest { history, moves });
    }
    batch.submit().wait().unwrap_or_else(|error| panic!("{error}"))
}

/// The differences between a backend and lc0 over several positions.
#[derive(Default)]
struct Distance {
    /// The difference of q in each position.
    q: Vec<f32>,
    /// The largest difference of d.
    d: f32,
    /// The largest difference of m, in plies.
    m: f32,
    /// The largest difference of the prior of lc0's best move.
    top: f32,
    /// The largest Kullback-Leibler divergence of the priors from lc0's, in nats.
    divergence: f32,
}

impl Distance {
    fn add(&mut self, set: &GoldenSet, sample: &Sample, (value, priors): (rukh_backend::Value, &[f32])) {
        let Sample { golden, .. } = sample;
        assert_eq!(priors.len(), sample.priors.len(), "{} {}", set.name, golden.id);
        self.q.push((value.q - golden.q).abs());
        self.d = self.d.max((value.d - golden.d).abs());
        self.m = self.m.max((value.m - golden.m).abs());
        let total: f32 = priors.iter().sum();
        assert!(
            priors.is_empty() || (total - 1.0).abs() < 1e-4,
            "{} {}: priors sum to {total}",
            set.name,
            golden.id
        );
        let pairs = || sample.priors.iter().zip(priors);
        if let Some((expected, found)) = pairs().max_by(|(a, _), (b, _)| a.total_cmp(b)) {
            self.top = self.top.max((expected - found).abs());
        }
        let divergence: f32 = pairs().map(|(p, q)| if *p > 0.0 { p * (p / q).ln() } else { 0.0 }).sum();
        assert!(!divergence.is_nan(), "{} {}: {priors:?}", set.name, golden.id);
        self.divergence = self.divergence.max(divergence.abs());
    }

    fn check(mut self, what: &str, limit: &Limit) {
        self.q.sort_by(f32::total_cmp);
        let most = self.q.last().copied().unwrap_or(0.0);
        let percentile = self.q[(self.q.len() * 99 / 100).saturating_sub(1)];
        println!(
            "{what}: q 99 % {percentile:.1e}, most {most:.1e} of {:.0e}; d {:.1e}; m {:.1e} of {:.0e}; best \
             move {:.1e} of {:.0e}; KL {:.1e} of {:.0e}",
            limit.q, self.d, self.m, limit.m, self.top, limit.top, self.divergence, limit.divergence
        );
        let is_near = most <= limit.q
            && self.d <= limit.q
            && self.m <= limit.m
            && self.top <= limit.top
            && self.divergence <= limit.divergence;
        assert!(is_near, "{what} is too far from lc0");
    }
}

/// The largest allowed differences from lc0 or from the CPU backend in fp32.
struct Limit {
    /// For q and for d.
    q: f32,
    m: f32,
    top: f32,
    divergence: f32,
}

const FP32: Limit = Limit { q: 1e-4, m: 1e-2, top: 1e-4, divergence: 1e-5 };
const FP16: Limit = Limit { q: 1e-2, m: 1e-1, top: 1e-2, divergence: 1e-3 };
const BF16: Limit = Limit { q: 5e-2, m: 1.0, top: 5e-2, divergence: 2e-2 };

const PRECISIONS: [(GpuPrecision, &Limit); 3] =
    [(GpuPrecision::Fp32, &FP32), (GpuPrecision::Fp16, &FP16), (GpuPrecision::Bf16, &BF16)];

fn all_sets() -> Vec<GoldenSet> {
    goldens::committed().into_iter().chain(goldens::shared()).collect()
}

/// Checks all positions of every set in batches of 16. The last batch is smaller, and the backend pads it.
fn check_all(precision: GpuPrecision, limit: &Limit) {
    all_sets().iter().for_each(|set| check_set(set, precision, &options(16), limit));
}

fn check_set(set: &GoldenSet, precision: GpuPrecision, options: &GpuOptions, limit: &Limit) {
    let backend = backend(set, precision, options);
    let samples: Vec<Sample> = set.positions.iter().map(sample).collect();
    let mut distance = Distance::default();
    for samples in samples.chunks(16) {
        let evaluations = evaluate(&backend, samples);
        samples.iter().zip(evaluations.iter()).for_each(|(sample, got)| distance.add(set, sample, got));
    }
    distance.check(&format!("{} in {precision:?}", set.name), limit);
}

#[test]
fn every_network_agrees_with_lc0_in_fp32() {
    on_emulator("every_network_agrees_with_lc0_in_fp32", &[], || check_all(GpuPrecision::Fp32, &FP32));
}

#[test]
fn every_network_stays_near_lc0_in_fp16() {
    on_emulator("every_network_stays_near_lc0_in_fp16", &[], || check_all(GpuPrecision::Fp16, &FP16));
}

#[test]
fn every_network_stays_near_lc0_in_bf16() {
    on_emulator("every_network_stays_near_lc0_in_bf16", &[], || check_all(GpuPrecision::Bf16, &BF16));
}

/// Checks committed networks in every precision on a card that is not the emulator's default, gfx1100.
fn check_architecture(test: &str, architecture: &str, wanted: impl Fn(&GoldenSet) -> bool) {
    on_emulator(test, &[("RUKH_EMULATOR_ARCH", architecture)], || {
        for set in goldens::committed().into_iter().filter(wanted) {
            for (precision, limit) in PRECISIONS {
                check_set(&set, precision, &options(16), limit);
            }
        }
    });
}

/// RDNA 2: gfx10's encodings, and no matrix instructions.
#[test]
fn networks_agree_with_lc0_on_gfx1030() {
    check_architecture("networks_agree_with_lc0_on_gfx1030", "gfx1030", is_of_a_kind);
}

/// RDNA 4: gfx12's encodings, layout of matrices, and split barriers.
#[test]
fn networks_agree_with_lc0_on_gfx1200() {
    check_architecture("networks_agree_with_lc0_on_gfx1200", "gfx1200", is_of_a_kind);
}

#[test]
#[ignore = "takes a minute"]
fn every_network_agrees_with_lc0_on_gfx1030() {
    check_architecture("every_network_agrees_with_lc0_on_gfx1030", "gfx1030", |_| true);
}

#[test]
#[ignore = "takes a minute"]
fn every_network_agrees_with_lc0_on_gfx1200() {
    check_architecture("every_network_agrees_with_lc0_on_gfx1200", "gfx1200", |_| true);
}

/// Vega: waves of 64 lanes, no matrix instructions.
#[test]
fn networks_agree_with_lc0_on_gfx906() {
    check_architecture("networks_agree_with_lc0_on_gfx906", "gfx906", is_of_a_kind);
}

/// CDNA 1: matrix instructions whose sums are always in accumulation registers.
#[test]
fn networks_agree_with_lc0_on_gfx908() {
    check_architecture("networks_agree_with_lc0_on_gfx908", "gfx908", is_of_a_kind);
}

/// CDNA 2: matrix instructions with accumulation registers.
#[test]
fn networks_agree_with_lc0_on_gfx90a() {
    check_architecture("networks_agree_with_lc0_on_gfx90a", "gfx90a", is_of_a_kind);
}

/// CDNA 3.
#[test]
fn networks_agree_with_lc0_on_gfx942() {
    check_architecture("networks_agree_with_lc0_on_gfx942", "gfx942", is_of_a_kind);
}

/// The code object of gfx1201 has the instructions of gfx1200's.
#[test]
fn networks_agree_with_lc0_on_gfx1201() {
    check_architecture("networks_agree_with_lc0_on_gfx1201", "gfx1201", is_of_a_kind);
}

#[test]
fn the_kernel_for_gemms_with_few_rows_agrees_with_lc0() {
    on_emulator("the_kernel_for_gemms_with_few_rows_agrees_with_lc0", &[], || {
        let options = GpuOptions { few_rows: Some(64), ..options(16) };
        for set in goldens::committed() {
            check_set(&set, GpuPrecision::Fp16, &options, &FP16);
            check_set(&set, GpuPrecision::Bf16, &options, &BF16);
        }
    });
}

/// One network for each kind of body and of policy head.
const KINDS: [&str; 5] =
    ["micro-smolgen", "micro-multihead", "micro-se-conv", "micro-se-attnpol", "micro-se-old"];

/// Whether the network is one of [`KINDS`].
fn is_of_a_kind(set: &GoldenSet) -> bool {
    KINDS.contains(&set.name.as_str())
}

#[test]
fn every_batch_size_gives_the_same_answers() {
    on_emulator("every_batch_size_gives_the_same_answers", &[], || {
        for set in goldens::committed().into_iter().filter(is_of_a_kind) {
            let samples: Vec<Sample> = set.positions.iter().map(sample).collect();
            for (precision, limit) in [(GpuPrecision::Fp32, &FP32), (GpuPrecision::Fp16, &FP16)] {
                let backend = backend(&set, precision, &options(64));
                for count in [1, 2, 3, 7, 16, 64] {
                    // The first batch of a size runs step by step, the second as a graph.
                    for first in [0, 5] {
                        let some = || samples.iter().cycle().skip(first).take(count);
                        let evaluations = evaluate(&backend, some());
                        assert_eq!(evaluations.len(), count);
                        let mut distance = Distance::default();
                        some()
                            .zip(evaluations.iter())
                            .for_each(|(sample, got)| distance.add(&set, sample, got));
                        distance.check(&format!("{} in {precision:?}, batch of {count}", set.name), limit);
                    }
                }
            }
        }
    });
}

/// Four threads share a backend with three slots, and the answers must be those of a backend with one slot.
fn slots_at_once() {
    let set = goldens::named("micro-smolgen");
    let samples: Vec<Sample> = set.positions.iter().map(sample).collect();
    let alone = backend(
        &set,
        GpuPrecision::Fp16,
        &GpuOptions { streams: Some(1), graph: Some(false), ..options(16) },
    );
    let all: Vec<Evaluations> = samples.chunks(5).map(|samples| evaluate(&alone, samples)).collect();
    let warm = GpuOptions { warm_up: true, tuning: Tuning::Off, ..options(16) };
    let together = Arc::new(backend(&set, GpuPrecision::Fp16, &warm));
    assert_eq!(together.attributes().suggested_threads, 3);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (together, samples, all) = (&together, &samples, &all);
            scope.spawn(move || {
                // All batches are submitted before the first wait: none may wait for another ticket.
                let chunks: Vec<&[Sample]> = samples.chunks(5).collect();
                let order = (0..chunks.len()).map(|i| (i * 3 + thread) % chunks.len());
                let tickets: Vec<_> = order
                    .map(|index| {
                        let mut batch = together.new_batch();
                        for Sample { history, moves, .. } in chunks[index] {
                            batch.add(EvalRequest { history, moves });
                        }
                        (index, batch.submit())
                    })
                    .collect();
                for (index, ticket) in tickets {
                    let got = ticket.wait().unwrap_or_else(|error| panic!("{error}"));
                    for (got, expected) in got.iter().zip(all[index].iter()) {
                        assert_eq!(got, expected, "batch {index} on thread {thread}");
                    }
                }
            });
        }
    });
}

#[test]
fn slots_do_not_disturb_each_other() {
    on_emulator("slots_do_not_disturb_each_other", &[], slots_at_once);
}

/// Evaluates `samples` in batches of 16.
fn evaluate_all(backend: &dyn Backend, samples: &[Sample]) -> Vec<Evaluations> {
    samples.chunks(16).map(|samples| evaluate(backend, samples)).collect()
}

/// The emulator runs a graph's nodes in the order of their capture, and at every second launch in the most different
/// order that their dependences allow. The first batch runs step by step.
#[test]
fn parallel_branches_give_the_same_answers() {
    on_emulator("parallel_branches_give_the_same_answers", &[], || {
        for set in goldens::committed() {
            let samples: Vec<Sample> = set.positions.iter().map(sample).collect();
            let samples = &samples[..samples.len().min(64)];
            let alone = GpuOptions { fork: Some(0), streams: Some(1), ..options(16) };
            let alone = backend(&set, GpuPrecision::Fp16, &alone);
            let forked = GpuOptions { fork: Some(16), streams: Some(1), ..options(16) };
            let forked = backend(&set, GpuPrecision::Fp16, &forked);
            let expected = evaluate_all(&alone, samples);
            let found = evaluate_all(&forked, samples);
            for (expected, found) in expected.iter().zip(&found) {
                assert!(expected.iter().eq(found.iter()), "{}", set.name);
            }
        }
    });
}

#[test]
fn every_way_of_waiting_gives_the_same_answers() {
    on_emulator("every_way_of_waiting_gives_the_same_answers", &[], || {
        let set = goldens::named("micro-smolgen");
        let samples: Vec<Sample> = set.positions.iter().take(48).map(sample).collect();
        let by = |waiting| {
            let options = GpuOptions { waiting: Some(waiting), ..options(16) };
            evaluate_all(&backend(&set, GpuPrecision::Fp16, &options), &samples)
        };
        let expected = by(Waiting::Block);
        for waiting in [Waiting::Spin, Waiting::Yield] {
            let found = by(waiting);
            for (expected, found) in expected.iter().zip(&found) {
                assert!(expected.iter().eq(found.iter()), "{waiting:?}");
            }
        }
    });
}

/// A tuned backend gives the answers of an untuned one, and its table is written once and then reused.
fn tuned() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("tables/gemms.csv");
    let set = goldens::named("micro-smolgen");
    let samples: Vec<Sample> = set.positions.iter().take(32).map(sample).collect();
    let options = |tuning| GpuOptions {
        warm_up: true,
        streams: Some(1),
        tuning,
        tuning_file: Some(file.clone()),
        gemm: GemmLibrary::Library,
        // With 0, the libraries compute all GEMMs.
        few_rows: Some(0),
        ..options(16)
    };
    let tuned = backend(&set, GpuPrecision::Fp16, &options(Tuning::Quick));
    let notices = tuned.notices();
    assert!(notices.len() == 1 && notices[0].starts_with("tuning: "), "{notices:?}");
    assert!(notices[0].contains("gemms.csv"), "{notices:?}");
    let table = std::fs::read_to_string(&file).expect("the table is written");
    assert!(table.lines().count() > 20, "{table}");
    let again = backend(&set, GpuPrecision::Fp16, &options(Tuning::Quick));
    assert!(again.notices().is_empty(), "{:?}", again.notices());
    assert_eq!(std::fs::read_to_string(&file).expect("the table can be read"), table);
    let expected = evaluate_all(&backend(&set, GpuPrecision::Fp16, &options(Tuning::Off)), &samples);
    for backend in [tuned, again] {
        for (expected, found) in expected.iter().zip(&evaluate_all(&backend, &samples)) {
            for ((a, a_priors), (b, b_priors)) in expected.iter().zip(found.iter()) {
                // A GEMM that runs its epilogue as a kernel of its own rounds once more.
                let prior = a_priors.iter().zip(b_priors).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
                assert!((a.q - b.q).abs() < 5e-3 && prior < 5e-3, "{a:?} {b:?}");
            }
        }
    }
}

#[test]
fn tuned_gemms_give_the_same_answers() {
    on_emulator("tuned_gemms_give_the_same_answers", &[("RUKH_EMULATOR_ARCH", "gfx1151")], tuned);
}

#[test]
fn tuned_gemms_without_their_epilogue_give_the_same_answers() {
    on_emulator("tuned_gemms_without_their_epilogue_give_the_same_answers", &[], tuned);
}

#[test]
fn hipblaslt_computes_gemms_where_it_is_preferred() {
    on_emulator(
        "hipblaslt_computes_gemms_where_it_is_preferred",
        &[("RUKH_EMULATOR_ARCH", "gfx1151")],
        || {
            slots_at_once();
            let set = goldens::named("micro-relu-nogate");
            let samples: Vec<Sample> = set.positions.iter().map(sample).collect();
            let backend = backend(&set, GpuPrecision::Fp16, &options(64));
            let mut distance = Distance::default();
            let evaluations = evaluate(&backend, &samples);
            samples.iter().zip(evaluations.iter()).for_each(|(sample, got)| distance.add(&set, sample, got));
            distance.check("micro-relu-nogate in Fp16 on gfx1151", &FP16);
        },
    );
}

/// Before anything is measured, a card that is far too slow by its data sheet gets small batches.
#[test]
fn batches_take_no_longer_than_allowed_by_the_data_sheet() {
    let cards = [("RUKH_EMULATOR_DEVICES", "gfx1036:units=1:integrated")];
    on_emulator("batches_take_no_longer_than_allowed_by_the_data_sheet", &cards, || {
        let set = goldens::committed().remove(0);
        let largest = |longest_batch: Duration| {
            let options = GpuOptions { maximum_batch: None, longest_batch, ..options(1) };
            backend(&set, GpuPrecision::Fp16, &options).attributes().maximum_batch_size
        };
        assert_eq!(largest(Duration::from_secs(3600)), 512);
        assert_eq!(largest(Duration::from_nanos(1)), 16);
    });
}

#[test]
fn batches_may_be_empty_dropped_or_too_large() {
    on_emulator("batches_may_be_empty_dropped_or_too_large", &[], || {
        let set = goldens::committed().remove(0);
        let samples: Vec<Sample> = set.positions.iter().map(sample).collect();
        let backend = backend(&set, GpuPrecision::Fp32, &options(3));
        assert_eq!(backend.attributes().maximum_batch_size, 3);
        assert!(evaluate(&backend, []).is_empty());
        let mut dropped = backend.new_batch();
        dropped.add(EvalRequest { history: &samples[0].history, moves: &samples[0].moves });
        drop(dropped);
        let mut large = backend.new_batch();
        for Sample { history, moves, .. } in &samples[..4] {
            large.add(EvalRequest { history, moves });
        }
        let error = large.submit().wait().expect_err("four do not fit").to_string();
        assert!(error.contains("the batch has 4 positions, more than the maximum of 3"), "{error}");
        let mut abandoned = backend.new_batch();
        abandoned.add(EvalRequest { history: &samples[0].history, moves: &samples[0].moves });
        drop(abandoned.submit());
        assert_eq!(evaluate(&backend, &samples[..2]).len(), 2);
    });
}

/// The hidden size of smolgen in [`with_heads`]: a multiple of 32, unlike in every committed network.
const SMOLGEN_HIDDEN: usize = 96;

/// A committed network whose attention heads are replaced by two of `depth` channels each, with smolgen for both.
fn with_heads(set: &GoldenSet, depth: usize) -> Network {
    let mut network = Network::load_bytes(&set.network, &set.heads).expect("a committed network loads");
    let Body::Attention { stack, .. } = &mut network.body else { panic!("an attention body") };
    let EncoderStack { encoders, heads, .. } = stack;
    let mut state = 1_u64;
    let mut number = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1 << 24) as f32 - 0.5
    };
    let mut dense = |outputs: usize, inputs: usize| Dense {
        weights: (0..outputs * inputs).map(|_| number() / (inputs as f32).sqrt() * 4.0).collect(),
        biases: (0..outputs).map(|_| number()).collect(),
        inputs,
        outputs,
    };
    let generated = encoders[0].smolgen.as_ref().map_or(0, |smolgen| smolgen.dense2.outputs) / *heads;
    *heads = 2;
    for encoder in encoders {
        let width = encoder.output.outputs;
        encoder.qkv = std::array::from_fn(|_| dense(2 * depth, width));
        encoder.output = dense(width, 2 * depth);
        let smolgen = encoder.smolgen.as_mut().expect("the network has smolgen");
        // This width is a multiple of 32, as the kernel that fuses layer normalisation and GEMM needs it.
        smolgen.dense1 = dense(SMOLGEN_HIDDEN, smolgen.dense1.inputs);
        smolgen.ln1.gammas = (0..SMOLGEN_HIDDEN).map(|i| 1.0 + i as f32 / 200.0).collect();
        smolgen.ln1.betas = (0..SMOLGEN_HIDDEN).map(|i| i as f32 / 100.0 - 0.5).collect();
        smolgen.dense2 = dense(2 * generated, SMOLGEN_HIDDEN);
        smolgen.ln2.gammas.truncate(2 * generated);
        smolgen.ln2.betas.truncate(2 * generated);
    }
    network
}

/// The committed networks have small heads, so networks with heads of other sizes are made here.
#[test]
fn attention_heads_of_every_size_agree_with_the_cpu() {
    on_emulator("attention_heads_of_every_size_agree_with_the_cpu", &[], || {
        let set = goldens::named("micro-smolgen");
        let samples: Vec<Sample> = set.positions.iter().step_by(9).map(sample).collect();
        for depth in [8, 16, 24, 32, 64, 96, 128] {
            let network = with_heads(&set, depth);
            check_against_the_cpu(&format!("heads of {depth}"), &network, &samples, 8);
        }
    });
}

/// Compares the answers in every precision with those of the CPU in fp32. All samples must fit into one batch.
fn check_against_the_cpu(what: &str, network: &Network, samples: &[Sample], maximum_batch: usize) {
    let cpu = CpuBackend::new(
        Arc::new(network.clone()),
        Precision::Fp32,
        &CpuOptions::default(),
        1.0,
        HistoryFill::FenOnly,
    )
    .unwrap_or_else(|error| panic!("{error}"));
    let expected = evaluate(&cpu, samples);
    for (precision, limit) in PRECISIONS {
        let found = evaluate(&backend_of(network, precision, &options(maximum_batch)), samples);
        let (mut value, mut prior) = (0.0_f32, 0.0_f32);
        for ((a, a_priors), (b, b_priors)) in expected.iter().zip(found.iter()) {
            value = value.max((a.q - b.q).abs()).max((a.d - b.d).abs());
            a_priors.iter().zip(b_priors).for_each(|(a, b)| prior = prior.max((a - b).abs()));
        }
        println!("{what} in {precision:?}: values {value:.1e}, priors {prior:.1e}");
        assert!(value <= limit.q && prior <= limit.top, "{what} in {precision:?}");
    }
}

/// Compares every network in the folder `RUKH_TEST_NETS` with the CPU on two positions. Large networks can be tested in
/// this way without golden evaluations of lc0.
#[test]
#[ignore = "needs a folder of networks in RUKH_TEST_NETS"]
fn networks_of_a_folder_stay_near_the_cpu() {
    let Some(folder) = std::env::var_os("RUKH_TEST_NETS") else {
        println!("skipped: set RUKH_TEST_NETS to a folder of .pb.gz networks to run this test");
        return;
    };
    on_emulator("networks_of_a_folder_stay_near_the_cpu", &[], || {
        let set = goldens::named("micro-smolgen");
        let samples: Vec<Sample> = set.positions.iter().step_by(13).take(2).map(sample).collect();
        let files = std::fs::read_dir(&folder).expect("RUKH_TEST_NETS is a folder").flatten();
        let mut networks: Vec<_> = files.map(|entry| entry.path()).collect();
        networks.retain(|path| path.to_string_lossy().ends_with(".pb.gz"));
        networks.sort();
        assert!(!networks.is_empty(), "there is no network in {}", folder.display());
        for path in networks {
            let bytes = std::fs::read(&path).expect("a network file can be read");
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let network = Network::load_bytes(&bytes, &HeadSelection::default());
            let network = network.unwrap_or_else(|error| panic!("{name}: {error}"));
            check_against_the_cpu(&name, &network, &samples, 2);
        }
    });
}

/// A part of the description of a process that has aborted itself.
pub(crate) const ABORTED: &str = if cfg!(windows) { "0xc0000409" } else { "SIGABRT" };

/// A folder without ROCm's libraries. The engine looks nowhere else if `RUKH_ROCM_LIBRARY_PATH` names it.
pub(crate) fn nowhere() -> &'static Path {
    Path::new("/nonexistent/rocm")
}
