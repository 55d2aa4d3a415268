//! `PolicyOptimism`: the blend of the vanilla and the optimistic policy head, compared with the two heads.

use crate::goldens::{edited_weights, network_file};
use prost::Message;
use rukh_chess::{Position, PositionHistory};
use rukh_cpu::{CpuNetwork, InstructionSet, Precision, reference};
use rukh_net::file::proto::{PolicyHead, PolicyHeads, decode_bounded};
use rukh_net::input::encode;
use rukh_net::{HeadSelection, HistoryFill, Network};
use rukh_registry::{self, BackendConfig};

const FENS: [&str; 3] = [
    "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1",
    // Promotions to every piece, for White and for Black.
    "r1n1k3/1P1P4/8/8/8/8/2p1p3/4K1NR w K - 0 1",
    "r1n1k3/1P1P4/8/8/8/8/2p1p3/4K1NR b K - 0 1",
];

fn load(bytes: &[u8], policy_optimism: f32) -> Network {
    let heads = HeadSelection { policy_optimism, ..HeadSelection::default() };
    Network::load_bytes(bytes, &heads).unwrap_or_else(|error| panic!("{error}"))
}

/// The 1858 logits of the plain reference, after a check that the processor's best instruction set gives the same.
fn logits(network: &Network, fen: &str) -> Vec<f32> {
    let history = PositionHistory::new(Position::from_fen(fen).expect(fen));
    let (planes, _) = encode(&history, network.architecture.input_format, HistoryFill::FenOnly);
    let plain = reference::evaluate(network, &planes).policy;
    let packed = CpuNetwork::new(network.clone(), Precision::Fp32, InstructionSet::best());
    let fast = packed.evaluate_raw(std::slice::from_ref(&planes)).remove(0).policy;
    assert_close(&plain, &fast, "the reference and the packed network");
    plain
}

fn assert_close(found: &[f32], expected: &[f32], what: &str) {
    let differences = found.iter().zip(expected).map(|(found, expected)| (found - expected).abs());
    let largest = differences.fold(0.0, f32::max);
    assert!(largest < 2e-4 && found.len() == expected.len(), "{what}: {largest}");
}

/// micro-multihead with an embedding of its own for the optimistic head: the shared one with its values reversed.
fn with_own_embedding() -> Vec<u8> {
    edited_weights("micro-multihead", |weights| {
        let bytes = weights.policy_heads.take().expect("micro-multihead has policy heads");
        let mut heads = PolicyHeads::decode(bytes).expect("the policy heads decode");
        let mut optimistic: PolicyHead =
            decode_bounded(heads.optimistic_st.as_ref().expect("the head exists")).expect("the head decodes");
        let mut other =
            heads.ip_pol_w.clone().or_else(|| weights.ip_pol_w.clone()).expect("the shared embedding");
        let mut reversed = other.params.to_vec();
        reversed.reverse();
        other.params = reversed.into();
        optimistic.ip_pol_w = Some(other);
        optimistic.ip_pol_b = heads.ip_pol_b.clone().or_else(|| weights.ip_pol_b.clone());
        heads.optimistic_st = Some(optimistic.encode_to_vec().into());
        weights.policy_heads = Some(heads.encode_to_vec().into());
    })
}

#[test]
fn a_blend_has_the_weighted_mean_of_both_heads_logits() {
    for (name, bytes) in
        [("shared embedding", network_file("micro-multihead")), ("own embeddings", with_own_embedding())]
    {
        let [vanilla, optimistic] = [0.0, 1.0].map(|share| load(&bytes, share));
        for share in [0.25, 0.7] {
            let blend = load(&bytes, share);
            for fen in FENS {
                let (first, second) = (logits(&vanilla, fen), logits(&optimistic, fen));
                let expected: Vec<f32> =
                    first.iter().zip(&second).map(|(a, b)| a * (1.0 - share) + b * share).collect();
                assert!(
                    first.iter().zip(&second).any(|(a, b)| (a - b).abs() > 0.05),
                    "the heads must differ"
                );
                assert_close(&logits(&blend, fen), &expected, &format!("{name}, {share}, {fen}"));
            }
        }
    }
}

#[test]
fn an_optimism_of_1_gives_the_optimistic_head() {
    let bytes = network_file("micro-multihead");
    let named = HeadSelection { policy: "optimistic".into(), ..HeadSelection::default() };
    let named = Network::load_bytes(&bytes, &named).expect("the network loads");
    assert_eq!(logits(&load(&bytes, 1.0), FENS[0]), logits(&named, FENS[0]));
}

#[test]
fn the_error_for_a_missing_optimistic_head_lists_the_heads() {
    let create = |network: &str, policy_optimism| {
        rukh_registry::create(&BackendConfig {
            backend: "cpu".to_owned(),
            network: format!("{}/tests/data/{network}.pb.gz", env!("CARGO_MANIFEST_DIR")),
            cache_entries: 0,
            policy_optimism,
            ..BackendConfig::default()
        })
    };
    assert!(create("micro-multihead", 0.5).is_ok());
    for share in [0.5, 1.0] {
        let error = create("micro-attn", share).err().expect("it has one head").to_string();
        assert!(error.ends_with("has no policy head `optimistic` (available: vanilla)"), "{error}");
    }
}
