//! Machines with NVIDIA's driver that nobody here has: old, broken and without a card, and with cards of two makers. A
//! stand-in takes the place of the driver. It runs no kernel, so that the engine must notice wrong figures.
//! `scripts/checks/cuda.sh` checks the backend on a card.

use crate::driver::rukh;
use crate::rocm::{libraries, nowhere};
use crate::rocm_errors::{NETWORK, search, stdout};
use rocm_emulator::install::{library, shared_library};
use std::path::Path;

/// The options of a start that compiles and measures little.
const OPTIONS: &str = "max_batch=2,streams=1,tune=off,gemm=own";

/// A folder with a library under the name of the driver's. It is a copy, because a hard link, which Windows would
/// need, cannot lead to another drive.
fn driver(library: &Path) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let name = if cfg!(windows) { "nvcuda.dll" } else { "libcuda.so.1" };
    std::fs::copy(library, folder.path().join(name)).unwrap();
    folder
}

/// A folder with the stand-in as the driver.
fn stand_in() -> tempfile::TempDir {
    driver(&shared_library("nvidia_stand_in").unwrap())
}

/// What the engine says during a search with these arguments, on a machine with the stand-in and these settings, and with
/// ROCm's libraries in a folder.
fn said(rocm: &Path, arguments: &[&str], settings: &[(&str, &str)]) -> String {
    said_with(tempfile::tempdir().unwrap().path(), rocm, arguments, settings)
}

/// The same with a cache folder.
fn said_with(cache: &Path, rocm: &Path, arguments: &[&str], settings: &[(&str, &str)]) -> String {
    let driver = stand_in();
    let own = [
        ("RUKH_CUDA_LIBRARY_PATH", driver.path().to_str().unwrap()),
        ("XDG_CACHE_HOME", cache.to_str().unwrap()),
    ];
    stdout(&search(rocm, arguments, &[&own[..], settings].concat()))
}

/// The same for the backend `cuda-fp16` on a machine without ROCm.
fn with_card(settings: &[(&str, &str)]) -> String {
    said(nowhere(), &["--backend=cuda-fp16", "-o", OPTIONS], settings)
}

#[test]
fn without_a_driver_the_names_of_lc0_mean_auto() {
    for backend in ["cuda-auto", "cuda", "cudnn-fp16", "cuda-fp8"] {
        let text = stdout(&search(nowhere(), &[&format!("--backend={backend}")], &[]));
        let missing = "NVIDIA's display driver cannot be used: cuda is not in /nonexistent/cuda";
        assert!(text.contains(missing) && text.contains("; using auto instead\n"), "{backend}: {text}");
        assert!(!text.contains("error"), "{backend}: {text}");
    }
    // `auto` itself says nothing of a maker of whom nothing is there.
    let text = stdout(&search(nowhere(), &["--backend=auto"], &[]));
    assert!(!text.contains("NVIDIA") && !text.contains("cuda"), "{text}");
}

#[test]
fn a_driver_that_cannot_be_used_is_named_with_the_reason() {
    let with_failure = |failure, reason, then: &str| {
        let text = with_card(&[("RUKH_STAND_IN_FAIL", failure), ("RUKH_STAND_IN_VERSION", "10010")]);
        assert!(text.contains(reason) && text.contains(&format!("; {then}\n")), "{failure}: {text}");
    };
    // Only on Linux are the kernel module and the library separate files.
    let mismatch = if cfg!(windows) {
        "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803): system has unsupported display driver"
    } else {
        "are of different releases: restart the machine after an update"
    };
    for (failure, reason) in [
        ("cuInit=100", "CUDA_ERROR_NO_DEVICE (100): no CUDA-capable device is detected"),
        ("cuInit=803", mismatch),
    ] {
        with_failure(failure, reason, "using auto instead");
    }
    // There is a card, which the user has named.
    for (failure, reason) in [
        ("cuDevicePrimaryCtxRetain=2", "CUDA_ERROR_OUT_OF_MEMORY"),
        ("cuMemAlloc_v2:3=2", "hipMalloc of "),
        ("cuLinkAddData_v2=222", "CUDA_ERROR_UNSUPPORTED_PTX_VERSION (the driver is made for CUDA 10.1"),
    ] {
        with_failure(failure, reason, "the processor takes over until the next game");
    }
}

