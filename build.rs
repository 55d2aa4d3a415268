//! Sets the version of the program, which includes the git commit if there is one. A build needs no git.
//!
//! | variable | meaning |
//! |---|---|
//! | `RUKH_COMMIT` | the git commit in the version, for builds from an archive; empty leaves it out |

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    // Without such lines Cargo would run this script again after every change in the package, and with a line for a
    // missing file in every build.
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=RUKH_COMMIT");
    let version = env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let full = match env::var("RUKH_COMMIT").ok().or_else(checked_out_commit) {
        Some(commit) if is_hash(&commit) => format!("{version}+git.{}", &commit[..commit.len().min(7)]),
        _ => version,
    };
    println!("cargo:rustc-env=RUKH_VERSION={full}");
}

fn is_hash(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The hash of the checked-out commit, if the workspace is the root of a git checkout. Lets Cargo run this script again
/// when another commit is checked out.
fn checked_out_commit() -> Option<String> {
    if !Path::new(".git").exists() {
        return None;
    }
    // In a git worktree HEAD is not in the folder `.git`, so git is asked for its path.
    for path in ["HEAD", "logs/HEAD"].iter().filter_map(|name| git(&["rev-parse", "--git-path", name])) {
        if Path::new(&path).exists() {
            println!("cargo:rerun-if-changed={path}");
        }
    }
    git(&["rev-parse", "HEAD"])
}

/// The output of git. `None` if git is missing or fails, or prints nothing.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}
