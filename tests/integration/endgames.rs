//! Endgames and mates as a GUI sees them: the score, the best move, and `go mate`.

use crate::driver::{Driver, best_move, nodes_of};
use crate::tablebases;
use rukh_chess::GameResult;
use rukh_chess::tablebase::Tablebases;
use rukh_chess::{Position, PositionHistory, uci_move};
use std::fs;

/// Endgames with known results: the moves to mate from the side to move's view (negative if it is mated, 0 for a draw)
/// and the FEN. `None` if the file with them does not exist.
fn known_endgames() -> Option<Vec<(i32, String)>> {
    let path = tablebases::directory()?.join("endgame-dm-4.epd");
    let Ok(text) = fs::read_to_string(&path) else {
        println!("skipped: there is no file {}", path.display());
        return None;
    };
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let endgame = |line: &str| {
        let (board, distance) = line.split_once(" dm ").expect("every line has a distance");
        let distance = distance.trim_end_matches(';').parse().expect("the distance is a number");
        (distance, format!("{board} 0 1"))
    };
    let endgames: Vec<(i32, String)> = lines.map(endgame).collect();
    assert!(endgames.len() >= 40);
    Some(endgames)
}

/// The last score: its kind (`cp` or `mate`), its value, and the moves of its principal variation.
fn last_score(lines: &[String]) -> (&str, i32, Vec<&str>) {
    let line = lines.iter().rfind(|line| line.contains(" score ")).expect("a line has a score");
    let (_, rest) = line.split_once(" score ").expect("this line has a score");
    let mut words = rest.split(' ');
    let kind = words.next().expect("score has a kind");
    let value = words.next().and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{line}"));
    let moves = line.split_once(" pv ").map_or(Vec::new(), |(_, moves)| moves.split(' ').collect());
    (kind, value, moves)
}

/// The game that begins at `fen` and in which `moves` are played.
fn play(fen: &str, moves: &[&str]) -> PositionHistory {
    let mut history = PositionHistory::new(Position::from_fen(fen).expect("a valid FEN"));
    for text in moves {
        let m = uci_move::parse(history.last(), text).unwrap_or_else(|error| panic!("{fen}: {error}"));
        history.push(m);
    }
    history
}

fn is_mate(history: &PositionHistory) -> bool {
    history.last().is_check() && history.last().legal_moves().is_empty()
}

#[test]
fn with_tables_every_score_and_every_move_is_right() {
    let Some(endgames) = known_endgames() else { return };
    let Some(directory) = tablebases::directory() else { return };
    let path = directory.to_str().expect("a readable path");
    let tables = Tablebases::open(path).expect("tables open");
    let mut engine = Driver::trivial();
    engine.ask(&format!("setoption name SyzygyPath value {path}"));
    engine.ask("setoption name UCI_ShowWDL value true");
    for (distance, fen) in endgames {
        engine.ask("ucinewgame");
        engine.ask(&format!("position fen {fen}"));
        let lines = engine.search("go nodes 100");
        let (kind, score, _) = last_score(&lines);
        let win_draw_loss = match distance.signum() {
            1 => " wdl 1000 0 0 ",
            0 => " wdl 0 1000 0 ",
            _ => " wdl 0 0 1000 ",
        };
        let line = lines.iter().rfind(|line| line.contains(" score ")).expect("a line has a score");
        assert!(line.contains(win_draw_loss), "{fen}: {line}");
        let history = play(&fen, &[best_move(&lines)]);
        match distance {
            0 => assert_eq!((kind, score), ("cp", 0), "{fen}"),
            1 => assert!((kind, score) == ("mate", 1) && is_mate(&history), "{fen}: {lines:?}"),
            // The tables do not know the length of a mate. One that the search has proven is never too short.
            2.. => assert!(
                if kind == "mate" { score >= distance } else { score > 9999 },
                "{fen}: {kind} {score}"
            ),
            ..0 => assert!(
                if kind == "mate" { score <= distance } else { score < -9999 },
                "{fen}: {kind} {score}"
            ),
        }
        if distance != 1 {
            // DTZ from the opponent's view.
            let left = tables.distance_to_zeroing(history.last()).expect("the tables cover it");
            assert_eq!(-left.signum(), distance.signum(), "{fen}: {}", best_move(&lines));
        }
    }
}

