//! Perft: counts legal move sequences, to test and time the move generator.

use rukh_chess::{Position, uci_move};
use std::fmt::Write as _;

/// The number of legal move sequences of exactly `depth` plies from `position`. Moves of the last ply are counted
/// without playing them.
pub fn perft(position: &Position, depth: u32) -> u64 {
    match depth {
        0 => 1,
        1 => position.legal_moves().len() as u64,
        _ => position.legal_moves().iter().map(|&m| perft(&position.play(m), depth - 1)).sum(),
    }
}

/// Runs [`perft`] for each first move. Returns lines such as `e2e4: 20` in the generator's order, and then `total:
/// 400`. At depth 0 the total is the only line. `chess960` has the same meaning as in [`uci_move::text`].
pub fn divide(position: &Position, depth: u32, chess960: bool) -> String {
    let mut text = String::new();
    let mut total = u64::from(depth == 0);
    if depth > 0 {
        for &m in &position.legal_moves() {
            let nodes = perft(&position.play(m), depth - 1);
            total += nodes;
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{}: {nodes}", uci_move::text(m, chess960));
        }
    }
    let _ = writeln!(text, "total: {total}");
    text
}
