//! Subtree value bias: corrects the network's value of a node by what the subtrees of similar nodes have found.
//!
//! Nodes after the same two moves, with the same pieces on the 5 x 5 squares around the last move's target, share a
//! slot. A node whose children have n visits together contributes to its slot with the weight `n^exponent` and with the
//! difference between its children's value and the network's value of it. A node contributes once: a later contribution
//! replaces the earlier one. The network's value of every node of the slot, also of those that are long in the tree, is
//! corrected by a share (`SubtreeValueBiasFactor`) of the slot's mean difference.
//!
//! This is KataGo's subtree value bias correction (`docs/KataGoMethods.md`, `subtreevaluebiastable.cpp`), whose key is the
//! last two moves and the 5 x 5 pattern too. Unlike KataGo, the table has a fixed size, and nodes that leave the tree
//! leave their contributions behind. It is cleared for a new game.

use super::slot_table::{SlotTable, pack, unpack};
use crate::backend::position_key::mix;
use crate::chess::Position;
use crate::sync::atomic::Ordering;
use shakmaty::{Color, Position as _, Square};

/// A slot with less weight corrects nothing.
const LEAST_WEIGHT: f32 = 0.001;
/// The pattern has all squares up to this distance from the target.
const PATTERN_DISTANCE: i32 = 2;

/// The table of sums. [`SubtreeBias::slot`] gives the slot of a position.
pub struct SubtreeBias {
    /// Each slot has the f32 sum of weight times difference in the high half, and the f32 sum of weights in the low half.
    slots: SlotTable,
}

impl SubtreeBias {
    /// The size of the table.
    pub const BYTES: u64 = SlotTable::BYTES;

    /// A table that corrects nothing.
    pub fn new() -> SubtreeBias {
        SubtreeBias { slots: SlotTable::new() }
    }

    /// The number of the slot of the last position, counted from 1. 0 means no slot, because two moves are not known.
    /// Games that are mirror images of each other with colours swapped have the same slots.
    pub fn slot(positions: &[Position]) -> u32 {
        let [.., first, second, last] = positions else { return 0 };
        let us = last.side_to_move();
        let oriented = |squares: u64| if us == Color::White { squares } else { squares.swap_bytes() };
        let mut key = 0;
        for (before, after) in [(first, second), (second, last)] {
            let mover = before.side_to_move();
            let of = |position: &Position| position.board().board().by_color(mover).0;
            key = mix(key ^ oriented(of(before) & !of(after)));
            key = mix(key ^ oriented(of(after) & !of(before)));
        }
        let own = last.board().board().by_color(!us).0;
        let target = (own & !second.board().board().by_color(!us).0).trailing_zeros().min(63) as i32;
        let board = last.board().board();
        for rank in target / 8 - PATTERN_DISTANCE..=target / 8 + PATTERN_DISTANCE {
            // Mirrored games must meet the squares in the same order.
            let rank = if us == Color::White { rank } else { 2 * (target / 8) - rank };
            for file in target % 8 - PATTERN_DISTANCE..=target % 8 + PATTERN_DISTANCE {
                let is_on_board = (0..8).contains(&rank) && (0..8).contains(&file);
                let piece =
                    is_on_board.then(|| board.piece_at(Square::new((rank * 8 + file) as u32))).flatten();
                let code = piece.map_or(u64::from(is_on_board), |piece| {
                    2 + 2 * piece.role as u64 + u64::from(piece.color == us)
                });
                key = mix(key ^ code);
            }
        }
        SlotTable::slot(key)
    }

    /// The mean difference of a slot.
    pub fn bias(&self, slot: u32) -> f32 {
        let (sum, weight) = self.slots.get(slot).unwrap_or_default();
        if weight > LEAST_WEIGHT { (sum / weight).clamp(-2.0, 2.0) } else { 0.0 }
    }

    /// Adds to the sums of a slot.
    pub fn add(&self, slot: u32, sum: f32, weight: f32) {
        let Some(entry) = self.slots.entry(slot) else { return };
        let added = |entry| {
            let (old_sum, old_weight) = unpack(entry);
            let new = (old_sum + sum, (old_weight + weight).max(0.0));
            (new.0.is_finite() && new.1.is_finite()).then(|| pack(new))
        };
        // A contribution that is not finite is left out.
        let _ = entry.fetch_update(Ordering::Relaxed, Ordering::Relaxed, added);
    }
}

impl Default for SubtreeBias {
    fn default() -> SubtreeBias {
        SubtreeBias::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chess::{PositionHistory, uci_move};

    fn slot(fen: &str, moves: &str) -> u32 {
        let mut history = PositionHistory::new(Position::from_fen(fen).unwrap());
        for text in moves.split_whitespace() {
            let m = uci_move::parse(history.last(), text).unwrap();
            history.push(m);
        }
        SubtreeBias::slot(history.positions())
    }

    const START: &str = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1";
    const START_BLACK: &str = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR b KQkq - 0 1";

    #[test]
    fn the_last_two_moves_and_the_pieces_nearby_make_the_slot() {
        let here = slot(START, "a2a3 a7a6 e2e4 e7e5");
        assert!(here > 0);
        // Other moves before, far away.
        assert_eq!(here, slot(START, "a2a4 a7a5 e2e4 e7e5"));
        assert_eq!(slot(START_BLACK, "a7a6 a2a3 e7e5 e2e4"), here, "colours are swapped");
        assert_ne!(here, slot(START, "d2d3 a7a6 e2e4 e7e5"), "a piece nearby");
        assert_ne!(here, slot(START, "a2a3 a7a6 e2e3 e7e5"), "the move before");
        assert_ne!(here, slot(START, "a2a3 a7a6 e2e4 d7d5"), "the last move");
        assert_eq!(slot(START, "e2e4"), 0, "only one move is known");
    }

    #[test]
    fn a_contribution_is_replaced_by_a_later_one() {
        let table = SubtreeBias::new();
        assert_eq!(table.bias(5), 0.0);
        table.add(5, 0.4 * 2.0, 2.0);
        assert!((table.bias(5) - 0.4).abs() < 1e-6);
        table.add(5, -0.1 * 6.0 - 0.8, 6.0 - 2.0);
        assert!((table.bias(5) + 0.1).abs() < 1e-6, "{}", table.bias(5));
        table.add(5, f32::NAN, 1.0);
        assert!((table.bias(5) + 0.1).abs() < 1e-6);
        table.add(0, 1.0, 1.0);
        assert_eq!((table.bias(0), table.bias(6)), (0.0, 0.0));
    }
}