#[test]
fn a_library_that_is_no_driver_says_which_functions_it_lacks() {
    let folder = driver(&library().unwrap());
    let settings = [("RUKH_CUDA_LIBRARY_PATH", folder.path().to_str().unwrap())];
    let text = stdout(&search(nowhere(), &["--backend=cuda-fp16"], &settings));
    assert!(text.contains("it lacks cuInit, ") && text.contains("; using auto instead"), "{text}");
}

#[test]
fn wrong_figures_of_a_card_are_noticed() {
    let text = with_card(&[]);
    assert!(text.contains("backend cuda-fp16: wrong figures without graphs"), "{text}");
    assert!(text.contains("; using cpu instead\n"), "{text}");
}

#[test]
fn a_format_that_a_card_lacks_is_refused() {
    let pascal = [("RUKH_STAND_IN_DEVICES", "sm_61:NVIDIA GeForce GTX 1060:10:1708")];
    let text = with_card(&pascal);
    let reason = "NVIDIA GeForce GTX 1060 (sm_61) has no instructions that multiply matrices in fp16";
    assert!(text.contains(reason), "{text}");
    // A measurement tells whether a card of Turing has units for matrices.
    let turing = "sm_75:NVIDIA GeForce GTX 1650:14:1665";
    let text = with_card(&[("RUKH_STAND_IN_DEVICES", turing), ("RUKH_STAND_IN_SLOW", "gemm_f16")]);
    assert!(text.contains("NVIDIA GeForce GTX 1650 (sm_75) has no instructions"), "{text}");
    let text = with_card(&[("RUKH_STAND_IN_DEVICES", turing), ("RUKH_STAND_IN_SLOW", "gemm_f32")]);
    assert!(text.contains("backend cuda-fp16: wrong figures without graphs"), "{text}");
    // `cuda-auto` takes fp32 on both: equal times count as those of a card without.
    for card in [pascal[0].1, turing] {
        let settings = [("RUKH_STAND_IN_DEVICES", card)];
        let text = said(nowhere(), &["--backend=cuda-auto", "-o", OPTIONS], &settings);
        assert!(text.contains("backend cuda-auto: wrong figures without graphs"), "{card}: {text}");
    }
    let kepler = [("RUKH_STAND_IN_DEVICES", "sm_35:NVIDIA Tesla K40:15:745")];
    let text = with_card(&kepler);
    assert!(text.contains("no kernels for sm_35: NVIDIA's cards since Pascal (sm_61) have them"), "{text}");
}

#[test]
fn the_user_is_told_once_that_the_driver_compiles() {
    let cache = tempfile::tempdir().unwrap();
    let arguments = ["--backend=cuda-fp16", "-o", OPTIONS];
    for count in [1, 0] {
        let text = said_with(cache.path(), nowhere(), &arguments, &[]);
        assert_eq!(text.matches("info string NVIDIA's driver compiles").count(), count, "{text}");
    }
}

/// The driver translates for the card, whatever the target of the text is.
#[test]
fn machine_code_is_kept_for_the_card_and_not_for_its_target() {
    for (card, expected) in [
        ("sm_75:NVIDIA GeForce GTX 1650:14:1665", "kernels-sm_75-"),
        ("sm_61:NVIDIA GeForce GTX 1060:10:1708", "kernels-sm_61-"),
    ] {
        let cache = tempfile::tempdir().unwrap();
        let settings = [("RUKH_STAND_IN_DEVICES", card)];
        said_with(cache.path(), nowhere(), &["--backend=cuda-auto", "-o", OPTIONS], &settings);
        let files = std::fs::read_dir(cache.path().join("rukh")).unwrap();
        let names = files.map(|file| file.unwrap().file_name().to_string_lossy().into_owned());
        let kept: Vec<String> = names.filter(|name| name.ends_with(".cubins")).collect();
        assert!(kept.len() == 1 && kept[0].starts_with(expected), "{card}: {kept:?}");
    }
}

