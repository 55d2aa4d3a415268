//! Perft: counting the move tree, to check the move generator and to time it.
//!
//! Only the counting is here; the command line's and the protocol's ways to it are not.

use crate::chess::{Position, uci_move};
use std::fmt::Write as _;

/// How many ways of play of exactly `depth` plies there are from `position`. Moves of the last ply are
/// counted, not played.
pub fn perft(position: &Position, depth: u32) -> u64 {
    match depth {
        0 => 1,
        1 => position.legal_moves().len() as u64,
        _ => position.legal_moves().iter().map(|&m| perft(&position.play(m), depth - 1)).sum(),
    }
}

/// [`perft`] split by first move: a line `e2e4: 20` each, in the generator's order, then `total: 400`.
/// `chess960` as in [`uci_move::text`]. At depth 0 there is only the total.
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
