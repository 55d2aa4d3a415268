//! A scripted session for each feature of the protocol, through the real binary.

use crate::driver::{Driver, best_move};
use std::time::{Duration, Instant};

/// The word after `name` in an info line.
fn field<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let words: Vec<&str> = line.split(' ').collect();
    let place = words.iter().position(|&word| word == name)?;
    words.get(place + 1).copied()
}

fn number(line: &str, name: &str) -> i64 {
    field(line, name).unwrap_or_else(|| panic!("no {name} in {line}")).parse().unwrap()
}

/// The last `count` info lines with a principal variation.
fn last_infos(lines: &[String], count: usize) -> Vec<&str> {
    let infos: Vec<&str> = lines.iter().map(String::as_str).filter(|line| line.contains(" pv ")).collect();
    infos[infos.len() - count..].to_vec()
}

const MIDDLEGAME: &str = "position fen r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 10";

#[test]
fn info_lines_have_lc0s_fields_in_lc0s_order() {
    let mut engine = Driver::trivial();
    engine.ask(MIDDLEGAME);
    let lines = engine.search("go nodes 2000");
    for line in lines.iter().filter(|line| line.contains(" pv ")) {
        let names: Vec<&str> =
            line.split(' ').filter(|word| word.starts_with(|c: char| c.is_ascii_lowercase())).collect();
        let expected = ["info", "depth", "seldepth", "time", "nodes", "score"];
        assert_eq!(&names[..6], &expected, "{line}");
        let rest: Vec<&str> = names[7..].iter().copied().take_while(|&name| name != "pv").collect();
        assert!(rest == ["nps", "tbhits"] || rest == ["tbhits"], "{line}");
    }
    let last = last_infos(&lines, 1)[0];
    assert_eq!(best_move(&lines), field(last, "pv").unwrap());
    assert!(number(last, "seldepth") >= number(last, "depth"));
}

#[test]
fn optional_fields_are_shown_on_request() {
    let mut engine = Driver::trivial();
    for option in ["UCI_ShowWDL", "UCI_ShowEPS", "UCI_ShowMovesLeft"] {
        assert_eq!(engine.ask(&format!("setoption name {option} value true")), [""; 0]);
    }
    engine.ask(MIDDLEGAME);
    let lines = engine.search("go nodes 5000");
    let last = last_infos(&lines, 1)[0];
    let (_, wdl) = last.split_once(" wdl ").unwrap();
    let wdl: i64 = wdl.split(' ').take(3).map(|share| share.parse::<i64>().unwrap()).sum();
    assert_eq!(wdl, 1000, "{last}");
    if last.contains(" nps ") {
        assert!(last.contains(" eps "), "{last}");
    }
    engine.ask("setoption name UCI_ShowWDL value false");
    assert!(!engine.search("go nodes 6000").concat().contains(" wdl "));
}

/// A user who waits must see that something happens, also while nothing changes.
#[test]
fn info_lines_come_every_second() {
    let mut engine = Driver::trivial();
    engine.ask("setoption name NodesPerSecondLimit value 2");
    engine.send("go infinite");
    engine.until("info depth");
    for _ in 0..5 {
        let line = engine.next_line_within(Duration::from_millis(1900));
        assert!(line.is_some_and(|line| line.starts_with("info depth ")), "a line comes in time");
    }
    engine.search("stop");
}

#[test]
fn multipv_sets_the_number_of_lines() {
    let mut engine = Driver::trivial();
    engine.ask("setoption name MultiPV value 3");
    engine.ask(MIDDLEGAME);
    let lines = engine.search("go nodes 1000");
    let infos = last_infos(&lines, 3);
    let ranks: Vec<i64> = infos.iter().map(|line| number(line, "multipv")).collect();
    assert_eq!(ranks, [1, 2, 3]);
    let mut firsts: Vec<&str> = infos.iter().map(|line| field(line, "pv").unwrap()).collect();
    assert_eq!(best_move(&lines), firsts[0]);
    firsts.sort_unstable();
    firsts.dedup();
    assert_eq!(firsts.len(), 3);

    engine.ask("setoption name PerPVCounters value true");
    let lines = engine.search("go nodes 2000");
    let nodes: Vec<i64> = last_infos(&lines, 3).iter().map(|line| number(line, "nodes")).collect();
    assert!(nodes.is_sorted_by(|a, b| a >= b) && nodes.iter().sum::<i64>() < 2000, "{nodes:?}");
}

