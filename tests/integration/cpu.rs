//! The CPU backend compared with lc0's own evaluations, for every kind of network and each available instruction set.

use std::sync::Arc;

use rukh_backend::{Added, Backend, EvalRequest, Evaluations};
use rukh_chess::{PackedMove, Position, PositionHistory, uci_move};
use rukh_cpu::{CpuBackend, CpuNetwork, CpuOptions, InstructionSet, Precision, RawEvaluation, reference};
use rukh_net::input::{HistoryFill, InputPlanes, encode};
use rukh_net::network::PolicyHead;
use rukh_net::{InputFormat, Network};

use crate::goldens::{self, GoldenPosition, GoldenSet};

/// Largest allowed difference from lc0 of a raw policy logit, of q and of d.
const TOLERANCE: f32 = 1e-4;
/// Largest allowed difference from lc0 of the moves left, in plies.
const MOVES_LEFT_TOLERANCE: f32 = 1e-2;

fn history(golden: &GoldenPosition) -> PositionHistory {
    let start = Position::from_fen(&golden.fen).unwrap_or_else(|error| panic!("{}: {error}", golden.id));
    let mut history = PositionHistory::new(start);
    for text in &golden.moves {
        let next =
            uci_move::parse(history.last(), text).unwrap_or_else(|error| panic!("{}: {error}", golden.id));
        history.push(next);
    }
    history
}

pub(crate) fn inputs(set: &GoldenSet, format: InputFormat) -> Vec<InputPlanes> {
    set.positions.iter().map(|golden| encode(&history(golden), format, HistoryFill::FenOnly).0).collect()
}

/// The largest differences from lc0 over positions.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Difference {
    policy: f32,
    q: f32,
    d: f32,
    m: f32,
}

impl Difference {
    fn add(&mut self, golden: &GoldenPosition, got: &RawEvaluation) {
        for (_, index, logit) in &golden.policy_raw {
            self.policy = larger(self.policy, got.policy[usize::from(*index)] - logit);
        }
        self.q = larger(self.q, got.q - golden.q);
        self.d = larger(self.d, got.d - golden.d);
        self.m = larger(self.m, got.m - golden.m);
    }

    pub(crate) fn assert_small(&self, what: &str) {
        println!("{what}: {self:?}");
        assert!(
            self.policy <= TOLERANCE
                && self.q <= TOLERANCE
                && self.d <= TOLERANCE
                && self.m <= MOVES_LEFT_TOLERANCE,
            "{what}: {self:?}"
        );
    }

    fn assert_at_most(&self, most: &Difference, what: &str) {
        let passes = self.policy <= most.policy && self.q <= most.q && self.d <= most.d && self.m <= most.m;
        assert!(passes, "{what}: {self:?}");
    }
}

/// The larger magnitude; NaN is infinitely large.
fn larger(a: f32, b: f32) -> f32 {
    if b.is_nan() { f32::INFINITY } else { a.max(b.abs()) }
}

pub(crate) fn difference(set: &GoldenSet, evaluations: &[RawEvaluation]) -> Difference {
    assert_eq!(set.positions.len(), evaluations.len(), "{}", set.name);
    let mut difference = Difference::default();
    for (golden, evaluation) in set.positions.iter().zip(evaluations) {
        difference.add(golden, evaluation);
    }
    difference
}

/// All instruction sets of this machine. Says which others a test skips.
fn tested() -> Vec<InstructionSet> {
    if let Some(line) = InstructionSet::skipped() {
        println!("{line}");
    }
    InstructionSet::available()
}

fn load(set: &GoldenSet) -> Network {
    Network::load_bytes(&set.network, &set.heads).unwrap_or_else(|error| panic!("{}: {error}", set.name))
}

fn check_fp32(set: &GoldenSet) {
    let network = load(set);
    let inputs = inputs(set, network.architecture.input_format);
    for instructions in tested() {
        if !instructions.changes(Precision::Fp32) {
            continue;
        }
        let what = format!("{} on {}", set.name, instructions.name());
        let packed = CpuNetwork::new(network.clone(), Precision::Fp32, instructions);
        let together = packed.evaluate_raw(&inputs);
        difference(set, &together).assert_small(&format!("{what}, one batch"));
        let alone: Vec<RawEvaluation> =
            inputs.iter().flat_map(|input| packed.evaluate_raw(std::slice::from_ref(input))).collect();
        difference(set, &alone).assert_small(&format!("{what}, one by one"));
    }
}

