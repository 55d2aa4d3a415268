//! Whole searches through [`Engine`]: the answers that a user sees, and the invariants of the tree afterwards.

use rukh_chess::{Move, uci_move};
use rukh_engine::Engine;
use rukh_options::Options;
use rukh_search::{BestMove, GoParams, PositionCommand, Responder, Score, StartPosition, ThinkingInfo};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

pub(crate) const KIWIPETE: &str = "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1";
pub(crate) const MIDDLEGAME: &str = "r1bq1rk1/pp2bppp/2n1pn2/2pp4/3P1B2/2PBPN2/PP1N1PPP/R2QK2R b KQ - 5 8";

/// Records everything that a search reports.
#[derive(Default)]
pub(crate) struct Recorder(Mutex<Record>);

#[derive(Default, Clone, Debug)]
pub(crate) struct Record {
    infos: Vec<ThinkingInfo>,
    best_moves: Vec<BestMove>,
    messages: Vec<String>,
}

impl Recorder {
    pub(crate) fn record(&self) -> Record {
        self.0.lock().expect("no test panics while it holds the lock").clone()
    }
}

impl Responder for Recorder {
    fn thinking(&self, infos: &[ThinkingInfo]) {
        self.0.lock().expect("no test panics while it holds the lock").infos.extend_from_slice(infos);
    }

    fn best_move(&self, best: &BestMove) {
        self.0.lock().expect("no test panics while it holds the lock").best_moves.push(best.clone());
    }

    fn message(&self, text: &str) {
        self.0.lock().expect("no test panics while it holds the lock").messages.push(text.to_owned());
    }
}

/// An engine together with the record of its output.
pub(crate) struct Session {
    pub(crate) engine: Engine,
    recorder: Arc<Recorder>,
}

impl Session {
    pub(crate) fn new(settings: &[(&str, &str)]) -> Session {
        let recorder = Arc::new(Recorder::default());
        let mut options = Options::default();
        for (name, value) in [("Backend", "trivial"), ("Threads", "1")].iter().chain(settings) {
            options.set(name, value).expect("the test's settings are valid");
        }
        Session { engine: Engine::new(options, recorder.clone()), recorder }
    }

    pub(crate) fn position(&mut self, fen: Option<&str>, moves: &str) {
        let start = fen.map_or(StartPosition::Standard, |fen| StartPosition::Fen(fen.to_owned()));
        let moves = moves.split_whitespace().map(str::to_owned).collect();
        self.engine.set_position(&PositionCommand { start, moves }).expect("the test's position is valid");
    }

    /// Runs a search to its end. Returns the last info of the first MultiPV line, and the best move in UCI notation.
    pub(crate) fn go(&mut self, go: GoParams) -> (ThinkingInfo, String) {
        self.engine.go(&go).expect("the search starts");
        self.engine.wait();
        self.last()
    }

    /// All info lines so far.
    pub(crate) fn infos(&self) -> Vec<ThinkingInfo> {
        self.recorder.record().infos
    }

    /// Forgets all reports so far.
    pub(crate) fn forget(&mut self) {
        *self.recorder.0.lock().expect("no test panics while it holds the lock") = Record::default();
    }

    fn last(&self) -> (ThinkingInfo, String) {
        let record = self.recorder.record();
        let info = record
            .infos
            .iter()
            .rfind(|info| info.comment.is_empty() && info.multipv.is_none_or(|rank| rank == 1))
            .expect("the search sent an info line");
        let best = record.best_moves.last().expect("the search sent a best move");
        (info.clone(), text(best.best))
    }
}

pub(crate) fn text(m: Option<Move>) -> String {
    m.map_or_else(|| "0000".to_owned(), |m| uci_move::text(m, false))
}

pub(crate) fn nodes(count: u64) -> GoParams {
    GoParams { nodes: Some(count), ..GoParams::default() }
}