/// A GUI would take `mate 107` for a mate that somebody has found.
#[test]
fn a_win_by_the_tables_is_no_mate_score() {
    let mut engine = Driver::trivial();
    engine.ask(concat!("setoption name SyzygyPath value ", env!("CARGO_MANIFEST_DIR"), "/tests/data/syzygy"));
    for (fen, expected) in [
        // The tables know the root, here and with the loser to move.
        ("8/8/8/3k4/8/8/8/K5Q1 w - - 0 1", "cp 12800"),
        ("8/8/8/3k4/8/8/8/K5Q1 b - - 0 1", "cp -12800"),
        // The search reaches the tables by taking the rook.
        ("8/8/3k4/8/8/8/8/K2r3Q w - - 0 1", "cp 12800"),
        // The mate is there.
        ("7k/5K2/8/6Q1/8/8/8/8 w - - 0 1", "mate 1"),
    ] {
        engine.ask("ucinewgame");
        engine.ask(&format!("position fen {fen}"));
        let lines = engine.search("go nodes 50");
        let (kind, score, _) = last_score(&lines);
        assert_eq!(format!("{kind} {score}"), expected, "{fen}: {lines:#?}");
    }
}

#[test]
fn with_tables_won_endgames_are_won() {
    let Some(endgames) = known_endgames() else { return };
    let Some(directory) = tablebases::directory() else { return };
    let mut engine = Driver::trivial();
    engine.ask(&format!("setoption name SyzygyPath value {}", directory.display()));
    let won = endgames.into_iter().filter(|&(distance, _)| distance > 1);
    for (index, (_, fen)) in won.step_by(4).enumerate() {
        // Try both ways of choosing among the winning moves.
        engine.ask(&format!("setoption name SyzygyFastPlay value {}", index % 2 == 0));
        engine.ask("ucinewgame");
        let mut moves: Vec<String> = Vec::new();
        let winner = play(&fen, &[]).last().side_to_move();
        let history = loop {
            let history = play(&fen, &moves.iter().map(String::as_str).collect::<Vec<_>>());
            if history.result().is_some() {
                break history;
            }
            engine.send(&format!("position fen {fen} moves {}", moves.join(" ")));
            let lines = engine.search("go nodes 20");
            moves.push(best_move(&lines).to_owned());
        };
        assert_eq!(history.result(), Some(GameResult::Won(winner)), "{fen} {}", moves.join(" "));
    }
}

#[test]
fn a_mate_score_is_never_wrong_and_never_too_short() {
    let Some(endgames) = known_endgames() else { return };
    let mut engine = Driver::trivial();
    for (distance, fen) in endgames {
        engine.ask("ucinewgame");
        engine.ask(&format!("position fen {fen}"));
        let lines = engine.search("go nodes 2000");
        let (kind, score, _) = last_score(&lines);
        if distance == 1 {
            assert_eq!((kind, score), ("mate", 1), "{fen}");
        }
        if kind == "mate" {
            assert!(score.signum() == distance.signum() && score.abs() >= distance.abs(), "{fen}: {score}");
        }
    }
}

/// Positions with the number of moves of their shortest mate, as found by Stockfish. The last two are endgames with
/// four pieces, and all others are from games.
const MATES: [(i32, &str); 16] = [
    (1, "Q2r1b2/1pkbnp1p/2pp4/1P2p3/P1N5/2Pr3P/6B1/R1B1K2R w KQ - 2 23"),
    (1, "4B3/p7/4pk1p/6r1/P7/8/7P/1rR4K b - - 11 45"),
    (1, "4r3/1p3k2/p3p1RQ/3p3p/8/7P/PP4P1/6K1 w - - 1 34"),
    (1, "2kr3q/pp6/2p1p2p/5p2/4pQ2/bP2P3/P1PP1P1P/1K1R2R1 b - - 1 21"),
    (2, "r6Q/p3k2p/6RP/2p3P1/8/3Pp1qb/PP2P3/R6K w - - 3 29"),
    (2, "r7/6pk/5p2/3p3P/1P3P2/2P1P3/2KB3R/5q2 b - - 8 45"),
    (2, "4k1rR/2R1b3/1p2p1p1/r2p4/3P4/P2B4/1P3Q2/3K4 w - - 7 40"),
    (2, "5rk1/3pb3/1p2p1p1/1B2P3/5BKP/P7/P4q2/R7 b - - 0 28"),
    (2, "5R2/2p2r1p/1p3k2/1P3p1Q/2q1pP2/3n4/6PP/7K b - - 3 39"),
    (2, "4k3/8/p4Q2/1pp5/8/P2B1P2/3K3P/1R6 w - - 1 37"),
    (3, "QB6/8/4k3/2R4P/8/7P/4K3/8 w - - 1 65"),
    (3, "r4k2/p6p/6RP/2p3P1/8/2QPp1qb/PP2P3/R6K w - - 1 28"),
    (3, "4r1k1/1p6/p3pRpQ/3pn2p/8/7P/PP4P1/1B4K1 w - - 3 32"),
    (4, "7Q/P5pk/3p2rp/8/2P3N1/5qPP/5P1K/4r3 b - - 2 44"),
    (4, "1Q6/Q7/8/8/8/5k2/8/K7 w - - 0 1"),
    (7, "8/8/8/8/p7/8/N7/k1K5 w - - 0 1"),
];

