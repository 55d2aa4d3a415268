//! What people type at the engine and its tools.

use crate::driver::{Driver, rukh};
use std::process::Stdio;
use std::time::{Duration, Instant};

#[test]
fn d_shows_the_position_as_stockfish_does() {
    const EXPECTED: &str = "
 +---+---+---+---+---+---+---+---+
 |   |   |   |   | k |   |   |   | 8
 +---+---+---+---+---+---+---+---+
 |   |   |   |   |   |   |   |   | 7
 +---+---+---+---+---+---+---+---+
 | B |   |   |   |   |   |   |   | 6
 +---+---+---+---+---+---+---+---+
 |   |   |   |   |   |   |   |   | 5
 +---+---+---+---+---+---+---+---+
 |   |   |   |   |   |   |   |   | 4
 +---+---+---+---+---+---+---+---+
 |   |   |   |   |   |   |   |   | 3
 +---+---+---+---+---+---+---+---+
 |   |   |   |   |   | P |   |   | 2
 +---+---+---+---+---+---+---+---+
 |   |   |   |   | K |   |   | r | 1
 +---+---+---+---+---+---+---+---+
   a   b   c   d   e   f   g   h

Fen: 4k3/8/B7/8/8/8/5P2/4K2r w - - 4 7";
    let mut engine = Driver::trivial();
    engine.ask("position fen 4k3/8/B7/8/8/8/5P2/4K2r w - - 4 7");
    let lines = engine.ask("d");
    let (diagram, rest) = lines.split_at(EXPECTED.lines().count());
    assert_eq!(diagram.join("\n"), EXPECTED);
    assert!(rest[0].starts_with("Key: ") && rest[0].len() == "Key: ".len() + 16, "{rest:?}");
    assert_eq!(rest[1..], ["Checkers: h1"]);
    engine.ask("position startpos");
    assert_eq!(engine.ask("d").last().unwrap(), "Checkers:");
}

#[test]
fn eval_shows_the_networks_opinion_of_all_moves() {
    let mut engine = Driver::start(&["--backend=cpu", "--weights=<embedded>"]);
    engine.ask("position startpos moves e2e4");
    let lines = engine.ask("eval");
    let value = |name: &str| {
        let line = lines.iter().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_else(|| panic!("no {name} in {lines:#?}")).trim().to_owned()
    };
    assert!(value("network").starts_with("<embedded> on cpu ("), "{lines:#?}");
    assert_eq!(value("for"), "black, who is to move");
    let q: f64 = value("q").parse().unwrap();
    assert!((-0.5..0.1).contains(&q), "{lines:#?}");
    assert!(value("wdl").ends_with("% losses"), "{lines:#?}");
    let policy: Vec<(&str, f64)> = lines
        .iter()
        .filter(|line| line.starts_with("  "))
        .map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            (words[0], words[1].parse().unwrap())
        })
        .collect();
    assert_eq!(policy.len(), 20);
    assert!(policy.is_sorted_by(|a, b| a.1 >= b.1), "{policy:?}");
    assert!((policy.iter().map(|(_, percent)| percent).sum::<f64>() - 100.0).abs() < 0.2, "{policy:?}");
    // A table of the pieces from White's view. Nobody can say what a king adds.
    let table = |lines: &[String]| -> Vec<String> {
        let start = lines.iter().position(|line| line.starts_with("pieces ")).expect("a table") + 1;
        lines[start..start + 8].to_vec()
    };
    let ranks = table(&lines);
    assert!(ranks[0].starts_with("8  r-") && ranks[7].starts_with("1  R+"), "{ranks:#?}");
    assert_eq!(ranks.concat().matches(['+', '-']).count(), 30, "{ranks:#?}");
    let queen: f64 = ranks[7].split('Q').nth(1).unwrap()[..5].parse().unwrap();
    let pawn: f64 = ranks[6].split('P').nth(1).unwrap()[..5].parse().unwrap();
    assert!(queen > 2.0 * pawn && pawn > 0.0, "{ranks:#?}");
    // Without the bishop, the side to move could take the king.
    engine.ask("position fen 4k3/4b3/8/8/8/8/4R3/4K3 w - - 0 1");
    let ranks = table(&engine.ask("eval"));
    assert!(!ranks[1].contains(['+', '-']) && ranks[6].contains("R+"), "{ranks:#?}");
    // Mated and stalemated sides have nothing to evaluate.
    engine.ask("position fen 7k/5K2/6Q1/8/8/8/8/8 b - - 0 1");
    assert_eq!(engine.ask("eval"), ["info string error: eval: there is no legal move"]);
}

/// Green would say that all is well.
#[test]
fn no_word_about_mistakes_is_green() {
    for wrong in [&["analyze", "--variations=mistake"][..], &["analyse"], &["selfplay", "--player1.cpukt=3"]]
    {
        let output = rukh(wrong).env("CLICOLOR_FORCE", "1").output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(text.contains("\u{1b}[1m") && !text.contains("\u{1b}[32m"), "{text:?}");
    }
}

