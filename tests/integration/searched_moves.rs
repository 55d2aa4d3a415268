//! `go searchmoves`: limits, figures and the move see only what lies below the searched moves, whatever the tree holds.

use super::search::{KIWIPETE, MIDDLEGAME, Session, nodes, text};
use rukh_chess::uci_move;
use rukh_search::{GoParams, Score, ThinkingInfo};
use std::time::{Duration, Instant};

fn only(moves: &[&str], go: GoParams) -> GoParams {
    GoParams { searchmoves: moves.iter().map(|&m| m.to_owned()).collect(), ..go }
}

/// The visits of a root move. The search has ended.
fn visits_of(session: &mut Session, m: &str) -> u32 {
    let position = session.engine.position().clone();
    let tree = session.engine.finished_tree();
    tree.check_invariants().expect("a sound tree");
    let mut links = tree.links(tree.node(tree.root()));
    let found =
        links.find(|(_, link)| uci_move::text(link.edge().packed_move().unpack(&position), false) == m);
    found.map_or(0, |(_, link)| link.visits())
}

fn first(info: &ThinkingInfo) -> String {
    text(info.pv.first().copied())
}

/// Scores have four digits, so that they differ from move to move.
fn session(settings: &[(&str, &str)]) -> Session {
    Session::new(&[&[("ScoreType", "Q")], settings].concat())
}

#[test]
fn a_single_searched_move_gets_all_nodes_and_its_own_score() {
    for (threads, most) in [("1", 800), ("3", 832)] {
        let mut session = session(&[("Threads", threads), ("MinibatchSize", "32")]);
        let mut scores = Vec::new();
        for m in ["f2f3", "e2e4", "g2g4", "d2d4"] {
            session.position(None, "");
            let (info, best) = session.go(only(&[m], nodes(800)));
            assert_eq!((best.as_str(), first(&info).as_str()), (m, m), "{info:?}");
            assert!(info.pv.len() > 2 && info.depth > Some(2), "{info:?}");
            assert!((Some(800)..=Some(most)).contains(&info.nodes), "{info:?}");
            scores.push(info.score);
            let visits = u64::from(visits_of(&mut session, m));
            assert!((800..=most).contains(&visits), "{visits}");
        }
        scores.dedup();
        assert_eq!(scores.len(), 4, "{scores:?}");
        // The search of all moves goes on with the same tree.
        let (info, _) = session.go(nodes(4000));
        assert!((Some(4000)..=Some(3200 + most)).contains(&info.nodes), "{info:?}");
    }
}

#[test]
fn a_search_of_one_node_evaluates_the_searched_move() {
    let mut session = session(&[]);
    let mut scores = Vec::new();
    for m in ["g5h7", "d3e3"] {
        session.position(Some("4k3/7p/8/6N1/8/3R4/8/4K3 w - - 0 1"), "");
        let (info, best) = session.go(only(&[m], nodes(1)));
        assert_eq!((best.as_str(), info.nodes, visits_of(&mut session, m)), (m, Some(1), 1));
        scores.push(info.score);
    }
    assert_ne!(scores[0], scores[1]);
}

/// Neither the visits of other moves nor their values play a part: the search is the one that a new tree gets.
#[test]
fn a_search_of_some_moves_is_the_same_whatever_was_searched_before() {
    let searched = ["e5f7", "e2a6", "d5e6"];
    let settings = [("MultiPV", "3"), ("GraphSearch", "false"), ("NNCacheSize", "0")];
    let search = |before: Option<&str>, settings: &[(&str, &str)]| {
        let mut session = session(settings);
        session.position(Some(KIWIPETE), "");
        if let Some(m) = before {
            session.go(only(&[m], nodes(3000)));
        }
        let (info, best) = session.go(only(&searched, nodes(600)));
        let visits = searched.map(|m| visits_of(&mut session, m));
        assert_eq!((visits.iter().sum::<u32>(), info.nodes), (600, Some(600)), "{visits:?}");
        (best, info.score, info.wdl, info.pv, visits)
    };
    for classic in [&[][..], &[("Search", "classic")]] {
        let settings = [&settings[..], classic].concat();
        let fresh = search(None, &settings);
        assert_eq!(search(Some("a2a3"), &settings), fresh, "{settings:?}");
        assert_eq!(search(Some("e1g1"), &settings), fresh, "{settings:?}");
    }
}

