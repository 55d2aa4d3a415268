//! Weights of 8 bits for GEMMs of few rows, with arithmetic in 16 bits, on the emulator.

use super::int8::for_encoders;
use super::*;
use crate::rocm_errors::{search, stdout};
use rukh_gpu::{SharedLaunches, WeightBits};
use rukh_weights::NETWORK as EMBEDDED_BYTES;

/// The largest allowed differences from lc0: those of `rocm-int8`, which rounds the inputs, too, but chooses the weights by
/// them. The weights of most of the networks are random. The largest observed differences are 0.020 for q, 0.011 for d,
/// 0.45 for m, 0.029 for the best move and 0.0022 for the divergence.
const LIMIT: Limit = Limit { q: 0.04, m: 0.7, top: 0.04, divergence: 0.004 };

/// In bf16, whose own roundings are as large. The largest observed differences are 0.050 for q, 0.019 for d, 1.2 for m,
/// 0.040 for the best move and 0.0057 for the divergence.
const BF16_LIMIT: Limit = Limit { q: 0.08, m: 1.6, top: 0.06, divergence: 0.02 };

/// The most positions in a batch, which has 256 rows.
const BATCH: usize = 4;

fn of_8_bits(maximum_batch: usize, fuse: SharedLaunches) -> GpuOptions {
    GpuOptions {
        weight_bits: WeightBits::Eight,
        gemm: GemmLibrary::Own,
        fuse: Some(fuse),
        ..options(maximum_batch)
    }
}

/// Checks positions of a set in batches of 1 to [`BATCH`], with launches that GEMMs share and without.
fn check_small_batches(set: &GoldenSet, (precision, limit): (GpuPrecision, &Limit)) {
    let samples: Vec<Sample> = set.positions.iter().map(sample).collect();
    for fuse in [SharedLaunches::None, SharedLaunches::All] {
        let usual = GpuOptions { weight_bits: WeightBits::Sixteen, ..of_8_bits(BATCH, fuse) };
        let usual = backend(set, precision, &usual);
        let backend = backend(set, precision, &of_8_bits(BATCH, fuse));
        assert!(backend.notices().is_empty(), "{:?}", backend.notices());
        let mut distance = Distance::default();
        let mut rest = &samples[..];
        // The first batch of a size runs step by step, and the later ones as a graph.
        for size in (1..=BATCH).cycle() {
            let some = &rest[..size.min(rest.len())];
            rest = &rest[some.len()..];
            if some.is_empty() {
                break;
            }
            let evaluations = evaluate(&backend, some);
            some.iter().zip(evaluations.iter()).for_each(|(sample, got)| distance.add(set, sample, got));
            assert!(!evaluations.iter().eq(evaluate(&usual, some).iter()), "the weights have 16 bits");
        }
        let what = format!("{} in {precision:?} with weights of 8 bits, shared launches {fuse:?}", set.name);
        distance.check(&what, limit);
    }
}

fn check_card(test: &str, architecture: &str, wanted: impl Fn(&GoldenSet) -> bool) {
    for_encoders(test, architecture, wanted, |set| {
        check_small_batches(set, (GpuPrecision::Fp16, &LIMIT));
        check_small_batches(set, (GpuPrecision::Bf16, &BF16_LIMIT));
    });
}

/// Encoders with smolgen and without.
fn is_wanted(set: &GoldenSet) -> bool {
    ["micro-smolgen", "micro-multihead"].contains(&set.name.as_str())
}

#[test]
fn weights_of_8_bits_stay_near_lc0_on_gfx1100() {
    check_card("byte_weights::weights_of_8_bits_stay_near_lc0_on_gfx1100", "gfx1100", is_wanted);
}

#[test]
#[ignore = "takes two minutes"]
fn every_network_with_weights_of_8_bits_stays_near_lc0() {
    check_card("byte_weights::every_network_with_weights_of_8_bits_stays_near_lc0", "gfx1100", |_| true);
}

