//! The move of a search that gets no evaluation from its backend: the first choice of a network on the processor.

use crate::driver::{Driver, best_move};
#[cfg(any(target_os = "linux", windows))]
use crate::rocm::libraries;

const NETWORK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/micro-attn.pb.gz");

/// One move takes the queen. It is not the first legal one.
const QUEEN_HANGS: &str = "position fen rnb1kbnr/pppp1ppp/8/4p3/3P2q1/5N1P/PPP1PPP1/RNBQKB1R w KQkq - 0 1";
const TAKES: &str = "h3g4";

const ANY_LEGAL: &str = "info string nothing could be evaluated in time: the move is any legal one";

fn says(lines: &[String], text: &str) -> bool {
    lines.iter().any(|line| line.starts_with("info string ") && line.contains(text))
}

/// The move with the highest prior of a network.
fn first_choice_of(network: &str, position: &str) -> String {
    let mut engine = Driver::start(&["--backend=cpu", "--threads=1", "-w", network]);
    engine.send(position);
    best_move(&engine.search("go nodes 1")).to_owned()
}

/// A recording has no evaluation of another position, so that the first evaluation fails.
#[test]
fn after_a_failed_evaluation_the_embedded_network_chooses() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("recording");
    let options = format!("trivial,record_file='{}'", file.display());
    let mut engine = Driver::start(&["--backend=recordreplay", "--threads=1", "-o", &options]);
    engine.search("go nodes 2");
    engine.send("quit");
    assert!(engine.ends_within(crate::driver::PATIENCE).success());

    let options = format!("replay_file='{}'", file.display());
    let network = "--weights=<embedded>";
    let mut engine = Driver::start(&["--backend=recordreplay", "--threads=2", network, "-o", &options]);
    engine.send(QUEEN_HANGS);
    let lines = engine.search("go nodes 100");
    assert!(
        says(&lines, "error: ") && says(&lines, "the first choice of the embedded network"),
        "{lines:#?}"
    );
    assert_eq!(best_move(&lines), TAKES);
    // `searchmoves` holds for this move too.
    let lines = engine.search("go nodes 100 searchmoves a2a3 f3e5");
    assert_eq!(best_move(&lines), "f3e5", "{lines:#?}");
}

#[cfg(any(target_os = "linux", windows))]
fn with_hung_card() -> (Driver, tempfile::TempDir) {
    let libraries = libraries();
    let folder = libraries.path().to_string_lossy().into_owned();
    let options = "max_batch=4,warm_up=false,streams=1,fork=0,few_rows=0,wait=block";
    let settings = [("RUKH_ROCM_LIBRARY_PATH", folder.as_str()), ("RUKH_EMULATOR_HANG", "60")];
    let engine = Driver::start_with(&["--backend=rocm-fp16", "-w", NETWORK, "-o", options], &settings);
    (engine, libraries)
}

/// The hang would be noticed after ten seconds or more.
#[test]
#[cfg(any(target_os = "linux", windows))]
fn while_a_card_hangs_the_network_chooses_on_the_processor() {
    let expected = first_choice_of(NETWORK, QUEEN_HANGS);
    let (mut engine, _libraries) = with_hung_card();
    engine.ask(QUEEN_HANGS);
    let lines = engine.search("go movetime 5000");
    assert!(says(&lines, "the first choice of the network on the processor"), "{lines:#?}");
    assert_eq!(best_move(&lines), expected);
}

/// There is no time to evaluate anything.
#[test]
#[cfg(any(target_os = "linux", windows))]
fn a_search_that_is_stopped_at_once_while_a_card_hangs_says_that_its_move_is_any() {
    let (mut engine, _libraries) = with_hung_card();
    engine.ask(QUEEN_HANGS);
    // Sent together, because a busy machine could let much time pass between them.
    let lines = engine.search("go infinite\nstop");
    assert!(lines.iter().any(|line| line == ANY_LEGAL), "{lines:#?}");
}

/// The address space that is left has no room for the stack of a thread.
#[test]
#[cfg(target_os = "linux")]
fn if_no_thread_can_be_started_the_network_chooses() {
    let expected = first_choice_of(NETWORK, QUEEN_HANGS);
    let mut engine = Driver::start(&["--backend=cpu", "--threads=2", "-w", NETWORK]);
    engine.ask(QUEEN_HANGS);
    let process = engine.process_id();
    let size =
        std::fs::read_to_string(format!("/proc/{process}/statm")).expect("Linux describes the process");
    let pages: u64 = size.split(' ').next().and_then(|pages| pages.parse().ok()).expect("a number of pages");
    let limit = pages * 4096 + (8 << 20);
    let arguments = [format!("--pid={process}"), format!("--as={limit}:{limit}")];
    match std::process::Command::new("prlimit").args(arguments).status() {
        Ok(status) if status.success() => {}
        _ => return eprintln!("skipped: prlimit of util-linux is not installed or not allowed"),
    }
    let lines = engine.search("go nodes 10");
    assert!(says(&lines, "error: "), "{lines:#?}");
    assert_eq!(best_move(&lines), expected, "{lines:#?}");
}