#[test]
fn a_node_limit_is_met_closely_and_the_tree_is_sound() {
    for threads in ["1", "4"] {
        for fen in [None, Some(KIWIPETE), Some(MIDDLEGAME)] {
            let mut session = Session::new(&[("Threads", threads), ("SmartPruningFactor", "0")]);
            session.position(fen, "");
            let (info, _) = session.go(nodes(20_000));
            let tree = session.engine.finished_tree();
            let root_visits = tree.node(tree.root()).visits();
            tree.check_invariants().unwrap_or_else(|broken| panic!("{threads} threads, {fen:?}: {broken}"));
            assert!((20_000..20_100).contains(&root_visits), "{threads} threads: {root_visits} visits");
            assert!(info.nodes.expect("the info has a node count") >= 20_000);
        }
    }
}

/// Without time for a search, the move comes from the tree of the last search. On a busy machine even the start of a
/// thread would cost more than a small increment.
#[test]
fn a_clock_that_has_run_down_is_answered_from_the_tree() {
    let mut session = Session::new(&[]);
    session.position(None, "");
    let (searched, best) = session.go(nodes(300));
    for _ in 0..20 {
        let (info, again) = session.go(GoParams { wtime: Some(30), winc: Some(10), ..GoParams::default() });
        assert_eq!((again, info.nodes), (best.clone(), searched.nodes));
    }
    // A time that the user names for the move is used.
    let (info, _) = session.go(GoParams { movetime: Some(250), ..GoParams::default() });
    assert!(info.nodes > searched.nodes, "{info:?}");
}

#[test]
fn one_thread_searches_the_same_tree_every_time() {
    let run = || {
        let mut session = Session::new(&[]);
        session.position(Some(KIWIPETE), "");
        let (info, best) = session.go(nodes(30_000));
        (info.nodes, info.score, info.pv, best)
    };
    let first = run();
    assert_eq!(run(), first);
    assert_eq!(run(), first);
}

#[test]
fn mates_are_found_and_counted_in_moves() {
    for (fen, expected_move, mate) in [
        // A mate on the back rank.
        ("6k1/5ppp/8/8/8/8/8/K2R4 w - - 0 1", "d1d8", 1),
        // The only move runs into mate.
        ("k7/8/1K6/8/8/8/8/7R b - - 0 1", "a8b8", -1),
        ("7k/8/8/8/8/8/R7/1R5K w - - 0 1", "", 2),
    ] {
        let mut session = Session::new(&[("SmartPruningFactor", "0")]);
        session.position(Some(fen), "");
        let (info, best) = session.go(nodes(60_000));
        let Some(Score::Mate(found)) = info.score else { panic!("{fen}: no mate in {info:?}") };
        assert!(found.signum() == i32::signum(mate), "{fen}: mate {found}");
        assert!(found.abs() >= i32::abs(mate) && found.abs() <= i32::abs(mate) + 3, "{fen}: mate {found}");
        if !expected_move.is_empty() {
            assert_eq!((best.as_str(), found), (expected_move, mate));
        }
        session.engine.finished_tree().check_invariants().expect("a sound tree");
    }
}

#[test]
fn go_mate_stops_at_the_mate() {
    let mut session = Session::new(&[]);
    session.position(Some("7k/8/8/8/8/8/R7/1R5K w - - 0 1"), "");
    let (info, _) = session.go(GoParams { mate: Some(4), nodes: Some(500_000), ..GoParams::default() });
    assert!(matches!(info.score, Some(Score::Mate(1..=4))), "{info:?}");
}

#[test]
fn a_finished_game_is_answered_with_the_null_move() {
    for (fen, score) in [
        ("rnb1kbnr/pppp1ppp/8/4p3/6Pq/5P2/PPPPP2P/RNBQKBNR w KQkq - 1 3", Score::Mate(0)),
        ("7k/5Q2/6K1/8/8/8/8/8 b - - 0 1", Score::Cp(0)),
    ] {
        let mut session = Session::new(&[]);
        session.position(Some(fen), "");
        let (info, best) = session.go(nodes(100));
        assert_eq!((info.score, best.as_str()), (Some(score), "0000"));
    }
}

