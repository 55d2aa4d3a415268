//! The UCI protocol through the real binary: lines that GUIs send, and lines that they never should.

use crate::driver::{Driver, PATIENCE, best_move, rukh};
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::time::Duration;

#[test]
fn uci_is_answered_with_the_name_and_the_options() {
    let mut engine = Driver::trivial();
    engine.send("uci");
    let lines = engine.until("uciok");
    assert!(lines[0].starts_with("id name Rukh "), "{}", lines[0]);
    assert!(lines[1].starts_with("id author "), "{}", lines[1]);
    let options = &lines[2..lines.len() - 1];
    assert!(options.iter().all(|line| line.starts_with("option name ")), "{options:#?}");
    assert_eq!(
        options.len(),
        73,
        "lc0 shows 68 of its 94 options, and lacks Hash, Search and the three of Strength"
    );
    // The defaults that a GUI sees are the values set by flags.
    assert!(options.contains(&"option name Threads type spin default 1 min 0 max 128".to_owned()));
    let backend = options.iter().find(|line| line.starts_with("option name Backend ")).unwrap();
    assert!(
        backend.starts_with("option name Backend type combo default trivial var auto var rocm-auto "),
        "{backend}"
    );
}

#[test]
fn uci_shows_hidden_options_on_request() {
    let mut engine = Driver::start(&["--show-hidden"]);
    engine.send("uci");
    assert_eq!(engine.until("uciok").iter().filter(|line| line.starts_with("option ")).count(), 122);
}

#[test]
fn nothing_is_written_without_a_reason() {
    let mut engine = Driver::trivial();
    assert_eq!(engine.next_line_within(Duration::from_millis(200)), None);
    assert_eq!(engine.ask(""), [""; 0]);
    assert_eq!(engine.ask("debug on"), [""; 0]);
    assert_eq!(engine.ask("ucinewgame"), [""; 0]);
    assert_eq!(engine.ask("position startpos moves e2e4"), [""; 0]);
    assert_eq!(engine.ask("setoption name MultiPV value 2"), [""; 0]);
    assert_eq!(engine.ask("stop"), [""; 0]);
    assert_eq!(engine.ask("wait"), [""; 0]);
    assert_eq!(engine.ask("xyzzy"), ["Nothing happens."]);
}

/// The error quotes the offending text or says what was expected, and the engine goes on.
#[test]
fn every_wrong_line_gives_one_error_line() {
    let mut engine = Driver::trivial();
    for (line, shown) in [
        ("foo", "unknown command `foo`"),
        ("UCI", "unknown command `UCI`"),
        ("GO nodes 1", "unknown command `GO nodes 1`"),
        ("fen", "unknown command `fen`"),
        ("stop now", "unexpected `now` after stop"),
        ("setoption", "`name`"),
        ("setoption value 3", "unexpected `value` after setoption"),
        ("setoption name Nope value 3", "unknown option `Nope`"),
        ("setoption name Thread value 3", "did you mean Threads?"),
        ("setoption name MultiPV value abc", "`abc` is not a whole number from 1 to 500"),
        ("setoption name MultiPV value 100000", "`100000` is not a whole number from 1 to 500"),
        ("setoption name CPuct value nan", "`nan` is not a number from 0 to 100"),
        ("setoption name Backend value nope", "`nope` is not one of auto, "),
        ("setoption name VerboseMoveStats value maybe", "`maybe` is not `true` or `false`"),
        ("setoption name TimeManager value nope", "nope"),
        ("position", "`startpos`, or `fen` and a FEN"),
        ("position startpos e2e4", "unexpected `e2e4` after startpos"),
        ("position fen", "a FEN"),
        ("position fen garbage", "garbage"),
        ("position fen rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR x KQkq - 0 1", "x"),
        ("position startpos moves e2e5", "e2e5"),
        ("position startpos moves xyz", "xyz"),
        ("position startpos moves e2e4 e2e4", "e2e4"),
        ("ponderhit", ""),
    ] {
        let lines = engine.ask(line);
        assert_eq!(lines.len(), 1, "{line}: {lines:#?}");
        assert!(lines[0].starts_with("info string error: "), "{line}: {}", lines[0]);
        assert!(lines[0].contains(shown), "{line}: {}", lines[0]);
    }
}

