//! Encoders whose GEMMs have 8-bit integers, on the emulator.

use super::*;
use rukh_weights::NETWORK as EMBEDDED_BYTES;
use std::fs::{self, File};
use std::path::PathBuf;
use std::time::SystemTime;

/// The largest allowed differences from lc0. Most of the networks' weights are random, so that their values spread evenly
/// over the whole range, unlike those of a trained network. The largest observed differences are 0.025 for q, 0.010
/// for d, 0.48 for m, 0.019 for the best move and 0.0014 for the divergence.
const INT8: Limit = Limit { q: 0.04, m: 0.7, top: 0.03, divergence: 0.003 };

/// Whether the network has encoders. The others are computed in fp16.
pub(super) fn has_encoders(set: &GoldenSet) -> bool {
    let network = Network::load_bytes(&set.network, &set.heads).expect("a committed network loads");
    matches!(network.body, Body::Attention { .. })
}

/// Calls `check` on an emulated card with each wanted set of a network with encoders.
pub(super) fn for_encoders(
    test: &str,
    architecture: &str,
    wanted: impl Fn(&GoldenSet) -> bool,
    check: impl Fn(&GoldenSet),
) {
    on_emulator(test, &[("RUKH_EMULATOR_ARCH", architecture)], || {
        goldens::committed().iter().filter(|set| has_encoders(set) && wanted(set)).for_each(&check);
    });
}

fn check(test: &str, architecture: &str, wanted: impl Fn(&GoldenSet) -> bool) {
    for_encoders(test, architecture, wanted, |set| {
        check_set(set, GpuPrecision::Int8, &options(16), &INT8);
    });
}

#[test]
fn encoders_in_int8_stay_near_lc0_on_gfx1100() {
    check("int8::encoders_in_int8_stay_near_lc0_on_gfx1100", "gfx1100", |_| true);
}

#[test]
fn encoders_in_int8_stay_near_lc0_on_gfx1200() {
    check("int8::encoders_in_int8_stay_near_lc0_on_gfx1200", "gfx1200", is_of_a_kind);
}

/// Without matrix instructions: dot products of four bytes.
#[test]
fn encoders_in_int8_stay_near_lc0_on_gfx1030() {
    check("int8::encoders_in_int8_stay_near_lc0_on_gfx1030", "gfx1030", is_of_a_kind);
}

#[test]
fn encoders_in_int8_stay_near_lc0_on_gfx906() {
    check("int8::encoders_in_int8_stay_near_lc0_on_gfx906", "gfx906", is_of_a_kind);
}

/// The sums of the matrix instructions are integers in accumulation registers.
#[test]
fn encoders_in_int8_stay_near_lc0_on_gfx908() {
    check("int8::encoders_in_int8_stay_near_lc0_on_gfx908", "gfx908", is_of_a_kind);
}

/// An instruction multiplies 16 bytes of each row here, and 32 on gfx942.
#[test]
fn encoders_in_int8_stay_near_lc0_on_gfx90a() {
    check("int8::encoders_in_int8_stay_near_lc0_on_gfx90a", "gfx90a", is_of_a_kind);
}

#[test]
fn encoders_in_int8_stay_near_lc0_on_gfx942() {
    check("int8::encoders_in_int8_stay_near_lc0_on_gfx942", "gfx942", is_of_a_kind);
}

/// With a warm-up, the figures are compared with the processor's, and the graphs are used.
#[test]
fn int8_passes_the_check_of_the_figures() {
    on_emulator("int8::int8_passes_the_check_of_the_figures", &[], || {
        let set = goldens::named("micro-smolgen");
        let options = GpuOptions { warm_up: true, tuning: Tuning::Off, ..options(4) };
        let backend = backend(&set, GpuPrecision::Int8, &options);
        assert!(backend.attributes().name.ends_with(", int8)"), "{}", backend.attributes().name);
        assert!(backend.notices().is_empty(), "{:?}", backend.notices());
    });
}

/// The files in the cache folder that keep how weights were rounded.
fn kept_files() -> Vec<PathBuf> {
    let cache = PathBuf::from(std::env::var_os("XDG_CACHE_HOME").expect("a folder of this test's own"));
    let Ok(files) = fs::read_dir(cache.join("rukh")) else { return Vec::new() };
    let paths = files.map(|file| file.expect("the folder can be read").path());
    paths.filter(|path| path.to_string_lossy().contains("int8-weights")).collect()
}

