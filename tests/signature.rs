//! The search on the `trivial` backend is the same on every machine, whatever the build: `scripts/signature.txt` has the
//! signatures of the default search and of lc0's classic search. This test is a binary of its own, so that
//! `scripts/check.sh quick` builds only the engine for it.

use std::process::Command;

#[test]
fn the_search_has_the_signature_in_the_repository() {
    let expected = include_str!("../scripts/signature.txt").trim();
    let signature = |search: &str| {
        let flag = format!("--search={search}");
        let output = Command::new(env!("CARGO_BIN_EXE_rukh")).args(["bench", "--signature", &flag]).output();
        let output = output.expect("the engine runs");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        format!("{search} {}", String::from_utf8_lossy(&output.stdout).trim())
    };
    let found = ["default", "classic"].map(signature).join("\n");
    assert_eq!(
        found, expected,
        "the search has changed; if that is intended, write this to scripts/signature.txt:\n{found}"
    );
    println!("signature {}", found.replace('\n', ", "));
}