#[test]
fn visits_that_the_searched_moves_have_already_count() {
    let mut session = session(&[]);
    session.position(None, "");
    session.go(only(&["e2e4"], nodes(500)));
    session.go(only(&["f2f3"], nodes(300)));
    let (info, _) = session.go(only(&["e2e4", "f2f3"], nodes(1000)));
    assert_eq!(info.nodes, Some(1000));
    assert_eq!(visits_of(&mut session, "e2e4") + visits_of(&mut session, "f2f3"), 1000);
    // Enough visits are answered at once, with the move's own figures.
    let (info, _) = session.go(only(&["f2f3"], nodes(200)));
    assert_eq!(
        (first(&info), info.nodes),
        ("f2f3".to_owned(), Some(u64::from(visits_of(&mut session, "f2f3"))))
    );
    // As playouts, only new visits count.
    session.engine.set_option("NodesAsPlayouts", "true").expect("an option");
    let before = visits_of(&mut session, "e2e4");
    session.go(only(&["e2e4"], nodes(250)));
    assert_eq!(visits_of(&mut session, "e2e4"), before + 250);
}

#[test]
fn every_line_is_one_of_the_searched_moves() {
    let mut session = session(&[("MultiPV", "4"), ("VerboseMoveStats", "true")]);
    session.position(Some(MIDDLEGAME), "");
    session.go(nodes(500));
    let searched = ["a7a5", "h7h5", "d8c7"];
    session.forget();
    session.go(only(&searched, nodes(900)));
    let infos = session.infos();
    assert!(infos.len() > 3);
    for info in &infos {
        if info.comment.is_empty() {
            assert!(searched.contains(&first(info).as_str()), "{info:?}");
        }
    }
    let lines: Vec<_> = infos.iter().filter(|info| info.comment.is_empty()).collect();
    let last: Vec<_> = lines[lines.len() - 3..].iter().map(|info| (info.multipv, info.nodes)).collect();
    assert_eq!(last, [(Some(1), Some(900)), (Some(2), Some(900)), (Some(3), Some(900))]);
    // One line for each of the three moves, and one for the root.
    assert_eq!(infos.iter().filter(|info| !info.comment.is_empty()).count(), 4);
}

#[test]
fn every_limit_works_with_a_searched_move() {
    let mut session = session(&[("MoveOverheadMs", "0")]);
    session.position(Some(MIDDLEGAME), "");
    session.go(only(&["a7a5"], nodes(2000)));
    let depth = GoParams { depth: Some(4), ..GoParams::default() };
    let (info, _) = session.go(only(&["h7h6"], depth));
    assert!(first(&info) == "h7h6" && info.depth == Some(4) && info.nodes > Some(10), "{info:?}");
    // A depth that the evaluation of the root has by itself still asks for the move's.
    let depth = GoParams { depth: Some(1), ..GoParams::default() };
    let (info, _) = session.go(only(&["d8d7"], depth));
    assert!(first(&info) == "d8d7" && info.nodes >= Some(1), "{info:?}");

    let begun = Instant::now();
    let (info, best) = session.go(only(&["b7b6"], GoParams { movetime: Some(300), ..GoParams::default() }));
    // A busy machine's lag in the searches before is taken off.
    assert!(begun.elapsed() >= Duration::from_millis(200), "{:?}", begun.elapsed());
    assert!(best == "b7b6" && info.nodes > Some(50), "{info:?}");

    // On the clock, too, a searched move is not the only move.
    let clock = GoParams { btime: Some(4000), wtime: Some(4000), ..GoParams::default() };
    let (info, best) = session.go(only(&["c5c4"], clock));
    assert!(best == "c5c4" && info.nodes > Some(50), "{info:?}");

    session
        .engine
        .go(&only(&["g7g5"], GoParams { infinite: true, ..GoParams::default() }))
        .expect("it starts");
    std::thread::sleep(Duration::from_millis(100));
    assert!(session.engine.is_searching());
    session.engine.stop();
    session.engine.wait();
    assert!(visits_of(&mut session, "g7g5") > 20);
}

#[test]
fn a_mate_is_looked_for_below_the_searched_moves_only() {
    // Rd8 mates. After Rc1 White mates on the next move at the earliest.
    let mut session = session(&[]);
    session.position(Some("6k1/5ppp/8/8/8/8/8/K2R4 w - - 0 1"), "");
    let mate_in_one = GoParams { mate: Some(1), ..nodes(300) };
    let (info, best) = session.go(only(&["d1c1"], mate_in_one.clone()));
    assert!(best == "d1c1" && !matches!(info.score, Some(Score::Mate(1))), "{info:?}");
    let (info, best) = session.go(only(&["d1d8"], mate_in_one));
    assert_eq!((best.as_str(), info.score), ("d1d8", Some(Score::Mate(1))));
}

#[test]
fn the_single_legal_move_is_searched_if_the_user_asks_for_it() {
    let mut session = session(&[]);
    session.position(Some("k7/8/8/8/8/8/1r6/K6Q w - - 10 60"), "");
    let (info, best) = session.go(only(&["a1b2"], nodes(500)));
    assert_eq!((best.as_str(), info.nodes), ("a1b2", Some(500)));
}
