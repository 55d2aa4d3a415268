//! Networks on a machine that has HIP and none of rocBLAS, hipBLASLt and hiprtc: our own kernels compute every GEMM.

use super::*;
use crate::rocm_errors::{search, stdout};
use rocm_emulator::install::file_name;
use rukh_gpu::SharedLaunches;

/// A folder with the emulator as HIP alone.
fn hip_alone() -> tempfile::TempDir {
    let folder = libraries();
    for library in ["hiprtc", "rocblas", "hipblaslt"] {
        std::fs::remove_file(folder.path().join(file_name(library)))
            .expect("the emulator's folder has this link");
    }
    folder
}

/// Checks some positions of a set in one batch of each size. The first batch of a size runs step by step, and later
/// ones as a graph.
fn check_buckets(set: &GoldenSet, (precision, limit): (GpuPrecision, &Limit), sizes: &[usize]) {
    let largest = sizes.iter().copied().max().unwrap_or(1);
    let samples: Vec<Sample> = set.positions.iter().map(sample).collect();
    let network = Network::load_bytes(&set.network, &set.heads).expect("a committed network loads");
    let of_smolgen = network.smolgen_global.is_some().then_some(SharedLaunches::Smolgen);
    for fuse in [SharedLaunches::None, SharedLaunches::All].into_iter().chain(of_smolgen) {
        let backend = backend(set, precision, &GpuOptions { fuse: Some(fuse), ..options(largest) });
        assert!(backend.notices().is_empty(), "{:?}", backend.notices());
        for &size in sizes {
            for first in [0, 7] {
                let some = || samples.iter().cycle().skip(first).take(size);
                let evaluations = evaluate(&backend, some());
                let mut distance = Distance::default();
                some().zip(evaluations.iter()).for_each(|(sample, got)| distance.add(set, sample, got));
                let what = format!("{} in {precision:?} without libraries, batch of {size}", set.name);
                distance.check(&what, limit);
            }
        }
    }
}

/// The test, and the variable that names the cards, so that the long test can take others.
fn check_card(test: &str, architecture: &str, sets: &[(&str, usize)], sizes: &[usize]) {
    let folder = hip_alone();
    on_machine(folder.path(), test, &[("RUKH_EMULATOR_ARCH", architecture)], || {
        for set in goldens::committed() {
            let wanted = sets.iter().filter(|(name, _)| *name == set.name);
            wanted.for_each(|&(_, precision)| check_buckets(&set, PRECISIONS[precision], sizes));
        }
    });
}

#[test]
fn networks_need_no_library_but_hip() {
    // An encoder with smolgen in fp16, convolutions in bf16, and rows of odd length (the policy's 1858) in fp32.
    let sets = [("micro-smolgen", 1), ("micro-se-conv", 2), ("micro-se-old", 0)];
    check_card("own::networks_need_no_library_but_hip", "gfx1100", &sets, &[3]);
}

/// A card whose dies have caches of their own, and a size whose last rows fill no tile.
#[test]
fn smolgens_gemms_share_a_launch_on_gfx942() {
    let sets = [("micro-smolgen", 1), ("micro-multihead", 2)];
    check_card("own::smolgens_gemms_share_a_launch_on_gfx942", "gfx942", &sets, &[1, 3]);
}

/// Checks every committed network in every format and bucket.
fn check_every_network(test: &str, architecture: &str) {
    let names: Vec<String> = goldens::committed().into_iter().map(|set| set.name).collect();
    let sets: Vec<(&str, usize)> =
        names.iter().flat_map(|name| [0, 1, 2].map(|precision| (name.as_str(), precision))).collect();
    check_card(test, architecture, &sets, &[1, 2, 4, 8, 12, 16, 24, 32, 48, 64]);
}

/// A test for each card, so that they run side by side.
macro_rules! every_network_by_our_own_gemms {
    ($($name:ident $architecture:literal),*) => {$(
        #[test]
        #[ignore = "takes some minutes"]
        fn $name() {
            check_every_network(concat!("own::", stringify!($name)), $architecture);
        }
    )*};
}

every_network_by_our_own_gemms!(
    every_network_by_our_own_gemms_on_gfx1030 "gfx1030",
    every_network_by_our_own_gemms_on_gfx1100 "gfx1100",
    every_network_by_our_own_gemms_on_gfx1200 "gfx1200",
    every_network_by_our_own_gemms_on_gfx908 "gfx908",
    every_network_by_our_own_gemms_on_gfx90a "gfx90a",
    every_network_by_our_own_gemms_on_gfx942 "gfx942"
);

#[test]
fn our_own_gemms_are_used_where_both_libraries_are_there() {
    on_emulator("own::our_own_gemms_are_used_where_both_libraries_are_there", &[], || {
        let set = goldens::named("micro-smolgen");
        let samples: Vec<Sample> = set.positions.iter().take(2).map(sample).collect();
        let by =
            |gemm| evaluate(&backend(&set, GpuPrecision::Fp16, &GpuOptions { gemm, ..options(2) }), &samples);
        // The emulated libraries add in another order, so that some digit differs.
        let [own, library, auto] = [GemmLibrary::Own, GemmLibrary::Library, GemmLibrary::Auto].map(by);
        assert!(!own.iter().eq(library.iter()), "gemm=own uses a library");
        assert!(auto.iter().eq(library.iter()), "what is not measured is left to a library");
    });
}

#[test]
fn a_machine_without_libraries_is_tuned_and_checked_without_a_warning() {
    let folder = hip_alone();
    let cache = folder.path().join("cache").display().to_string();
    let arguments = [
        "--backend=rocm-fp16",
        "-o",
        "max_batch=1,streams=1,graph=true,fuse=true,fork=0,few_rows=0,wait=block",
    ];
    let said = stdout(&search(folder.path(), &arguments, &[("XDG_CACHE_HOME", cache.as_str())]));
    let notices: Vec<&str> = said.lines().filter(|line| line.contains("info string tuning: ")).collect();
    assert!(matches!(notices[..], [one] if one.contains(" GEMMs in ")), "{said}");
    for word in ["error", "BLAS", "hiprtc", "cpu", "wrong"] {
        assert!(!said.contains(word), "{said}");
    }
    assert!(said.contains("bestmove"), "{said}");
}

/// Every golden network in every format, with the display driver's library alone. `scripts/checks/windows.sh` runs it
/// under Wine.
#[test]
#[ignore = "networks_need_no_library_but_hip covers the kinds of networks"]
fn every_network_needs_only_the_driver() {
    let folder = hip_alone();
    on_machine(folder.path(), "own::every_network_needs_only_the_driver", &[], || {
        for set in all_sets() {
            PRECISIONS.into_iter().for_each(|precision| check_buckets(&set, precision, &[1, 16]));
        }
    });
}