#[test]
fn every_committed_network_agrees_with_lc0() {
    for set in goldens::committed() {
        check_fp32(&set);
    }
}

#[test]
fn every_shared_network_agrees_with_lc0() {
    for set in goldens::shared() {
        check_fp32(&set);
    }
}

#[test]
fn the_plain_reference_agrees_with_lc0() {
    for set in goldens::committed() {
        let network = load(&set);
        // A few positions of each set are enough: the reference is slow, and it evaluates one position at a time.
        let few = GoldenSet { positions: set.positions.iter().step_by(7).cloned().collect(), ..set };
        let inputs = inputs(&few, network.architecture.input_format);
        let evaluations: Vec<RawEvaluation> =
            inputs.iter().map(|input| reference::evaluate(&network, input)).collect();
        difference(&few, &evaluations).assert_small(&format!("{} in plain loops", few.name));
    }
}

/// Largest allowed differences of bf16 from lc0's fp32. The largest observed differences, with t1-like and
/// micro-smolgen, are 0.130 for the policy, 0.0140 for q, 0.0108 for d and 0.215 for m.
const BF16_TOLERANCE: Difference = Difference { policy: 0.2, q: 0.025, d: 0.02, m: 0.35 };

#[test]
fn bf16_stays_near_lc0() {
    // This tests bf16 in hardware, where the processor has it, and emulated bf16 on the best other instruction set.
    let all = tested();
    let emulated = all.iter().rev().find(|instructions| !instructions.has_bf16());
    let chosen: Vec<InstructionSet> =
        all.iter().filter(|instructions| instructions.has_bf16()).chain(emulated).copied().collect();
    for set in goldens::committed().into_iter().chain(goldens::shared()) {
        let network = load(&set);
        let inputs = inputs(&set, network.architecture.input_format);
        for &instructions in &chosen {
            let packed = CpuNetwork::new(network.clone(), Precision::Bf16, instructions);
            let got = difference(&set, &packed.evaluate_raw(&inputs));
            println!("{} in bf16 on {}: {got:?}", set.name, instructions.name());
            got.assert_at_most(&BF16_TOLERANCE, &format!("{} in bf16 on {}", set.name, instructions.name()));
        }
    }
}

/// Largest allowed differences of 8-bit products from lc0's fp32. The weights of most of these networks are random, so
/// their values spread evenly over the whole range, unlike those of a trained network. The largest observed differences
/// are 0.36 for the policy, 0.030 for q, 0.026 for d and 0.60 for m. That of d is maia-1100's, whose convolutions have
/// 8-bit weights.
const INT8_TOLERANCE: Difference = Difference { policy: 0.4, q: 0.045, d: 0.04, m: 0.9 };
/// The same with weights of 7 bits, which AVX2 and AVX-512 without VNNI need. The largest observed differences are 0.51
/// for the policy, 0.043 for q, 0.026 for d and 0.96 for m.
const INT8_TOLERANCE_WITHOUT_VNNI: Difference = Difference { policy: 0.75, q: 0.065, d: 0.04, m: 1.4 };

#[test]
fn int8_stays_near_lc0() {
    let tested = tested();
    for set in goldens::committed().into_iter().chain(goldens::shared()) {
        let network = load(&set);
        let inputs = inputs(&set, network.architecture.input_format);
        for &instructions in &tested {
            if !instructions.changes(Precision::Int8) {
                continue;
            }
            // Backends never use convolutions with weights of 7 bits, which are slower than fp32.
            let (precision, most) = match instructions.name() {
                "AVX2" | "AVX-512" => (Precision::Int8Dense, INT8_TOLERANCE_WITHOUT_VNNI),
                _ => (Precision::Int8, INT8_TOLERANCE),
            };
            let packed = CpuNetwork::new(network.clone(), precision, instructions);
            let got = difference(&set, &packed.evaluate_raw(&inputs));
            println!("{} in int8 on {}: {got:?}", set.name, instructions.name());
            got.assert_at_most(&most, &format!("{} in int8 on {}", set.name, instructions.name()));
        }
    }
}

