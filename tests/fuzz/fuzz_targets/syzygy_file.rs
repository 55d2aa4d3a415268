//! Any bytes as a Syzygy table. The property test `any_input::syzygy_file` runs the same body.

#![no_main]

use std::path::PathBuf;
use std::sync::LazyLock;

/// An empty folder for the table. libFuzzer runs one input at a time.
static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    // libFuzzer's hook ends the program at every panic. The engine catches those in a damaged table, so the hook must
    // go. A panic that leaves the body still ends the program.
    std::panic::set_hook(Box::new(|_| {}));
    let folder = std::env::temp_dir().join(format!("rukh-fuzz-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for the table can be made");
    folder
});

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    rukh::fuzzing::syzygy_file(bytes, &FOLDER, concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
});