#[test]
fn noise_and_endless_lines_give_one_error_each() {
    let mut engine = Driver::trivial();
    engine.send_bytes(b"\xff\xfe\x00\x01\x1b[2J\n");
    engine.send_bytes(&[0; 3000]);
    engine.send("");
    engine.send_bytes("go ".repeat(10_000_000 / 3).as_bytes());
    engine.send("");
    // The last line is a `go`, if a strange one, so it has its answer.
    let lines = engine.ask("position startpos");
    assert_eq!(lines.iter().filter(|line| line.starts_with("bestmove ")).count(), 1, "{lines:#?}");
    let lines: Vec<&String> = lines.iter().filter(|line| line.starts_with("info string")).collect();
    assert_eq!(lines.len(), 3, "{lines:#?}");
    for line in &lines {
        assert!(line.starts_with("info string error: ") && line.len() < 1000, "{line}");
        assert!(!line.chars().any(char::is_control), "{line:?}");
    }
    assert!(lines[2].contains("the line has 9999999 bytes"), "{}", lines[2]);
}

#[test]
fn a_game_of_thousands_of_moves_is_accepted() {
    let shuffle = "g1f3 g8f6 f3g1 f6g8 ".repeat(2000);
    let mut engine = Driver::trivial();
    assert_eq!(engine.ask(&format!("position startpos moves {shuffle}")), [""; 0]);
}

#[test]
fn castling_is_read_in_both_notations_and_written_in_the_one_asked_for() {
    let mut engine = Driver::trivial();
    // Castling is the only move searched.
    for castling in ["e1g1", "e1h1"] {
        engine.ask("position fen 4k3/8/8/8/8/8/8/4K2R w K - 0 1");
        engine.ask("setoption name UCI_Chess960 value false");
        assert_eq!(best_move(&engine.search(&format!("go nodes 5 searchmoves {castling}"))), "e1g1");
        engine.ask("setoption name UCI_Chess960 value true");
        assert_eq!(best_move(&engine.search(&format!("go nodes 5 searchmoves {castling}"))), "e1h1");
    }
}

#[test]
fn a_closed_stdout_ends_the_engine_silently() {
    let mut child = rukh(&["--backend=trivial"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    stdin.write_all(b"uci\n").unwrap();
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    drop(stdout);
    // The engine notices the closed pipe only when it writes, which may take a few lines.
    for _ in 0..1000 {
        if stdin.write_all(b"uci\n").is_err() {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn wait_blocks_until_the_best_move_but_refuses_an_infinite_search() {
    let mut engine = Driver::trivial();
    engine.send("go nodes 200");
    engine.send("wait");
    engine.send("xyzzy");
    let lines = engine.until("Nothing");
    assert!(lines.iter().any(|line| line.starts_with("bestmove ")), "{lines:#?}");

    engine.send("go infinite");
    engine.send("wait");
    let lines = engine.until("info string error: wait might never end");
    assert!(!lines.iter().any(|line| line.starts_with("bestmove ")), "{lines:#?}");
    engine.send("stop");
    engine.until("bestmove");
}

#[test]
fn the_log_has_both_directions() {
    let path = std::env::temp_dir().join(format!("rukh-log-{}.txt", std::process::id()));
    let mut engine = Driver::start(&["--backend=trivial"]);
    engine.ask(&format!("setoption name LogFile value {}", path.display()));
    engine.ask("xyzzy");
    engine.send("quit");
    engine.ends_within(PATIENCE);
    let log = std::fs::read_to_string(&path).unwrap();
    let _ = std::fs::remove_file(&path);
    assert!(log.contains(">> xyzzy\n") && log.contains("<< Nothing happens.\n"), "{log}");
    assert!(log.ends_with(">> quit\n"), "{log}");
    let refused = Driver::start(&["--backend=trivial"]).ask("setoption name LogFile value /dev/null/log");
    assert!(
        refused[0].starts_with("info string error: LogFile: cannot write `/dev/null/log`: "),
        "{refused:?}"
    );
}

/// As in lc0, `VerboseMoveStats` decides where the statistics go, and `LogLiveStats` how often they are written.
#[test]
fn move_statistics_go_to_the_gui_or_into_the_log() {
    for (verbose, live) in [(false, false), (false, true), (true, false), (true, true)] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("log.txt");
        let mut engine = Driver::start(&["--backend=trivial"]);
        engine.ask(&format!("setoption name LogFile value {}", path.display()));
        engine.ask(&format!("setoption name VerboseMoveStats value {verbose}"));
        engine.ask(&format!("setoption name LogLiveStats value {live}"));
        let lines = engine.search("go nodes 2000");
        let sent = lines.iter().filter(|line| line.starts_with("info string node ")).count();
        engine.send("quit");
        engine.ends_within(PATIENCE);
        let log = std::fs::read_to_string(&path).expect("the log is there");
        let logged = log.lines().filter(|line| line.contains(" -- node ")).count();
        let (here, elsewhere) = if verbose { (sent, logged) } else { (logged, sent) };
        assert_eq!(elsewhere, 0, "{verbose} {live}");
        assert!(if live { here > 1 } else { here == 1 }, "{verbose} {live}: {here}");
    }
}
