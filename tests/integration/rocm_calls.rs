//! That no call of ROCm's libraries is without a test in which it fails: those that `rocm_errors` does not reach by a
//! game fail here, and a call that neither knows of is found in the source.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::rocm::libraries;
use crate::rocm_errors::{FAILING_GAME, logged_calls, search_with, stdout};

/// Calls that give no status, or whose failure changes nothing: texts, and times of steps in reports.
const WITHOUT_FAILURE: [&str; 4] =
    ["hiprtcGetErrorString", "rocblas_status_to_string", "hipGetErrorName", "hipGetErrorString"];

/// All functions of the libraries' tables that a text names as a call through a table.
fn called(text: &str) -> BTreeSet<&str> {
    let names = hip_runtime_sys::Functions::NAMES
        .iter()
        .chain(hip_runtime_sys::hiprtc_bindings::Functions::NAMES)
        .chain(rocblas_sys::Functions::NAMES)
        .chain(hipblaslt_sys::Functions::NAMES);
    names.copied().filter(|name| text.contains(&format!(".{name})("))).collect()
}

/// The source of a folder, and of those in it.
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

/// Starts the engine on the emulator with a network, has it search, and gives what it said and called.
fn play(
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

/// A compiler that compiles nothing, but says that it has.
#[cfg(unix)]
fn compiler(folder: &Path) -> String {
    use std::os::unix::fs::PermissionsExt;
    let path = folder.join("compiler");
    let script = "#!/bin/sh\nwhile [ \"$1\" != -o ]; do shift; done\necho code > \"$2\"\n";
    fs::write(&path, script).expect("the folder can be written to");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it may be executed");
    path.display().to_string()
}

#[cfg(unix)]
#[test]
fn every_call_in_the_source_is_one_that_a_test_lets_fail() {
    let folder = libraries();
    let text = source(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/backend/rocm"));
    let mut open = called(&text);
    assert!(open.len() > 50, "{open:?}");
    for name in WITHOUT_FAILURE {
        open.remove(name);
    }
    // What `rocm_errors` lets fail one by one: all calls of that game.
    let options = FAILING_GAME;
    let (_, calls) = play(folder.path(), "micro-attn.pb.gz", options, &[("RUKH_EMULATOR_ARCH", "gfx1151")]);
    open.retain(|name| !calls.contains(*name));
    // On another card rocBLAS multiplies; convolutions are many products at once.
    let cards =
        [("micro-se-conv.pb.gz", "gfx1100", "rocblas"), ("micro-se-conv.pb.gz", "gfx1151", "hipblasLt")];
    for (network, architecture, library) in cards {
        let architecture = ("RUKH_EMULATOR_ARCH", architecture);
        let (_, calls) = play(folder.path(), network, options, &[architecture]);
        let left: Vec<&str> = open.iter().copied().filter(|name| calls.contains(*name)).collect();
        for name in left {
            let fail = format!("{name}:1");
            let (said, _) =
                play(folder.path(), network, options, &[architecture, ("RUKH_EMULATOR_FAIL", &fail)]);
            let told =
                said.lines().any(|line| line.starts_with("info string error") && line.contains("rocm-fp16"));
            assert!(told || name.starts_with("hipblasLtMatrix"), "{library} {fail}: {said}");
            open.remove(name);
        }
    }
    // Where a slot's thread asks instead of sleeping.
    let asking = "max_batch=4,warm_up=false,streams=1,wait=yield";
    let (said, _) =
        play(folder.path(), "micro-attn.pb.gz", asking, &[("RUKH_EMULATOR_FAIL", "hipEventQuery:1")]);
    assert!(said.contains("info string error: evaluation failed on rocm-fp16"), "{said}");
    open.remove("hipEventQuery");
    // Versions are only part of the name of a table of products.
    let fail = "hipRuntimeGetVersion:1,hipblasLtGetVersion:1";
    let cache = folder.path().to_string_lossy();
    let settings = [("RUKH_EMULATOR_FAIL", fail), ("XDG_CACHE_HOME", &*cache)];
    let (said, calls) = play(folder.path(), "micro-attn.pb.gz", "max_batch=1,streams=1", &settings);
    assert!(said.contains("info string tuning: ") && !said.contains("error"), "{said}");
    open.retain(|name| !(fail.contains(name) && calls.contains(*name)));
    // Where code is compiled first.
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
        // What one attempt keeps, no other may find.
        let cache = tempfile::tempdir().expect("a temporary folder");
        let cache = cache.path().to_string_lossy();
        let settings = [
            ("RUKH_EMULATOR_ARCH", "gfx803"),
            ("RUKH_EMULATOR_CLANG", compiler.as_str()),
            ("RUKH_EMULATOR_FAIL", fail),
            ("XDG_CACHE_HOME", &*cache),
        ];
        let (said, calls) = play(folder.path(), "micro-attn.pb.gz", options, &settings);
        assert!(said.contains("no kernels for the architecture gfx803"), "{fail}: {said}");
        assert!(calls.contains(name), "{fail} was not reached: {calls:?}");
        open.remove(name);
    }
    // Called only where steps are timed, and after another failure.
    let timed = ["hipEventElapsedTime", "hipStreamSynchronize"];
    for name in timed {
        open.remove(name);
    }
    assert!(open.is_empty(), "no test lets these fail: {open:?}");
}
