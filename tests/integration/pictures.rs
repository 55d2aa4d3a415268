//! `--svg`: the pictures of `bench` and `backendbench`.

use crate::driver::{run, run_any};
use serde_json::Value;
use std::fs;

/// Runs a tool with `--json` and `--svg`. Returns the two results.
fn drawn(name: &str, arguments: &[&str]) -> (Value, String) {
    let path = std::env::temp_dir().join(format!("rukh-{}-{name}.svg", std::process::id()));
    let json = run(&[arguments, &["--json", "--svg", path.to_str().unwrap()]].concat());
    let svg = fs::read_to_string(&path).unwrap();
    fs::remove_file(&path).unwrap();
    assert!(svg.starts_with("<svg xmlns=") && svg.ends_with("</svg>\n"), "{svg}");
    (serde_json::from_str(&json).unwrap(), svg)
}

/// The numbers with which the tooltips of a picture begin.
fn tooltips(svg: &str) -> Vec<f64> {
    let begins = svg.split("<title>").skip(1).filter_map(|part| part.split([' ', '<']).next());
    begins.filter_map(|number| number.replace(',', "").parse().ok()).collect()
}

#[test]
fn backendbench_draws_speed_and_latency_of_each_size() {
    let arguments = ["backendbench", "-b", "random", "--batches=4", "--max-batch-size=12", "--batch-step=4"];
    let (json, svg) = drawn("backendbench", &[&arguments[..], &["--backend-opts=delay=2"]].concat());
    for size in json["sizes"].as_array().unwrap() {
        let nps = size["mean_nps"].as_f64().unwrap();
        assert!((100.0..1e6).contains(&nps), "{nps}");
        // Pictures show four digits.
        let is_shown = |shown: &f64| (shown - nps).abs() <= nps * 1e-3;
        assert!(tooltips(&svg).iter().any(is_shown), "{nps} is not in {svg}");
    }
    assert!(svg.contains("milliseconds per batch, batch size 9</title>"), "{svg}");
}

#[test]
fn bench_draws_each_position_and_escapes_the_users_text() {
    let fen = "6k1/1p3ppp/8/8/8/8/8/R5K1 w - - 0 1 moves g1f1 b7b6";
    let (json, svg) =
        drawn("bench", &["bench", "-b", "trivial", "-t", "1", "--nodes=200", "--movetime=-1", "--fen", fen]);
    assert!(svg.contains(&format!("nodes per second, 1 {fen}</title>")), "{svg}");
    assert!(json["nps"].as_u64().unwrap() < 1_000_000);
    assert!(svg.contains("all positions: "), "{svg}");
}

#[test]
fn a_picture_that_cannot_be_written_is_an_error_that_names_the_file() {
    let output = run_any(&[
        "backendbench",
        "-b",
        "trivial",
        "--batches=3",
        "--max-batch-size=1",
        "--svg=/nonexistent/a.svg",
    ]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr.contains("cannot write the picture /nonexistent/a.svg: "), "{stderr}");
}
