//! The number of kernels and of library calls that one batch takes.
//!
//! It depends on a network's layers and hardly on their widths, so that small networks with the layers of well-known ones
//! show it. `true_widths.rs` shows what depends on widths.

use super::{GpuPrecision, backend_of, evaluate, inside, libraries, options, sample};
use rukh_gpu::{GemmLibrary, GpuOptions};
use rukh_net::Network;
use rukh_net::network::Body;

use crate::goldens::{self, GoldenSet};

/// The calls that start work on the card.
const CALLS: [&str; 4] =
    ["hipModuleLaunchKernel", "rocblas_gemm_ex", "rocblas_gemm_strided_batched_ex", "hipblasLtMatmul"];

/// What stands on stderr before and after the batch whose calls are counted.
pub(super) const MARK: &str = "the batch that is counted";

/// The well-known network, the committed network with the same kinds of layers, the number of its encoders or blocks,
/// and the calls of a batch with our own GEMMs, with launches that these share, with a library's GEMMs, and with
/// launches that our own GEMMs share and encoders in int8.
const SHAPES: [(&str, &str, usize, [usize; 4]); 3] = [
    ("T82", "micro-smolgen", 15, [207, 84, 241, 204]),
    ("BT4", "micro-multihead", 15, [214, 89, 249, 213]),
    ("maia-1900", "micro-se-conv", 6, [57, 25, 57, 25]),
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
fn evaluate_all(precision: GpuPrecision, gemm: GemmLibrary, fuse: bool) {
    let sets = goldens::committed();
    for (_, name, depth, _) in SHAPES {
        let set = sets.iter().find(|set| set.name == name).expect("the set is committed");
        let mut network = with_depth(set, depth);
        if name == "micro-se-conv" {
            network.moves_left = None;
        }
        let options =
            GpuOptions { gemm, fuse: Some(fuse), graph: Some(false), streams: Some(1), ..options(2) };
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

/// The number of calls that start work, for each network.
fn count(test: &str, precision: GpuPrecision, gemm: GemmLibrary, fuse: bool) -> Option<Vec<usize>> {
    counted(test, &[], || evaluate_all(precision, gemm, fuse))
}

fn check(test: &str, precision: GpuPrecision, (gemm, fuse): (GemmLibrary, bool), column: usize) {
    let Some(found) = count(test, precision, gemm, fuse) else { return };
    let names = SHAPES.map(|(name, ..)| name);
    let expected = SHAPES.map(|(.., counts)| counts[column]);
    assert_eq!(found, expected, "{names:?}");
}

#[test]
fn a_batch_with_our_own_gemms_takes_so_many_launches() {
    check(
        "launches::a_batch_with_our_own_gemms_takes_so_many_launches",
        GpuPrecision::Fp16,
        (GemmLibrary::Own, false),
        0,
    );
}

#[test]
fn a_batch_whose_gemms_share_launches_takes_fewer() {
    check(
        "launches::a_batch_whose_gemms_share_launches_takes_fewer",
        GpuPrecision::Fp16,
        (GemmLibrary::Own, true),
        1,
    );
}

#[test]
fn a_batch_with_a_library_takes_so_many_launches() {
    check(
        "launches::a_batch_with_a_library_takes_so_many_launches",
        GpuPrecision::Fp16,
        (GemmLibrary::Library, false),
        2,
    );
}

#[test]
fn a_batch_with_encoders_in_int8_takes_so_many_launches() {
    let test = "launches::a_batch_with_encoders_in_int8_takes_so_many_launches";
    check(test, GpuPrecision::Int8, (GemmLibrary::Own, true), 3);
}
