//! Tells the program which commit it was built from, where git knows; a build without git works as well.

use std::path::Path;
use std::process::Command;

fn main() {
    // With no line of this kind, or one of a file that is not there, Cargo would build everything anew each time.
    println!("cargo:rerun-if-changed=build.rs");
    let version = std::env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let full = match commit() {
        Some(commit) => {
            // A worktree has its own head, elsewhere than in `.git`.
            for path in
                ["HEAD", "logs/HEAD"].iter().filter_map(|name| git(&["rev-parse", "--git-path", name]))
            {
                if Path::new(&path).exists() {
                    println!("cargo:rerun-if-changed={path}");
                }
            }
            format!("{version}+g{commit}")
        }
        None => version,
    };
    println!("cargo:rustc-env=RUKH_VERSION={full}");
}

/// The short hash of the checked-out commit, if this is the top of a git checkout.
fn commit() -> Option<String> {
    if !Path::new(".git").exists() {
        return None;
    }
    let hash = git(&["rev-parse", "--short=8", "HEAD"])?;
    hash.bytes().all(|byte| byte.is_ascii_hexdigit()).then_some(hash)
}

/// What git prints, if it is there and succeeds.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}
