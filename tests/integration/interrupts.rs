//! Ctrl-C during a tournament. The tests use the program `kill` of Unix; on Windows `scripts/checks/windows.sh` presses
//! the keys.

use crate::driver::rukh;
use crate::tournaments::trivial;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A tournament without an end.
#[test]
fn an_interrupt_ends_the_tournament_at_once_with_the_result_so_far() {
    let arguments = trivial(&["--player1.visits=2", "--player2.visits=3", "--parallelism=2"]);
    let mut process =
        rukh(&arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.starts_with("tournamentstatus P1: ")));
    let begun = Instant::now();
    let killed = Command::new("kill").args(["-INT", &process.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let rest: Vec<String> = lines.collect();
    let status = process.wait().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert!(status.success(), "{status}");
    assert!(rest.iter().any(|line| line.starts_with("tournamentstatus final P1: ")), "{rest:?}");
    assert!(rest.iter().any(|line| line.starts_with("interrupted after ")), "{rest:?}");
}

/// A search that would never end stops as well.
#[test]
fn an_interrupt_ends_long_searches() {
    let mut process = rukh(&["selfplay", "--backend=trivial", "--visits=900000000", "--ramlimit-mb=100"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut messages = BufReader::new(process.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(messages.any(|line| line.starts_with("playing ")));
    // Gives the games time to start.
    std::thread::sleep(Duration::from_millis(500));
    let begun = Instant::now();
    Command::new("kill").args(["-INT", &process.id().to_string()]).status().unwrap();
    let output = process.wait_with_output().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert!(output.status.success(), "{}", output.status);
    assert!(String::from_utf8_lossy(&output.stdout).contains("interrupted after 0 games"));
}
