//! `rukh profile`: what it measures of a pass, and that the figures fit together.

#[cfg(any(target_os = "linux", windows))]
use crate::driver::rukh;
use crate::driver::{run, run_any};
#[cfg(any(target_os = "linux", windows))]
use crate::rocm::libraries;
use serde_json::Value;
use std::fs;
#[cfg(any(target_os = "linux", windows))]
use std::path::Path;
#[cfg(any(target_os = "linux", windows))]
use std::process::Output;

const NETWORKS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data");

/// The JSON of a profile on the processor.
fn profile(network: &str, arguments: &[&str]) -> Value {
    let weights = format!("--weights={NETWORKS}/{network}.pb.gz");
    let text = run(&[&["profile", "--backend=cpu", "--json", weights.as_str()], arguments].concat());
    serde_json::from_str(&text).expect("it is JSON")
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// The sum of a figure over the rows of a table.
fn sum(rows: &Value, figure: &str) -> f64 {
    rows.as_array().expect("a table").iter().map(|row| number(&row[figure])).sum()
}

fn row<'a>(rows: &'a Value, name: &str) -> &'a Value {
    let rows = rows.as_array().expect("a table");
    rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("no {name} in {rows:#?}"))
}

#[test]
fn the_steps_of_every_kind_of_network_add_up_to_the_whole_pass() {
    for network in ["micro-attn", "micro-smolgen", "micro-se-conv", "micro-classical-wdl", "micro-multihead"]
    {
        let found = profile(network, &["--batch=20", "--passes=9"]);
        let ratio = |found: &Value| number(&found["sum_of_steps"]) / number(&found["microseconds"]);
        // The two are means of different passes, which other processes may disturb: one quiet run of several is enough.
        let mut later = (0..20).map(|_| ratio(&profile(network, &["--batch=20", "--passes=9"])));
        let agrees = |ratio: f64| (ratio - 1.0).abs() < 0.1;
        assert!(agrees(ratio(&found)) || later.any(agrees), "{network}");
        // Each step is in one operation and in one part.
        for figure in ["calls", "operations", "bytes"] {
            let [all, operations, parts] =
                ["steps", "operations", "parts"].map(|table| sum(&found[table], figure));
            assert!(all > 0.0 && all == operations && all == parts, "{network}: {figure}");
        }
        assert!((sum(&found["operations"], "share") - 1.0).abs() < 1e-6, "{network}");
        for row in found["operations"].as_array().unwrap() {
            let terms: f64 = row["terms"].as_object().unwrap().values().map(number).sum();
            let time = number(&row["microseconds"]);
            assert!((terms - time).abs() < 1e-6 * time.max(1.0), "{network}: {row}");
        }
    }
}

/// The network has 2 encoders of width 32.
#[test]
fn the_work_of_a_layer_follows_from_its_shape() {
    let found = profile("micro-attn", &["--batch=3", "--passes=1"]);
    assert_eq!(found["positions"], 3);
    let squares = 3.0 * 64.0;
    let qkv = row(&found["operations"], "encoder QKV");
    let outputs = number(&qkv["operations"]) / (2.0 * 2.0 * squares * 32.0);
    assert_eq!(outputs, 3.0 * 32.0, "2 encoders, two operations for each multiplication");
    let attention = row(&found["operations"], "encoder attention");
    assert_eq!(number(&attention["operations"]), 2.0 * 2.0 * 2.0 * squares * 64.0 * 32.0);
    let encoders = found["parts"].as_array().unwrap().iter();
    assert_eq!(encoders.filter(|part| part["name"].as_str().unwrap().starts_with("encoder ")).count(), 2);
    // Another batch size shows which part of the time grows.
    assert_eq!(found["other"]["positions"], 6);
}

