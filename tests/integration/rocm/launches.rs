//! The number of kernels and of library calls that one batch takes.
//!
//! It depends on a network's layers and hardly on their widths, so that small networks with the layers of well-known ones
//! show it. `true_widths.rs` shows what depends on widths.

use super::{GpuPrecision, backend_of, evaluate, inside, libraries, options, sample};
use rukh_gpu::{GemmLibrary, GpuOptions, SharedLaunches};
use rukh_net::Network;
use rukh_net::network::Body;

use crate::goldens::{self, GoldenSet};

/// The calls that start work on the card.
const CALLS: [&str; 4] =
    ["hipModuleLaunchKernel", "rocblas_gemm_ex", "rocblas_gemm_strided_batched_ex", "hipblasLtMatmul"];

/// The card of the other tests.
const CARD: &str = "gfx1100";

/// What stands on stderr before and after the batch whose calls are counted.
pub(super) const MARK: &str = "the batch that is counted";

/// The well-known network, the committed network with the same kinds of layers, the number of its encoders or blocks,
/// and the calls of a batch with our own GEMMs, with launches that these share, with a library's GEMMs, with launches that
/// our own GEMMs share and encoders in int8, and with launches that only smolgen's GEMMs share.
const SHAPES: [(&str, &str, usize, [usize; 5]); 3] = [
    ("T82", "micro-smolgen", 15, [207, 84, 241, 204, 147]),
    ("BT4", "micro-multihead", 15, [214, 89, 249, 213, 154]),
    ("maia-1900", "micro-se-conv", 6, [57, 25, 57, 25, 57]),
];

/// The network of a set with `count` encoders or blocks.
pub(super) fn with_depth(set: &GoldenSet, count: usize) -> Network {
    let mut network = Network::load_bytes(&set.network, &set.heads).expect("a committed network loads");
    match &mut network.body {
        Body::Attention { stack, .. } => {
            stack.encoders = stack.encoders.iter().cycle().take(count).cloned().collect();
        }
        Body::Convolution { blocks, .. } => {
            *blocks = blocks.iter().cycle().take(count).cloned().collect();
        }
    }
    network
}

/// Evaluates a batch twice with each network. The first time, memory is allocated.
fn evaluate_all(precision: GpuPrecision, gemm: GemmLibrary, fuse: Option<SharedLaunches>) {
    let sets = goldens::committed();
    for (_, name, depth, _) in SHAPES {
        let set = sets.iter().find(|set| set.name == name).expect("the set is committed");
        let mut network = with_depth(set, depth);
        if name == "micro-se-conv" {
            network.moves_left = None;
        }
        let options = GpuOptions { gemm, fuse, graph: Some(false), streams: Some(1), ..options(2) };
        let backend = backend_of(&network, precision, &options);
        let samples: Vec<_> = set.positions.iter().take(2).map(sample).collect();
        evaluate(&backend, &samples);
        eprintln!("{MARK}");
        evaluate(&backend, &samples);
        eprintln!("{MARK}");
    }
}

/// The number of calls that start work between every two marks that `body` prints to stderr in a process of its own.
pub(super) fn counted(test: &str, settings: &[(&str, &str)], body: impl FnOnce()) -> Option<Vec<usize>> {
    let folder = libraries();
    let settings: Vec<_> = settings.iter().copied().chain([("RUKH_EMULATOR_LOG", "1")]).collect();
    let stderr = inside(folder.path(), test, &settings, body)?;
    let is_counted = |line: &str| {
        let call = line.strip_prefix("rocm-emulator: ").and_then(|call| call.split_once(" = "));
        call.is_some_and(|(name, _)| CALLS.contains(&name))
    };
    let parts: Vec<&str> = stderr.split(MARK).skip(1).step_by(2).collect();
    Some(parts.iter().map(|part| part.lines().filter(|line| is_counted(line)).count()).collect())
}

fn check(
    (test, card): (&str, &str),
    precision: GpuPrecision,
    (gemm, fuse): (GemmLibrary, Option<SharedLaunches>),
    column: usize,
) {
    let card = [("RUKH_EMULATOR_ARCH", card)];
    let Some(found) = counted(test, &card, || evaluate_all(precision, gemm, fuse)) else { return };
    let names = SHAPES.map(|(name, ..)| name);
    let expected = SHAPES.map(|(.., counts)| counts[column]);
    assert_eq!(found, expected, "{names:?}");
}

#[test]
fn a_batch_with_our_own_gemms_takes_so_many_launches() {
    check(
        ("launches::a_batch_with_our_own_gemms_takes_so_many_launches", CARD),
        GpuPrecision::Fp16,
        (GemmLibrary::Own, Some(SharedLaunches::None)),
        0,
    );
}

#[test]
fn a_batch_whose_gemms_share_launches_takes_fewer() {
    check(
        ("launches::a_batch_whose_gemms_share_launches_takes_fewer", CARD),
        GpuPrecision::Fp16,
        (GemmLibrary::Own, Some(SharedLaunches::All)),
        1,
    );
}

/// What is not chosen on a card whose dies have caches of their own.
#[test]
fn a_batch_on_gfx942_takes_fewer_launches_for_smolgen() {
    let test = "launches::a_batch_on_gfx942_takes_fewer_launches_for_smolgen";
    check((test, "gfx942"), GpuPrecision::Fp16, (GemmLibrary::Own, None), 4);
}

#[test]
fn a_batch_with_a_library_takes_so_many_launches() {
    check(
        ("launches::a_batch_with_a_library_takes_so_many_launches", CARD),
        GpuPrecision::Fp16,
        (GemmLibrary::Library, Some(SharedLaunches::None)),
        2,
    );
}

#[test]
fn a_batch_with_encoders_in_int8_takes_so_many_launches() {
    let test = "launches::a_batch_with_encoders_in_int8_takes_so_many_launches";
    check((test, CARD), GpuPrecision::Int8, (GemmLibrary::Own, Some(SharedLaunches::All)), 3);
}
