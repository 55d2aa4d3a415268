//! Versions of ROCm's libraries that differ in what they compute, and architectures that share their machine code.

use rukh_net::architecture::Activation;

use super::*;
use crate::rocm_errors::{search, stdout};

/// gfx1151 prefers hipBLASLt.
const STRIX_HALO: (&str, &str) = ("RUKH_EMULATOR_ARCH", "gfx1151");

/// Before version 1.0 (ROCm 7.0) hipBLASLt reports success for a GEMM with bias and swish, but computes neither.
#[test]
fn a_hipblaslt_without_swish_still_gives_the_right_figures() {
    let settings = [STRIX_HALO, ("RUKH_EMULATOR_HIPBLASLT_VERSION", "1200")];
    on_emulator("versions::a_hipblaslt_without_swish_still_gives_the_right_figures", &settings, || {
        check_swish("swish with hipBLASLt 0.12");
    });
}

/// If the library does not say its version, it may be an old one.
#[test]
fn a_hipblaslt_without_a_version_still_gives_the_right_figures() {
    let fail: Vec<String> = (1..100).map(|call| format!("hipblasLtGetVersion:{call}")).collect();
    let settings =
        [STRIX_HALO, ("RUKH_EMULATOR_HIPBLASLT_VERSION", "1200"), ("RUKH_EMULATOR_FAIL", &fail.join(","))];
    on_emulator("versions::a_hipblaslt_without_a_version_still_gives_the_right_figures", &settings, || {
        check_swish("swish with an unknown hipBLASLt");
    });
}

/// Compares a network whose feed-forward layers end with swish with the CPU. No committed network has such layers.
fn check_swish(what: &str) {
    let set = goldens::named("micro-smolgen");
    let mut network = Network::load_bytes(&set.network, &set.heads).expect("a committed network loads");
    let Body::Attention { stack, .. } = &mut network.body else { panic!("an attention body") };
    stack.ffn_activation = Activation::Swish;
    let samples: Vec<Sample> = set.positions.iter().step_by(9).map(sample).collect();
    check_against_the_cpu(what, &network, &samples, 8);
}

/// ROCm 5.7 numbers the data types differently. The emulated library of that version refuses all numbers of today.
#[test]
fn the_hipblaslt_of_rocm_5_is_refused_with_the_reason() {
    let folder = libraries();
    let cache = folder.path().join("cache").display().to_string();
    let settings =
        [STRIX_HALO, ("RUKH_EMULATOR_HIPBLASLT_VERSION", "300"), ("XDG_CACHE_HOME", cache.as_str())];
    let reason = "hipBLASLt 0.3.0 (";
    let output = search(
        folder.path(),
        &["--backend=rocm-fp16", "-o", "max_batch=2,streams=1,graph=true,fuse=true,fork=0,few_rows=0"],
        &settings,
    );
    let said = stdout(&output);
    let notice = said.lines().find(|line| line.contains(reason)).unwrap_or_else(|| panic!("{said}"));
    assert!(notice.contains("is older than 0.6.0, the version of ROCm 6.0"), "{notice}");
    assert!(!said.contains("error"), "{said}");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!stderr.contains("rocm-emulator: "), "hipBLASLt is used: {stderr}");
    // Without rocBLAS no library is left.
    let options = "gemm=hipblaslt,max_batch=2,streams=1,graph=true,fuse=true,fork=0,few_rows=0";
    let said = stdout(&search(folder.path(), &["--backend=rocm-fp16", "-o", options], &settings));
    let error = said.lines().find(|line| line.contains("info string error: backend rocm-fp16: "));
    assert!(error.is_some_and(|error| error.contains(reason)), "{said}");
    let said = stdout(&search(folder.path(), &["-o", options], &settings));
    let notice = said.lines().find(|line| line.contains(reason)).unwrap_or_else(|| panic!("{said}"));
    assert!(notice.ends_with("using cpu-auto instead"), "{said}");
}

/// gfx1152 has the code of gfx1150 under its own name and number. The emulator, like the real loader, refuses an object
/// whose number is not the card's. No compiler is there.
#[test]
fn every_embedded_architecture_that_the_emulator_runs_agrees_with_lc0() {
    for architecture in ["gfx1101", "gfx1102", "gfx1103", "gfx1150", "gfx1152"] {
        let settings =
            [("RUKH_EMULATOR_ARCH", architecture), ("RUKH_EMULATOR_FAIL", "hiprtcCreateProgram:1")];
        let name = "versions::every_embedded_architecture_that_the_emulator_runs_agrees_with_lc0";
        on_emulator(name, &settings, || {
            check_set(&goldens::named("micro-smolgen"), GpuPrecision::Fp16, &options(16), &FP16);
        });
    }
}

/// hiprtc of ROCm up to 6.3 is clang 18, whose fences take two arguments. The emulator's refuses a third one.
#[test]
fn the_kernels_compile_as_with_the_compiler_of_rocm_6_3() {
    let folder = libraries();
    let cache = tempfile::tempdir().expect("a temporary folder");
    let path = cache.path().display().to_string();
    // An architecture without embedded code, so that the engine compiles the kernels when it starts.
    let settings = [
        ("RUKH_EMULATOR_ARCH", "gfx1010"),
        ("RUKH_EMULATOR_CLANG_MAJOR", "18"),
        ("XDG_CACHE_HOME", path.as_str()),
    ];
    let said = stdout(&search(folder.path(), &["--backend=rocm-fp16", "-o", "warm_up=false"], &settings));
    // The second is what Windows says.
    if ["No such file or directory", "program not found"].iter().any(|words| said.contains(words)) {
        println!("skipped: there is no clang that compiles for AMD's GPUs");
        return;
    }
    assert!(!said.contains("cannot be compiled here"), "{said}");
    let kept = std::fs::read_dir(cache.path().join("rukh")).expect("the cache has a folder").flatten();
    let kept: Vec<String> = kept.map(|file| file.file_name().to_string_lossy().into_owned()).collect();
    assert!(kept.iter().any(|name| name.starts_with("kernels-gfx1010-")), "{kept:?}");
}