#[test]
fn weights_of_8_bits_stay_near_lc0_on_gfx1151() {
    check_card("byte_weights::weights_of_8_bits_stay_near_lc0_on_gfx1151", "gfx1151", is_wanted);
}

#[test]
fn weights_of_8_bits_stay_near_lc0_on_gfx1200() {
    check_card("byte_weights::weights_of_8_bits_stay_near_lc0_on_gfx1200", "gfx1200", is_wanted);
}

/// Without matrix instructions: dot products of two halves, and fp32 for bf16.
#[test]
fn weights_of_8_bits_stay_near_lc0_on_gfx1030() {
    check_card("byte_weights::weights_of_8_bits_stay_near_lc0_on_gfx1030", "gfx1030", is_wanted);
}

#[test]
fn weights_of_8_bits_stay_near_lc0_on_gfx906() {
    check_card("byte_weights::weights_of_8_bits_stay_near_lc0_on_gfx906", "gfx906", is_wanted);
}

#[test]
fn weights_of_8_bits_stay_near_lc0_on_gfx908() {
    check_card("byte_weights::weights_of_8_bits_stay_near_lc0_on_gfx908", "gfx908", is_wanted);
}

#[test]
fn weights_of_8_bits_stay_near_lc0_on_gfx90a() {
    check_card("byte_weights::weights_of_8_bits_stay_near_lc0_on_gfx90a", "gfx90a", is_wanted);
}

#[test]
fn weights_of_8_bits_stay_near_lc0_on_gfx942() {
    check_card("byte_weights::weights_of_8_bits_stay_near_lc0_on_gfx942", "gfx942", is_wanted);
}

/// Nothing changes for larger batches, whose operations take the time, and in fp32, which says so.
#[test]
fn weights_of_8_bits_are_for_small_batches_in_16_bits() {
    on_emulator("byte_weights::weights_of_8_bits_are_for_small_batches_in_16_bits", &[], || {
        let set = goldens::named("micro-smolgen");
        let samples: Vec<Sample> = set.positions.iter().take(1).map(sample).collect();
        let usual = |options: &GpuOptions| GpuOptions { weight_bits: WeightBits::Sixteen, ..options.clone() };
        let fp32 = of_8_bits(1, SharedLaunches::None);
        let [found, expected] = [&fp32, &usual(&fp32)]
            .map(|options| evaluate(&backend(&set, GpuPrecision::Fp32, options), &samples));
        assert!(found.iter().eq(expected.iter()));
        let notices = backend(&set, GpuPrecision::Fp32, &fp32).notices().join("\n");
        assert!(notices.contains("weight_bits=8 changes nothing"), "{notices}");
        // Without a table of measured GEMMs, `auto` reads weights of 16 bits.
        let auto = GpuOptions { weight_bits: WeightBits::Auto, ..of_8_bits(1, SharedLaunches::None) };
        let [found, expected] = [&auto, &usual(&auto)]
            .map(|options| evaluate(&backend(&set, GpuPrecision::Fp16, options), &samples));
        assert!(found.iter().eq(expected.iter()));
        assert!(
            backend(&set, GpuPrecision::Fp16, &auto).attributes().name.ends_with(", fp16, weight_bits=auto)")
        );
    });
}

/// The figures are compared with the processor's at the start. Weights of 8 bits are given up if they are at fault.
#[test]
fn wrong_gemms_with_weights_of_8_bits_are_given_up() {
    let folder = libraries();
    let arguments =
        ["--backend=rocm-fp16", "-o", "max_batch=1,streams=1,wait=block,tune=off,gemm=own,weight_bits=8"];
    let run = |wrong: &str| {
        let cache = tempfile::tempdir().expect("a temporary folder");
        let cache = cache.path().display().to_string();
        let settings = [("XDG_CACHE_HOME", cache.as_str()), ("RUKH_EMULATOR_WRONG", wrong)];
        stdout(&search(folder.path(), &arguments, &settings))
    };
    let said = run(
        "gemm_byte_weights_f16_64x32_128,gemm_byte_weights_f16_64x64_128,gemm_byte_weights_f16_32x64_128,gemm_chain_byte_weights_f16_64x32_128",
    );
    assert!(said.contains("; trying without weights of 8 bits"), "{said}");
    assert!(said.contains("the card's figures are right without weights of 8 bits"), "{said}");
    let said = run("");
    assert!(said.contains("bestmove") && !said.contains("wrong") && !said.contains("error"), "{said}");
}

