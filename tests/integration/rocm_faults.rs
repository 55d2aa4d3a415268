//! A fault of the card does not end a game: the processor evaluates the same positions in the same search, and a card
//! that the user named is tried again with the next game.

use std::time::{Duration, Instant};

use crate::driver::{Driver, best_move, nodes_of};
use crate::rocm::libraries;
use crate::rocm_errors::{logged_calls, search, stdout};

const NETWORK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/micro-attn.pb.gz");

/// Each batch records one event, so the number of a call of `hipEventRecord` is that of a batch.
const OPTIONS: &str = "max_batch=4,warm_up=false,streams=1,fork=0,few_rows=0,wait=block";

const TAKES_OVER: &str = "the processor takes over";
const UNTIL_THE_NEXT_GAME: &str = "the processor takes over until the next game";
const AGAIN: &str = "evaluates again";

/// The engine on the emulator, whose `failures` happen. The folder with its libraries lives as long.
struct Faulty {
    engine: Driver,
    _libraries: tempfile::TempDir,
}

impl Faulty {
    fn start(backend: &str, options: &str, failures: &str) -> Faulty {
        Faulty::start_with(backend, options, ("RUKH_EMULATOR_FAIL", failures))
    }

    fn start_with(backend: &str, options: &str, fault: (&str, &str)) -> Faulty {
        let libraries = libraries();
        let folder = libraries.path().to_string_lossy().into_owned();
        let cards = if options.contains("gpu=1") { "2" } else { "1" };
        let settings = [("RUKH_ROCM_LIBRARY_PATH", folder.as_str()), fault, ("RUKH_EMULATOR_DEVICES", cards)];
        let weights = format!("--weights={NETWORK}");
        let backend = format!("--backend={backend}");
        let engine =
            Driver::start_with(&[&weights, &backend, "--smart-pruning-factor=0", "-o", options], &settings);
        Faulty { engine, _libraries: libraries }
    }

    /// Searches `nodes` nodes. Returns the messages, after a check that a real search of at least that size chose the
    /// move.
    fn search(&mut self, nodes: u32) -> Vec<String> {
        let lines = self.engine.search(&format!("go nodes {nodes}"));
        assert!(nodes_of(&lines) >= nodes, "{lines:#?}");
        assert_ne!(best_move(&lines), "0000");
        messages(lines)
    }

    fn new_game(&mut self) -> Vec<String> {
        messages(self.engine.ask("ucinewgame"))
    }
}

/// The messages except the one that names the network.
fn messages(lines: Vec<String>) -> Vec<String> {
    let is_shown =
        |line: &String| line.starts_with("info string") && !line.starts_with("info string network");
    lines.into_iter().filter(is_shown).collect()
}

/// Checks that the messages are one: `text`, in the line of an error or not.
fn assert_said(messages: &[String], text: &str) {
    assert!(messages.len() == 1 && messages[0].ends_with(text), "{text}: {messages:#?}");
}

#[test]
fn the_search_in_which_the_card_fails_and_later_ones_are_real() {
    for failure in
        ["hipEventRecord:1", "hipEventRecord:2", "hipEventRecord:5", "execution:60", "hipGraphLaunch:1"]
    {
        let mut game = Faulty::start("rocm-fp16", OPTIONS, failure);
        let said = game.search(60);
        assert_said(&said, UNTIL_THE_NEXT_GAME);
        assert!(said[0].starts_with("info string error: evaluation failed on rocm-fp16"), "{said:?}");
        game.engine.ask("position startpos moves e2e4 e7e5");
        assert_eq!(game.search(80), [] as [String; 0], "{failure}");
    }
}

/// Four threads have filled further batches when the card fails. They must not wait for it one after another.
#[test]
fn a_card_that_has_failed_is_not_asked_again() {
    let folder = libraries();
    for batch in [2, 3, 4] {
        let failure = format!("hipEventRecord:{batch}");
        let settings = [("RUKH_EMULATOR_FAIL", failure.as_str()), ("RUKH_EMULATOR_LOG", "1")];
        let arguments = [
            "--backend=rocm-fp16",
            "-o",
            OPTIONS,
            "--threads=4",
            "--minibatch-size=4",
            "--smart-pruning-factor=0",
        ];
        let output = search(folder.path(), &arguments, &settings);
        assert!(stdout(&output).contains(UNTIL_THE_NEXT_GAME));
        let asked = logged_calls(&output).iter().filter(|&call| call == "hipEventRecord").count();
        assert_eq!(asked, batch);
    }
}

