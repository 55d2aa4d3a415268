//! Checks that the public names are those in `public_api.txt`, so that none changes by accident.

use public_api::{Builder, MINIMUM_NIGHTLY_RUST_VERSION};
use std::path::Path;
use std::process::Command;

const FEATURES: &str = "embedded,engine,gpu";

#[test]
fn public_names_are_those_of_the_list() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
    // rustdoc's JSON output is unstable, so RUSTC_BOOTSTRAP allows it with a stable compiler.
    let status = Command::new(env!("CARGO"))
        .args(["rustdoc", "--quiet", "--lib", "--features", FEATURES, "--target-dir"])
        .arg(target)
        .args(["--", "-Zunstable-options", "--output-format", "json"])
        .env("RUSTC_BOOTSTRAP", "1")
        .current_dir(folder)
        .status();
    assert!(status.is_ok_and(|status| status.success()), "cargo rustdoc failed");
    let names = Builder::from_rustdoc_json(target.join("doc/librukh.json"))
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .omit_auto_derived_impls(true)
        .build();
    let names = match names {
        Ok(names) => names.to_string(),
        Err(error) => {
            println!(
                "skipped: rustdoc's JSON cannot be read (it needs Rust {MINIMUM_NIGHTLY_RUST_VERSION} or newer): {error}"
            );
            return;
        }
    };
    let list = folder.join("tests/public_api.txt");
    if std::env::var_os("UPDATE_DATA").is_some() {
        std::fs::write(&list, &names).expect("the list can be written");
    }
    let listed = std::fs::read_to_string(&list).expect("the list can be read");
    assert!(
        names == listed,
        "the public names have changed; UPDATE_DATA=1 cargo test --workspace --test public_api --features \
         librukh/embedded,librukh/engine,librukh/gpu writes the list again"
    );
}
