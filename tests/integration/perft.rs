//! Perft: leaf counts of our move generation, compared with published counts. python-chess gives the same counts for
//! the Chess960 positions.

use crate::driver::run;
use rukh_chess::Position;
use rukh_chess::perft::perft;

/// Counts in `tests/data/perft.txt` with more leaves than this are skipped, because they would take too long.
const MOST_LEAVES: u64 = 5_000_000;

#[test]
fn counts_agree_with_the_published_ones() {
    let text = include_str!("../data/perft.txt");
    let (mut positions, mut leaves) = (0, 0);
    for line in text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let mut fields = line.split(';');
        let fen = fields.next().expect("a FEN").trim();
        let position = Position::from_fen(fen).expect(fen);
        for field in fields {
            let (depth, nodes) = field.trim().split_once(' ').expect("a field such as `D1 20`");
            let depth: u32 = depth.trim_start_matches('D').parse().expect(depth);
            let nodes: u64 = nodes.parse().expect(nodes);
            if nodes <= MOST_LEAVES {
                assert_eq!(perft(&position, depth), nodes, "{fen} at depth {depth}");
                leaves += nodes;
            }
        }
        positions += 1;
    }
    assert!(positions >= 30, "{positions} positions, {leaves} leaves");
}

#[test]
fn divide_writes_castling_in_the_notation_asked_for() {
    let fen = "--fen=4k3/8/8/8/8/8/8/4K2R w K - 0 1";
    let standard = run(&["perft", "2", fen]);
    assert!(standard.contains("\ne1g1: ") && standard.ends_with("total: 66\n"), "{standard}");
    assert!(run(&["perft", "2", fen, "--chess960"]).contains("\ne1h1: "));
    assert_eq!(run(&["perft", "0", fen]), "total: 1\n");
}
