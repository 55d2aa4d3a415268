//! The names that programs may use are those in `public_api.txt`, so that none is changed by accident.

use public_api::{Builder, MINIMUM_NIGHTLY_RUST_VERSION};
use std::path::Path;
use std::process::Command;

const FEATURES: &str = "embedded,engine,gpu";

#[test]
fn public_names_are_those_of_the_list() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
    // What the documentation says as JSON is not stable yet, so the compiler must be told that it may.
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
            println!("skipped: the names are read from Rust since {MINIMUM_NIGHTLY_RUST_VERSION}: {error}");
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
