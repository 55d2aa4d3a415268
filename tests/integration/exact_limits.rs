//! Searches without a clock use their limits: `go nodes` and `go movetime` end early only by a proof or for lack of choice,
//! and no root move is skipped for its few visits.

use super::search::{KIWIPETE, MIDDLEGAME, Session, nodes};
use rukh_search::{GoParams, Score};
use std::time::{Duration, Instant};

/// Positions in which one move is much better than the others, and others.
const POSITIONS: [&str; 6] = [
    KIWIPETE,
    MIDDLEGAME,
    "rnbqkbnr/pppp1ppp/8/4p3/3P4/8/PPP1PPPP/RNBQKBNR w KQkq - 0 2",
    "r1bqkbnr/pppp1ppp/2n5/1B2p3/4P3/5N2/PPPP1PPP/RNBQK2R b KQkq - 3 3",
    "8/5pk1/6p1/3R4/1p5P/1P3PP1/r5PK/8 b - - 0 40",
    "r2q1rk1/ppp2ppp/2np1n2/2b1p1B1/2B1P1b1/2NP1N2/PPP2PPP/R2QR1K1 w - - 6 8",
];

#[test]
fn go_nodes_makes_the_nodes_that_it_says() {
    const LIMIT: u64 = 800;
    const BATCH: u64 = 32;
    for (backend, threads) in [("trivial", "1"), ("random", "1"), ("trivial", "2")] {
        for multipv in ["1", "5"] {
            let settings =
                [("Backend", backend), ("Threads", threads), ("MultiPV", multipv), ("MinibatchSize", "32")];
            for fen in POSITIONS {
                let mut session = Session::new(&settings);
                let mut moves = String::new();
                for ply in 0..2 {
                    session.position(Some(fen), &moves);
                    let (info, best) = session.go(nodes(LIMIT));
                    let found = info.nodes.expect("a count of nodes");
                    assert!(
                        (LIMIT..=LIMIT + BATCH).contains(&found)
                            || matches!(info.score, Some(Score::Mate(_))),
                        "{settings:?} {fen} ply {ply}: {info:?}"
                    );
                    moves = format!("{moves} {best}");
                }
            }
        }
    }
}

#[test]
fn go_nodes_makes_the_nodes_that_it_says_with_a_network() {
    let mut session = Session::new(&[("Backend", "cpu"), ("MultiPV", "5")]);
    let mut moves = String::new();
    for _ in 0..2 {
        session.position(Some(POSITIONS[2]), &moves);
        let (info, best) = session.go(nodes(50));
        assert_eq!(info.nodes, Some(50), "{info:?}");
        moves = format!("{moves} {best}");
    }
}

/// The figures of all root moves are those of a search that smart pruning leaves alone.
#[test]
fn no_root_move_is_skipped_for_its_few_visits() {
    let search = |fen: &str, factor: Option<&str>, multipv: &str, go: &GoParams| -> Vec<String> {
        let factor = factor.map(|factor| ("SmartPruningFactor", factor));
        let settings = [("VerboseMoveStats", "true"), ("MultiPV", multipv)];
        let mut session = Session::new(&settings.into_iter().chain(factor).collect::<Vec<_>>());
        session.position(Some(fen), "");
        session.go(go.clone());
        session.infos().into_iter().map(|info| info.comment).filter(|line| !line.is_empty()).collect()
    };
    let depth = GoParams { depth: Some(5), ..GoParams::default() };
    for (fen, multipv, go) in POSITIONS
        .iter()
        .flat_map(|&fen| [(fen, "1", nodes(800)), (fen, "5", nodes(800)), (fen, "5", depth.clone())])
    {
        let all = search(fen, Some("0"), multipv, &go);
        assert_eq!(search(fen, None, multipv, &go), all, "{fen}");
        // Programs that send every option send its default.
        assert_eq!(search(fen, Some("1.33"), multipv, &go), all, "{fen}");
    }
}

#[test]
fn a_factor_of_the_user_ends_searches_early_as_in_lc0() {
    let ends_early = |fen: &&&str| {
        let mut session = Session::new(&[("SmartPruningFactor", "1.34")]);
        session.position(Some(fen), "");
        session.go(nodes(800)).0.nodes < Some(750)
    };
    assert!(POSITIONS.iter().filter(ends_early).count() >= 3);
}

#[test]
fn movetime_uses_its_time() {
    // White must take back the queen.
    let mut session = Session::new(&[("MoveOverheadMs", "0")]);
    session.position(Some("rnb1kbnr/ppp2ppp/8/4p3/8/8/PPP2PPP/RNBqKBNR w KQkq - 0 5"), "");
    // The king and nothing else takes it: there is nothing to choose.
    let (info, _) = session.go(nodes(800));
    assert!(info.nodes < Some(800), "{info:?}");
    session.position(Some("rnb1kbnr/ppp2ppp/8/4p3/8/8/PPPQ1PPP/RNBqKBNR w KQkq - 0 5"), "");
    let begun = Instant::now();
    session.go(GoParams { movetime: Some(500), ..GoParams::default() });
    assert!(begun.elapsed() >= Duration::from_millis(490), "{:?}", begun.elapsed());
}

const MATE_IN_ONE: &str = "6k1/5ppp/8/8/8/8/8/K2R4 w - - 0 1";

/// Nearly all visits would end in the win, so that their average depth might never reach the limit.
#[test]
fn a_proven_win_ends_an_ordinary_search_to_a_depth() {
    for settings in [&[("MultiPV", "3")][..], &[("SmartPruningFactor", "0")]] {
        let mut session = Session::new(settings);
        session.position(Some(MATE_IN_ONE), "");
        let (info, best) =
            session.go(GoParams { depth: Some(5), movetime: Some(20_000), ..GoParams::default() });
        assert_eq!((best.as_str(), info.score), ("d1d8", Some(Score::Mate(1))));
        assert!(info.time_ms.is_some_and(|time_ms| time_ms < 10_000), "{info:?}");
    }
}

#[test]
fn a_proven_win_ends_the_search_of_a_single_line() {
    for (multipv, uses_all) in [("1", false), ("3", true)] {
        let mut session = Session::new(&[("MultiPV", multipv)]);
        session.position(Some(MATE_IN_ONE), "");
        let (info, best) = session.go(nodes(800));
        assert_eq!((best.as_str(), info.score), ("d1d8", Some(Score::Mate(1))));
        assert_eq!(info.nodes == Some(800), uses_all, "{info:?}");
    }
}
