//! Graph search: a position that several move orders reach is one node, and nothing that depends on the order may
//! leak through it. One test compares the proven nodes of searches with a simple solver that knows the rules. It does
//! so on several paths to each node, because each path has its own history.

use crate::search::{KIWIPETE, MIDDLEGAME, Session, nodes};
use rukh_chess::{GameResult, PackedMove, PositionHistory, uci_move};
use rukh_search::{GoParams, Score};
use rukh_tree::{Bounds, NodeId, State, TerminalKind, Tree};
use std::collections::HashMap;

/// Bounds on the result of the last position of `history`, from the side to move's view, by a full search of `depth`
/// plies. A line ends at mate, stalemate, insufficient material, the fifty-move rule, and threefold repetition.
fn solve(history: &mut PositionHistory, depth: u32) -> Bounds {
    if let Some(result) = history.result() {
        return Bounds::exact(match result {
            GameResult::Won(winner) if winner == history.last().side_to_move() => 1,
            GameResult::Won(_) => -1,
            GameResult::Drawn => 0,
        });
    }
    if depth == 0 {
        return Bounds::UNKNOWN;
    }
    let mut best = Bounds::exact(-1);
    for m in history.last().legal_moves() {
        history.push(m);
        let reply = solve(history, depth - 1).flipped();
        history.pop();
        best = Bounds { lower: best.lower.max(reply.lower), upper: best.upper.max(reply.upper) };
        if best.lower == 1 {
            break;
        }
    }
    best
}

/// Walks through the graph of a finished search and compares it with the solver.
struct Walk<'a> {
    tree: &'a Tree,
    history: PositionHistory,
    /// The solver's depth in plies.
    solver_depth: u32,
    /// The maximum number of paths to each node that the walk follows.
    maximum_paths: u32,
    /// The paths to each node so far.
    paths: HashMap<NodeId, u32>,
    /// Comparisons with a proven node.
    proven: u32,
    /// Nodes that were reached by at least two paths.
    reached_twice: u32,
}

impl Walk<'_> {
    /// Compares the bounds of a node, and of all nodes below it, with the solver's. The root is not compared. Neither
    /// is a node that is a draw by its first repetition, because the solver ends a line only at the second.
    fn compare(&mut self, id: NodeId, depth: usize) {
        let node = self.tree.node(id);
        let paths = self.paths.entry(id).or_default();
        *paths += 1;
        if *paths > self.maximum_paths {
            return;
        }
        self.reached_twice += u32::from(*paths == 2);
        let is_two_fold = node.outcome().is_some_and(|outcome| outcome.kind == TerminalKind::TwoFold);
        if depth > 0 && !is_two_fold && node.state() != State::Unevaluated {
            let claimed = node.bounds();
            let known = solve(&mut self.history, self.solver_depth);
            let both = (claimed.lower.max(known.lower), claimed.upper.min(known.upper));
            assert!(
                both.0 <= both.1,
                "{} after {:?}: the search says {claimed:?}, the rules {known:?}",
                self.history.last().to_fen(),
                self.history.positions().iter().map(|position| position.to_fen()).collect::<Vec<_>>()
            );
            self.proven += u32::from(claimed.is_exact());
        }
        for (_, link) in self.tree.links(node) {
            if let Some(child) = link.child() {
                let m = link.edge().packed_move();
                self.history.push(m.unpack(self.history.last()));
                self.compare(child, depth + 1);
                self.history.pop();
            }
        }
    }
}

fn history_of(fen: &str, moves: &str) -> PositionHistory {
    let position = rukh_chess::Position::from_fen(fen).expect("the test's position is valid");
    let mut history = PositionHistory::new(position);
    for text in moves.split_whitespace() {
        let m = uci_move::parse(history.last(), text).expect("the test's move is legal");
        history.push(m);
    }
    history
}

#[test]
fn proven_results_hold_on_every_path() {
    // `paths_meet`: whether a search with a graph surely reaches some node on two paths. Otherwise that is chance: near the
    // fifty-move rule few move orders lead to one node, and a search that has found a mate makes some hundred nodes.
    for (fen, moves, visits, paths_meet) in [
        // Castling rights can be lost in many move orders just before the fifty-move rule applies.
        ("r3k3/8/8/8/8/8/8/R3K3 w Qq - 95 80", "", 6_000, true),
        ("4k2r/8/8/8/8/8/6p1/4K2R b Kk - 96 80", "", 6_000, true),
        // The game has repeated positions; a capture rules out further repetitions.
        ("8/8/8/8/5k2/1b6/3r4/R5K1 b - - 92 80", "b3a4 g1h1 a4b3 h1g1", 6_000, false),
        // White mates when the fifty-move counter reaches 99 or 100 plies. At 100 the game would be drawn, but the mate
        // counts.
        ("7k/8/5K2/8/8/8/8/R7 w - - 96 80", "", 4_000, false),
        ("7k/8/5K2/8/8/8/8/R7 w - - 97 80", "", 4_000, false),
    ] {
        for graph in ["true", "false"] {
            let mut session = Session::new(&[
                ("GraphSearch", graph),
                ("SmartPruningFactor", "0"),
                ("Backend", "random"),
                ("Threads", "2"),
            ]);
            session.position(Some(fen), moves);
            session.go(nodes(visits));
            let tree = session.engine.finished_tree();
            tree.check_invariants().expect("a sound graph");
            let mut walk = Walk {
                tree,
                history: history_of(fen, moves),
                solver_depth: 2,
                maximum_paths: 4,
                paths: HashMap::new(),
                proven: 0,
                reached_twice: 0,
            };
            walk.compare(tree.root(), 0);
            assert!(walk.proven > 20, "{fen}: only {} nodes were proven", walk.proven);
            let is_graph = graph == "true";
            assert!(is_graph || walk.reached_twice == 0, "{fen}");
            assert!(!is_graph || !paths_meet || walk.reached_twice > 0, "{fen}");
        }
    }
}