#[test]
fn go_mate_finds_the_mate_and_stops() {
    let mut engine = Driver::start(&["--backend=trivial", "--threads=2"]);
    for (distance, fen) in MATES {
        engine.ask("ucinewgame");
        engine.ask(&format!("position fen {fen}"));
        let lines = engine.search(&format!("go mate {distance}"));
        let (kind, score, moves) = last_score(&lines);
        assert_eq!((kind, score), ("mate", distance), "{fen}");
        assert_eq!(moves[0], best_move(&lines), "{fen}");
        assert_eq!(moves.len() as i32, 2 * distance - 1, "{fen}: {moves:?}");
        assert!(is_mate(&play(fen, &moves)), "{fen}: {moves:?}");
    }
}

/// In these positions the search proves a longer mate before it finds the shortest one.
#[test]
fn go_mate_does_not_stop_at_a_longer_mate() {
    let mut engine = Driver::start(&["--backend=trivial", "--threads=2"]);
    for (distance, fen) in [
        (3, "3Q4/3N2k1/3Np2p/2P2p2/6p1/4P3/4BPPP/6K1 w - - 7 41"),
        (3, "4k3/2R1b1r1/1p2p1pR/r2p4/3P4/P2B4/1P3Q2/3K4 w - - 5 39"),
        (3, "8/Q6p/3k4/p3R3/8/P7/4K3/8 w - - 5 50"),
        (4, "6r1/5p2/p3p2k/1p6/3q3P/6PK/5P2/8 b - - 1 39"),
    ] {
        engine.ask("ucinewgame");
        engine.ask(&format!("position fen {fen}"));
        let lines = engine.search(&format!("go mate {distance}"));
        let (kind, score, _) = last_score(&lines);
        assert_eq!((kind, score), ("mate", distance), "{fen}");
    }
}

#[test]
fn go_mate_reports_that_there_is_no_mate_of_that_length() {
    let mut one_thread = Driver::trivial();
    let mut two_threads = Driver::start(&["--backend=trivial", "--threads=2"]);
    for (distance, fen) in MATES.into_iter().filter(|&(distance, _)| (2..=4).contains(&distance)) {
        for engine in [&mut one_thread, &mut two_threads] {
            engine.ask("ucinewgame");
            engine.ask(&format!("position fen {fen}"));
            engine.send(&format!("go mate {}", distance - 1));
            engine.until(&format!("info string there is no mate in {};", distance - 1));
        }
        two_threads.search("stop");
        // The search goes on, and finds a longer mate. With one thread it needs no more than 110,000 nodes. With two, the
        // nodes that it needs depend on chance, and can be many millions.
        let found = std::iter::repeat_with(|| one_thread.until("info depth")).take(200);
        let found = found.flatten().any(|line| line.contains(" score mate "));
        assert!(found, "{fen}");
        one_thread.search("stop");
    }
}

#[test]
fn a_limit_ends_the_search_for_a_mate() {
    let mut engine = Driver::trivial();
    for limit in ["nodes 3000", "movetime 300", "depth 3"] {
        engine.ask("position startpos");
        engine.search(&format!("go mate 3 {limit}"));
    }
}

/// Proven moves are not searched again, and an earlier search may have proven a longer mate. `go mate` must therefore
/// begin with an empty tree.
#[test]
fn go_mate_begins_with_an_empty_tree() {
    let (distance, fen) = MATES[8];
    let mut engine = Driver::trivial();
    engine.ask("setoption name SmartPruningFactor value 0");
    engine.ask(&format!("position fen {fen}"));
    engine.search("go nodes 50000");
    let lines = engine.search(&format!("go mate {distance}"));
    assert_eq!(last_score(&lines).1, distance);
    assert!((1..40_000).contains(&nodes_of(&lines)), "{lines:#?}");
}

