//! A GUI waits for the answers to `go` and `isready`. They come, whatever stands beside these words.

use crate::driver::{Driver, best_move};

/// White's only legal move is to take the queen.
const ONE_MOVE: &str = "position fen 7k/8/8/8/8/8/1q6/K7 w - - 0 1";

/// The only error among the lines.
#[track_caller]
fn error(lines: &[String]) -> &str {
    let mut errors = lines.iter().filter_map(|line| line.strip_prefix("info string error: "));
    let first = errors.next().unwrap_or_else(|| panic!("no error in {lines:#?}"));
    assert_eq!(errors.next(), None, "{lines:#?}");
    first
}

fn moves(lines: &[String]) -> usize {
    lines.iter().filter(|line| line.starts_with("bestmove ")).count()
}

/// Sends a `go` that ends by itself, and checks its answer and its error.
#[track_caller]
fn check_answer(engine: &mut Driver, go: &str, shown: &str) -> Vec<String> {
    let lines = engine.search(go);
    assert!(error(&lines).contains(shown), "{go}: {lines:#?}");
    assert_ne!(best_move(&lines), "0000");
    assert!(engine.ask("").is_empty(), "{go} has one answer");
    lines
}

#[test]
fn a_go_with_an_odd_parameter_has_its_move() {
    let mut engine = Driver::trivial();
    for (go, shown) in [
        (
            "go movestogo -1 wtime 500 btime 500",
            "movestogo: `-1` is not a whole number from 0 to 4294967295, so",
        ),
        ("go depth -1", "depth: `-1`"),
        ("go depth abc", "depth: `abc` is not a whole number from 0 to 4294967295, so it is left out"),
        ("go nodes -5", "nodes: `-5`"),
        ("go nodes", "nodes needs a whole number"),
        (
            "go nodes 1e2",
            "nodes: `1e2` is not a whole number from 0 to 18446744073709551615, so it is taken as 100",
        ),
        ("go mate -1 nodes 5", "mate: `-1`"),
        ("go movetime 12x", "movetime: `12x` is not a time in milliseconds, so it is left out"),
        ("go wtime x btime 100", "wtime: `x` is not a time in milliseconds"),
        ("go winc binc 0 nodes 5", "winc needs a time in milliseconds"),
        ("go searchmoves nodes 5", "searchmoves needs a move"),
        ("go wtime 300 btime 300 foo 7", "unexpected `foo 7` after go"),
        ("go foo", "unexpected `foo` after go"),
        ("go nodes 5 perft 5", "unexpected `perft 5` after go"),
        ("go depth 3 movetime 1 nodes x foo", "nodes: `x` is not"),
        ("go nodes 5 movestogo 1.5 mate ? depth ? winc ?", "; and 1 more"),
    ] {
        check_answer(&mut engine, go, shown);
    }
    let lines = check_answer(&mut engine, "go movetime 20 nodes 99999999999999999999", "nodes: ");
    assert!(lines.iter().any(|line| line.starts_with("info depth ")), "the search is one: {lines:#?}");
    // The largest times are no overflow, and an illegal move is left out.
    engine.send("go wtime 99999999999999999999 btime 9223372036854775807 winc 99999999999999999999");
    engine.send("stop");
    engine.until("bestmove ");
    assert_eq!(best_move(&engine.search("go nodes 9 searchmoves e2e5 a2a3")), "a2a3");
}

#[test]
fn a_go_that_cannot_be_understood_still_waits_for_stop_if_it_is_infinite() {
    let mut engine = Driver::trivial();
    for go in ["go infinite nodes x", "go ponder movetime x foo", "go searchmoves"] {
        let lines = engine.ask(go);
        error(&lines);
        assert_eq!(moves(&lines), 0, "{go}");
        engine.send("stop");
        engine.until("bestmove ");
        assert_eq!(moves(&engine.ask("")), 0, "{go}");
    }
}

#[test]
fn words_too_many_do_not_keep_an_answer_back() {
    let mut engine = Driver::trivial();
    engine.send("isready now");
    assert!(error(&engine.until("readyok")).contains("unexpected `now` after isready"));
    engine.send("uci please");
    assert!(error(&engine.until("uciok")).contains("unexpected `please` after uci"));
    engine.send_bytes(b"isready \xff\n");
    assert!(error(&engine.until("readyok")).contains("the line is not UTF-8"));
    engine.send_bytes(b"go nodes 5 \xff\n");
    assert!(error(&engine.until("bestmove ")).contains("the line is not UTF-8"));
    engine.send("go infinite");
    engine.send("stop it");
    assert!(error(&engine.until("bestmove ")).contains("unexpected `it` after stop"));
}

/// A move for the position before would be a move in another game.
#[test]
fn after_a_position_that_was_refused_the_answer_is_the_null_move() {
    let mut engine = Driver::trivial();
    let too_long = format!("position startpos moves {}", "g1f3 g8f6 f3g1 f6g8 ".repeat(60_000));
    for wrong in [
        "position startpos moves e2e5",
        "position fen 8/8 w - - 0 1",
        "position startpos moves e2e4 nonsense",
        "position startpos e2e4",
        "position",
        &too_long,
    ] {
        engine.ask(ONE_MOVE);
        let refused = engine.ask(wrong);
        let reason = error(&refused);
        for go in ["go nodes 5", "go", "go wtime 1000 btime 1000 searchmoves a1b2"] {
            let lines = engine.search(go);
            assert_eq!(best_move(&lines), "0000", "{wrong:.50} {go}");
            assert_eq!(error(&lines), format!("go: the last position was refused: {reason}"));
        }
        // UCI wants these answers at `stop` or `ponderhit`, and not before.
        for (go, then) in [("go infinite", "stop"), ("go ponder nodes 5", "ponderhit"), ("go ponder", "stop")]
        {
            assert_eq!(moves(&engine.ask(go)), 0, "{go}");
            engine.send(then);
            assert_eq!(best_move(&engine.until("bestmove ")), "0000", "{go}");
        }
        engine.ask("ucinewgame");
        assert_eq!(best_move(&engine.search("go nodes 5")), "0000");
        engine.ask(ONE_MOVE);
        assert_eq!(best_move(&engine.search("go nodes 5")), "a1b2");
    }
}

#[test]
fn a_position_that_is_refused_during_a_search_leaves_that_search_its_move() {
    let mut engine = Driver::trivial();
    engine.ask(ONE_MOVE);
    engine.send("go infinite");
    assert_eq!(moves(&engine.ask("position fen nonsense")), 0);
    let lines = engine.search("go nodes 5");
    assert_eq!(best_move(&lines), "a1b2");
    assert_eq!(best_move(&engine.until("bestmove ")), "0000");
}
