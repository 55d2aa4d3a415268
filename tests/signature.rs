//! The search on the `trivial` backend is the same on every machine, whatever the build: `scripts/signature.txt` has the
//! signatures of the default search and of lc0's classic search, of 10,000 nodes and of fewer. This test is a binary of its own, so that
//! `scripts/check.sh quick` builds only the engine for it.

use std::process::Command;

#[test]
fn the_search_has_the_signature_in_the_repository() {
    let expected = include_str!("../scripts/signature.txt").trim();
    let signature = |search: &str, nodes: Option<u32>| {
        let flag = format!("--search={search}");
        let limit = nodes.map(|nodes| format!("--nodes={nodes}"));
        let mut command = Command::new(env!("CARGO_BIN_EXE_rukh"));
        let output = command.args(["bench", "--signature", &flag]).args(&limit).output();
        let output = output.expect("the engine runs");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        let name = nodes.map_or_else(|| search.to_owned(), |nodes| format!("{search}, {nodes} nodes"));
        format!("{name}: {}", String::from_utf8_lossy(&output.stdout).trim())
    };
    // After many nodes both searches choose the same moves of these positions.
    let found = [None, Some(800)].map(|nodes| ["default", "classic"].map(|search| signature(search, nodes)));
    let found = found.concat().join("\n");
    assert_eq!(
        found, expected,
        "the search has changed; if that is intended, write this to scripts/signature.txt:\n{found}"
    );
    println!("signature {}", found.replace('\n', "; "));
}
