//! Checks that every call of ROCm's libraries fails in some test. `rocm_errors` covers the calls of an ordinary search.
//! The test in this file covers the others, and fails if the source has a call that neither test covers. The exceptions
//! are in [`WITHOUT_FAILURE`]. The test runs on Linux only, because a shell script stands for a compiler.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::rocm::libraries;
use crate::rocm_doctor::doctor;
use crate::rocm_errors::{FAILING_SEARCH, logged_calls, search_with, stdout};

/// Calls that cannot fail: each returns the last error or the text of one.
const WITHOUT_FAILURE: [&str; 5] = [
    "hipGetLastError",
    "hiprtcGetErrorString",
    "rocblas_status_to_string",
    "hipGetErrorName",
    "hipGetErrorString",
];

/// The library functions that `text` calls through a function table.
fn called(text: &str) -> BTreeSet<&str> {
    let names = hip_runtime_sys::Functions::NAMES
        .iter()
        .chain(hip_runtime_sys::hiprtc_bindings::Functions::NAMES)
        .chain(rocblas_sys::Functions::NAMES)
        .chain(hipblaslt_sys::Functions::NAMES);
    names.copied().filter(|name| text.contains(&format!(".{name})("))).collect()
}

/// The text of all files in a folder and in its subfolders.
fn source(folder: &Path) -> String {
    let mut text = String::new();
    for entry in fs::read_dir(folder).expect("the folder can be read").flatten() {
        let path = entry.path();
        if path.is_dir() {
            text.push_str(&source(&path));
        } else {
            text.push_str(&fs::read_to_string(&path).expect("a file of source can be read"));
        }
    }
    text
}

/// Runs one search on the emulator. Returns the output and the library functions that were called.
fn search_and_log(
    folder: &Path,
    network: &str,
    options: &str,
    settings: &[(&str, &str)],
) -> (String, BTreeSet<String>) {
    let network = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/").to_owned() + network;
    let arguments = ["--backend=rocm-fp16", "-o", options, "--threads=1"];
    let settings = [&[("RUKH_EMULATOR_LOG", "1")], settings].concat();
    let output = search_with(&network, folder, &arguments, &settings);
    (stdout(&output), logged_calls(&output).into_iter().collect())
}

/// Writes a script that stands for clang: it compiles nothing, but it reports success. Returns its path.
fn compiler(folder: &Path) -> String {
    use std::os::unix::fs::PermissionsExt;
    let path = folder.join("compiler");
    let script = "#!/bin/sh\nwhile [ \"$1\" != -o ]; do shift; done\necho code > \"$2\"\n";
    fs::write(&path, script).expect("the folder can be written to");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it may be executed");
    path.display().to_string()
}