#[test]
fn an_unknown_number_of_bits_is_refused() {
    let folder = libraries();
    let said = stdout(&search(folder.path(), &["--backend=rocm-fp16", "-o", "weight_bits=4"], &[]));
    assert!(said.contains("weight_bits=4") && said.contains("expected one of 16, 8, auto"), "{said}");
}

/// The mean difference of q from fp32 in the embedded network, whose weights are trained.
#[test]
fn the_embedded_network_with_weights_of_8_bits_is_near_fp32() {
    on_emulator("byte_weights::the_embedded_network_with_weights_of_8_bits_is_near_fp32", &[], || {
        let path = goldens::data_directory().join("trained-network-goldens.json");
        let text = std::fs::read_to_string(path).expect("the evaluations can be read");
        let positions: serde_json::Value = serde_json::from_str(&text).expect("the file is JSON");
        let fens = positions["positions"].as_array().expect("a list of positions").iter();
        let samples: Vec<(PositionHistory, Vec<PackedMove>)> = fens
            .take(super::int8::POSITIONS)
            .map(|position| {
                let fen = position["fen"].as_str().expect("a FEN");
                let history = PositionHistory::new(Position::from_fen(fen).expect("a valid FEN"));
                let moves = history.last().legal_moves().iter().map(|&m| PackedMove::new(m)).collect();
                (history, moves)
            })
            .collect();
        let network = Network::load_bytes(EMBEDDED_BYTES, &HeadSelection::default()).expect("it loads");
        let values = |backend: &dyn Backend| -> Vec<f32> {
            let of_batch = |some: &[(PositionHistory, Vec<PackedMove>)]| -> Vec<f32> {
                let mut batch = backend.new_batch();
                for (history, moves) in some {
                    batch.add(EvalRequest { history, moves });
                }
                let evaluations = batch.submit().wait().unwrap_or_else(|error| panic!("{error}"));
                evaluations.iter().map(|(value, _)| value.q).collect()
            };
            samples.chunks(BATCH).flat_map(of_batch).collect()
        };
        let processor = CpuOptions { maximum_batch_size: BATCH, ..CpuOptions::default() };
        let shared = Arc::new(network.clone());
        let exact = CpuBackend::new(shared, Precision::Fp32, &processor, 1.0, HistoryFill::FenOnly);
        let exact = values(&exact.expect("it can be made"));
        let of_8_bits = of_8_bits(BATCH, SharedLaunches::All);
        let of_16_bits = GpuOptions { weight_bits: WeightBits::Sixteen, ..of_8_bits.clone() };
        let [eight, sixteen] = [of_8_bits, of_16_bits].map(|options| {
            let found = values(&backend_of(&network, GpuPrecision::Fp16, &options));
            let differences: Vec<f32> =
                found.iter().zip(&exact).map(|(found, exact)| (found - exact).abs()).collect();
            let most = differences.iter().copied().fold(0.0, f32::max);
            (differences.iter().sum::<f32>() / differences.len() as f32, most)
        });
        println!(
            "q differs by {:.5} on average and by {:.5} at most with weights of 8 bits, and by {:.5} and {:.5} with 16 bits",
            eight.0, eight.1, sixteen.0, sixteen.1
        );
        assert!(eight.0 > sixteen.0 && eight.0 < 5e-3 && eight.1 < 3e-2, "{eight:?}");
    });
}