#[test]
fn the_table_has_a_line_for_each_operation_with_its_limit() {
    let network = format!("--weights={NETWORKS}/micro-smolgen.pb.gz");
    let text = run(&["profile", "--backend=cpu", &network, "--batch=2", "--passes=3"]);
    for operation in
        ["encoder smolgen logits", "encoder attention", "value hidden layer", "policy queries and keys"]
    {
        let line = text.lines().find(|line| line.starts_with(operation)).unwrap_or_else(|| panic!("{text}"));
        let is_limited =
            ["compute", "bandwidth", "latency", "launches"].iter().any(|limit| line.contains(limit));
        assert!(is_limited && line.ends_with(" %"), "{line}");
    }
    assert!(text.contains("TFLOP/s; copies: "), "{text}");
}

#[test]
fn a_backend_without_a_network_has_no_profile() {
    let output = run_any(&["profile", "--backend=random"]);
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("evaluates no network itself; use cpu, rocm or cuda"), "{stderr}");
}

/// `profile` on the emulated card, whose clock counts instructions.
#[cfg(any(target_os = "linux", windows))]
fn run_on_emulator(folder: &Path, network: &str, arguments: &[&str]) -> Output {
    let weights = format!("--weights={NETWORKS}/{network}.pb.gz");
    // Blocks that wait for others execute more instructions the longer they wait.
    let options = "--backend-opts=max_batch=4,streams=1,wait=block,tune=off,gemm=own,fuse=false";
    let common = ["profile", "--backend=rocm-fp16", "--json", &*weights, options];
    rukh(&[&common, arguments].concat())
        .env("RUKH_ROCM_LIBRARY_PATH", folder)
        .env("XDG_CACHE_HOME", folder.join("cache"))
        .env("RUKH_EMULATOR_CLOCK", "instructions")
        .output()
        .expect("the binary starts")
}

/// The GEMMs of encoders have 8 bits, and a ceiling that is measured with such GEMMs.
#[test]
#[cfg(any(target_os = "linux", windows))]
fn gemms_of_8_bits_are_rated_by_a_ceiling_of_their_own() {
    let folder = libraries();
    for (backend, architecture) in [("rocm-int8", "gfx1100"), ("rocm-fp8", "gfx1200")] {
        let weights = format!("--weights={NETWORKS}/micro-attn.pb.gz");
        let options = "--backend-opts=max_batch=4,streams=1,wait=block,tune=off,gemm=own,fuse=false";
        let backend = format!("--backend={backend}");
        let arguments = ["profile", &*backend, "--json", &*weights, options, "--batch=2", "--passes=1"];
        let output = rukh(&arguments)
            .env("RUKH_ROCM_LIBRARY_PATH", folder.path())
            .env("XDG_CACHE_HOME", folder.path().join("cache"))
            .env("RUKH_EMULATOR_CLOCK", "instructions")
            .env("RUKH_EMULATOR_ARCH", architecture)
            .output()
            .expect("the binary starts");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{backend}: {stderr}");
        let found: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
        let speed = |name: &str| number(&found["ceilings"][name]);
        let (all, of_bytes) = (speed("operations_per_second"), speed("byte_operations_per_second"));
        assert!(all > 0.0 && of_bytes > 0.0 && all != of_bytes, "{backend}: {}", found["ceilings"]);
        let gemm = row(&found["operations"], "encoder FFN 1");
        let operations = number(&gemm["operations"]);
        assert_eq!(number(&gemm["byte_operations"]), operations, "{backend}: {gemm}");
        let floor = number(&gemm["floors"]["compute"]);
        assert!((floor / (operations / of_bytes * 1e6) - 1.0).abs() < 1e-6, "{backend}: {gemm}");
        let other = row(&found["operations"], "encoder attention");
        assert_eq!(number(&other["byte_operations"]), 0.0, "{backend}: {other}");
    }
}

/// The JSON of that profile.
#[cfg(any(target_os = "linux", windows))]
fn profile_on_emulator(folder: &Path, network: &str, arguments: &[&str]) -> Value {
    let output = run_on_emulator(folder, network, arguments);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{:?}: {stderr}", output.status);
    serde_json::from_slice(&output.stdout).expect("it is JSON")
}