#[test]
fn moves_left_are_never_negative() {
    let set = set_named("micro-attn");
    let mut network = load(&set);
    network.moves_left.as_mut().expect("micro-attn has a moves-left head").output.biases.fill(-1e6);
    let inputs = inputs(&set, network.architecture.input_format);
    for instructions in tested() {
        let packed = CpuNetwork::new(network.clone(), Precision::Fp32, instructions);
        for evaluation in packed.evaluate_raw(&inputs[..3]) {
            assert_eq!(evaluation.m, 0.0, "{}", instructions.name());
        }
    }
}

#[test]
fn an_empty_batch_gives_no_evaluation() {
    let set = &goldens::committed()[0];
    let packed = CpuNetwork::new(load(set), Precision::Fp32, InstructionSet::best());
    assert!(packed.evaluate_raw(&[]).is_empty());
}

fn set_named(name: &str) -> GoldenSet {
    let mut sets = goldens::committed().into_iter();
    sets.find(|set| set.name == name).unwrap_or_else(|| panic!("no golden set {name}"))
}

fn backend(set: &GoldenSet, options: &CpuOptions, temperature: f32) -> CpuBackend {
    let network = Arc::new(load(set));
    CpuBackend::new(network, Precision::Fp32, options, temperature, HistoryFill::FenOnly)
        .unwrap_or_else(|error| panic!("{}: {error}", set.name))
}

/// The history of each position of a set, with its legal moves in the golden file's order.
fn requests(set: &GoldenSet) -> Vec<(PositionHistory, Vec<PackedMove>)> {
    let request = |golden: &GoldenPosition| {
        let history = history(golden);
        let moves = golden.policy_raw.iter().map(|(text, _, _)| {
            let parsed = uci_move::parse(history.last(), text);
            PackedMove::new(parsed.unwrap_or_else(|error| panic!("{}: {error}", golden.id)))
        });
        let moves = moves.collect();
        (history, moves)
    };
    set.positions.iter().map(request).collect()
}

fn evaluate(backend: &CpuBackend, requests: &[(PositionHistory, Vec<PackedMove>)]) -> Evaluations {
    let mut batch = backend.new_batch();
    for (history, moves) in requests {
        assert!(matches!(batch.add(EvalRequest { history, moves }), Added::Queued));
    }
    assert_eq!(batch.len(), requests.len());
    batch.submit().wait().unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn priors_are_the_softmax_of_lc0s_logits_over_legal_moves() {
    // Networks without and with board transforms (canonical input formats).
    for name in ["micro-attn", "micro-in3", "micro-se-conv", "micro-se-old"] {
        let set = set_named(name);
        for temperature in [1.0_f32, 1.359] {
            let evaluations = evaluate(&backend(&set, &CpuOptions::default(), temperature), &requests(&set));
            assert_eq!(evaluations.len(), set.positions.len());
            for (index, golden) in set.positions.iter().enumerate() {
                let (value, priors) = evaluations.get(index);
                assert_eq!(priors.len(), golden.policy_raw.len(), "{name} {}", golden.id);
                assert!((value.q - golden.q).abs() <= TOLERANCE, "{name} {}", golden.id);
                let powers: Vec<f32> =
                    golden.policy_raw.iter().map(|(_, _, logit)| (logit / temperature).exp()).collect();
                let total: f32 = powers.iter().sum();
                for ((prior, power), (text, _, _)) in priors.iter().zip(&powers).zip(&golden.policy_raw) {
                    let right = power / total;
                    assert!((prior - right).abs() <= 1e-4, "{name} {} {text}: {prior}, {right}", golden.id);
                }
            }
        }
    }
}

#[test]
fn threads_and_reused_memory_change_nothing() {
    for name in ["micro-smolgen", "micro-se-conv"] {
        let set = set_named(name);
        let requests = requests(&set);
        let alone = backend(&set, &CpuOptions::default(), 1.0);
        let shared = backend(&set, &CpuOptions { threads: 3, ..CpuOptions::default() }, 1.0);
        let all = evaluate(&alone, &requests);
        for count in [requests.len(), 1, 2, 3, 7, requests.len()] {
            for backend in [&alone, &shared] {
                let some = evaluate(backend, &requests[..count]);
                for index in 0..count {
                    assert_eq!(some.get(index), all.get(index), "{name}: {index} of {count}");
                }
            }
        }
        // Several threads submit batches at the same time.
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let some = evaluate(&shared, &requests[..5]);
                    (0..5).for_each(|index| assert_eq!(some.get(index), all.get(index)));
                });
            }
        });
    }
}