#[test]
fn go_mate_without_a_mate_goes_on_until_stop() {
    let mut engine = Driver::trivial();
    engine.ask("position startpos");
    engine.send("go mate 2");
    std::thread::sleep(std::time::Duration::from_millis(500));
    let said = engine.ask("");
    assert!(!said.iter().any(|line| line.starts_with("bestmove")), "{said:#?}");
    engine.search("stop");
}

#[test]
fn a_side_that_is_being_mated_gets_a_negative_mate_score() {
    let mut engine = Driver::trivial();
    for (moves, fen, played) in [
        (-1, "4k1rR/2R1b3/1p2p1p1/r2p4/3P4/P2B4/1P3Q2/3K4 w - - 7 40", "h8g8"),
        (-1, "5rk1/3pb3/1p2p1p1/1B2P3/5BKP/P7/P4q2/R7 b - - 0 28", "f8f4"),
        (-3, "1Q6/Q7/8/8/8/5k2/8/K7 w - - 0 1", "a7f7"),
    ] {
        engine.ask("ucinewgame");
        engine.ask("setoption name SmartPruningFactor value 0");
        engine.ask(&format!("position fen {fen} moves {played}"));
        let lines = engine.search("go nodes 100000");
        let (kind, score, line) = last_score(&lines);
        // The mate that is proven first need not be the shortest one.
        assert!(kind == "mate" && (moves - 1..=moves).contains(&score), "{fen}: {kind} {score}");
        let line: Vec<&str> = std::iter::once(played).chain(line).collect();
        assert!(is_mate(&play(fen, &line)), "{fen}: {line:?}");
        // `go mate` reports such a score too.
        let lines = engine.search("go mate 2");
        let (kind, score, _) = last_score(&lines);
        assert!(kind == "mate" && (moves - 1..=moves).contains(&score), "{fen}: {kind} {score}");
    }
}

/// Roots that are proven after a few visits: a draw by insufficient material, a side that is mated in one, and a mate
/// in one.
const SOLVED: [&str; 3] = [
    "8/8/8/4k3/8/8/4K3/6N1 w - - 0 1",
    "7k/8/5K2/6Q1/8/8/8/8 b - - 0 1",
    "6k1/5ppp/8/8/8/8/8/K2R4 w - - 0 1",
];

#[test]
fn a_search_ends_once_its_root_is_proven() {
    for fen in &SOLVED[..2] {
        for options in ["1.33", "0"] {
            let mut engine = Driver::trivial();
            engine.ask(&format!("setoption name SmartPruningFactor value {options}"));
            for limit in ["nodes 1000000000", "movetime 60000", "wtime 600000 btime 600000"] {
                engine.ask(&format!("position fen {fen}"));
                let begun = std::time::Instant::now();
                let lines = engine.search(&format!("go {limit}"));
                assert!(begun.elapsed().as_secs() < 10, "{fen}: go {limit}");
                assert!(last_score(&lines).1 <= 0, "{lines:#?}");
            }
        }
    }
}

#[test]
fn go_infinite_sleeps_once_its_root_is_proven() {
    for fen in SOLVED {
        let mut engine = Driver::trivial();
        engine.ask(&format!("position fen {fen}"));
        engine.send("go infinite");
        engine.until("info depth");
        std::thread::sleep(std::time::Duration::from_millis(200));
        let Some(before) = processor_time(engine.process_id()) else { return };
        std::thread::sleep(std::time::Duration::from_secs(1));
        let used = processor_time(engine.process_id()).map_or(0, |after| after - before);
        assert!(used < 20, "{fen}: {used} hundredths of a second of processor time in one second");
        let said = engine.search("stop");
        assert!(said.len() < 20, "{fen}: {said:#?}");
        assert!(best_move(&said) != "0000", "{fen}");
    }
}

/// The processor time that a process has used, in hundredths of a second. `None` where there is no `/proc`.
fn processor_time(process: u32) -> Option<u64> {
    let Ok(stat) = fs::read_to_string(format!("/proc/{process}/stat")) else {
        println!("skipped: processor time is read from /proc, which this system does not have");
        return None;
    };
    // The name of the program may contain spaces; it ends with the last parenthesis.
    let (_, fields) = stat.rsplit_once(") ")?;
    let ticks = fields.split(' ').skip(11).take(2);
    ticks.map(|field| field.parse::<u64>().ok()).sum()
}