/// On the emulator every instruction takes a nanosecond, so the steps and the whole pass agree but for rounding.
#[test]
#[cfg(any(target_os = "linux", windows))]
fn the_steps_of_a_pass_on_a_card_add_up_to_the_whole() {
    let folder = libraries();
    for network in ["micro-smolgen", "micro-se-attnpol"] {
        let found = profile_on_emulator(folder.path(), network, &["--batch=2", "--passes=2"]);
        let (whole, steps) = (number(&found["microseconds"]), number(&found["sum_of_steps"]));
        assert!(whole > 0.0 && (steps / whole - 1.0).abs() < 0.001, "{network}: {steps} of {whole} us");
        for step in found["steps"].as_array().unwrap() {
            assert!(step["kernel"].as_str().unwrap().contains("_f16"), "{network}: {step}");
            assert!(
                number(&step["launches"]) >= 1.0 && number(&step["microseconds"]) > 0.0,
                "{network}: {step}"
            );
        }
    }
}

/// The same layers have the same work on the processor and on a card, but for the sizes of numbers.
#[test]
#[cfg(any(target_os = "linux", windows))]
fn a_card_and_the_processor_count_the_same_operations() {
    let folder = libraries();
    let card = profile_on_emulator(folder.path(), "micro-attn", &["--batch=4", "--passes=1"]);
    let processor = profile("micro-attn", &["--batch=4", "--passes=1"]);
    for operation in
        ["encoder QKV", "encoder attention", "encoder FFN 1", "value hidden layer", "moves left output"]
    {
        let of = |found: &Value| number(&row(&found["operations"], operation)["operations"]);
        assert_eq!(of(&card), of(&processor), "{operation}");
    }
    assert_eq!(row(&card["operations"], "encoder QKV")["launches"], 2);
}

/// The kernels for gfx1100 execute no more instructions than those that were profiled for this file. If they execute
/// fewer, or more for a reason, `UPDATE_DATA=1` writes the file again.
#[test]
#[cfg(any(target_os = "linux", windows))]
fn kernels_execute_no_more_instructions_than_before() {
    let folder = libraries();
    let path = format!("{NETWORKS}/profile-micro-smolgen-gfx1100.json");
    if std::env::var_os("UPDATE_DATA").is_some() {
        let _ = fs::remove_file(&path);
    }
    let baseline = format!("--baseline={path}");
    let arguments = ["--batch=2", "--passes=1", "--tolerance=1", &baseline];
    let output = run_on_emulator(folder.path(), "micro-smolgen", &arguments);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
}

#[test]
fn a_baseline_is_written_and_then_compared_with() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("baseline.json");
    let weights = format!("--weights={NETWORKS}/micro-attn.pb.gz");
    let baseline = format!("--baseline={}", path.display());
    let compare = |tolerance: &str| {
        run_any(&["profile", "--backend=cpu", &weights, "--batch=4", "--passes=5", &baseline, tolerance])
    };
    let written = compare("--tolerance=5");
    assert!(written.status.success(), "{written:?}");

    // A busy machine may stop any operation for a while. No operation takes a thousand seconds.
    let mut known: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    for operation in known["operations"].as_object_mut().unwrap().values_mut() {
        operation["microseconds"] = 1e9.into();
        operation["noise"] = 0.0.into();
    }
    fs::write(&path, known.to_string()).unwrap();
    let compared = compare("--tolerance=5");
    assert!(compared.status.success(), "{compared:?}");
    assert!(String::from_utf8_lossy(&compared.stdout).contains("us before   us after"), "{compared:?}");

    known["operations"]["encoder QKV"]["microseconds"] = 0.01.into();
    fs::write(&path, known.to_string()).unwrap();
    let slower = compare("--tolerance=5");
    let stderr = String::from_utf8_lossy(&slower.stderr);
    assert_eq!(slower.status.code(), Some(1), "{slower:?}");
    assert!(stderr.contains("slower than the baseline: encoder QKV"), "{stderr}");

    known["backend"] = "another".into();
    fs::write(&path, known.to_string()).unwrap();
    let other = compare("--tolerance=5");
    let stderr = String::from_utf8_lossy(&other.stderr);
    assert!(
        other.status.code() == Some(1) && stderr.contains("is that of `another` with 4 positions"),
        "{stderr}"
    );
    fs::write(&path, "nonsense").unwrap();
    let damaged = compare("--tolerance=5");
    let stderr = String::from_utf8_lossy(&damaged.stderr);
    assert!(
        damaged.status.code() == Some(1) && stderr.contains("cannot understand the baseline"),
        "{stderr}"
    );
}