#[test]
fn a_named_card_is_tried_again_with_every_game_and_auto_leaves_it() {
    // The device fails in the first batch of the first game and in the second batch of the second game.
    let mut game = Faulty::start("rocm-fp16", OPTIONS, "hipEventRecord:1,hipEventRecord:3");
    for _ in 0..2 {
        assert_said(&game.search(20), UNTIL_THE_NEXT_GAME);
        assert_said(&game.new_game(), AGAIN);
    }
    assert_eq!(game.search(20), [] as [String; 0]);

    let mut game = Faulty::start("auto", OPTIONS, "hipEventRecord:2");
    assert_said(&game.search(20), TAKES_OVER);
    assert_eq!(game.new_game(), [] as [String; 0]);
    assert_eq!(game.search(20), [] as [String; 0]);
    // A change of an option makes the backend again, and `auto` still leaves the card alone.
    game.engine.ask("setoption name PolicyTemperature value 1.5");
    assert_eq!(game.search(20), [] as [String; 0]);
}

#[test]
fn a_card_that_fails_in_every_batch_costs_no_game() {
    let failures: Vec<String> = (1..100).map(|call| format!("hipEventRecord:{call}")).collect();
    let mut game = Faulty::start("rocm", OPTIONS, &failures.join(","));
    for _ in 0..3 {
        assert_said(&game.search(30), UNTIL_THE_NEXT_GAME);
        game.search(60);
        assert_said(&game.new_game(), AGAIN);
    }
}

#[test]
fn a_card_that_cannot_be_made_again_is_reported_and_the_processor_plays() {
    let mut game = Faulty::start("rocm-bf16", OPTIONS, "hipEventRecord:2,hipModuleLoadData:2");
    assert_said(&game.search(30), UNTIL_THE_NEXT_GAME);
    let said = game.new_game();
    assert_said(&said, UNTIL_THE_NEXT_GAME);
    assert!(said[0].contains("hipModuleLoadData"), "{said:?}");
    assert_eq!(game.search(30), [] as [String; 0]);
    assert_said(&game.new_game(), AGAIN);
    assert_eq!(game.search(30), [] as [String; 0]);

    // The same at the start of the first game.
    let mut game = Faulty::start("rocm-bf16", OPTIONS, "hipModuleLoadData:1");
    assert_said(&game.search(30), UNTIL_THE_NEXT_GAME);
    assert_said(&game.new_game(), AGAIN);
    assert_eq!(game.search(30), [] as [String; 0]);
}

#[test]
fn a_fault_while_pondering_leaves_a_move_in_time() {
    let mut game = Faulty::start("rocm-fp16", OPTIONS, "hipEventRecord:3");
    game.engine.ask("position startpos moves e2e4 e7e5");
    game.engine.send("go ponder wtime 20000 btime 20000");
    let lines = game.engine.until("info string error");
    assert!(lines.last().is_some_and(|line| line.ends_with(UNTIL_THE_NEXT_GAME)), "{lines:#?}");
    let start = Instant::now();
    let lines = game.engine.search("ponderhit");
    assert!(start.elapsed() < Duration::from_secs(15), "{:?}", start.elapsed());
    assert!(nodes_of(&lines) >= 5, "{lines:#?}");
}

#[test]
fn of_two_cards_the_other_goes_on_alone() {
    for backend in ["multiplexing", "demux", "roundrobin"] {
        let options = "backend=rocm,warm_up=false,max_batch=4,streams=1,fork=0,wait=block,(gpu=0),(gpu=1)";
        let mut game = Faulty::start(backend, options, "hipEventRecord:2,hipEventRecord:40");
        let said = game.search(8);
        assert_said(&said, "1 of 2 devices are left");
        // The second card fails in this search.
        game.engine.ask("position startpos moves e2e4");
        assert_said(&game.search(300), UNTIL_THE_NEXT_GAME);
        assert_said(&game.new_game(), AGAIN);
        assert_eq!(game.search(20), [] as [String; 0], "{backend}");
    }
}

/// The card hangs in its first batch, and in a later one.
#[test]
fn a_card_that_hangs_is_a_card_that_fails() {
    for operation in ["60", "150"] {
        let options = format!("{OPTIONS},timeout=0.3");
        let mut game = Faulty::start_with("rocm-fp16", &options, ("RUKH_EMULATOR_HANG", operation));
        let said = game.search(60);
        assert_said(&said, UNTIL_THE_NEXT_GAME);
        assert!(said[0].contains("has not finished"), "{said:?}");
        assert_eq!(game.search(80), [] as [String; 0]);
        // The card still hangs, so it cannot be made again.
        let said = game.new_game();
        assert!(!said.iter().any(|line| line.ends_with(AGAIN)), "{said:?}");
        assert!(game.search(60).len() <= 1);
        game.engine.send("quit");
        assert!(game.engine.ends_within(Duration::from_secs(20)).success());
    }
}

/// The hang is noticed only when the engine should end.
#[test]
fn a_card_that_hangs_does_not_keep_the_engine_from_ending() {
    let options = format!("{OPTIONS},timeout=0.3");
    let mut game = Faulty::start_with("rocm-fp16", &options, ("RUKH_EMULATOR_HANG", "60"));
    game.engine.ask("go infinite");
    game.engine.send("quit");
    assert!(game.engine.ends_within(Duration::from_secs(20)).success());
}
