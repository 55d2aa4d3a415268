//! Encoders whose GEMMs have 8-bit floating-point numbers, on the emulator.

use super::int8::{POSITIONS, embedded_differences, has_encoders};
use super::*;

/// The largest allowed differences from lc0. A number in e4m3 has three bits of mantissa, so that its error is up to a
/// sixteenth of the number, where an integer of 8 bits has an error of up to a 510th of its row's range. The networks'
/// random weights have no outliers, which e4m3 is better at, so that their differences are larger than a trained network's.
/// The largest observed ones are 0.064 for q, 0.070 for d, 3.7 for m, 0.12 for the best move and 0.047 for the divergence.
const FP8: Limit = Limit { q: 0.1, m: 6.0, top: 0.2, divergence: 0.08 };

fn check(test: &str, architecture: &str) {
    on_emulator(test, &[("RUKH_EMULATOR_ARCH", architecture)], || {
        for set in goldens::committed().into_iter().filter(|set| has_encoders(set) && is_of_a_kind(set)) {
            check_set(&set, GpuPrecision::Fp8, &options(16), &FP8);
        }
    });
}

#[test]
fn encoders_in_fp8_stay_near_lc0_on_gfx1200() {
    check("fp8::encoders_in_fp8_stay_near_lc0_on_gfx1200", "gfx1200");
}

/// Its format has another largest number, and another code for what is no number.
#[test]
fn encoders_in_fp8_stay_near_lc0_on_gfx942() {
    check("fp8::encoders_in_fp8_stay_near_lc0_on_gfx942", "gfx942");
}

/// With a warm-up, the figures are compared with the processor's, and the graphs are used.
#[test]
fn fp8_passes_the_check_of_the_figures() {
    let settings = [("RUKH_EMULATOR_ARCH", "gfx1200")];
    on_emulator("fp8::fp8_passes_the_check_of_the_figures", &settings, || {
        let options = GpuOptions { warm_up: true, tuning: Tuning::Off, ..options(4) };
        let backend = backend(&goldens::named("micro-smolgen"), GpuPrecision::Fp8, &options);
        assert!(backend.attributes().name.ends_with(", fp8)"), "{}", backend.attributes().name);
        assert!(backend.notices().is_empty(), "{:?}", backend.notices());
    });
}

#[test]
fn a_card_without_fp8_says_so() {
    on_emulator("fp8::a_card_without_fp8_says_so", &[("RUKH_EMULATOR_ARCH", "gfx1100")], || {
        let made = |name: &str| {
            let set = goldens::named(name);
            let network = Network::load_bytes(&set.network, &set.heads).expect("a committed network loads");
            let device = GpuBackend::open("rocm-fp8", &options(2)).unwrap_or_else(|error| panic!("{error}"));
            GpuBackend::new(device, network, GpuPrecision::Fp8, &options(2), 1.0, HistoryFill::FenOnly)
        };
        let error = made("micro-smolgen").err().expect("gfx1100 has no such GEMMs").to_string();
        let reason = "(gfx1100) has no instructions that multiply 8-bit floating-point numbers";
        assert!(error.contains(reason), "{error}");
        // A network of convolutions has no GEMMs in 8 bits.
        let backend = made("micro-se-conv").unwrap_or_else(|error| panic!("{error}"));
        assert!(backend.attributes().name.ends_with(", fp16)"), "{}", backend.attributes().name);
    });
}

#[test]
fn the_embedded_network_in_fp8_is_near_fp32() {
    let settings = [("RUKH_EMULATOR_ARCH", "gfx1200")];
    on_emulator("fp8::the_embedded_network_in_fp8_is_near_fp32", &settings, || {
        let [on_card, _] = embedded_differences(GpuPrecision::Fp8);
        println!("the mean difference of q is {on_card:.4} on the card over {POSITIONS} positions");
        assert!(on_card > 0.0 && on_card < 0.03, "{on_card}");
    });
}

/// hipBLASLt's GEMMs in e4m3 with a scale for each row and each output. Each GEMM is then one call, as in fp16.
#[test]
fn hipblaslt_multiplies_fp8_if_the_user_wants_it() {
    const MARK: &str = "all positions are evaluated";
    let test = "fp8::hipblaslt_multiplies_fp8_if_the_user_wants_it";
    let folder = libraries();
    let settings = [("RUKH_EMULATOR_ARCH", "gfx1200"), ("RUKH_EMULATOR_LOG", "1")];
    let stderr = inside(folder.path(), test, &settings, || {
        let own = GpuOptions { graph: Some(false), streams: Some(1), ..options(16) };
        let library = GpuOptions { gemm: GemmLibrary::HipblasLt, ..own.clone() };
        let calls =
            [(GpuPrecision::Fp16, &library), (GpuPrecision::Fp8, &library), (GpuPrecision::Fp8, &own)];
        for (precision, options) in calls {
            check_set(&goldens::named("micro-smolgen"), precision, options, &FP8);
            eprintln!("{MARK}");
        }
    });
    let Some(stderr) = stderr else { return };
    let is_gemm = |line: &&str| line.starts_with("rocm-emulator: hipblasLtMatmul = ");
    let counts: Vec<usize> =
        stderr.split(MARK).take(3).map(|part| part.lines().filter(is_gemm).count()).collect();
    assert!(counts[0] > 0 && counts[1] == counts[0] && counts[2] < counts[0], "{counts:?}");
}
