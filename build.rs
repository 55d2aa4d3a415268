//! Tells the program which commit it was built from, where git knows; a build without git works as well.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=.git/HEAD");
    println!("cargo:rerun-if-changed=.git/logs/HEAD");
    let version = std::env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let full = match commit() {
        Some(commit) => format!("{version}+g{commit}"),
        None => version,
    };
    println!("cargo:rustc-env=RUKH_VERSION={full}");
}

/// The short hash of the checked-out commit, if this is the top of a git checkout.
fn commit() -> Option<String> {
    if !std::path::Path::new(".git").exists() {
        return None;
    }
    let output = Command::new("git").args(["rev-parse", "--short=8", "HEAD"]).output().ok()?;
    let hash = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && hash.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(hash)
}
