//! The stages of `rukh doctor` that examine kernels, GEMMs, graphs and floors: each names what is wrong, and nothing
//! else.

use crate::rocm::libraries;
use crate::rocm_doctor::{NETWORK, Report, doctor_with};
use serde_json::Value;
use std::collections::BTreeSet;

/// Runs one stage without tuning.
fn stage(name: &str, settings: &[(&str, &str)]) -> Report {
    let options = "max_batch=2,streams=2,wait=block,timeout=1,tune=off";
    let report =
        doctor_with(libraries().path(), NETWORK, &[&format!("--stage={name}"), "-o", options], settings);
    assert_eq!(report.state(name), "done", "{}", report.text);
    report
}

/// The cell of a row, as text.
fn text<'a>(row: &'a Value, column: &str) -> &'a str {
    row[column].as_str().unwrap_or_default()
}

#[test]
fn a_kernel_that_computes_nothing_is_named() {
    let settings = [("RUKH_EMULATOR_WRONG", "layer_norm_bf16_w256,softmax_f32")];
    let report = stage("kernels", &settings);
    let wrong = report.wrong("kernels");
    let mut kernels: Vec<&str> = wrong.iter().map(|row| text(row, "kernel")).collect();
    kernels.dedup();
    assert_eq!(kernels, ["layer_norm_bf16_w256", "softmax_f32"], "{}", report.text);
    assert!(wrong.iter().all(|row| text(row, "detail").contains("instead of")), "{}", report.text);
    let right = report.rows("kernels").into_iter().filter(|row| text(row, "verdict") == "right").count();
    assert!(right > 90, "{}", report.text);
}

#[test]
fn a_card_without_matrix_instructions_lacks_kernels_and_nothing_is_wrong() {
    let report = stage("kernels", &[("RUKH_EMULATOR_ARCH", "gfx1030")]);
    assert!(report.wrong("kernels").is_empty(), "{}", report.text);
    let rows = report.rows("kernels");
    let absent = rows.iter().filter(|row| text(row, "detail").starts_with("absent")).count();
    assert!(absent > 10 && rows.len() > 4 * absent, "{absent} of {}", rows.len());
}

#[test]
fn a_library_that_computes_something_else_is_named() {
    let report = stage("gemms", &[("RUKH_EMULATOR_WRONG", "hipblaslt")]);
    let rows = report.rows("gemms");
    for (library, verdict) in [("hipBLASLt", "wrong"), ("rocBLAS", "right"), ("Rukh's kernel", "right")] {
        let mut of_library = rows.iter().filter(|row| text(row, "by") == library).peekable();
        assert!(of_library.peek().is_some(), "{library}: {}", report.text);
        assert!(of_library.all(|row| text(row, "verdict") == verdict), "{library}: {}", report.text);
    }
    assert!(rows.iter().all(|row| row["µs"].as_f64().is_some_and(|time| time > 0.0)), "{}", report.text);
}

#[test]
fn a_question_that_ends_the_process_costs_one_gemm() {
    let report = stage("gemms", &[("RUKH_EMULATOR_HEURISTIC", "crash:32x128x32")]);
    let deaths = report.deaths("gemms");
    assert_eq!(deaths.len(), 1, "{}", report.text);
    let item = deaths[0]["item"].as_str().expect("a text");
    assert_eq!(item, "hipBLASLt, m=32 n=128 k=32 f16, the question for algorithms");
    let rows = report.rows("gemms");
    let by = |library: &str, gemm: &str| {
        rows.iter().filter(|row| text(row, "by") == library && text(row, "gemm") == gemm).count()
    };
    assert_eq!((by("hipBLASLt", "m=32 n=128 k=32 f16"), by("rocBLAS", "m=32 n=128 k=32 f16")), (0, 1));
    assert_eq!((by("hipBLASLt", "m=32 n=64 k=32 f16"), by("rocBLAS", "m=32 n=64 k=32 f16")), (1, 1));
    assert!(report.wrong("gemms").is_empty(), "{}", report.text);
}

#[test]
fn graphs_are_compared_with_single_steps() {
    let report = stage("graphs", &[("RUKH_EMULATOR_WRONG", "graph")]);
    for row in report.rows("graphs") {
        let expected = if text(&row, "how").contains("graph") { "different" } else { "right" };
        assert_eq!(text(&row, "verdict"), expected, "{}", report.text);
    }
    assert_eq!(report.rows("graphs").len(), 10, "{}", report.text);
}

#[test]
fn passes_that_cannot_be_captured_are_named() {
    let settings = [("RUKH_EMULATOR_BAD_CAPTURE", "work")];
    let report = stage("graphs", &settings);
    for row in report.rows("graphs") {
        let expected = if text(&row, "how").contains("graph") { "not captured" } else { "right" };
        assert_eq!(text(&row, "verdict"), expected, "{}", report.text);
    }
    let report = stage("floors", &settings);
    let rows = report.rows("floors");
    let launches =
        |way: &str| rows.iter().filter(|row| text(row, "by") == way && row["wait"].is_null()).count();
    assert_eq!((launches("launches"), launches("graph")), (3, 0), "{}", report.text);
    let failed = rows.iter().filter(|row| text(row, "item").contains("graph")).count();
    assert_eq!(failed, 5, "{}", report.text);
}

/// Only smolgen's GEMMs share launches by default on a card whose dies have caches of their own. Without smolgen that is the
/// same as none.
#[test]
fn values_of_fuse_that_change_nothing_are_not_measured() {
    let folder = libraries();
    let tried = |network: &str, card: &str| -> BTreeSet<String> {
        let network = format!("{}/tests/data/{network}.pb.gz", env!("CARGO_MANIFEST_DIR"));
        let arguments = [
            "--stage=speed",
            "--backend=rocm-fp16",
            "-o",
            "gemm=own,max_batch=1,streams=1,wait=block,tune=off",
        ];
        let report = doctor_with(folder.path(), &network, &arguments, &[("RUKH_EMULATOR_ARCH", card)]);
        let settings =
            report.rows("speed").iter().map(|row| text(row, "setting").to_owned()).collect::<Vec<_>>();
        settings.into_iter().filter(|text| text.starts_with("fuse=") && !text.contains(',')).collect()
    };
    let set = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<BTreeSet<_>>();
    assert_eq!(tried("micro-smolgen", "gfx942"), set(&["fuse=false", "fuse=true"]));
    assert_eq!(tried("micro-smolgen", "gfx1100"), set(&["fuse=false", "fuse=smolgen"]));
    assert_eq!(tried("micro-attn", "gfx942"), set(&["fuse=true"]));
}

#[test]
fn floors_have_chains_waits_and_copies() {
    let report = stage("floors", &[]);
    let rows = report.rows("floors");
    assert!(report.wrong("floors").is_empty(), "{}", report.text);
    for count in [1, 100, 230] {
        for way in ["launches", "graph", "forked graph"] {
            let is_there = rows.iter().any(|row| row["kernels"] == count && text(row, "by") == way);
            assert_eq!(is_there, count > 1 || way != "forked graph", "{count} by {way}: {}", report.text);
        }
    }
    for wait in ["spin", "yield", "block"] {
        assert!(rows.iter().any(|row| text(row, "wait") == wait), "{wait}: {}", report.text);
    }
    for copy in ["host to device", "device to host", "within the device's memory"] {
        let found = rows.iter().find(|row| text(row, "copy") == copy);
        let rate = found.and_then(|row| row["GB/s"].as_f64());
        assert!(rate.is_some_and(|rate| rate > 0.0), "{copy}: {}", report.text);
    }
}
