//! Which card and which libraries the engine takes on a machine with several: a user sees the choice in `info string`
//! lines, and a game is played in every case.

use std::path::Path;

use crate::driver::rukh;
use crate::rocm::{libraries, nowhere};
use crate::rocm_errors::{search, stdout};
#[cfg(unix)]
use rocm_emulator::install::install_second_runtime;
use rocm_emulator::install::{file_name, link};

/// The cards of a desktop computer whose processor has a graphics unit of its own, which HIP lists first.
const DESKTOP: &str = "gfx1151:name=AMD Radeon Graphics:units=200:integrated,\
                       gfx1100:name=AMD Radeon RX 7600:units=16,\
                       gfx1100:name=AMD Radeon RX 7900 XTX:units=48";

const OPTIONS: &str = "max_batch=2,streams=1,warm_up=false";

/// Plays a move on a machine with these cards. Returns the engine's output.
fn played(folder: &Path, arguments: &[&str], cards: &str, settings: &[(&str, &str)]) -> String {
    let settings = [&[("RUKH_EMULATOR_DEVICES", cards)], settings].concat();
    stdout(&search(folder, arguments, &settings))
}

/// The lines about the choice of a card.
fn choices(said: &str) -> Vec<&str> {
    said.lines().filter(|line| line.starts_with("info string gpu ")).collect()
}

#[test]
fn the_card_with_the_most_compute_units_is_used_and_the_integrated_one_comes_last() {
    let folder = libraries();
    for backend in ["rocm-fp16", "auto"] {
        let arguments = [&format!("--backend={backend}"), "-o", OPTIONS];
        let said = played(folder.path(), &arguments, DESKTOP, &[]);
        let expected = "info string gpu 2 (AMD Radeon RX 7900 XTX, gfx1100) is used, and others are left out: gpu 1 \
                        (AMD Radeon RX 7600, gfx1100): it has 16 work-group processors, and the other 48; gpu 0 (AMD Radeon \
                        Graphics, gfx1151): it is integrated, although it has 200 work-group processors and the other 48; to \
                        use it, set gpu=0";
        assert_eq!(choices(&said), [expected], "{said}");
        assert!(!said.contains("error") && !said.contains("using cpu"), "{said}");
    }
}

