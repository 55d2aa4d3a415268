//! `rukh doctor` on machines that are healthy, broken or empty: its report names what is wrong, the stages after that
//! run all the same, and nothing in it says whose machine it is.

use crate::driver::{PATIENCE, rukh};
use crate::rocm::{ABORTED, libraries, nowhere};
use rocm_emulator::install::{LIBRARIES, file_name, link};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

pub(crate) const NETWORK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/micro-attn.pb.gz");
const OPTIONS: &str = "max_batch=2,streams=1,wait=block,timeout=1,helper_patience=4";

/// What one run of `doctor` has written.
pub(crate) struct Report {
    pub(crate) text: String,
    json: String,
    value: Value,
    stdout: String,
}

/// Runs some stages with the libraries in `folder`.
pub(crate) fn doctor(folder: &Path, stages: &str, settings: &[(&str, &str)]) -> Report {
    doctor_with(folder, NETWORK, &[&format!("--stage={stages}"), "-o", OPTIONS], settings)
}

pub(crate) fn doctor_with(
    folder: &Path,
    network: &str,
    arguments: &[&str],
    settings: &[(&str, &str)],
) -> Report {
    let place = tempfile::tempdir().expect("a temporary folder");
    let stem = place.path().join("report");
    let report = format!("--report={}", stem.display());
    let weights = format!("--weights={network}");
    let output = rukh(&[&["doctor", "--quick", report.as_str(), weights.as_str()], arguments].concat())
        .env("RUKH_ROCM_LIBRARY_PATH", folder)
        .env("XDG_CACHE_HOME", place.path().join("cache"))
        .envs(settings.iter().copied())
        .output()
        .expect("the binary starts");
    let stderr = String::from_utf8_lossy(&output.stderr);
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    // Only a machine without a card makes the tool fail, and its report helps nobody.
    assert_eq!(
        output.status.success(),
        stdout.contains("attach both files"),
        "{:?}: {stderr}",
        output.status
    );
    let read =
        |extension: &str| fs::read_to_string(stem.with_extension(extension)).expect("the file is written");
    let (text, json) = (read("txt"), read("json"));
    assert!(text.len() <= 200_000 && json.len() <= 200_000, "{} and {} bytes", text.len(), json.len());
    let value = serde_json::from_str(&json).expect("it is JSON");
    Report { text, json, value, stdout }
}

impl Report {
    fn stage(&self, name: &str) -> &Value {
        let stages = self.value["stages"].as_array().expect("a list of stages");
        stages.iter().find(|stage| stage["name"] == name).expect("the stage is in the report")
    }

    pub(crate) fn state(&self, name: &str) -> &str {
        self.stage(name)["state"].as_str().expect("a text")
    }

    pub(crate) fn deaths(&self, name: &str) -> &Vec<Value> {
        self.stage(name)["ended the process"].as_array().expect("a list")
    }

    /// The rows of all tables of a stage, each as an object.
    pub(crate) fn rows(&self, name: &str) -> Vec<Value> {
        let tables = self.stage(name)["tables"].as_array().expect("a list of tables");
        let rows = |table: &Value| -> Vec<Value> {
            let columns = table["columns"].as_array().expect("a list").clone();
            let rows = table["rows"].as_array().expect("a list").clone();
            let object = |row: Value| -> Value {
                let cells = row.as_array().expect("a list").clone();
                columns.iter().map(|name| name.as_str().expect("a text").to_owned()).zip(cells).collect()
            };
            rows.into_iter().map(object).collect()
        };
        tables.iter().flat_map(rows).collect()
    }

    /// The rows whose verdict is not that all is right, and the items that ended with an error.
    pub(crate) fn wrong(&self, name: &str) -> Vec<Value> {
        let is_wrong = |row: &Value| {
            row["verdict"].as_str().is_some_and(|verdict| verdict != "right") || row.get("item").is_some()
        };
        self.rows(name).into_iter().filter(is_wrong).collect()
    }

    /// What the section "Findings" of the text says of a stage.
    fn finding(&self, name: &str) -> &str {
        let section = self.text.split("\nFindings\n").nth(1).expect("the section is there");
        let line = section.lines().find_map(|line| line.trim_start().strip_prefix(name));
        line.expect("the stage is listed").trim()
    }
}

