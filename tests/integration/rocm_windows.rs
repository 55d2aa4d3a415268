//! Where Windows looks for the display driver's library, and where it must not look; how long a batch may take there.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::driver::{rukh, rukh_at};
use crate::rocm::libraries;
use rocm_emulator::install::{file_name, link};

const NETWORK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/micro-attn.pb.gz");

/// A folder with a copy of the engine and the emulator's libraries in another folder of the same drive.
struct Installation {
    folder: tempfile::TempDir,
    libraries: tempfile::TempDir,
}

impl Installation {
    fn new() -> Installation {
        let folder = tempfile::tempdir().expect("a temporary folder");
        fs::copy(env!("CARGO_BIN_EXE_rukh"), folder.path().join("rukh.exe"))
            .expect("the engine can be copied");
        Installation { folder, libraries: libraries() }
    }

    fn make(&self, name: &str) -> PathBuf {
        let folder = self.folder.path().join(name);
        fs::create_dir_all(&folder).expect("a folder can be made");
        folder
    }

    /// Puts HIP's runtime into `folder` under `name`.
    fn put(&self, folder: &Path, name: &str) {
        let whole = self.libraries.path().join(file_name("amdhip64"));
        link(&whole, &folder.join(name)).expect("a link can be made");
    }

    /// What the engine says when it is started in `current` with `settings`. No variable names a folder of libraries.
    fn said(&self, current: &Path, settings: &[(&str, &Path)]) -> String {
        let arguments = [
            "backendbench",
            "--json",
            "--backend=rocm-fp16",
            "-w",
            NETWORK,
            "--batches=4",
            "--max-batch-size=1",
        ];
        let output = rukh_at(&self.folder.path().join("rukh.exe"), &arguments)
            .args(["-o", "max_batch=1,streams=1,warm_up=false"])
            .env_remove("RUKH_ROCM_LIBRARY_PATH")
            .env_remove("HIP_PATH")
            .env_remove("ROCM_PATH")
            .envs(settings.iter().copied())
            .current_dir(current)
            .stdin(Stdio::null())
            .output()
            .expect("the engine starts");
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    }

    /// Whether the engine finds HIP when it is started in `current` with `settings`.
    fn finds_hip(&self, current: &Path, settings: &[(&str, &Path)]) -> bool {
        !self.said(current, settings).contains("amdhip64 is not in the system's folders")
    }
}

#[test]
fn the_driver_is_found_where_windows_looks_for_libraries() {
    let here = Installation::new();
    let [elsewhere, sdk, listed] = ["elsewhere", "sdk/bin", "listed"].map(|name| here.make(name));
    if here.finds_hip(&elsewhere, &[]) {
        println!("skipped: this machine has the display driver of an AMD card");
        return;
    }
    // Another program may have left a library where the chess program starts the engine.
    here.put(&elsewhere, "amdhip64_7.dll");
    assert!(!here.finds_hip(&elsewhere, &[]), "the current folder is not searched");
    here.put(&sdk, "amdhip64_6.dll");
    let root = here.folder.path().join("sdk");
    let said = here.said(&elsewhere, &[("HIP_PATH", &root)]);
    assert!(said.contains("Rukh emulator for gfx1100"), "{said}");
    here.put(&listed, "amdhip64_7.dll");
    assert!(here.finds_hip(&elsewhere, &[("PATH", &listed)]));
    for name in ["amdhip64_6.dll", "amdhip64_7.dll", "amdhip64_8.dll"] {
        here.put(here.folder.path(), name);
        assert!(here.finds_hip(&elsewhere, &[]), "{name} beside the engine");
        fs::remove_file(here.folder.path().join(name)).expect("no process has it open");
    }
}

/// The engine's folder has several releases of HIP.
#[test]
fn the_newest_release_is_used() {
    let here = Installation::new();
    here.put(here.folder.path(), "amdhip64_7.dll");
    for name in ["amdhip64_6.dll", "amdhip64_8.dll"] {
        fs::write(here.folder.path().join(name), "no library").expect("the folder can be written to");
    }
    // The newest cannot be loaded, so that the next one is used.
    let said = here.said(here.folder.path(), &[]);
    assert!(said.contains("Rukh emulator for gfx1100"), "{said}");
    fs::remove_file(here.folder.path().join("amdhip64_7.dll")).expect("no process has it open");
    let said = here.said(here.folder.path(), &[]);
    assert!(said.contains("amdhip64 cannot be used (amdhip64_8.dll: "), "{said}");
}

/// Windows resets a card that does not answer for two seconds. Every GEMM of this emulated card takes long.
#[test]
fn a_batch_takes_half_a_second_at_most() {
    let libraries = libraries();
    let output = rukh(&["backendbench", "--backend=rocm-fp16", "-w", NETWORK, "--threads=1"])
        .args(["-o", "gemm=rocblas,tune=off,max_batch=2,streams=1,wait=block"])
        .args(["--batches=3", "--start-batch-size=1", "--max-batch-size=2"])
        .env("RUKH_ROCM_LIBRARY_PATH", libraries.path())
        .env("XDG_CACHE_HOME", libraries.path())
        .env("RUKH_EMULATOR_SLOW_ROCBLAS", "60")
        .stdin(Stdio::null())
        .output()
        .expect("the engine starts");
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    let notice = "batches have at most 1 positions: the card takes more than 0.5 s for more";
    assert!(said.contains(notice), "{said}");
}
