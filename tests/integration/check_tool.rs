//! `rukh check`: the differences between two backends' evaluations.

use crate::driver::{run, run_any};
use serde_json::Value;

const NETWORK: &str = concat!("--weights=", env!("CARGO_MANIFEST_DIR"), "/tests/data/micro-attn.pb.gz");
const OPENINGS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/openings.epd");

fn check(arguments: &[&str]) -> Value {
    let text = run(&[&["check", NETWORK, "--json"], arguments].concat());
    serde_json::from_str(&text).expect("it is JSON")
}

fn largest(found: &Value, figure: &str) -> f64 {
    found["summary"][figure]["largest"].as_f64().expect("a number")
}

#[test]
fn a_backend_does_not_differ_from_itself_and_int8_differs_a_little_from_fp32() {
    let same = check(&["--backend=cpu", "--positions=150"]);
    assert_eq!(same["summary"]["positions"], 150);
    assert_eq!(same["summary"]["same_best_move"], 1.0);
    assert!(["q", "d", "m", "divergence"].iter().all(|figure| largest(&same, figure) == 0.0), "{same}");

    let int8 = check(&["--backend=cpu-int8", "--positions=150"]);
    assert!(int8["backend"].as_str().expect("a name").starts_with("cpu-int8 ("), "{int8}");
    assert!((1e-6..0.1).contains(&largest(&int8, "q")), "{int8}");
    assert!((1e-6..0.5).contains(&largest(&int8, "divergence")), "{int8}");
    // Another seed begins other games.
    let other = check(&["--backend=cpu-int8", "--positions=150", "--seed=1"]);
    assert_ne!(int8["summary"], other["summary"]);
}

/// A position is evaluated alone or among others with the same figures, whichever thread does it.
#[test]
fn the_differences_do_not_depend_on_the_number_of_threads() {
    let summary = |threads: &str| {
        check(&["--backend=cpu-int8", "--positions=100", "--batch=10", threads])["summary"].clone()
    };
    let one = summary("--threads=1");
    for threads in ["--threads=3", "--threads=16"] {
        assert_eq!(summary(threads), one, "{threads}");
    }
}

#[test]
fn positions_are_read_from_files() {
    let found = check(&["--backend=cpu-bf16", "--positions=40", "--batch=7", OPENINGS]);
    assert_eq!(found["summary"]["positions"], 40);
    let text = run(&["check", NETWORK, "--backend=cpu-int8", "--positions=40", OPENINGS]);
    assert!(text.contains("40 positions") && text.contains("the same move has the highest prior"), "{text}");
}

#[test]
fn a_file_or_a_backend_that_does_not_exist_is_named() {
    for (wrong, named) in [("no-such-file.pgn", "no-such-file.pgn"), ("--reference=no-such", "no-such")] {
        let result = run_any(&["check", NETWORK, wrong]);
        assert!(!result.status.success());
        let error = String::from_utf8_lossy(&result.stderr).into_owned();
        assert!(error.contains(named), "{error}");
    }
}
