//! The project's own network: the engine's evaluator says what the program that trained it says.
//!
//! `scripts/training/compare_with_rukh.py` writes PyTorch's figures. They are of the embedded network; another is
//! compared where `RUKH_TRAINED_NETWORK` names its file and its figures, as `NETWORK.pb.gz:GOLDENS.json`.

use std::fs;

use rukh::backend::cpu::{CpuNetwork, InstructionSet, Precision};
use rukh::chess::{Position, PositionHistory, uci_move};
use rukh::net::discover::EMBEDDED_BYTES;
use rukh::net::input::encode;
use rukh::net::{HeadSelection, HistoryFill, InputPlanes, Network};
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

/// PyTorch's figures for a position.
#[derive(Deserialize)]
struct Golden {
    fen: String,
    /// That lead to it from there: it occurs again.
    moves: Vec<String>,
    q: f32,
    d: f32,
    m: f32,
    /// Policy index and raw logit of each legal move.
    policy: Vec<(u16, f32)>,
}

fn check(network: &[u8], goldens: &str) {
    let goldens: GoldenFile = serde_json::from_str(goldens).expect("the figures are JSON");
    assert_eq!(goldens.positions.len(), 100);
    let network = Network::load_bytes(network, &HeadSelection::default()).expect("the network loads");
    let format = network.architecture.input_format;
    let packed = CpuNetwork::new(network, Precision::Fp32, InstructionSet::best());
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
    let (mut largest, mut largest_m) = (0.0_f32, 0.0_f32);
    for (golden, said) in goldens.positions.iter().zip(packed.evaluate_raw(&inputs)) {
        let policy = golden.policy.iter().map(|&(index, logit)| said.policy[usize::from(index)] - logit);
        for difference in policy.chain([said.q - golden.q, said.d - golden.d]) {
            assert!(difference.abs() <= TOLERANCE, "{}: off by {difference}", golden.fen);
            largest = largest.max(difference.abs());
        }
        let difference = (said.m - golden.m).abs();
        assert!(difference <= MOVES_LEFT_TOLERANCE, "{}: m off by {difference}", golden.fen);
        largest_m = largest_m.max(difference);
    }
    println!("largest differences: {largest:.1e} of policy, q and d, {largest_m:.1e} plies");
}

#[test]
fn the_embedded_network_says_what_pytorch_says() {
    let path = goldens::data_directory().join("trained-network-goldens.json");
    check(EMBEDDED_BYTES, &fs::read_to_string(path).expect("the figures can be read"));
}

#[test]
fn a_network_just_trained_says_what_pytorch_says() {
    let Ok(paths) = std::env::var("RUKH_TRAINED_NETWORK") else {
        println!("skipped: RUKH_TRAINED_NETWORK names no network with PyTorch's figures");
        return;
    };
    let (network, figures) = paths.split_once(':').expect("RUKH_TRAINED_NETWORK is NETWORK:GOLDENS");
    let network = fs::read(network).expect("the network can be read");
    check(&network, &fs::read_to_string(figures).expect("the figures can be read"));
}