#[test]
fn one_legal_move_is_played_at_once_under_a_clock() {
    let mut session = Session::new(&[]);
    session.position(Some("7k/8/8/8/8/8/1q6/K7 w - - 10 60"), "");
    let begun = Instant::now();
    let clock = GoParams { wtime: Some(600_000), btime: Some(600_000), ..GoParams::default() };
    let (_, best) = session.go(clock);
    assert_eq!(best, "a1b2");
    // With ten minutes left, a move that needs thought gets more than ten seconds.
    assert!(begun.elapsed() < Duration::from_secs(5));
}

#[test]
fn searchmoves_restricts_the_best_move() {
    let mut session = Session::new(&[]);
    session.position(Some("6k1/5ppp/8/8/8/8/8/K2R4 w - - 0 1"), "");
    let searchmoves = vec!["a1a2".to_owned(), "d1c1".to_owned()];
    let (info, best) = session.go(GoParams { searchmoves: searchmoves.clone(), ..nodes(2_000) });
    assert!(searchmoves.contains(&best), "{best}");
    assert_eq!(text(info.pv.first().copied()), best);
}

#[test]
fn multi_pv_lines_start_with_different_moves() {
    let mut session = Session::new(&[("MultiPV", "3")]);
    session.position(None, "");
    session.go(nodes(3_000));
    let record = session.recorder.record();
    let last: Vec<_> = record.infos.iter().rev().take(3).collect();
    let ranks: Vec<_> = last.iter().map(|info| info.multipv).collect();
    assert_eq!(ranks, [Some(3), Some(2), Some(1)]);
    let mut firsts: Vec<_> = last.iter().map(|info| text(info.pv.first().copied())).collect();
    firsts.sort();
    firsts.dedup();
    assert_eq!(firsts.len(), 3);
}

#[test]
fn every_principal_variation_is_legal() {
    let mut session = Session::new(&[]);
    session.position(Some(KIWIPETE), "");
    session.go(nodes(5_000));
    for info in session.recorder.record().infos {
        let mut position = session.engine.position().clone();
        for m in info.pv {
            assert!(position.legal_moves().contains(&m), "{m:?}");
            position = position.play(m);
        }
    }
}

#[test]
fn the_tree_is_kept_when_the_game_goes_on() {
    let mut session = Session::new(&[]);
    session.position(None, "");
    let (info, best) = session.go(nodes(20_000));
    let reply = text(info.pv.get(1).copied());
    session.position(None, &format!("{best} {reply}"));
    let (info, _) = session.go(nodes(1));
    assert!(info.nodes.expect("the info has a node count") > 100, "{info:?}");
    session.engine.finished_tree().check_invariants().expect("a sound tree");
    // The option `ClearTree` discards it.
    session.engine.set_option("ClearTree", "").expect("ClearTree is a button");
    let (info, _) = session.go(nodes(1));
    assert_eq!(info.nodes, Some(1));
    // A position that does not follow from the last one begins a new tree.
    session.position(None, "a2a3");
    let (info, _) = session.go(nodes(1));
    assert_eq!(info.nodes, Some(1));
}

#[test]
fn two_fold_draws_are_reverted_when_the_root_moves_past_them() {
    // Knights that move out and back repeat many positions four plies below the root.
    let mut session = Session::new(&[("Threads", "2")]);
    let mut moves = String::new();
    for _ in 0..12 {
        session.position(None, &moves);
        let (_, best) = session.go(nodes(4_000));
        session.engine.finished_tree().check_invariants().expect("a sound tree");
        moves = format!("{moves} {best}");
    }
}

/// The shortest time of a few attempts. A busy machine only adds time, so it is closest to the engine's own.
fn shortest(mut attempt: impl FnMut() -> Duration) -> Duration {
    [(); 3].map(|()| attempt()).into_iter().min().expect("there are attempts")
}

#[test]
fn stop_is_answered_within_50_ms() {
    let mut session = Session::new(&[("Threads", "2")]);
    session.position(None, "");
    for pause_ms in [0_u64, 1, 20, 300] {
        let answered = shortest(|| {
            session
                .engine
                .go(&GoParams { infinite: true, ..GoParams::default() })
                .expect("the search starts");
            std::thread::sleep(Duration::from_millis(pause_ms));
            let asked = Instant::now();
            session.engine.stop();
            session.engine.wait();
            asked.elapsed()
        });
        // The requirement is 50 ms; a loaded test machine gets some more.
        assert!(answered < Duration::from_millis(150), "answered after {answered:?}");
    }
    assert_eq!(session.recorder.record().best_moves.len(), 12);
}

