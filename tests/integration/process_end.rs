//! When and how the engine's process ends: at `quit`, at the end of stdin, and not at a limit of the system.

use crate::driver::{Driver, best_move, rukh};
use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The engine must end within this time after `quit`, and after the end of its stdin if it has nothing to finish.
const SOON: Duration = Duration::from_secs(5);

/// What the engine writes for `input`, at whose end its stdin ends.
fn answer(arguments: &[&str], input: &str) -> Vec<String> {
    answer_of(rukh(arguments), input)
}

fn answer_of(command: Command, input: &str) -> Vec<String> {
    let mut engine = Driver::spawn(command);
    engine.send_bytes(input.as_bytes());
    engine.close_stdin();
    let lines = engine.until("bestmove ");
    assert!(engine.ends_within(SOON).success());
    lines
}

#[test]
fn quit_ends_the_engine() {
    for quit in ["quit", " quit", "quit now"] {
        let mut engine = Driver::trivial();
        engine.send(quit);
        assert!(engine.ends_within(SOON).success());
    }
}

#[test]
fn quit_does_not_wait_for_the_end_of_a_search() {
    let mut engine = Driver::trivial();
    engine.send("go nodes 100000000");
    engine.until("info");
    engine.send("quit");
    assert!(engine.ends_within(SOON).success());
}

#[test]
fn the_end_of_stdin_lets_a_search_finish() {
    for (go, nodes) in [("go nodes 3000", 3000), ("go movetime 150", 1), ("go wtime 1000 btime 1000", 1)] {
        let lines = answer(
            &["--backend=trivial", "--threads=1", "--smart-pruning-factor=0"],
            &format!("position startpos moves e2e4\n{go}"),
        );
        assert_ne!(best_move(&lines), "0000", "{go}");
        let last = lines.iter().rfind(|line| line.starts_with("info depth ")).expect("an info line");
        let shown =
            last.split(' ').skip_while(|word| *word != "nodes").nth(1).and_then(|word| word.parse().ok());
        assert!(shown.is_some_and(|shown: u64| shown >= nodes), "{go}: {last}");
    }
}

#[test]
fn the_end_of_stdin_stops_a_search_without_an_end_and_its_move_is_printed() {
    // White has no clock in `go btime`.
    let clocks = "go ponder wtime 1000000 btime 1000000";
    for go in ["go infinite", "go", clocks, "go ponder\nponderhit", "go mate 9", "go btime 1000"] {
        let begin = Instant::now();
        let lines = answer(&["--backend=trivial", "--threads=1"], &format!("position startpos\n{go}\n"));
        assert_ne!(best_move(&lines), "0000", "{go}");
        assert!(begin.elapsed() < SOON);
    }
    // Also if there is nothing to search.
    let lines = answer(&["--backend=trivial"], "position startpos moves f2f3 e7e5 g2g4 d8h4\ngo infinite\n");
    assert_eq!(best_move(&lines), "0000");
}

/// An engine whose output and errors are pipes that nobody reads.
fn unread(arguments: &[&str]) -> Child {
    let mut command = rukh(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("the binary starts")
}

#[track_caller]
fn ends_soon(mut child: Child, what: &str) {
    let deadline = Instant::now() + SOON;
    while child.try_wait().expect("the child can be waited for").is_none() {
        if Instant::now() > deadline {
            let _ = child.kill();
            panic!("{what}: the engine did not end");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_pipe_that_nobody_reads_does_not_keep_the_process_from_ending() {
    // The answers to `uci` fill the pipe. In a search, the search's threads write, too.
    let answers = "uci\n".repeat(40);
    let search = format!("setoption name VerboseMoveStats value true\ngo infinite\n{answers}");
    let log_to_stderr = format!("setoption name LogFile value <stderr>\n{answers}");
    let mut started = Vec::new();
    for (what, input) in [("answers", &answers), ("search", &search), ("log", &log_to_stderr)] {
        for end in ["quit\n", ""] {
            let mut child = unread(&["--backend=trivial", "--threads=1"]);
            let mut stdin = child.stdin.take().expect("stdin is piped");
            if what == "log" {
                // Only stderr is never read.
                let mut stdout = child.stdout.take().expect("stdout is piped");
                std::thread::spawn(move || stdout.read_to_end(&mut Vec::new()));
            }
            stdin
                .write_all(input.as_bytes())
                .and_then(|()| stdin.write_all(end.as_bytes()))
                .expect("it reads");
            // After `quit`, stdin stays open.
            started.push((child, Some(stdin).filter(|_| !end.is_empty()), format!("{what}, {end:?}")));
        }
    }
    for (child, _stdin, what) in started {
        ends_soon(child, &what);
    }
}

#[cfg(unix)]
#[test]
fn a_log_that_nobody_reads_does_not_keep_the_engine_from_playing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let pipe = folder.path().join("log");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo starts").success());
    let set_log = format!("setoption name LogFile value {}", pipe.display());
    let mut engine = Driver::trivial();
    let lines = engine.ask(&set_log);
    assert!(
        lines[0].starts_with("info string error: LogFile: cannot write "),
        "without a reader: {lines:#?}"
    );
    // It opens as soon as there is a reader; opening it for both never blocks on Linux.
    let _reader = File::options().read(true).write(true).open(&pipe).expect("the pipe opens");
    engine.ask("setoption name LogFile value ");
    assert!(engine.ask(&set_log).is_empty());
    for _ in 0..20 {
        engine.ask("uci");
    }
    engine.search("go nodes 10");
    engine.send("quit");
    assert!(engine.ends_within(SOON).success());
}

/// The command that starts the engine with a limit of the shell's `ulimit`.
#[cfg(unix)]
fn limited(limit: &str, arguments: &[&str]) -> Command {
    let plain = rukh(arguments);
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("ulimit {limit} && exec \"$0\" \"$@\"")).arg(plain.get_program());
    command.args(plain.get_args());
    for (name, value) in plain.get_envs() {
        command.env(name, value.expect("no variable is removed"));
    }
    command
}

#[cfg(unix)]
#[test]
fn a_stack_of_64_kilobytes_is_enough() {
    const NETWORK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/micro-attn.pb.gz");
    let weights = format!("--weights={NETWORK}");
    for arguments in [&["--backend=trivial", "--threads=2"][..], &["--backend=cpu", &weights]] {
        let lines =
            answer_of(limited("-s 64", arguments), "uci\nposition startpos moves e2e4\ngo nodes 50\n");
        assert_ne!(best_move(&lines), "0000");
    }
    for arguments in [&["--help", "--show-hidden"][..], &["perft", "2"], &["describenet", &weights]] {
        let status = limited("-s 64", arguments).stdout(Stdio::null()).stderr(Stdio::null()).status();
        assert!(status.expect("sh starts").success(), "{arguments:?}");
    }
}

#[cfg(unix)]
#[test]
fn a_log_file_at_the_limit_of_file_sizes_does_not_end_the_engine() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let log = folder.path().join("log.txt");
    let log_to = format!("setoption name LogFile value {}", log.display());
    let input = format!("{log_to}\nuci\nposition startpos\ngo nodes 50\n");
    // A unit of `ulimit -f` is 512 or 1024 bytes.
    let lines = answer_of(limited("-f 1", &["--backend=trivial"]), &input);
    assert_ne!(best_move(&lines), "0000");
    let bytes = std::fs::metadata(&log).expect("the log is there").len();
    assert!([512, 1024].contains(&bytes), "{bytes} bytes");
}
