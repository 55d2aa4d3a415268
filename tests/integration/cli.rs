//! The command line through the real binary: flags, the configuration file, and the output of the subcommands.

use crate::driver::{Driver, rukh, run, run_any};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// A file in the temporary directory, which is removed when this is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str, text: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("rukh-{}-{name}", std::process::id()));
        fs::write(&path, text).unwrap();
        Scratch(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// The default that `uci` shows for `option` after a start with `arguments`.
fn shown_default(arguments: &[&str], option: &str) -> String {
    let mut engine = Driver::start(arguments);
    engine.send("uci");
    let lines = engine.until("uciok");
    let start = format!("option name {option} type ");
    let line = lines.iter().find_map(|line| line.strip_prefix(&start)).unwrap();
    let (_, rest) = line.split_once("default ").unwrap();
    rest.split(" min ").next().unwrap().split(" var ").next().unwrap().to_owned()
}

#[test]
fn flags_can_be_written_in_every_way() {
    for arguments in [
        &["--threads=7"][..],
        &["--threads", "7"],
        &["-t", "7"],
        &["-t", "3", "--threads=7"],
        &["uci", "-t", "7"],
    ] {
        assert_eq!(shown_default(arguments, "Threads"), "7", "{arguments:?}");
    }
    for (arguments, expected) in [
        (&["--no-two-fold-draws"][..], "false"),
        (&["--two-fold-draws=false"], "false"),
        (&["--no-two-fold-draws", "--two-fold-draws"], "true"),
        (&["--two-fold-draws", "--no-two-fold-draws"], "false"),
        (&["--two-fold-draws=true"], "true"),
    ] {
        assert_eq!(shown_default(arguments, "TwoFoldDraws"), expected, "{arguments:?}");
    }
    assert_eq!(shown_default(&["-v"], "VerboseMoveStats"), "true");
    assert_eq!(shown_default(&["--task-workers", "-1"], "TaskWorkers"), "-1");
    assert_eq!(shown_default(&["--draw-score=-0.5"], "DrawScore"), "-0.500000");
    assert_eq!(shown_default(&["-w", "/a b/net.pb.gz"], "WeightsFile"), "/a b/net.pb.gz");
    assert_eq!(
        shown_default(&["--backend-opts=backend=cpu,(threads=1)"], "BackendOptions"),
        "backend=cpu,(threads=1)"
    );
}

#[test]
fn wrong_arguments_exit_with_code_2_and_a_helpful_message() {
    for (arguments, shown) in [
        (&["--treads=3"][..], "--threads"),
        (&["--threads=abc"], "not a whole number from 0 to 128"),
        (&["--threads=1000"], "not a whole number from 0 to 128"),
        (&["--cpuct=-1"], "not a number from 0 to 100"),
        (&["--backend=nope"], "not one of auto, "),
        (&["--no-threads"], "--no-threads"),
        (&["foo"], "foo"),
        (&["-t"], "value is required"),
        (&["bench", "--num-positions=35"], "1..=34"),
        (&["describenet", "--cpuct=1"], "--cpuct"),
        (&["-c", "/nonexistent.config"], "/nonexistent.config"),
    ] {
        let output = run_any(arguments);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
        assert!(stderr.contains(shown), "{arguments:?}: {stderr}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn the_configuration_file_overrides_defaults_and_flags_override_it() {
    let config = Scratch::new("good.config", "# mine\nthreads=5\n--minibatch-size=64\nno-two-fold-draws\n");
    let with_config = ["-c", config.path()];
    assert_eq!(shown_default(&with_config, "Threads"), "5");
    assert_eq!(shown_default(&with_config, "MinibatchSize"), "64");
    assert_eq!(shown_default(&with_config, "TwoFoldDraws"), "false");
    assert_eq!(shown_default(&["--threads=6", "-c", config.path()], "Threads"), "6");

    // A line that is not understood does not affect the others.
    let broken = Scratch::new("broken.config", "threads=5\nthread=6\nmultipv=3\n");
    assert_eq!(shown_default(&["-c", broken.path()], "MultiPV"), "3");
}

/// The variable that names the folder of configuration files.
const CONFIG_HOME: &str = if cfg!(windows) { "APPDATA" } else { "XDG_CONFIG_HOME" };

#[test]
fn the_users_configuration_file_is_found() {
    let home = std::env::temp_dir().join(format!("rukh-{}-home", std::process::id()));
    fs::create_dir_all(home.join("rukh")).unwrap();
    fs::write(home.join("rukh/rukh.config"), "backend=trivial\nthreads=1\nnonsense\n").unwrap();
    let start = |mode: &[&str]| rukh(mode).env(CONFIG_HOME, &home).stdin(Stdio::null()).output().unwrap();
    let (tool, engine) = (start(&["bench", "--nodes=1"]), start(&[]));
    fs::remove_dir_all(&home).unwrap();
    let stderr = String::from_utf8_lossy(&tool.stderr);
    assert!(stderr.contains("rukh.config, line 3: unknown flag `--nonsense`"), "{stderr}");
    assert!(tool.status.success(), "{stderr}");
    // Chess programs hide stderr, and an engine that exits at once would leave the user without a reason.
    let stdout = String::from_utf8_lossy(&engine.stdout);
    assert!(stdout.starts_with("info string error: configuration file "), "{stdout}");
    assert!(stdout.contains("rukh.config, line 3: unknown flag `--nonsense`"), "{stdout}");
    assert!(engine.status.success());
}

#[test]
fn help_has_flags_under_headings_and_hides_some() {
    let help = run(&["--help"]);
    for shown in
        ["--weights", "-b, --backend", "Exploration:", "[UCI: CPuct, default: 1.745]", "backendbench"]
    {
        assert!(help.contains(shown), "{shown} is not in {help}");
    }
    assert!(!help.contains("--noise-epsilon"));
    assert!(run(&["--help", "--show-hidden"]).contains("--noise-epsilon"));
    assert!(run(&["bench", "--help"]).contains("--num-positions"));
    assert!(!run(&["describenet", "--help"]).contains("--cpuct"));
    // The version ends with the commit, if the build knew it.
    let version = run(&["--version"]);
    let rest = version.strip_prefix(concat!("rukh ", env!("CARGO_PKG_VERSION"))).unwrap().trim_end();
    assert!(
        rest.is_empty() || rest.strip_prefix("+git.").is_some_and(|commit| commit.len() == 7),
        "{version}"
    );
}

/// The lines have the words of lc0's samples; only the numbers differ.
#[test]
fn bench_prints_lc0s_lines() {
    let text =
        run(&["bench", "-b", "trivial", "-t", "1", "--nodes=100", "--movetime=-1", "--num-positions=2"]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(&lines[..2], ["", "Position: 1/2 rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1"]);
    let info: Vec<&str> = lines[2].split(' ').collect();
    assert_eq!(
        [info[0], info[1], info[3], info[5], info[7], info[8]],
        ["Benchmark", "time", "ms,", "nodes,", "nps,", "move"]
    );
    for number in [info[2], info[4], info[6]] {
        number.parse::<u64>().unwrap();
    }
    assert_eq!(lines.iter().filter(|line| line.starts_with("bestmove ")).count(), 2);
    assert!(
        lines
            .contains(&"Position: 2/2 r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 10")
    );

    let end = &lines[lines.len() - 5..];
    assert_eq!(&end[..2], ["", "==========================="]);
    let number = |line: &str, label: &str| -> u64 { line.strip_prefix(label).unwrap().parse().unwrap() };
    let time = number(end[2], "Total time (ms) : ");
    let nodes = number(end[3], "Nodes searched  : ");
    let nps = number(end[4], "Nodes/second    : ");
    assert!((200..1000).contains(&nodes), "{nodes}");
    assert_eq!(nps, (1000.0 * nodes as f64 / (time + 1) as f64).round() as u64);
}

/// OpenBench compares the nodes with those of other machines, so they must not depend on the backend or the threads.
#[test]
fn bench_without_flags_ends_with_a_line_for_openbench() {
    let last = |arguments: &[&str]| {
        let text = run(arguments);
        let line = text.lines().last().expect("a last line").to_owned();
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        assert!(matches!(&words[..], [_, nodes, _, nps] if nodes == "nodes" && nps == "nps"), "{line}");
        assert!(text.contains(&format!("\nNodes/second    : {}\n", words[2])), "{text}");
        words[0].parse::<u64>().expect("a number of nodes")
    };
    // A run takes five seconds, so both run at the same time.
    let (one, other) = std::thread::scope(|scope| {
        let one = scope.spawn(|| last(&["bench", "--backend=trivial"]));
        let other = last(&["bench", "--backend=random", "--threads=2", "--cpuct=4"]);
        (one.join().expect("the first run ends well"), other)
    });
    assert!(one > 10_000, "{one}");
    assert_eq!(one, other);
}

#[test]
fn bench_searches_one_position_and_writes_json() {
    let fen = "6k1/1p3ppp/8/8/8/8/8/R5K1 w - - 0 1 moves g1f1 b7b6";
    let text = run(&["bench", "-b", "trivial", "-t", "1", "--nodes=200", "--json", "--fen", fen]);
    let json: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["positions"].as_array().unwrap().len(), 1);
    assert_eq!(json["positions"][0]["position"], fen);
    assert_eq!(json["positions"][0]["best_move"], "a1a8");
    assert_eq!(json["nodes"], json["positions"][0]["nodes"]);
    assert!(json["nps"].is_u64() && json["signature"].is_u64());
}

#[test]
fn the_signature_is_one_number_and_can_be_repeated() {
    let arguments = ["bench", "--signature", "--nodes=200", "--num-positions=3"];
    let first = run(&arguments);
    assert!(first.trim_end().parse::<u32>().is_ok(), "{first}");
    assert_eq!(run(&arguments), first);
    // Options for the backend and the threads do not change it.
    assert_eq!(run(&[&arguments[..], &["--threads=2", "--backend=random"]].concat()), first);
    // Parameters of the search do.
    assert_ne!(run(&[&arguments[..], &["--cpuct=4"]].concat()), first);
}

#[test]
fn a_search_that_would_never_end_is_refused() {
    let output = run_any(&["bench", "-b", "trivial", "--nodes=-1", "--movetime=-1"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("would never end"));
}

/// The columns and their widths are lc0's.
#[test]
fn backendbench_prints_lc0s_table() {
    const HEADER: &str =
        "size, mean nps, mean ms,   sdev,     cv, max nps,  median, min nps, first max, first mean";
    let text = run(&["backendbench", "-b", "trivial", "--batches=10", "--max-batch-size=40"]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 42, "40 sizes and two headers");
    assert_eq!((lines[0], lines[33]), (HEADER, HEADER));
    for (index, line) in lines.iter().enumerate().filter(|(_, line)| **line != HEADER) {
        let fields: Vec<&str> = line.split(',').collect();
        assert_eq!(fields.len(), 10, "{line}");
        let expected = if index < 33 { index } else { index - 1 };
        assert_eq!(fields[0].trim(), expected.to_string());
        assert!(
            fields.iter().all(|field| field.trim().parse::<f64>().is_ok_and(|value| value >= 0.0)),
            "{line}"
        );
    }
    let steps = run(&[
        "backendbench",
        "-b",
        "trivial",
        "--batches=5",
        "--start-batch-size=4",
        "--max-batch-size=200",
        "--batch-step=4",
        "--header-only-once",
    ]);
    assert_eq!(steps.matches(HEADER).count(), 1);
    assert_eq!(steps.lines().count(), 51);
}

/// As in lc0, these flags have all the forms of a boolean option.
/// All sizes of lc0's list take a processor an hour.
#[test]
fn backendbench_measures_a_few_sizes_on_a_processor() {
    let sizes = |arguments: &[&str]| -> Vec<u64> {
        let text = run(&[&["backendbench", "-b", "trivial", "--batches=3", "--json"], arguments].concat());
        let json: Value = serde_json::from_str(&text).unwrap();
        json["sizes"].as_array().unwrap().iter().map(|size| size["size"].as_u64().unwrap()).collect()
    };
    assert_eq!(sizes(&[]), [1, 2, 4, 8, 16, 32, 64, 128, 256]);
    assert_eq!(sizes(&["--max-batch-size=4"]), [1, 2, 3, 4]);
    assert_eq!(sizes(&["--batch-step=64"]), [1, 65, 129, 193]);
}

#[test]
fn backendbench_flags_can_be_switched_off() {
    let has_recommendation = |flags: &[&str]| {
        let common = ["backendbench", "-b", "trivial", "--batches=5", "--max-batch-size=1"];
        run(&[&common, flags].concat()).contains("Recommended")
    };
    assert!(has_recommendation(&["--clippy=true", "--no-header-only-once"]));
    assert!(has_recommendation(&["--no-clippy", "--clippy", "--header-only-once=false"]));
    assert!(!has_recommendation(&["--clippy", "--no-clippy"]));
    assert!(!has_recommendation(&["--clippy=false"]));
}

#[test]
fn backendbench_refuses_an_empty_range_of_batch_sizes() {
    let output = run_any(&["backendbench", "-b", "trivial", "--start-batch-size=8", "--max-batch-size=4"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("8 is more than --max-batch-size=4"));
}

#[test]
fn backendbench_recommends_a_batch_size_and_writes_json() {
    let text = run(&["backendbench", "-b", "trivial", "--batches=5", "--max-batch-size=2", "--clippy"]);
    assert!(text.contains("(@)(@) _| Recommended minibatch-size for this net: |"), "{text}");
    let text =
        run(&["backendbench", "-b", "trivial", "-t", "2", "--batches=20", "--max-batch-size=2", "--json"]);
    let json: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["threads"], 2);
    assert_eq!(json["sizes"][1]["size"], 2);
    assert!(json["sizes"][1]["median_nps"].as_f64().unwrap() > 0.0);
}

#[test]
fn perft_counts_moves_as_text_and_json() {
    let text = run(&["perft", "3"]);
    assert_eq!(text.lines().last(), Some("total: 8902"));
    assert!(text.contains("e2e4: 600\n"));
    let json: Value = serde_json::from_str(&run(&["perft", "2", "--json"])).unwrap();
    assert_eq!((&json["nodes"], &json["moves"]["e2e4"]), (&Value::from(400), &Value::from(20)));
    assert_eq!(run_any(&["perft", "2", "--fen", "nonsense"]).status.code(), Some(2));
}

#[test]
fn subcommands_name_the_file_that_they_cannot_read() {
    for arguments in [
        &["describenet", "-w", "/nonexistent.pb.gz"][..],
        &["backendbench", "-b", "cpu", "-w", "/nonexistent.pb.gz"],
    ] {
        let output = run_any(arguments);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {stderr}");
        assert!(stderr.contains("/nonexistent.pb.gz"), "{arguments:?}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
    }
}

/// A script must not mistake a table that a full disk has cut short for a complete one.
#[test]
#[cfg(target_os = "linux")]
fn output_that_cannot_be_written_is_a_failure() {
    for mode in [&["perft", "1"][..], &["bench", "-b", "trivial", "--nodes=1", "--json"]] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = rukh(mode).stdout(full).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert!(stderr.contains("cannot write to stdout"), "{stderr}");
    }
}

#[test]
fn without_a_weights_file_a_network_is_searched_for_and_named() {
    let directory = std::env::temp_dir().join(format!("rukh-{}-networks", std::process::id()));
    fs::create_dir_all(directory.join("weights")).unwrap();
    let network = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/micro-attn.pb.gz");
    fs::copy(network, directory.join("weights/found.pb.gz")).unwrap();
    let in_directory = |arguments: &[&str]| rukh(arguments).current_dir(&directory).output().unwrap();
    let shown = Path::new("weights").join("found.pb.gz").display().to_string();
    // An option that the user empties in a GUI counts as not set.
    for weights in ["--weights=<autodiscover>", "--weights="] {
        let bench = in_directory(&["bench", "--nodes=1", "--num-positions=1", "-t", "1", weights]);
        let stderr = String::from_utf8_lossy(&bench.stderr);
        assert!(
            bench.status.success() && stderr.contains(&format!("network {shown}")),
            "{weights}: {stderr}"
        );
        assert!(in_directory(&["describenet", weights]).status.success());
    }
    fs::remove_dir_all(directory.join("weights")).unwrap();
    // Without any file, the embedded network plays.
    let bench = in_directory(&["bench", "--nodes=1", "--num-positions=1", "-t", "1"]);
    let described = in_directory(&["describenet"]);
    fs::remove_dir_all(&directory).unwrap();
    let stderr = String::from_utf8_lossy(&bench.stderr);
    assert!(bench.status.success() && stderr.contains("network <embedded>"), "{stderr}");
    assert!(String::from_utf8_lossy(&described.stdout).contains("Rukh"), "{described:?}");
}

/// The greeting is for people. A chess program, which may show or log stderr, gets none.
#[test]
fn the_engine_greets_only_on_a_terminal() {
    let output = run_any(&[]);
    assert!(output.status.success() && output.stdout.is_empty() && output.stderr.is_empty());
}

#[test]
#[cfg(target_os = "linux")]
fn a_person_at_a_terminal_is_told_how_to_play() {
    use std::io::Write;
    let binary = env!("CARGO_BIN_EXE_rukh");
    let terminal = std::process::Command::new("script")
        .args(["-qec", &format!("'{binary}' --backend=trivial --config="), "/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut terminal) = terminal else {
        eprintln!("skipped: the program `script`, which makes a terminal, is not installed");
        return;
    };
    terminal.stdin.take().unwrap().write_all(b"quit\n").unwrap();
    let output = terminal.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let greetings =
        text.lines().filter(|line| line.contains("speaks UCI") && line.contains("`go nodes 1000`"));
    assert_eq!(greetings.count(), 1, "{text}");
}