#[test]
fn every_library_call_in_the_source_fails_in_a_test() {
    let folder = libraries();
    let text = source(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/backend/gpu"));
    let mut untested = called(&text);
    assert!(untested.len() > 50, "{untested:?}");
    for name in WITHOUT_FAILURE {
        untested.remove(name);
    }
    // `rocm_errors` makes each call of this search fail, one at a time.
    let options = FAILING_SEARCH;
    let (_, calls) =
        search_and_log(folder.path(), "micro-attn.pb.gz", options, &[("RUKH_EMULATOR_ARCH", "gfx1151")]);
    untested.retain(|name| !calls.contains(*name));
    // On gfx1100 rocBLAS computes the GEMMs, and convolutions need batched GEMMs.
    let cards =
        [("micro-se-conv.pb.gz", "gfx1100", "rocblas"), ("micro-se-conv.pb.gz", "gfx1151", "hipblasLt")];
    for (network, architecture, library) in cards {
        let architecture = ("RUKH_EMULATOR_ARCH", architecture);
        let (_, calls) = search_and_log(folder.path(), network, options, &[architecture]);
        let left: Vec<&str> = untested.iter().copied().filter(|name| calls.contains(*name)).collect();
        for name in left {
            let fail = format!("{name}:1");
            let (said, _) = search_and_log(
                folder.path(),
                network,
                options,
                &[architecture, ("RUKH_EMULATOR_FAIL", &fail)],
            );
            let is_reported =
                said.lines().any(|line| line.starts_with("info string error") && line.contains("rocm-fp16"));
            // Without a matrix layout, rocBLAS computes the GEMM, and there is nothing to report.
            assert!(is_reported || name.starts_with("hipblasLtMatrix"), "{library} {fail}: {said}");
            untested.remove(name);
        }
    }
    // A slot asks whether a stream is capturing only after a capture has failed.
    let fail = "hipGraphInstantiate:1,hipStreamIsCapturing:1";
    let settings = [("RUKH_EMULATOR_FAIL", fail)];
    let (said, calls) = search_and_log(folder.path(), "micro-attn.pb.gz", options, &settings);
    assert!(!said.contains("error") && calls.contains("hipStreamIsCapturing"), "{said}");
    untested.remove("hipStreamIsCapturing");
    // The versions are part of the tuning table's file name. A library that reports no version counts as an old one.
    let fail = "hipRuntimeGetVersion:1,hipDriverGetVersion:1,hipblasLtGetVersion:1";
    let cache = folder.path().to_string_lossy();
    let settings = [("RUKH_EMULATOR_FAIL", fail), ("XDG_CACHE_HOME", &*cache)];
    let (said, calls) = search_and_log(
        folder.path(),
        "micro-attn.pb.gz",
        "max_batch=1,streams=1,graph=true,fuse=true,fork=0,few_rows=0",
        &settings,
    );
    assert!(said.contains("info string tuning: ") && !said.contains("error"), "{said}");
    untested.retain(|name| !(fail.contains(name) && calls.contains(*name)));
    // For an architecture without code objects, the kernels are compiled first.
    let compiler = compiler(folder.path());
    let failures = [
        ("hiprtcCreateProgram", "hiprtcCreateProgram:1"),
        ("hiprtcCompileProgram", "hiprtcCompileProgram:1"),
        ("hiprtcGetProgramLogSize", "hiprtcCompileProgram:1=6,hiprtcGetProgramLogSize:1"),
        ("hiprtcGetProgramLog", "hiprtcCompileProgram:1=6,hiprtcGetProgramLog:1"),
        ("hiprtcGetCodeSize", "hiprtcGetCodeSize:1"),
        ("hiprtcGetCode", "hiprtcGetCode:1"),
        ("hiprtcDestroyProgram", "hiprtcGetCode:1,hiprtcDestroyProgram:1"),
    ];
    for (name, fail) in failures {
        // Each attempt has an empty cache of its own.
        let cache = tempfile::tempdir().expect("a temporary folder");
        let cache = cache.path().to_string_lossy();
        let settings = [
            ("RUKH_EMULATOR_ARCH", "gfx803"),
            ("RUKH_EMULATOR_CLANG", compiler.as_str()),
            ("RUKH_EMULATOR_FAIL", fail),
            ("XDG_CACHE_HOME", &*cache),
        ];
        let (said, calls) = search_and_log(folder.path(), "micro-attn.pb.gz", options, &settings);
        assert!(said.contains("no kernels for the architecture gfx803"), "{fail}: {said}");
        assert!(calls.contains(name), "{fail} was not reached: {calls:?}");
        untested.remove(name);
    }
    // The tuner and `time_steps` ask HIP for elapsed times. A GEMM without a time is left out of the tuner's table.
    let options = format!("{options},time_steps=1");
    let settings = [("RUKH_EMULATOR_FAIL", "hipEventElapsedTime:1")];
    let (said, _) = search_and_log(folder.path(), "micro-attn.pb.gz", &options, &settings);
    assert!(said.contains("error: backend rocm-fp16: hipEventElapsedTime "), "{said}");
    untested.remove("hipEventElapsedTime");
    // Only the doctor asks for hiprtc's version, and goes on without it.
    let report = doctor(folder.path(), "devices", &[("RUKH_EMULATOR_FAIL", "hiprtcVersion:1")]);
    let rows = report.rows("devices");
    let hiprtc = rows.iter().find(|row| row["library"] == "hiprtc").expect("a row for hiprtc");
    assert!(hiprtc["version"].is_null() && report.state("devices") == "done", "{}", report.text);
    untested.remove("hiprtcVersion");
    assert!(untested.is_empty(), "no test makes these calls fail: {untested:?}");
}