/// A start that evaluates positions writes the file, so that the time of its last change shows whether one did.
#[test]
fn only_the_first_start_of_a_network_evaluates_positions() {
    on_emulator("int8::only_the_first_start_of_a_network_evaluates_positions", &[], || {
        let set = goldens::named("micro-smolgen");
        let samples: Vec<_> = set.positions.iter().take(2).map(sample).collect();
        let start = |precision| {
            let found = evaluate(&backend(&set, precision, &options(2)), &samples);
            found.iter().map(|(value, priors)| (value, priors.to_vec())).collect::<Vec<_>>()
        };
        start(GpuPrecision::Fp16);
        assert!(kept_files().is_empty(), "16 bits need no such file");

        let first = start(GpuPrecision::Int8);
        let [path] = &kept_files()[..] else { panic!("{:?}", kept_files()) };
        let name = path.file_name().expect("it has a name").to_string_lossy();
        assert!(name.starts_with("int8-weights-gpu-") && name.ends_with(".gz"), "{name}");
        let content = fs::read(path).expect("it can be read");
        let change = || fs::metadata(path).and_then(|file| file.modified()).expect("it has a time");
        let open = || File::options().write(true).open(path).expect("it can be opened");

        open().set_modified(SystemTime::UNIX_EPOCH).expect("its time can be set");
        assert_eq!(start(GpuPrecision::Int8), first);
        assert_eq!(change(), SystemTime::UNIX_EPOCH, "the second start has evaluated positions");

        for damaged in [&b""[..], b"no gzip", &content[..content.len() / 2]] {
            fs::write(path, damaged).expect("it can be written");
            assert_eq!(start(GpuPrecision::Int8), first, "{} bytes", damaged.len());
            assert_eq!(fs::read(path).expect("it is there"), content, "the file is replaced");
        }

        // The processor's own weights are kept elsewhere.
        let network = Network::load_bytes(&set.network, &set.heads).expect("it loads");
        let on_processor = CpuOptions::default();
        CpuBackend::new(Arc::new(network), Precision::Int8, &on_processor, 1.0, HistoryFill::FenOnly)
            .expect("it can be made");
        assert_eq!(kept_files().len(), 2, "{:?}", kept_files());
        assert_eq!(fs::read(path).expect("it is there"), content);

        let other = goldens::named("micro-attn");
        backend(&other, GpuPrecision::Int8, &options(2));
        assert_eq!(kept_files().len(), 3, "another network has a file of its own: {:?}", kept_files());
    });
}

#[test]
fn a_network_without_encoders_has_no_int8() {
    on_emulator("int8::a_network_without_encoders_has_no_int8", &[], || {
        let set = goldens::named("micro-se-conv");
        let backend = backend(&set, GpuPrecision::Int8, &options(2));
        assert!(backend.attributes().name.ends_with(", fp16)"), "{}", backend.attributes().name);
    });
}

/// The mean difference of q from fp32 on the processor.
fn mean_difference(
    backend: &dyn Backend,
    exact: &Evaluations,
    samples: &[(PositionHistory, Vec<PackedMove>)],
) -> f32 {
    let found = evaluate_positions(backend, samples);
    let differences =
        found.iter().zip(exact.iter()).map(|((found, _), (exact, _))| (found.q - exact.q).abs());
    differences.sum::<f32>() / samples.len() as f32
}

fn evaluate_positions(backend: &dyn Backend, samples: &[(PositionHistory, Vec<PackedMove>)]) -> Evaluations {
    let mut batch = backend.new_batch();
    for (history, moves) in samples {
        batch.add(EvalRequest { history, moves });
    }
    batch.submit().wait().unwrap_or_else(|error| panic!("{error}"))
}

/// The mean differences of q from fp32 in the embedded network, of a card with this format and of the processor with 8-bit
/// integers.
pub(super) fn embedded_differences(precision: GpuPrecision) -> [f32; 2] {
    let path = goldens::data_directory().join("trained-network-goldens.json");
    let text = std::fs::read_to_string(path).expect("the evaluations can be read");
    let positions: serde_json::Value = serde_json::from_str(&text).expect("the file is JSON");
    let fens = positions["positions"].as_array().expect("a list of positions").iter();
    let samples: Vec<(PositionHistory, Vec<PackedMove>)> = fens
        .take(POSITIONS)
        .map(|position| {
            let fen = position["fen"].as_str().expect("a FEN");
            let history = PositionHistory::new(Position::from_fen(fen).expect("a valid FEN"));
            let moves = history.last().legal_moves().iter().map(|&m| PackedMove::new(m)).collect();
            (history, moves)
        })
        .collect();
    let network = Network::load_bytes(EMBEDDED_BYTES, &HeadSelection::default()).expect("it loads");
    let processor = |precision| {
        let options = CpuOptions { maximum_batch_size: POSITIONS, ..CpuOptions::default() };
        let network = Arc::new(network.clone());
        CpuBackend::new(network, precision, &options, 1.0, HistoryFill::FenOnly).expect("it can be made")
    };
    let exact = evaluate_positions(&processor(Precision::Fp32), &samples);
    let on_processor = mean_difference(&processor(Precision::Int8), &exact, &samples);
    let card = backend_of(&network, precision, &options(POSITIONS));
    [mean_difference(&card, &exact, &samples), on_processor]
}

/// The card's 8-bit integers are as near to fp32 as the processor's, because both round the same weights in the same way.
#[test]
fn the_embedded_network_in_int8_is_as_near_to_fp32_as_on_the_processor() {
    on_emulator("int8::the_embedded_network_in_int8_is_as_near_to_fp32_as_on_the_processor", &[], || {
        let [on_card, on_processor] = embedded_differences(GpuPrecision::Int8);
        println!("the mean difference of q is {on_card:.4} on the card, {on_processor:.4} on the processor");
        assert!(on_card > 0.0 && on_card < 0.01, "{on_card}");
    });
}

/// The number of positions of the embedded network.
pub(super) const POSITIONS: usize = 32;
