//! `UCI_LimitStrength`, `UCI_Elo` and `NodesPerMove`.

use crate::driver::{Driver, best_move, nodes_of};
use rukh_chess::{Position, uci_move};
use std::collections::HashSet;
use std::time::{Duration, Instant};

const CLOCK: &str = "go wtime 60000 btime 60000 winc 600 binc 600";

fn engine(options: &[&str]) -> Driver {
    let flags = ["--backend=cpu", "--weights=<embedded>", "--threads=2"];
    Driver::start(&[&flags[..], options].concat())
}

#[test]
fn a_weak_level_answers_at_once_and_varies_its_moves() {
    let mut engine = engine(&["--limit-strength", "--elo=1500"]);
    engine.search("go nodes 1");
    let start = Instant::now();
    let mut moves = HashSet::new();
    for _ in 0..20 {
        engine.ask("position startpos moves e2e4");
        let lines = engine.search(CLOCK);
        assert!((1..=12).contains(&nodes_of(&lines)), "{lines:#?}");
        moves.insert(best_move(&lines).to_owned());
    }
    assert!(moves.len() >= 3, "{moves:?}");
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    // As soon as it is off, the tree of twelve nodes is searched on.
    engine.ask("setoption name UCI_LimitStrength value false");
    assert!(nodes_of(&engine.search("go nodes 300")) >= 300);
}

/// A won ending of few pieces is not left to chance.
#[test]
fn a_won_ending_is_won_at_the_lowest_level() {
    let mut engine = engine(&["--limit-strength", "--elo=1500"]);
    for start in ["8/8/4k3/8/8/8/1Q6/4K3 w - - 0 1", "8/4P3/1k6/8/8/3K4/8/8 w - - 0 1"] {
        let mut position = Position::from_fen(start).unwrap();
        let mut played = String::new();
        while !position.legal_moves().is_empty() {
            assert!(position.game_ply() < 100, "{start}: no mate after {played}");
            let text = match position.side_to_move().is_white() {
                true => {
                    engine.ask(&format!("position fen {start} moves {played}"));
                    best_move(&engine.search(CLOCK)).to_owned()
                }
                // The lone king keeps to the middle of the board.
                false => {
                    let to_middle = |text: &String| {
                        let bytes = text.as_bytes();
                        let off = |byte: u8, middle: f32| (f32::from(byte) - middle).abs();
                        off(bytes[2], 100.5).max(off(bytes[3], 52.5))
                    };
                    let moves = position.legal_moves();
                    let texts = moves.iter().map(|&m| uci_move::text(m, false));
                    texts.min_by(|a, b| to_middle(a).total_cmp(&to_middle(b))).unwrap()
                }
            };
            let m = uci_move::parse(&position, &text).unwrap();
            position = position.play(m);
            played = format!("{played} {text}");
        }
        assert!(position.is_check() && !position.side_to_move().is_white(), "{start}: {played}");
    }
}

#[test]
fn nodes_per_move_limits_every_go_and_uses_no_larger_tree() {
    let mut engine = engine(&[]);
    engine.ask("position startpos");
    engine.search("go nodes 200");
    engine.ask("setoption name NodesPerMove value 1");
    for go in ["go movetime 2000", CLOCK, "go nodes 500", "go depth 9"] {
        let start = Instant::now();
        let lines = engine.search(go);
        assert_eq!(nodes_of(&lines), 1, "{go}: {lines:#?}");
        assert!(start.elapsed() < Duration::from_millis(1500), "{go}: {:?}", start.elapsed());
    }
}

#[test]
fn a_maia_network_says_once_that_it_should_not_search() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("Maia-1300.pb.gz");
    std::fs::copy(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/micro-attn.pb.gz"), &path).unwrap();
    let mut engine = Driver::start(&["--backend=cpu", &format!("--weights={}", path.display())]);
    let notices = |lines: Vec<String>| lines.iter().filter(|line| line.contains("a Maia network")).count();
    assert_eq!(notices(engine.search("go nodes 1")), 0);
    assert_eq!(notices(engine.search("go nodes 10")), 1);
    assert_eq!(notices(engine.search("go nodes 20")), 0);
}