#[test]
fn a_card_is_chosen_by_number_or_by_part_of_its_name() {
    let folder = libraries();
    for (wanted, name) in [
        ("0", "AMD Radeon Graphics"),
        ("1", "AMD Radeon RX 7600"),
        ("7900 xtx", "AMD Radeon RX 7900 XTX"),
        ("7600", "AMD Radeon RX 7600"),
        ("GFX1100", "AMD Radeon RX 7900 XTX"),
    ] {
        let output =
            rukh(&["backendbench", "--backend=rocm-fp16", "--json", "--batches=3", "--max-batch-size=1"])
                .args(["-w", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/micro-attn.pb.gz")])
                .args(["-o", &format!("gpu={wanted},{OPTIONS}")])
                .env("RUKH_ROCM_LIBRARY_PATH", folder.path())
                .env("RUKH_EMULATOR_DEVICES", DESKTOP)
                .output()
                .expect("the binary starts");
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        assert!(output.status.success() && said.contains(&format!("({name}, gfx")), "{wanted}: {said}");
    }
    let said = played(folder.path(), &["--backend=rocm", "-o", "gpu=Instinct"], DESKTOP, &[]);
    let error = "info string error: backend rocm: gpu=Instinct, but no device has this in its name: the driver finds gpu 0 \
                 (AMD Radeon Graphics, gfx1151), gpu 1";
    assert!(said.contains(error), "{said}");
}

#[test]
fn a_card_that_cannot_be_used_is_passed_over_with_the_reason() {
    let folder = libraries();
    let cache = folder.path().display().to_string();
    let cards =
        "gfx803:name=Radeon R9 Fury:units=64,gfx1100:name=Radeon RX 7900:units=48:mib=200,gfx1151:units=40";
    let settings = [("RUKH_EMULATOR_FAIL", "hiprtcCompileProgram:1"), ("XDG_CACHE_HOME", cache.as_str())];
    let said = played(folder.path(), &["--backend=rocm-fp16", "-o", OPTIONS], cards, &settings);
    let [choice] = choices(&said)[..] else { panic!("{said}") };
    assert!(choice.contains("gpu 2 (Rukh emulator for gfx1151, gfx1151) is used"), "{choice}");
    assert!(
        choice.contains("gpu 0 (Radeon R9 Fury, gfx803): no kernels for the architecture gfx803"),
        "{choice}"
    );
    assert!(
        choice.contains("gpu 1 (Radeon RX 7900, gfx1100): only 200 MiB of its memory are free"),
        "{choice}"
    );
    assert!(!said.contains("error"), "{said}");
    // A card that the user names is not replaced by another one.
    let options = format!("gpu=Fury,{OPTIONS}");
    let said = played(folder.path(), &["--backend=rocm-fp16", "-o", &options], cards, &settings);
    assert!(
        said.contains("info string error: backend rocm-fp16: no kernels for the architecture gfx803"),
        "{said}"
    );
    // `auto` uses the processor only if no card can be used, and then gives the reason for each.
    let cards = "gfx803:units=64,gfx803:units=32";
    let fails = "hiprtcCompileProgram:1,hiprtcCompileProgram:2";
    // The search before has kept compiled code in its cache.
    let cache = folder.path().join("empty").display().to_string();
    let settings = [("RUKH_EMULATOR_FAIL", fails), ("XDG_CACHE_HOME", cache.as_str())];
    let said = played(folder.path(), &[], cards, &settings);
    let notice = said
        .lines()
        .find(|line| line.ends_with("; using cpu-auto instead"))
        .unwrap_or_else(|| panic!("{said}"));
    assert!(notice.contains("no device can be used: gpu 0 (") && notice.contains("; gpu 1 ("), "{notice}");
}

#[test]
fn a_card_that_fails_when_it_is_asked_for_its_properties_is_passed_over() {
    let folder = libraries();
    let settings = [("RUKH_EMULATOR_FAIL", "hipGetDevicePropertiesR0600:1")];
    let said = played(folder.path(), &["--backend=rocm-fp16", "-o", OPTIONS], "2", &settings);
    let [choice] = choices(&said)[..] else { panic!("{said}") };
    assert!(
        choice.contains("gpu 1 (Rukh emulator") && choice.contains("gpu 0: hipGetDeviceProperties"),
        "{choice}"
    );
}

/// rocBLAS and hipBLASLt belong to a runtime of their own, as if they came from another release of ROCm than HIP. On
/// Windows a library names the runtime that it belongs to, and the emulator belongs to none.
#[cfg(unix)]
#[test]
fn the_runtime_of_the_blas_libraries_is_used() {
    let folder = libraries();
    install_second_runtime(folder.path(), &["rocblas", "hipblaslt"]).expect("the folder can be written to");
    for card in ["gfx1100", "gfx1151"] {
        let said = played(folder.path(), &["--backend=rocm-fp16", "-o", OPTIONS], card, &[]);
        let notice =
            said.lines().find(|line| line.starts_with("info string HIP is used from ")).unwrap_or_default();
        let rocblas = file_name("rocblas");
        assert!(
            notice.contains(&format!("second-runtime-of-{rocblas}"))
                || notice.contains(&format!("{rocblas} and not")),
            "{said}"
        );
        assert!(notice.ends_with("because the BLAS libraries belong to it"), "{said}");
        assert!(!said.contains("error"), "{card}: {said}");
    }
}

/// Only one of the BLAS libraries belongs to the runtime that was loaded first.
#[cfg(unix)]
#[test]
fn a_blas_library_of_another_runtime_is_left_out() {
    for (library, product, other) in
        [("rocblas", "rocBLAS", "hipblaslt"), ("hipblaslt", "hipBLASLt", "rocblas")]
    {
        let folder = libraries();
        install_second_runtime(folder.path(), &[library]).expect("the folder can be written to");
        let said = played(folder.path(), &["--backend=rocm-fp16", "-o", OPTIONS], "gfx1100", &[]);
        let notice =
            format!("info string {product} is left out, because it belongs to another HIP runtime (");
        assert!(said.contains(&notice) && !said.contains("error"), "{said}");
        // The other library alone is no reason for a notice.
        let options = format!("gemm={other},{OPTIONS}");
        let said = played(folder.path(), &["--backend=rocm-fp16", "-o", &options], "gfx1100", &[]);
        assert!(!said.contains("left out") && !said.contains("error"), "{said}");
    }
}

/// HIP in one folder and the BLAS libraries in another, as ROCm's Python wheels have them, with versions in their names.
#[test]
fn the_libraries_may_lie_in_several_folders() {
    let whole = libraries();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (packages, inner) =
        if cfg!(windows) { ("Lib/site-packages", "bin") } else { ("lib/python3.12/site-packages", "lib") };
    let packages = folder.path().join(packages);
    let core = packages.join("_rocm_sdk_core").join(inner);
    let blas = packages.join("_rocm_sdk_libraries_gfx110X").join(inner);
    let files = [
        (&core, "amdhip64", ".7"),
        (&core, "hiprtc", ".7"),
        (&blas, "rocblas", ".5"),
        (&blas, "hipblaslt", ".1"),
    ];
    std::fs::create_dir_all(&core).expect("a folder can be made");
    std::fs::create_dir_all(&blas).expect("a folder can be made");
    for (place, library, version) in files {
        let name = file_name(library);
        // On Windows a file's name has no version after the suffix.
        let versioned = if cfg!(windows) { name.clone() } else { name.clone() + version };
        link(&whole.path().join(name), &place.join(versioned)).expect("a link can be made");
    }
    let kernels = whole.path().join("rocblas/library").display().to_string();
    let kernels = ("ROCBLAS_TENSILE_LIBPATH", kernels.as_str());
    let arguments = ["--backend=rocm-fp16", "-o", OPTIONS];
    let list = std::env::join_paths([&core, &blas]).expect("the paths have no separators");
    let said = played(Path::new(&list), &arguments, "1", &[kernels]);
    assert!(!said.contains("error"), "a list of folders: {said}");
    // An empty list counts as none, and the active environment is then searched.
    let environment = folder.path().display().to_string();
    let said = played(Path::new(""), &arguments, "1", &[kernels, ("VIRTUAL_ENV", &environment)]);
    assert!(!said.contains("error"), "an active environment: {said}");
}

#[test]
fn without_rocm_one_short_line_says_so_and_another_what_is_used_instead() {
    let said = stdout(&search(nowhere(), &[], &[]));
    let lines: Vec<&str> = said.lines().take_while(|line| *line != "readyok").collect();
    let notices: Vec<&&str> = lines.iter().filter(|line| line.starts_with("info string")).collect();
    assert!(notices.iter().all(|line| line.len() <= 120), "{notices:?}");
    assert!(notices.iter().filter(|line| line.contains("rocm")).count() <= 1, "{notices:?}");
    assert!(notices.iter().filter(|line| line.contains("cpu-auto uses ")).count() <= 1, "{notices:?}");
    assert!(notices.len() <= 2, "{notices:?}");
}