#[test]
fn a_healthy_card_is_right_in_every_stage() {
    let report = doctor_with(libraries().path(), NETWORK, &["-o", OPTIONS], &[]);
    for stage in ["devices", "kernels", "gemms", "graphs", "network", "floors", "speed"] {
        assert_eq!(report.state(stage), "done", "{}", report.text);
        assert!(report.wrong(stage).is_empty() && report.deaths(stage).is_empty(), "{}", report.text);
    }
    for stage in ["devices", "kernels", "network"] {
        let finding = report.finding(stage);
        assert!(finding.starts_with("all ") && finding.ends_with(" right"), "{stage}: {finding}");
    }
    let devices = report.rows("devices");
    let card = devices.iter().find(|row| row.get("name").is_some()).expect("a card");
    assert_eq!((&card["architecture"], &card["lanes"]), (&"gfx1100".into(), &32.into()), "{card}");
    assert!(report.rows("speed").iter().any(|row| row.get("step").is_some_and(|step| step == "encoder QKV")));
    assert!(report.stdout.contains("Please attach both files"), "{}", report.stdout);
}

#[test]
fn without_rocm_the_report_says_how_to_get_it() {
    let report = doctor_with(nowhere(), NETWORK, &[], &[]);
    assert!(report.state("devices").starts_with("failed: amdhip64 is not in "), "{}", report.text);
    for stage in ["kernels", "gemms", "graphs", "network", "floors", "speed"] {
        assert_eq!(report.state(stage), "passed over: there is no card that can be used");
    }
    let printed = doctor_with(nowhere(), NETWORK, &["--stage=devices", "--json"], &[]);
    assert_eq!(serde_json::from_str::<Value>(&printed.stdout).expect("JSON alone"), printed.value);
    for shown in ["HIP, the runtime of ROCm, is not installed", "Ubuntu", "Fedora", "Arch", "Windows"] {
        assert!(report.stdout.contains(shown) && report.text.contains(shown), "{shown}: {}", report.text);
    }
}

#[test]
fn without_a_card_the_report_says_so() {
    let report = doctor(libraries().path(), "devices,speed", &[("RUKH_EMULATOR_DEVICES", "0")]);
    assert!(report.state("devices").contains("hipErrorNoDevice"), "{}", report.text);
    assert!(report.state("speed").starts_with("passed over"));
    assert!(report.text.contains("No card can be used: hipGetDeviceCount failed"), "{}", report.text);
}

#[test]
fn graphs_that_compute_something_else_are_named() {
    let report = doctor(libraries().path(), "network,speed", &[("RUKH_EMULATOR_WRONG", "graph")]);
    let wrong = report.wrong("network");
    assert!(!wrong.is_empty() && wrong.iter().all(|row| row["way"] == "graph"), "{}", report.text);
    assert!(report.finding("network").contains(" wrong"), "{}", report.finding("network"));
    assert_eq!(report.state("speed"), "done", "{}", report.text);
}

#[test]
fn a_capture_that_fails_is_noted() {
    let report = doctor(libraries().path(), "network", &[("RUKH_EMULATOR_BAD_CAPTURE", "instantiate")]);
    assert!(report.wrong("network").is_empty(), "{}", report.text);
    assert!(
        report.text.contains("batch sizes run step by step, because they cannot be captured"),
        "{}",
        report.text
    );
}

/// The card hangs in each process. Each one reports what hung, and the next one goes on without that.
#[test]
fn a_card_that_hangs_costs_an_item_and_not_the_report() {
    let options = OPTIONS.replace("timeout=1", "timeout=0.1");
    let arguments = ["--stage=kernels,network", "--time-limit=12", "-o", &options];
    let report = doctor_with(libraries().path(), NETWORK, &arguments, &[("RUKH_EMULATOR_HANG", "100")]);
    let hung: Vec<Value> =
        report.wrong("kernels").into_iter().filter(|row| row.get("item").is_some()).collect();
    assert!(!hung.is_empty(), "{}", report.text);
    assert!(
        hung.iter().all(|row| row["error"].as_str().is_some_and(|text| text.contains("has not finished")))
    );
    // Nothing is examined twice, and what comes after the hang is examined too.
    let right = report.rows("kernels").iter().filter(|row| row.get("verdict").is_some()).count();
    assert!(right > 2, "{}", report.text);
    assert_ne!(report.state("network"), "not finished", "{}", report.text);
}

