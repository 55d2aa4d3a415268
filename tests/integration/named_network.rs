//! Every tool that evaluates says with which network, and so does what it writes.

use crate::driver::{Driver, rukh, run_any};
use serde_json::Value;
use std::fs;
use std::process::Stdio;

const NETWORK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/micro-attn.pb.gz");
const WEIGHTS: &str = concat!("--weights=", env!("CARGO_MANIFEST_DIR"), "/tests/data/micro-attn.pb.gz");
const GAME: &str = "[Event \"x\"]\n\n1. e4 e5 *\n";

#[test]
fn every_tool_names_its_network_once() {
    let folder = tempfile::tempdir().unwrap();
    let game = folder.path().join("game.pgn");
    fs::write(&game, GAME).unwrap();
    let game = game.to_str().unwrap();
    for arguments in [
        &["analyze", "--nodes=1", game][..],
        &["selfplay", "--games=1", "--visits=1"],
        &["check", "--positions=5"],
        &["profile", "--passes=2", "--batch=1"],
    ] {
        let output = run_any(&[arguments, &["--backend=cpu", WEIGHTS]].concat());
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {stderr}");
        let line = format!("network {NETWORK}");
        assert_eq!(stderr.lines().filter(|said| *said == line).count(), 1, "{arguments:?}: {stderr}");
    }
}

#[test]
fn an_analysis_names_its_network_and_its_limit() {
    let folder = tempfile::tempdir().unwrap();
    let game = folder.path().join("game.pgn");
    fs::write(&game, GAME).unwrap();
    let written = |format: &str| {
        let game = game.to_str().unwrap();
        let format = format!("--format={format}");
        let output = run_any(&["analyze", "--backend=cpu", WEIGHTS, "--nodes=3", &format, game]);
        String::from_utf8(output.stdout).unwrap()
    };
    let pgn = written("pgn");
    assert!(pgn.contains(", micro-attn.pb.gz, 3 nodes\"]"), "{pgn}");
    let csv = written("csv");
    assert!(csv.lines().next().unwrap().ends_with(",policy,network,limit"), "{csv}");
    assert!(csv.lines().skip(1).all(|row| row.ends_with(",micro-attn.pb.gz,3 nodes")), "{csv}");
    let answer: Value = serde_json::from_str(written("jsonl").lines().next().unwrap()).unwrap();
    assert_eq!((&answer["network"], &answer["limit"]), (&"micro-attn.pb.gz".into(), &"3 nodes".into()));
}

#[test]
fn a_game_of_a_tournament_names_networks_and_limits() {
    let folder = tempfile::tempdir().unwrap();
    let pgn = folder.path().join("games.pgn");
    let pgn_flag = format!("--pgn={}", pgn.display());
    let output = run_any(&[
        "selfplay",
        "--backend=cpu",
        "--games=1",
        "--player1.visits=1",
        "--player2.playouts=2",
        "--player2.weights=<embedded>",
        &format!("--player1.weights={NETWORK}"),
        "--json",
        &pgn_flag,
    ]);
    let written = fs::read_to_string(pgn).unwrap();
    for tag in [
        "[WhiteNetwork \"micro-attn.pb.gz\"]",
        "[WhiteLimit \"1 visits\"]",
        "[BlackNetwork \"<embedded>\"]",
        "[BlackLimit \"2 playouts\"]",
    ] {
        assert!(written.contains(tag), "{written}");
    }
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result["limits"], serde_json::json!(["1 visits", "2 playouts"]));
}

/// Somebody who has downloaded networks into the folder in which the engine starts may not want one of them.
#[test]
fn a_network_in_the_working_folder_is_not_taken_in_silence() {
    let folder = tempfile::tempdir().unwrap();
    fs::copy(NETWORK, folder.path().join("some.pb.gz")).unwrap();
    let mut command = rukh(&["--backend=cpu"]);
    command.current_dir(folder.path()).stdin(Stdio::piped());
    let mut engine = Driver::spawn(command);
    let said = engine.ask("");
    let line = said.iter().find(|line| line.starts_with("info string network ")).expect("it is named");
    assert!(line.contains("some.pb.gz, because it is in the working folder; WeightsFile"), "{line}");
}