#[test]
fn batches_may_be_empty_dropped_or_too_large() {
    let set = set_named("micro-attn");
    let requests = requests(&set);
    let backend = backend(&set, &CpuOptions { maximum_batch_size: 2, ..CpuOptions::default() }, 1.0);
    assert_eq!(backend.attributes().maximum_batch_size, 2);
    assert!(evaluate(&backend, &[]).is_empty());

    let mut dropped = backend.new_batch();
    dropped.add(EvalRequest { history: &requests[0].0, moves: &requests[0].1 });
    drop(dropped);
    assert_eq!(evaluate(&backend, &requests[..2]).len(), 2);

    let mut large = backend.new_batch();
    for (history, moves) in &requests[..3] {
        large.add(EvalRequest { history, moves });
    }
    let error = large.submit().wait().expect_err("three do not fit").to_string();
    assert!(error.contains("the batch has 3 positions, more than the maximum of 2"), "{error}");
}

/// Each network has a bias that is not a number, or weights or biases so large that the arithmetic overflows.
#[test]
fn a_network_that_overflows_is_an_error() {
    let overflows: [fn(&mut Network); 4] = [
        |network| network.value.output.biases[0] = f32::NAN,
        |network| network.value.output.weights.fill(f32::MAX),
        |network| network.moves_left.as_mut().expect("it has this head").hidden.weights.fill(f32::MAX),
        |network| match &mut network.policy {
            PolicyHead::Attention(head) => {
                head.query_key.iter_mut().for_each(|layer| layer.biases.fill(f32::MAX));
            }
            _ => panic!("micro-attn has an attention policy"),
        },
    ];
    let set = set_named("micro-attn");
    let (history, moves) = &requests(&set)[0];
    for (which, overflow) in overflows.into_iter().enumerate() {
        for precision in [Precision::Fp32, Precision::Bf16] {
            for instructions in tested() {
                let mut network = load(&set);
                overflow(&mut network);
                let options = CpuOptions { instructions: Some(instructions), ..CpuOptions::default() };
                let network = Arc::new(network);
                let backend = CpuBackend::new(network, precision, &options, 1.0, HistoryFill::FenOnly)
                    .unwrap_or_else(|error| panic!("{error}"));
                let mut batch = backend.new_batch();
                batch.add(EvalRequest { history, moves });
                let error = batch.submit().wait().err().map(|error| error.to_string());
                let what = format!("network {which} in {precision:?} on {}", instructions.name());
                assert!(
                    error.as_ref().is_some_and(|error| error.contains("not a finite number")),
                    "{what}: {error:?}"
                );
            }
        }
    }
}

#[test]
fn invalid_options_are_refused() {
    let set = set_named("micro-attn");
    let network = Arc::new(load(&set));
    let make = |threads, maximum_batch_size, temperature| {
        let options = CpuOptions { threads, maximum_batch_size, instructions: None };
        CpuBackend::new(Arc::clone(&network), Precision::Fp32, &options, temperature, HistoryFill::No)
    };
    for (threads, batch, temperature, named) in [
        (0, 8, 1.0, "threads=0"),
        (1_000_000, 8, 1.0, "threads"),
        (1, 0, 1.0, "batch=0"),
        (1, 8, 0.0, "temperature"),
    ] {
        let error = make(threads, batch, temperature).err().expect("a refusal").to_string();
        assert!(error.contains(named), "{error}");
    }
    let backend = make(2, 8, 1.0).unwrap_or_else(|error| panic!("{error}"));
    let attributes = backend.attributes();
    assert!(attributes.runs_on_cpu && attributes.has_wdl && attributes.has_mlh);
    assert!(
        attributes.name.starts_with("cpu (") && attributes.name.ends_with("fp32)"),
        "{}",
        attributes.name
    );
    assert!(attributes.recommended_batch_size <= 8 && attributes.suggested_threads >= 1);
}
