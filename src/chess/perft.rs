//! Perft: counts legal move sequences, to test and time the move generator.

use super::Position;
use shakmaty::Move;

/// The number of plies of the longest sequences that users can ask for. Longer ones would take years.
pub const MOST_PLIES: u32 = 20;

/// The number of legal move sequences of exactly `depth` plies from `position`. Moves of the last ply are counted
/// without playing them.
pub fn perft(position: &Position, depth: u32) -> u64 {
    perft_unless(position, depth, &|| false).unwrap_or(0)
}

/// Does the same as [`perft`], unless `is_stopped` becomes true meanwhile. The result is then `None`.
pub fn perft_unless(position: &Position, depth: u32, is_stopped: &dyn Fn() -> bool) -> Option<u64> {
    match depth {
        0 => Some(1),
        1 => Some(position.legal_moves().len() as u64),
        _ if is_stopped() => None,
        _ => position
            .legal_moves()
            .iter()
            .map(|&m| perft_unless(&position.play(m), depth - 1, is_stopped))
            .sum(),
    }
}

/// Each first move of the sequences of `depth` plies, in the generator's order, with the number of sequences that begin
/// with it. There is none if `depth` is 0. Ends early when `is_stopped` becomes true.
pub fn divide<'a>(
    position: &'a Position,
    depth: u32,
    is_stopped: &'a dyn Fn() -> bool,
) -> impl Iterator<Item = (Move, u64)> + 'a {
    let moves = if depth == 0 { Vec::new() } else { position.legal_moves().to_vec() };
    moves.into_iter().map_while(move |m| {
        let nodes = perft_unless(&position.play(m), depth - 1, is_stopped)?;
        Some((m, nodes))
    })
}
