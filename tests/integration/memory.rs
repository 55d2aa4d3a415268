//! A search that has used up its memory goes on: it stays near the limit, keeps a sound tree, and finds the same move.

use crate::search::{KIWIPETE, Session, nodes};
use rukh::search::{GoParams, Score};

/// One million bytes for the tree, which are about nine thousand nodes.
const TINY: [(&str, &str); 2] = [("RamLimitMb", "1"), ("NNCacheSize", "0")];
const LIMIT_BYTES: u64 = 1_000_000;

fn session(settings: &[(&str, &str)]) -> Session {
    let all: Vec<_> = TINY.iter().chain(settings).copied().chain([("SmartPruningFactor", "0")]).collect();
    Session::new(&all)
}

#[test]
fn a_search_far_beyond_its_memory_finds_the_move() {
    // Several threads search differently each time, so they get a position in which one move is clearly best.
    let queen_hangs = "rnb1kbnr/pppp1ppp/8/4p3/3P2q1/5N1P/PPP1PPP1/RNBQKB1R w KQkq - 0 1";
    for (fen, threads) in [(KIWIPETE, &["1"][..]), (queen_hangs, &["1", "4"])] {
        let mut unlimited = Session::new(&[("SmartPruningFactor", "0"), ("NNCacheSize", "0")]);
        unlimited.position(Some(fen), "");
        let (_, expected) = unlimited.go(nodes(150_000));
        for &threads in threads {
            let mut session = session(&[("Threads", threads)]);
            session.position(Some(fen), "");
            let (info, best) = session.go(nodes(150_000));
            assert!(info.pv.len() > 3, "the principal variation must be kept: {info:?}");
            let tree = session.engine.finished_tree();
            tree.check_invariants().unwrap_or_else(|broken| panic!("{threads} threads: {broken}"));
            assert!(tree.node(tree.root()).visits() >= 150_000);
            assert!(tree.used_bytes() < LIMIT_BYTES * 12 / 10, "{} bytes are used", tree.used_bytes());
            assert!(
                tree.reserved_bytes() < LIMIT_BYTES * 15 / 10,
                "{} bytes are reserved",
                tree.reserved_bytes()
            );
            assert_eq!(best, expected, "{fen} with {threads} threads");
        }
    }
}

#[test]
fn batches_in_flight_keep_their_nodes() {
    let device =
        [("Backend", "random"), ("BackendOptions", "delay=1"), ("Threads", "6"), ("MinibatchSize", "32")];
    let mut session = session(&device);
    session.position(None, "");
    session.go(nodes(60_000));
    let tree = session.engine.finished_tree();
    tree.check_invariants().expect("a sound tree");
    assert!(tree.node(tree.root()).visits() >= 60_000);
    assert!(tree.used_bytes() < LIMIT_BYTES * 15 / 10, "{} bytes are used", tree.used_bytes());
}

#[test]
fn a_mate_is_found_and_kept_in_little_memory() {
    let mut session = session(&[("Threads", "2")]);
    session.position(Some("7k/8/8/8/8/8/R7/1R5K w - - 0 1"), "");
    let (info, _) = session.go(nodes(200_000));
    assert!(matches!(info.score, Some(Score::Mate(2..=5))), "{info:?}");
    session.engine.finished_tree().check_invariants().expect("a sound tree");
}

#[test]
fn memory_of_an_old_root_is_used_again() {
    let mut session = session(&[("Threads", "2")]);
    let mut moves = String::new();
    for _ in 0..20 {
        session.position(None, &moves);
        let (_, best) = session.go(nodes(8_000));
        let tree = session.engine.finished_tree();
        tree.check_invariants().unwrap_or_else(|broken| panic!("after {moves}: {broken}"));
        assert!(tree.used_bytes() < LIMIT_BYTES * 12 / 10, "{} bytes are used", tree.used_bytes());
        moves = format!("{moves} {best}");
    }
}

#[test]
fn an_infinite_search_answers_stop_at_once_though_memory_is_short() {
    let mut session = session(&[("Threads", "4")]);
    session.position(None, "");
    for pause_ms in [30, 70, 110, 150] {
        session.engine.go(&GoParams { infinite: true, ..GoParams::default() }).expect("the search starts");
        std::thread::sleep(std::time::Duration::from_millis(pause_ms));
        let asked = std::time::Instant::now();
        session.engine.stop();
        session.engine.wait();
        // The requirement is 50 ms; a loaded test machine gets some more.
        assert!(asked.elapsed().as_millis() < 200, "answered after {:?}", asked.elapsed());
    }
    session.engine.finished_tree().check_invariants().expect("a sound tree");
}
