//! Any bytes as a file of AMD's profiler and as a baseline. The property test `any_input::profile_file` runs the same body.

#![no_main]

use std::path::PathBuf;
use std::sync::LazyLock;

/// An empty folder for the file. libFuzzer runs one input at a time.
static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = std::env::temp_dir().join(format!("rukh-fuzz-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for the file can be made");
    folder
});

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| rukh::fuzzing::profile_file(bytes, &FOLDER));