#[test]
fn a_gemm_that_ends_the_process_costs_an_item_and_not_the_stage() {
    let settings = [("RUKH_EMULATOR_HEURISTIC", "crash:*x*x*"), ("RUKH_EMULATOR_ARCH", "gfx1151")];
    let report = doctor(libraries().path(), "gemms,network", &settings);
    let deaths = report.deaths("gemms");
    assert!(!deaths.is_empty(), "{}", report.text);
    assert!(deaths.iter().all(|death| death["how"].as_str().is_some_and(|how| how.contains(ABORTED))));
    let rocblas = report
        .rows("gemms")
        .into_iter()
        .find(|row| row["verdict"] == "right" && row.to_string().to_lowercase().contains("rocblas"));
    assert!(rocblas.is_some(), "rocBLAS is examined all the same: {}", report.text);
    assert!(report.text.contains("`gemm=rocblas`"), "{}", report.text);
    assert_eq!(report.state("network"), "done", "{}", report.text);
    assert!(report.wrong("network").is_empty(), "{}", report.text);
}

/// The names of the user and the machine, and the home folder, are in the environment, in the libraries' paths, in the
/// options and in the network's path.
#[test]
fn the_report_does_not_say_whose_it_is() {
    const MARKED: [&str; 4] = ["zquser", "zqhost", "zqhome", "zqlogin"];
    let whole = libraries();
    let home = whole.path().join("home/zqhome");
    let folder = home.join("rocm of zquser");
    fs::create_dir_all(&folder).expect("a folder can be made");
    for name in LIBRARIES.map(file_name) {
        link(&whole.path().join(&name), &folder.join(&name)).expect("a link can be made");
    }
    let kernels = whole.path().join("rocblas/library").display().to_string();
    let network = home.join("net.pb.gz").display().to_string();
    fs::copy(NETWORK, &network).expect("the network can be copied");
    let options = format!("{OPTIONS},tuning_file={}/zqlogin.csv", home.display());
    let settings = [
        ("HOME", &*home.display().to_string()),
        ("USER", "zquser"),
        ("LOGNAME", "zqlogin"),
        ("HOSTNAME", "zqhost.example.org"),
        ("ROCBLAS_TENSILE_LIBPATH", &kernels),
        ("ROCM_PATH", "/mnt/zqhost/rocm"),
    ];
    let arguments = ["--stage=devices,network", "-o", &options];
    let report = doctor_with(&folder, &network, &arguments, &settings);
    assert_eq!(report.finding("network").split(' ').next(), Some("all"), "{}", report.text);
    for marked in MARKED {
        assert!(!report.text.contains(marked), "{marked}: {}", report.text);
        assert!(!report.json.contains(marked), "{marked}: {}", report.json);
    }
    let shown = ["~", "rocm of <user>", &file_name("amdhip64")].join(std::path::MAIN_SEPARATOR_STR);
    assert!(report.text.contains(&shown), "{}", report.text);
}

#[test]
fn an_interrupt_leaves_what_was_found() {
    let (folder, place) = (libraries(), tempfile::tempdir().expect("a temporary folder"));
    let report = format!("--report={}", place.path().join("report").display());
    let options = OPTIONS.replace("timeout=1", "timeout=5");
    let mut child = rukh(&["doctor", "--quick", &report, "--stage=devices,kernels", "-o", &options])
        .env("RUKH_ROCM_LIBRARY_PATH", folder.path())
        .env("RUKH_EMULATOR_HANG", "1")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary starts");
    let begin = Instant::now();
    let value: Value = loop {
        let text = fs::read_to_string(place.path().join("report.json")).unwrap_or_default();
        let value: Value = serde_json::from_str(&text).unwrap_or_default();
        if value["stages"][0]["state"] == "done" {
            break value;
        }
        assert!(begin.elapsed() < PATIENCE, "{text}");
        std::thread::sleep(Duration::from_millis(20));
    };
    child.kill().and_then(|()| child.wait()).expect("it can be ended");
    assert_eq!(value["stages"][1]["state"], "not finished", "{value}");
}

#[test]
fn wrong_arguments_are_refused() {
    for (arguments, code, shown) in [
        (&["--stage=nothing"][..], 2, "devices"),
        (&["--time-limit=0"], 2, "1.."),
        (&["-o", "nonsense=1"], 1, "nonsense"),
        (&["-w", "/nonexistent/net.pb.gz"], 1, "/nonexistent/net.pb.gz"),
        (&["--report=/nonexistent/report"], 1, "the report cannot be written to /nonexistent/report.txt"),
    ] {
        let output = rukh(&[&["doctor"], arguments].concat()).output().expect("the binary starts");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {stderr}");
        assert!(stderr.contains(shown), "{arguments:?}: {stderr}");
    }
}
