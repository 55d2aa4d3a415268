//! The embedded network: the CPU backend must give lc0's evaluations.
//!
//! `scripts/training/compare_with_rukh.py` wrote lc0's evaluations to `tests/data/trained-network-goldens.json`. To
//! compare another network with lc0 or with PyTorch, in which it was trained, run the script for it and set
//! `RUKH_TRAINED_NETWORK=NETWORK.pb.gz:GOLDENS.json`.

use std::fs;

use rukh_chess::{Position, PositionHistory, uci_move};
use rukh_cpu::{CpuNetwork, InstructionSet, Precision, RawEvaluation};
use rukh_net::input::encode;
use rukh_net::{HeadSelection, HistoryFill, InputPlanes, Network};
use rukh_weights::NETWORK as EMBEDDED_BYTES;
use serde::Deserialize;

use crate::goldens;

/// Largest difference of a raw policy logit, of q and of d.
const TOLERANCE: f32 = 1e-3;
/// Largest difference of the moves left, in plies.
const MOVES_LEFT_TOLERANCE: f32 = 1e-2;

#[derive(Deserialize)]
struct GoldenFile {
    positions: Vec<Golden>,
}

/// A position with lc0's or PyTorch's evaluation.
#[derive(Deserialize)]
struct Golden {
    fen: String,
    /// The UCI moves from `fen` to the position. There are some only if the position is a repetition.
    moves: Vec<String>,
    q: f32,
    d: f32,
    m: f32,
    /// Policy index and raw logit of each legal move.
    policy: Vec<(u16, f32)>,
}

/// The evaluations of the file, and those of the CPU backend in a precision.
fn evaluations(network: &[u8], goldens: &str, precision: Precision) -> Vec<(Golden, RawEvaluation)> {
    let goldens: GoldenFile = serde_json::from_str(goldens).expect("the evaluations are JSON");
    assert_eq!(goldens.positions.len(), 100);
    let network = Network::load_bytes(network, &HeadSelection::default()).expect("the network loads");
    let format = network.architecture.input_format;
    let packed = CpuNetwork::new(network, precision, InstructionSet::best());
    let inputs: Vec<InputPlanes> = goldens
        .positions
        .iter()
        .map(|golden| {
            let position = Position::from_fen(&golden.fen).unwrap_or_else(|error| panic!("{error}"));
            let mut history = PositionHistory::new(position);
            for text in &golden.moves {
                let next = uci_move::parse(history.last(), text).unwrap_or_else(|error| panic!("{error}"));
                history.push(next);
            }
            encode(&history, format, HistoryFill::FenOnly).0
        })
        .collect();
    goldens.positions.into_iter().zip(packed.evaluate_raw(&inputs)).collect()
}

fn check(network: &[u8], goldens: &str) {
    let (mut largest, mut largest_m) = (0.0_f32, 0.0_f32);
    for (golden, said) in evaluations(network, goldens, Precision::Fp32) {
        let policy = golden.policy.iter().map(|&(index, logit)| said.policy[usize::from(index)] - logit);
        for difference in policy.chain([said.q - golden.q, said.d - golden.d]) {
            assert!(difference.abs() <= TOLERANCE, "{}: off by {difference}", golden.fen);
            largest = largest.max(difference.abs());
        }
        let difference = (said.m - golden.m).abs();
        assert!(difference <= MOVES_LEFT_TOLERANCE, "{}: m off by {difference}", golden.fen);
        largest_m = largest_m.max(difference);
    }
    println!("largest differences: {largest:.1e} in policy, q and d; {largest_m:.1e} plies in m");
}

/// The precisions below fp32 differ little from lc0's fp32 on average, and mostly have the same best move.
#[test]
fn the_embedded_network_loses_little_in_low_precision() {
    let path = goldens::data_directory().join("trained-network-goldens.json");
    let goldens = fs::read_to_string(path).expect("the evaluations can be read");
    for (precision, most_q, least_agreement) in [(Precision::Bf16, 0.01, 95), (Precision::Int8, 0.02, 90)] {
        let evaluations = evaluations(EMBEDDED_BYTES, &goldens, precision);
        let mean_q = evaluations.iter().map(|(golden, said)| (said.q - golden.q).abs()).sum::<f32>()
            / evaluations.len() as f32;
        let agreement = evaluations
            .iter()
            .filter(|(golden, said)| {
                let best = |logit: &dyn Fn(u16, f32) -> f32| {
                    let moves = golden.policy.iter().map(|&(index, right)| (logit(index, right), index));
                    moves.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, index)| index)
                };
                best(&|_, right| right) == best(&|index, _| said.policy[usize::from(index)])
            })
            .count();
        println!(
            "{precision:?}: q differs by {mean_q:.4} on average, and {agreement} of 100 best moves agree"
        );
        assert!(mean_q <= most_q && agreement >= least_agreement, "{precision:?}: {mean_q}, {agreement}");
    }
}

#[test]
fn the_embedded_network_agrees_with_lc0() {
    let path = goldens::data_directory().join("trained-network-goldens.json");
    check(EMBEDDED_BYTES, &fs::read_to_string(path).expect("the evaluations can be read"));
}

#[test]
fn a_newly_trained_network_agrees_with_its_trainer() {
    let Ok(paths) = std::env::var("RUKH_TRAINED_NETWORK") else {
        println!(
            "skipped: set RUKH_TRAINED_NETWORK=NETWORK.pb.gz:GOLDENS.json to compare a network with PyTorch or lc0"
        );
        return;
    };
    let (network, figures) =
        paths.split_once(':').expect("RUKH_TRAINED_NETWORK is NETWORK.pb.gz:GOLDENS.json");
    let network = fs::read(network).expect("the network can be read");
    check(&network, &fs::read_to_string(figures).expect("the evaluations can be read"));
}
