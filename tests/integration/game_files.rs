//! What the tools for games write into files, and which options they take.

use crate::driver::run_any;
use std::fs;
use std::path::Path;
use std::process::Output;

/// Black's king can be taken.
const TAKEABLE: &str = "k6R/8/1K6/8/8/8/8/8 w - - 0 1";
const SELFPLAY: [&str; 3] = ["selfplay", "--backend=trivial", "--visits=5"];

fn analyze(file: &Path, more: &[&str]) -> Output {
    let file = file.to_str().unwrap();
    run_any(&[&["analyze", "--backend=trivial", "--nodes=5", file][..], more].concat())
}

fn analyzed(content: &str, name: &str, more: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(name);
    fs::write(&file, content).unwrap();
    let output = analyze(&file, more);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn selfplay(more: &[&str]) -> Output {
    run_any(&[&SELFPLAY[..], more].concat())
}

fn played(more: &[&str]) -> Output {
    let output = selfplay(more);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

#[test]
fn a_king_that_can_be_taken_is_written_as_mated() {
    for format in ["pgn", "epd", "jsonl", "csv"] {
        let format = format!("--format={format}");
        let text = analyzed(&format!("{TAKEABLE}\n"), "k.epd", &["--nodes=400", &format]);
        assert!(text.contains("Rxa8#") || text.contains("h8a8"), "{format}: {text}");
    }
    let game = format!("[FEN \"{TAKEABLE}\"]\n\n1. Rxa8 *\n");
    assert!(analyzed(&game, "k.pgn", &[]).contains("1. Rxa8# "));

    let folder = tempfile::tempdir().unwrap();
    let (openings, pgn) = (folder.path().join("k.epd"), folder.path().join("games.pgn"));
    fs::write(&openings, TAKEABLE).unwrap();
    let openings = format!("--openings-pgn={}", openings.display());
    played(&["--visits=200", "--games=1", &openings, &format!("--pgn={}", pgn.display())]);
    assert!(fs::read_to_string(pgn).unwrap().contains("1. Rxa8# "));
}

#[test]
fn options_without_effect_are_refused_or_named() {
    for flag in [
        "--nodes-per-move=1",
        "--limit-strength",
        "--player1.elo=1600",
        "--player2.config=x",
        "--player1.logfile=x",
    ] {
        assert_eq!(selfplay(&["--games=1", flag]).status.code(), Some(2), "{flag}");
    }
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("rukh.config");
    fs::write(&config, "limit-strength\nscore-type=Q\n").unwrap();
    let output = played(&["--games=1", &format!("--config={}", config.display())]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("UCI_LimitStrength and NodesPerMove have no effect here"), "{said}");
    assert!(said.contains("ScoreType Q is not in centipawns: the scores are WDL_mu"), "{said}");
}

#[test]
fn a_wrong_argument_is_named_and_gives_its_own_status() {
    for (arguments, named) in [
        (&["selfplay", "--player1.foo=3"][..], "'--player1.foo'"),
        (&["backendbench", "--start-batch-size=4", "--max-batch-size=2"], "--start-batch-size=4"),
        (&["backendbench", "--fen=junk"], "junk"),
        (&["backendbench", "--batches=2", "--max-batch-size=1"], "--batches"),
        (&["bench", "--fen=junk"], "junk"),
        (&["bench", "--nodes=-1", "--movetime=-1"], "never end"),
        (&["perft", "1", "--fen=junk"], "junk"),
    ] {
        let output = run_any(
            &[arguments, &["--backend=trivial"][..usize::from(arguments[0].ends_with("bench"))]].concat(),
        );
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && said.contains(named), "{arguments:?}: {said}");
    }
}

#[test]
fn scores_in_files_are_centipawns() {
    let text =
        |scale: &str| analyzed("1. e4 e5 *\n", "x.pgn", &["--nodes=1", &format!("--score-type={scale}")]);
    let usual = text("WDL_mu");
    for scale in ["win_percentage", "Q", "W-L"] {
        assert_eq!(text(scale), usual, "{scale}");
    }
    assert_ne!(text("centipawn"), usual);
}

#[test]
fn a_game_is_not_joined_to_a_last_line_without_an_end() {
    let folder = tempfile::tempdir().unwrap();
    let pgn = folder.path().join("games.pgn");
    fs::write(&pgn, "[Event \"old\"]\n\n1. e4 e5 *").unwrap();
    let flag = format!("--pgn={}", pgn.display());
    for games in [2, 3] {
        played(&["--games=1", &flag]);
        let text = fs::read_to_string(&pgn).unwrap();
        assert!(text.starts_with("[Event \"old\"]\n\n1. e4 e5 *\n\n[Event \"rukh selfplay\"]\n"), "{text}");
        assert_eq!(text.matches("\n\n\n").count(), 0, "{text}");
        assert_eq!(text.matches("[Event ").count(), games, "{text}");
    }
}

#[test]
fn a_game_says_where_it_begins_and_whether_it_is_chess960() {
    for (fen, is_chess960, is_usual) in [
        ("bqnrkrnb/pppppppp/8/8/8/8/PPPPPPPP/BQNRKRNB w KQkq - 0 1", true, false),
        ("r3k2r/8/8/8/8/8/8/R3K2R w KQkq - 0 1", false, false),
        ("rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1", false, true),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let (openings, pgn) = (folder.path().join("x.epd"), folder.path().join("games.pgn"));
        let flags = [format!("--openings-pgn={}", openings.display()), format!("--pgn={}", pgn.display())];
        fs::write(&openings, fen).unwrap();
        played(&["--games=1", &flags[0], &flags[1]]);
        let text = fs::read_to_string(&pgn).unwrap();
        assert_eq!(text.contains("[Variant \"Chess960\"]"), is_chess960, "{text}");
        let board = fen.split(' ').next().unwrap();
        let begins = text.contains("[SetUp \"1\"]") && text.contains(&format!("[FEN \"{board} w"));
        assert_eq!((begins, text.contains("[FEN ")), (!is_usual, !is_usual), "{text}");
    }
}

#[test]
fn the_output_of_a_tool_is_logged() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let output = played(&["--games=1", &format!("--logfile={}", log.display())]);
    let last = String::from_utf8(output.stdout).unwrap().lines().last().unwrap().to_owned();
    assert!(fs::read_to_string(log).unwrap().contains(&last), "{last}");
    let nowhere = folder.path().join("no-folder").join("log");
    let output = selfplay(&["--games=1", &format!("--logfile={}", nowhere.display())]);
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("LogFile: cannot write"));
}

#[test]
fn a_game_without_a_result_gets_one() {
    let text = analyzed("[Event \"a\"]\n\n1. e4 e5\n\n[Event \"b\"]\n\n1. d4 d5 *\n", "x.pgn", &[]);
    assert_eq!(text.matches(" *\n").count(), 2, "{text}");
}

#[test]
fn a_move_has_one_evaluation() {
    let game = "1. e4 {[%eval 9.1] [%eval 9.2] a} {} e5 {[%eval 9.1] b} {[%eval 9.2]} {c [%eval 9.3]} *\n";
    let text = analyzed(game, "x.pgn", &["--variations=none"]);
    assert_eq!(text.matches("[%eval ").count(), 2, "{text}");
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("] a} {} 1... e5 {[%eval ") && text.contains("] b} {c} *"), "{text}");
}