#[test]
fn score_types_agree_about_who_is_better() {
    let mut engine = Driver::trivial();
    // White is a queen up.
    engine.ask("position fen 4k3/pppp4/8/8/8/8/PPPP4/3QK3 w - - 0 1");
    for (score_type, at_least, at_most) in [
        ("centipawn", 50, 13_000),
        ("centipawn_with_drawscore", 50, 13_000),
        ("centipawn_2019", 50, 13_000),
        ("centipawn_2018", 50, 13_000),
        ("win_percentage", 5100, 10_000),
        ("Q", 500, 10_000),
        ("W-L", 500, 10_000),
        ("WDL_mu", 20, 13_000),
    ] {
        engine.ask(&format!("setoption name ScoreType value {score_type}"));
        let lines = engine.search("go nodes 100");
        let last = last_infos(&lines, 1)[0];
        assert!((at_least..=at_most).contains(&number(last, "cp")), "{score_type}: {last}");
    }
}

#[test]
fn verbose_statistics_have_lc0s_columns() {
    let mut engine = Driver::trivial();
    engine.ask("setoption name VerboseMoveStats value true");
    engine.ask("position startpos");
    let lines = engine.search("go nodes 100");
    let stats: Vec<&String> = lines.iter().filter(|line| line.contains(" N: ")).collect();
    assert_eq!(stats.len(), 21, "20 moves and the node: {stats:#?}");
    // The line of the node itself has no U and no S.
    const COLUMNS: [&str; 12] =
        ["info string ", "(", ") N: ", "(+", "(P: ", "(WL: ", "(D: ", "(M: ", "(Q: ", "(U: ", "(S: ", "(V: "];
    for (index, line) in stats.iter().enumerate() {
        let mut rest = line.as_str();
        for column in COLUMNS.iter().filter(|column| index < 20 || !matches!(**column, "(U: " | "(S: ")) {
            let Some(place) = rest.find(column) else { panic!("no {column} in {line}") };
            rest = &rest[place + column.len()..];
        }
    }
    assert!(stats[20].starts_with("info string node "), "{}", stats[20]);
}

#[test]
fn go_keeps_to_each_of_its_limits() {
    let mut engine = Driver::trivial();
    engine.ask("setoption name SmartPruningFactor value 0");
    engine.ask(MIDDLEGAME);
    let lines = engine.search("go nodes 300");
    let nodes = number(last_infos(&lines, 1)[0], "nodes");
    assert!((300..600).contains(&nodes), "{nodes}");

    let start = Instant::now();
    let lines = engine.search("go movetime 400");
    let took = start.elapsed();
    assert!(took >= Duration::from_millis(390) && took < Duration::from_secs(5), "{took:?}: {lines:#?}");

    engine.ask("ucinewgame");
    engine.ask(MIDDLEGAME);
    let lines = engine.search("go depth 4");
    assert!(number(last_infos(&lines, 1)[0], "depth") >= 4);

    engine.ask("position fen 6k1/5ppp/8/8/8/8/8/R5K1 w - - 0 1");
    let lines = engine.search("go mate 1");
    assert_eq!((best_move(&lines), number(last_infos(&lines, 1)[0], "mate")), ("a1a8", 1));

    engine.ask("position startpos");
    let lines = engine.search("go nodes 100 searchmoves a2a4 h2h4");
    assert!(["a2a4", "h2h4"].contains(&best_move(&lines)));

    let start = Instant::now();
    engine.search("go wtime 2000 btime 2000 winc 20 binc 20 movestogo 40");
    assert!(start.elapsed() < Duration::from_secs(2));
}