#[test]
fn movetime_is_used_and_not_exceeded() {
    let mut session = Session::new(&[("Threads", "2"), ("MoveOverheadMs", "0"), ("SmartPruningFactor", "0")]);
    session.position(None, "");
    for time_ms in [100_u64, 400] {
        let asked = Duration::from_millis(time_ms);
        let took = shortest(|| {
            let begun = Instant::now();
            session.go(GoParams { movetime: Some(time_ms), ..GoParams::default() });
            begun.elapsed()
        });
        assert!(
            took >= asked * 8 / 10 && took < asked + Duration::from_millis(150),
            "{took:?} for {asked:?}"
        );
    }
}

#[test]
fn a_ponder_search_answers_only_after_ponderhit() {
    let mut session = Session::new(&[]);
    session.position(None, "e2e4");
    let clock = GoParams { wtime: Some(3_000), btime: Some(3_000), ponder: true, ..GoParams::default() };
    session.engine.go(&clock).expect("the search starts");
    std::thread::sleep(Duration::from_millis(200));
    assert!(session.engine.is_searching());
    assert!(session.recorder.record().best_moves.is_empty());
    session.engine.ponder_hit().expect("the engine is pondering");
    session.engine.wait();
    assert_eq!(session.recorder.record().best_moves.len(), 1);
    assert!(session.engine.ponder_hit().is_err());
}

#[test]
fn draw_score_sets_the_value_of_draws() {
    // Taking the pawn leaves only a bishop, which is a draw. Other moves keep an advantage.
    for (draw_score, takes) in [("1", true), ("-1", false)] {
        let mut session = Session::new(&[("DrawScore", draw_score)]);
        session.position(Some("7k/8/8/8/8/2p5/1B6/7K w - - 0 1"), "");
        let (_, best) = session.go(nodes(2_000));
        assert_eq!(best == "b2c3", takes, "DrawScore {draw_score}: {best}");
    }
}

#[test]
fn verbose_statistics_list_every_root_move_and_the_root() {
    let mut session = Session::new(&[("VerboseMoveStats", "true"), ("SmartPruningFactor", "0")]);
    session.position(None, "");
    session.go(nodes(500));
    let comments: Vec<String> = session
        .recorder
        .record()
        .infos
        .into_iter()
        .map(|info| info.comment)
        .filter(|c| !c.is_empty())
        .collect();
    assert_eq!(comments.len(), 21);
    let root = comments.last().expect("there are statistics");
    assert!(root.starts_with("node  (  20) N:     500 (+ 0) (P: "), "{root}");
    assert!(comments[19].contains(" N: ") && comments[19].contains("(WL: ") && comments[19].contains("(V: "));
}

#[test]
fn a_proven_loss_is_shown_with_a_prior_of_zero() {
    // As in lc0, a proven loss is not worth exploring. The only move here runs into a mate.
    let mut session = Session::new(&[("VerboseMoveStats", "true"), ("SmartPruningFactor", "0")]);
    session.position(Some("k7/8/1K6/8/8/8/8/7R b - - 0 1"), "");
    session.go(nodes(1_000));
    let infos = session.recorder.record().infos;
    let lost: Vec<&str> = (infos.iter().map(|info| info.comment.as_str()))
        .filter(|line| line.contains("(Q: -1.00000)") && line.ends_with("(T) "))
        .collect();
    assert!(!lost.is_empty());
    for line in lost {
        assert!(line.contains("(P:  0.00%)") && line.contains("(U: 0.00000)"), "{line}");
    }
}

#[test]
fn a_mate_once_found_is_kept_when_its_moves_are_played() {
    let mut session = Session::new(&[("SmartPruningFactor", "0")]);
    session.position(Some("7k/8/8/8/8/8/R7/1R5K w - - 0 1"), "");
    let (info, best) = session.go(nodes(30_000));
    let Some(Score::Mate(found @ 2..)) = info.score else { panic!("no mate in {info:?}") };
    let reply = text(info.pv.get(1).copied());
    session.position(Some("7k/8/8/8/8/8/R7/1R5K w - - 0 1"), &format!("{best} {reply}"));
    let (info, _) = session.go(nodes(1));
    assert_eq!(info.score, Some(Score::Mate(found - 1)), "{info:?}");
    session.engine.finished_tree().check_invariants().expect("a sound tree");
}