#[test]
fn auto_prefers_the_better_card_of_two_makers() {
    let rocm = libraries();
    let arguments = ["--backend=auto", "-o", OPTIONS];
    let settings = [("RUKH_EMULATOR_DEVICES", "gfx1036:units=2:integrated")];
    let text = said(rocm.path(), &arguments, &settings);
    let preferred = "gpu 0 (NVIDIA GeForce RTX 3060, sm_86) is preferred to gpu 0 (";
    assert!(text.contains(preferred) && text.contains("which is integrated; Backend=rocm-auto"), "{text}");
    assert!(text.contains("backend cuda-auto: wrong figures without graphs"), "{text}");

    let settings = [
        ("RUKH_EMULATOR_DEVICES", "gfx1100:units=48"),
        ("RUKH_STAND_IN_DEVICES", "sm_61:NVIDIA GeForce GTX 1060:10:1708"),
    ];
    let text = said(rocm.path(), &arguments, &settings);
    assert!(
        text.contains("is preferred to gpu 0 (NVIDIA GeForce GTX 1060, sm_61), which should reach"),
        "{text}"
    );
    assert!(
        text.contains("Backend=cuda-auto takes the other") && !text.contains("figures are wrong"),
        "{text}"
    );
}

#[test]
fn a_card_that_fails_in_a_game_is_replaced() {
    let options = format!("{OPTIONS},warm_up=false");
    let settings =
        [("RUKH_STAND_IN_FAIL", "cuStreamQuery:12=719,cuEventQuery:12=719,cuStreamSynchronize:12=719")];
    let text = said(nowhere(), &["--backend=cuda-fp16", "-o", &options], &settings);
    assert!(text.contains("CUDA_ERROR_LAUNCH_FAILED (719): unspecified launch failure"), "{text}");
}

/// The calls of the driver that `backendbench` makes, in order. Wrong figures are not noticed, because there is no
/// warm-up.
fn calls_of_batches(options: &str) -> Vec<String> {
    let driver = stand_in();
    let output = rukh(&["backendbench", "--backend=cuda-fp16", "-w", NETWORK, "--threads=1"])
        .args(["-o", &format!("{OPTIONS},warm_up=false,wait=block,{options}"), "--batches=20"])
        .args(["--start-batch-size=2", "--max-batch-size=2"])
        .env("RUKH_ROCM_LIBRARY_PATH", nowhere())
        .env("RUKH_CUDA_LIBRARY_PATH", driver.path())
        .env("RUKH_STAND_IN_LOG", "1")
        .output()
        .expect("the binary starts");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let calls = stderr.lines().filter_map(|line| line.strip_prefix("nvidia-stand-in: ")?.split_once(" = "));
    calls.map(|(call, _)| call.to_owned()).collect()
}

/// Windows' driver model (WDDM) holds work back until something asks for its state. So there, a query follows all that a
/// batch submits. Elsewhere it would only cost time.
#[test]
fn on_windows_a_question_follows_each_submission() {
    let question: &[&str] = if cfg!(windows) { &["cuStreamIsCapturing", "cuStreamQuery"] } else { &[] };
    let end = [&["cuMemcpyAsync", "cuEventRecord"], question, &["cuEventQuery"]].concat();
    let with_graph = [&["cuGraphLaunch"], question, &end].concat();
    let step_by_step = [&["cuLaunchKernel", "cuLaunchKernel"], &end[..]].concat();
    for (options, batch) in [("graph=true", with_graph), ("graph=false,fork=0", step_by_step)] {
        let calls = calls_of_batches(options);
        let last = calls.iter().rposition(|call| call == "cuEventQuery").expect("a batch was waited for");
        assert_eq!(calls[last + 1 - batch.len()..=last], batch, "{options}");
        let batches = calls.windows(batch.len()).filter(|calls| *calls == batch).count();
        assert!(batches >= 19, "{options}: {batches} of 20 batches are like the last one");
    }
}