#[test]
fn infinite_search_waits_for_stop() {
    let mut engine = Driver::trivial();
    // There is only one legal move, but it must not be played before `stop`.
    engine.ask("position fen 7k/8/8/8/8/8/1q6/K7 w - - 0 1");
    engine.send("go infinite");
    std::thread::sleep(Duration::from_millis(300));
    let said = engine.ask("");
    assert!(!said.iter().any(|line| line.starts_with("bestmove")), "{said:#?}");
    assert_eq!(best_move(&engine.search("stop")), "a1b2");
}

#[test]
fn pondering_ends_in_ponderhit_or_stop() {
    let mut engine = Driver::trivial();
    engine.ask("setoption name Ponder value true");
    for end in ["ponderhit", "stop"] {
        engine.ask("position startpos moves e2e4 e7e5");
        engine.send("go ponder wtime 1000 btime 1000");
        std::thread::sleep(Duration::from_millis(200));
        let said = engine.ask("");
        assert!(!said.iter().any(|line| line.starts_with("bestmove")), "{said:#?}");
        engine.search(end);
    }
    assert!(engine.ask("ponderhit")[0].starts_with("info string error: "));
}

#[test]
fn a_finished_game_is_answered_with_the_null_move() {
    let mut engine = Driver::trivial();
    for fen in ["7k/5KQ1/8/8/8/8/8/8 b - - 0 1", "7k/5K2/6Q1/8/8/8/8/8 b - - 0 1"] {
        engine.ask(&format!("position fen {fen}"));
        assert_eq!(engine.search("go nodes 50").last().unwrap(), "bestmove 0000");
    }
}

#[test]
fn commands_during_a_search_are_obeyed() {
    let mut engine = Driver::trivial();
    engine.send("position startpos");
    engine.send("go infinite");
    engine.until("info");
    // Options apply to the next search, nonsense is refused, and the search goes on.
    let said = engine.ask("setoption name MultiPV value 2");
    assert!(said.iter().all(|line| line.starts_with("info depth")), "{said:#?}");
    let said = engine.ask("nonsense");
    assert!(said.iter().any(|line| line.contains("unknown command")), "{said:#?}");
    // A new search ends the old one, which answers first: one best move for every go.
    engine.send("position startpos moves e2e4");
    engine.send("go nodes 100");
    let lines = engine.until("bestmove");
    assert!(best_move(&lines).ends_with(['3', '4']), "White's move: {}", best_move(&lines));
    let lines = engine.until("bestmove");
    assert!(best_move(&lines).ends_with(['5', '6']), "Black's move: {}", best_move(&lines));
    assert_eq!(engine.ask(""), [""; 0]);
}

#[test]
fn a_search_that_cannot_start_gives_the_reason_and_then_a_move() {
    let mut engine = Driver::start(&["--backend=cpu", "--weights=/no/such/network.pb.gz"]);
    engine.send("position startpos");
    engine.send("go nodes 10");
    let lines = engine.until("bestmove");
    let reason = lines.iter().position(|line| line.contains("/no/such/network.pb.gz"));
    let answer = lines.iter().position(|line| line.starts_with("bestmove "));
    assert!(reason.is_some() && reason < answer, "{lines:?}");
    assert_ne!(best_move(&lines), "0000");
}

#[test]
fn statistics_name_castling_as_the_king_taking_its_rook() {
    let mut engine = Driver::trivial();
    engine.ask("setoption name VerboseMoveStats value true");
    engine.ask(MIDDLEGAME);
    let lines = engine.search("go nodes 200");
    let castling = lines.iter().filter(|line| line.starts_with("info string e1h1 ")).count();
    assert_eq!(castling, 1, "{lines:?}");
}