#[test]
fn a_lost_endgame_is_not_taken_for_a_draw_by_repetition() {
    // Black's queen wins. Many lines repeat a position, and none of these draws may spread to the root.
    let fen = "8/8/8/8/8/5k2/8/4q2K w - - 0 1";
    let mut session = Session::new(&[("SmartPruningFactor", "0")]);
    session.position(Some(fen), "");
    let (info, _) = session.go(nodes(3_000));
    assert!(matches!(info.score, Some(Score::Mate(..0)) | Some(Score::Cp(..-200))), "{info:?}");
}

#[test]
fn the_fifty_move_rule_is_kept_to_the_ply() {
    // A mate on the hundredth ply counts. One ply later the game is already drawn.
    for (fen, expected) in [
        ("7k/8/6K1/8/8/8/8/R7 w - - 99 80", Score::Mate(1)),
        ("7k/8/5K2/8/8/8/8/R7 w - - 97 80", Score::Mate(2)),
        ("7k/8/5K2/8/8/8/8/R7 w - - 98 80", Score::Cp(0)),
        ("7k/8/5K2/8/8/8/8/R7 w - - 10 80", Score::Mate(2)),
    ] {
        let mut session = Session::new(&[("SmartPruningFactor", "0")]);
        session.position(Some(fen), "");
        let (info, _) = session.go(nodes(20_000));
        match expected {
            Score::Cp(0) => assert!(matches!(info.score, Some(Score::Cp(-20..=20))), "{fen}: {info:?}"),
            expected => assert_eq!(info.score, Some(expected), "{fen}"),
        }
    }
}

#[test]
fn a_perpetual_check_is_a_draw() {
    // Black is a rook down for two pawns and about to be mated, but can check for ever: Qe1+ Kh2 Qh4+ Kg1 Qe1+.
    let fen = "6k1/1R3pp1/7p/8/7q/8/Q5P1/6K1 b - - 0 1";
    let mut session = Session::new(&[("SmartPruningFactor", "0"), ("Threads", "2")]);
    session.position(Some(fen), "h4e1 g1h2 e1h4 h2g1");
    let (_, best) = session.go(GoParams { ..nodes(20_000) });
    assert_eq!(best, "h4e1");
    session.engine.finished_tree().check_invariants().expect("a sound graph");
}

#[test]
fn a_graph_has_fewer_nodes_than_a_tree() {
    let count = |graph: &str, fen: Option<&str>| {
        let mut session = Session::new(&[("GraphSearch", graph), ("SmartPruningFactor", "0")]);
        session.position(fen, "");
        session.go(nodes(20_000));
        let tree = session.engine.finished_tree();
        let found = tree.check_invariants().expect("a sound graph");
        assert!(tree.node(tree.root()).visits() >= 20_000);
        found
    };
    for fen in [None, Some(KIWIPETE), Some(MIDDLEGAME)] {
        let (graph, tree) = (count("true", fen), count("false", fen));
        assert!(graph < tree, "{fen:?}: {graph} nodes in the graph, {tree} in the tree");
    }
}

#[test]
fn a_graph_is_kept_when_the_game_goes_on() {
    let mut session = Session::new(&[("Threads", "4"), ("MinibatchSize", "7")]);
    let mut moves = String::new();
    for _ in 0..16 {
        session.position(Some(MIDDLEGAME), &moves);
        let (_, best) = session.go(nodes(6_000));
        let tree = session.engine.finished_tree();
        tree.check_invariants().unwrap_or_else(|broken| panic!("after {moves}: {broken}"));
        moves = format!("{moves} {best}");
    }
    let m = PackedMove::default();
    assert!(!session.engine.finished_tree().reroot(&[m]), "there is no such move");
}

/// Prints the share of visits that found a transposition. To run it:
/// `cargo test --test integration -- --ignored --nocapture share_of_transpositions`.
#[test]
#[ignore = "takes a minute"]
fn share_of_transpositions() {
    let network = concat!(env!("CARGO_MANIFEST_DIR"), "/../shared/nets/maia-1900.pb.gz");
    if !std::path::Path::new(network).exists() {
        println!("skipped: the network ../shared/nets/maia-1900.pb.gz does not exist");
        return;
    }
    for (name, fen) in [("startpos", None), ("kiwipete", Some(KIWIPETE)), ("middlegame", Some(MIDDLEGAME))] {
        let mut session = Session::new(&[
            ("Backend", "cpu"),
            ("WeightsFile", network),
            ("Threads", "2"),
            ("SmartPruningFactor", "0"),
        ]);
        session.position(fen, "");
        session.go(nodes(100_000));
        let absorbed = session.engine.absorbed_visits();
        let found = session.engine.finished_tree().check_invariants().expect("a sound graph");
        println!("{name}: {absorbed} of 100000 visits found a transposition; {found} nodes");
    }
}