#[test]
fn three_pictures_are_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("profile.svg");
    let svg = format!("--svg={}", path.display());
    let found = profile("micro-smolgen", &["--batch=2", "--passes=2", &svg]);
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    let (bars, roof, speed) =
        (read("profile.svg"), read("profile-roofline.svg"), read("profile-throughput.svg"));
    for picture in [&bars, &roof, &speed] {
        assert!(picture.starts_with("<svg xmlns=") && picture.ends_with("</svg>\n"), "{picture}");
    }
    for row in found["operations"].as_array().unwrap() {
        let name = row["name"].as_str().unwrap();
        assert!(bars.contains(&format!(">{name}</text>")), "{name}");
        let unit = if number(&row["operations"]) > 0.0 { "operations" } else { "bytes" };
        let (_, tooltip) = roof.split_once(&format!("<title>{name}: ")).unwrap_or_else(|| panic!("{name}"));
        assert!(tooltip.split('<').next().unwrap().contains(&format!(" {unit} per second")), "{name}");
    }
    assert!(bars.contains("encoder 1</title>"), "each encoder has a segment: {bars}");
    let passes = found["passes"].as_array().unwrap();
    assert_eq!(passes.len(), 4, "{passes:?}");
    assert!(speed.contains("batch size 4</title>"), "{speed}");
}

#[test]
fn the_occupancy_of_every_kernel_has_a_limit() {
    let text = run(&["profile", "--occupancy=gfx1100"]);
    let line =
        text.lines().find(|line| line.contains("attention_f16_d64 ")).unwrap_or_else(|| panic!("{text}"));
    assert!(line.contains(" 10 16 ") && line.ends_with("vector registers"), "{line}");
    let all: Value = serde_json::from_str(&run(&["profile", "--occupancy", "--json"])).unwrap();
    assert_eq!(all.as_object().unwrap().len(), 20, "stored architectures, and those that share their code");
    let output = run_any(&["profile", "--occupancy=gfx803"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && stderr.contains("no embedded kernels for gfx803"), "{stderr}");
}

#[test]
fn a_trace_of_rocprofv3_is_shown_as_a_table() {
    let folder = tempfile::tempdir().unwrap();
    let trace = "\"Kind\",\"Agent_Id\",\"Queue_Id\",\"Kernel_Name\",\"Start_Timestamp\",\"End_Timestamp\"\n\
        \"KERNEL_DISPATCH\",1,1,\"layer_norm_f16_w256\",1000,3000\n\
        \"KERNEL_DISPATCH\",1,1,\"attention_f16_d32\",4000,10000\n";
    fs::write(folder.path().join("1_kernel_trace.csv"), trace).unwrap();
    let path = folder.path().to_str().unwrap();
    let text = run(&["profile", "--rocprof", path]);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].ends_with("8.0 us in kernels"), "{text}");
    assert!(lines[2].starts_with("attention_f16_d32") && lines[2].contains("75.0"), "{text}");
    assert!(text.contains("1 gaps between kernels of a queue: 1.0 us"), "{text}");
    let command = run(&["profile", "--rocprof-command", "--backend=rocm-fp16", "--batch=64"]);
    assert!(
        command.starts_with("rocprofv3 --kernel-trace")
            && command.contains("\nrocprofv3 --pmc FETCH_SIZE WRITE_SIZE ")
            && command.contains("--max-batch-size=64"),
        "{command}"
    );
}
