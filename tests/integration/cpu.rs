//! The CPU evaluator against lc0's own figures, for every kind of network and every instruction set here.

use rukh::backend::cpu::{CpuNetwork, InstructionSet, Precision, RawEvaluation, reference};
use rukh::chess::{Position, PositionHistory, uci_move};
use rukh::net::input::{HistoryFill, InputPlanes, encode};
use rukh::net::{InputFormat, Network};

use crate::goldens::{self, GoldenPosition, GoldenSet};

/// Largest allowed difference from lc0 of a raw policy logit, of q and of d.
const TOLERANCE: f32 = 1e-4;
/// Largest allowed difference from lc0 of the moves left.
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

fn inputs(set: &GoldenSet, format: InputFormat) -> Vec<InputPlanes> {
    set.positions
        .iter()
        .map(|golden| encode(&history(golden), format, HistoryFill::FenOnly).0)
        .collect()
}

/// The largest differences from lc0 over positions.
#[derive(Clone, Copy, Default, Debug)]
struct Difference {
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

    fn assert_small(&self, what: &str) {
        println!("{what}: {self:?}");
        assert!(
            self.policy <= TOLERANCE
                && self.q <= TOLERANCE
                && self.d <= TOLERANCE
                && self.m <= MOVES_LEFT_TOLERANCE,
            "{what}: {self:?}"
        );
    }
}

/// The larger magnitude; NaN is infinitely large.
fn larger(a: f32, b: f32) -> f32 {
    if b.is_nan() { f32::INFINITY } else { a.max(b.abs()) }
}

fn difference(set: &GoldenSet, evaluations: &[RawEvaluation]) -> Difference {
    assert_eq!(set.positions.len(), evaluations.len(), "{}", set.name);
    let mut difference = Difference::default();
    for (golden, evaluation) in set.positions.iter().zip(evaluations) {
        difference.add(golden, evaluation);
    }
    difference
}

fn load(set: &GoldenSet) -> Network {
    Network::load_bytes(&set.network, &set.heads).unwrap_or_else(|error| panic!("{}: {error}", set.name))
}

fn check_fp32(set: &GoldenSet) {
    let network = load(set);
    let inputs = inputs(set, network.architecture.input_format);
    for instructions in InstructionSet::available() {
        if instructions.has_bf16() {
            continue; // The same kernels as without, in fp32.
        }
        let what = format!("{} on {}", set.name, instructions.name());
        let packed = CpuNetwork::new(&network, Precision::Fp32, instructions);
        let together = packed.evaluate_raw(&inputs);
        difference(set, &together).assert_small(&format!("{what}, one batch"));
        let alone: Vec<RawEvaluation> = inputs
            .iter()
            .flat_map(|input| packed.evaluate_raw(std::slice::from_ref(input)))
            .collect();
        difference(set, &alone).assert_small(&format!("{what}, one by one"));
    }
}

#[test]
fn every_committed_network_says_what_lc0_says() {
    for set in goldens::committed() {
        check_fp32(&set);
    }
}

#[test]
fn every_shared_network_says_what_lc0_says() {
    for set in goldens::shared() {
        check_fp32(&set);
    }
}

#[test]
fn the_plain_reference_says_what_lc0_says() {
    for set in goldens::committed() {
        let network = load(&set);
        // A few positions of each are enough: it is slow, and there is no batch that could matter.
        let few = GoldenSet {
            positions: set.positions.iter().step_by(7).cloned().collect(),
            ..set
        };
        let inputs = inputs(&few, network.architecture.input_format);
        let evaluations: Vec<RawEvaluation> = inputs
            .iter()
            .map(|input| reference::evaluate(&network, input))
            .collect();
        difference(&few, &evaluations).assert_small(&format!("{} in plain loops", few.name));
    }
}

#[test]
fn an_empty_batch_is_no_evaluation() {
    let set = &goldens::committed()[0];
    let packed = CpuNetwork::new(&load(set), Precision::Fp32, InstructionSet::best());
    assert!(packed.evaluate_raw(&[]).is_empty());
}