#[test]
fn the_last_principal_variation_begins_with_the_best_move() {
    let mut session = Session::new(&[("Threads", "4"), ("MinibatchSize", "3"), ("MoveOverheadMs", "0")]);
    session.position(None, "");
    for time in 1..80 {
        session.engine.set_option("ClearTree", "").expect("ClearTree is a button");
        let (info, best) = session.go(GoParams { movetime: Some(time % 5 + 1), ..GoParams::default() });
        assert_eq!(text(info.pv.first().copied()), best);
    }
}

#[test]
fn a_finished_game_answers_an_endless_go_only_after_stop_or_ponderhit() {
    let mate = "rnb1kbnr/pppp1ppp/8/4p3/6Pq/5P2/PPPPP2P/RNBQKBNR w KQkq - 1 3";
    for ponder in [false, true] {
        let mut session = Session::new(&[]);
        session.position(Some(mate), "");
        let go = GoParams { infinite: !ponder, ponder, ..GoParams::default() };
        session.engine.go(&go).expect("nothing to search");
        assert!(session.engine.is_searching() && session.recorder.record().best_moves.is_empty());
        if ponder {
            session.engine.ponder_hit().expect("the engine is pondering");
        } else {
            session.engine.stop();
        }
        assert!(!session.engine.is_searching());
        assert_eq!(session.recorder.record().best_moves.len(), 1);
        session.engine.stop();
        assert_eq!(session.recorder.record().best_moves.len(), 1);
    }
}

#[test]
fn without_recovery_a_backend_that_cannot_be_created_is_an_error_and_the_next_search_works() {
    let mut session = Session::new(&[("BackendOptions", "no_such_option=1")]);
    session.engine = session.engine.without_recovery();
    session.position(None, "");
    assert!(session.engine.go(&nodes(10)).is_err());
    session.engine.set_option("BackendOptions", "").expect("any text is allowed");
    assert_eq!(session.go(nodes(10)).0.nodes, Some(10));
}

#[test]
fn tablebases_select_root_moves_and_end_lines() {
    let Some(directory) = crate::tablebases::directory() else { return };
    let directory = directory.to_str().expect("a readable path");
    let mut session = Session::new(&[("SyzygyPath", directory), ("SmartPruningFactor", "0")]);
    // King and pawn against king: only some moves win.
    session.position(Some("4k3/8/4K3/4P3/8/8/8/8 w - - 0 1"), "");
    let only: Vec<String> = {
        let tables = rukh_chess::tablebase::Tablebases::open(directory).expect("tables open");
        let history = rukh_chess::PositionHistory::new(session.engine.position().clone());
        let root = tables.root_moves(&history, false).expect("the tables cover it");
        root.best.iter().map(|m| text(Some(m.unpack(history.last())))).collect()
    };
    assert!(!only.is_empty() && only.len() < session.engine.position().legal_moves().len());
    let (info, best) = session.go(nodes(300));
    assert!(only.contains(&best), "{best} is not among {only:?}");
    assert!(info.tb_hits > Some(0));
    // With five pieces the search reaches the four-piece tables below the root.
    session.position(Some("8/8/8/3k4/2p5/2PPK3/8/8 w - - 0 1"), "");
    let (info, _) = session.go(nodes(2_000));
    assert!(info.tb_hits > Some(10), "{info:?}");
    session.engine.finished_tree().check_invariants().expect("a sound tree");
    // A wrong path is reported once, and searches go on without tables.
    session.engine.set_option("SyzygyPath", "/no/such/directory").expect("any text is allowed");
    session.go(nodes(10));
    session.go(nodes(10));
    let record = session.recorder.record();
    assert_eq!(record.messages.iter().filter(|text| text.contains("/no/such/directory")).count(), 1);
    assert_eq!(record.best_moves.len(), 4);
}