#[test]
fn perft_counts_as_in_stockfish() {
    let mut engine = Driver::trivial();
    engine.send("position fen 4k3/8/8/8/8/8/8/4K2R w K - 0 1");
    engine.send("go perft 2");
    let lines = engine.until("Nodes searched");
    assert_eq!(lines.len(), 15 + 2, "{lines:#?}");
    assert!(lines.iter().any(|line| line.starts_with("e1g1: ")), "{lines:#?}");
    assert_eq!(lines.last().unwrap(), "Nodes searched: 66");
    // One that would last for years can be stopped.
    engine.send("position startpos");
    engine.send("go perft 20");
    assert_eq!(
        engine.ask("go perft 1").last().unwrap(),
        "info string error: go perft: perft is running; `stop` ends it"
    );
    engine.send("stop");
    engine.until("info string perft was stopped");
    let wrong = engine.ask("go perft 21");
    assert_eq!(
        wrong,
        ["info string error: go perft: `21` is not a whole number from 0 to 20, so it is left out"]
    );
}

/// The next count begins as soon as the last line of the one before is read.
#[test]
fn counts_follow_each_other_at_once() {
    let mut engine = Driver::trivial();
    for _ in 0..500 {
        engine.send("go perft 1");
        let mut lines = engine.until("Nodes searched");
        lines.retain(|line| !line.is_empty());
        assert_eq!(lines.len(), 20 + 1, "{lines:#?}");
        assert_eq!(lines[20], "Nodes searched: 20");
    }
}

/// A script sends all its lines at once.
#[test]
fn a_count_is_finished_before_the_engine_quits() {
    let mut engine = Driver::trivial();
    engine.send_bytes(b"go perft 4\nquit\n");
    engine.until("Nodes searched: 197281");
}

#[test]
fn the_console_waits_for_the_end_of_a_search() {
    let mut engine = Driver::trivial();
    engine.send("go infinite");
    engine.until("info");
    for command in ["d", "eval", "help", "bench", "go perft 3"] {
        engine.send(command);
        let error = engine.until("info string").pop().unwrap();
        assert_eq!(
            error,
            format!("info string error: {command}: a search is running; `stop` ends it").replace(" 3:", ":")
        );
    }
    engine.send("stop");
    engine.until("bestmove");
    assert!(engine.ask("help").concat().contains("go perft N"));
}

#[test]
fn bench_measures_the_search() {
    let mut engine = Driver::trivial();
    engine.send("bench");
    let lines = engine.until("Nodes/second");
    assert_eq!(lines.iter().filter(|line| line.starts_with("bestmove ")).count(), 10, "{lines:#?}");
    assert!(engine.search("go nodes 10").concat().contains("nodes 10"));
}

/// The usual start without a card, with little to worry about, and the rest for those who ask.
#[test]
fn the_start_without_a_card_is_one_calm_line_and_details_on_request() {
    let cache = tempfile::tempdir().unwrap();
    let start = || {
        let mut command = rukh(&["--weights=<embedded>"]);
        command.env("RUKH_ROCM_LIBRARY_PATH", "/nonexistent/rocm").env("XDG_CACHE_HOME", cache.path());
        Driver::spawn(command)
    };
    let mut engine = start();
    let mut calm = engine.ask("");
    // On a busy machine, a line says what takes so long.
    calm.retain(|line| !line.contains("measuring which number format"));
    assert_eq!(calm.len(), 2, "{calm:#?}");
    let begin = "info string no graphics card that Rukh can use; using the processor (";
    assert!(calm[0].starts_with(begin), "{calm:#?}");
    assert_eq!(calm[1], "info string network <embedded>");
    let details = engine.ask("debug on");
    assert_eq!(details.len(), 2, "{details:#?}");
    assert!(details[0].starts_with("info string cpu-auto uses cpu"), "{details:#?}");
    assert!(details[1].contains("/nonexistent/rocm"), "{details:#?}");
    let mut engine = start();
    assert_eq!(engine.ask("debug on").len(), 4);
}

/// Whoever forgets the file's name would think that the tool hangs.
#[cfg(unix)]
#[test]
fn analyze_says_that_it_reads_from_the_terminal() {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use std::ffi::OsString;
    use std::fs::File;
    use std::os::unix::ffi::OsStringExt;

    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).and_then(|()| unlockpt(&terminal)).unwrap();
    let name = OsString::from_vec(ptsname(&terminal, Vec::new()).unwrap().into_bytes());
    let mut keyboard = File::from(terminal);
    let stdin = File::options().read(true).write(true).open(name).unwrap();
    let tool = rukh(&["analyze", "--backend=trivial", "--nodes=1"])
        .stdin(stdin)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // ctrl-D, once for each read.
    std::io::Write::write_all(&mut keyboard, &[4; 8]).unwrap();
    let output = tool.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("from standard input"), "{stderr}");
    let piped = rukh(&["analyze", "--backend=trivial", "--nodes=1"]).stdin(Stdio::null()).output().unwrap();
    assert!(!String::from_utf8_lossy(&piped.stderr).contains("from standard input"), "{piped:?}");
}

#[test]
fn doctor_without_a_card_fails_and_asks_for_no_report() {
    let place = tempfile::tempdir().unwrap();
    let report = format!("--report={}", place.path().join("report").display());
    let begun = Instant::now();
    let output = rukh(&["doctor", "--quick", &report])
        .env("RUKH_ROCM_LIBRARY_PATH", "/nonexistent/rocm")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(stdout.contains("The report is in") && !stdout.contains("attach"), "{stdout}");
    assert!(stderr.ends_with("rukh: there is no card that can be used\n"), "{stderr}");
    assert!(begun.elapsed() < Duration::from_secs(60));
}
