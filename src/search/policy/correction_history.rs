//! Correction history: corrects the network's value of a new leaf by its errors in similar positions.
//!
//! Positions with the same pawns, king squares and numbers of pieces share a slot. Every visit that passes through a
//! node after its first visit adds an error to the slot of the node's position: the network's wl minus the wl that the
//! visit found. Proven nodes add none. A slot keeps the weighted mean of these errors. The value of a new leaf is
//! corrected by a share of that mean ([`Options::correction_history_lambda`](crate::options::Options)). Values that are
//! already in the tree do not change.
//!
//! KataGo's "subtree value bias correction" and the correction histories of alpha-beta engines use the same idea with
//! other keys. The table has a fixed size and no lock. A slot is one atomic word, and one of two simultaneous updates
//! may be lost. The table is kept from move to move, and cleared for a new game.

use super::slot_table::{SlotTable, pack, unpack};
use crate::backend::position_key::mix;
use crate::chess::Position;
use crate::sync::atomic::Ordering;
use crate::tree::Sample;
use shakmaty::{Color, Role};

/// The upper bound of a slot's weight, unless a single update weighs more. With it, new visits always change the mean.
const MAX_WEIGHT: f32 = 2048.0;
/// The weight at which half of a slot's mean is applied.
const PRIOR_WEIGHT: f32 = 4.0;

/// The table of mean errors. [`CorrectionHistory::slot`] gives the slot of a position.
pub struct CorrectionHistory {
    /// Each slot has an f32 mean of (network's wl - found wl) in the high half, and the f32 weight of that mean in the
    /// low half.
    slots: SlotTable,
}

impl CorrectionHistory {
    /// The size of the table.
    pub const BYTES: u64 = SlotTable::BYTES;

    /// A table without errors, which corrects nothing.
    pub fn new() -> CorrectionHistory {
        CorrectionHistory { slots: SlotTable::new() }
    }

    /// The number of a position's slot, counted from 1. 0 means no slot. Two positions that are mirror images of each
    /// other with colours swapped have the same slot.
    pub fn slot(position: &Position) -> u32 {
        use shakmaty::Position as _;
        let board = position.board().board();
        let us = position.side_to_move();
        let oriented = |squares: u64| if us == Color::White { squares } else { squares.swap_bytes() };
        let mut key = 0;
        for side in [us, !us] {
            for role in [Role::Pawn, Role::King] {
                key = mix(key ^ oriented((board.by_color(side) & board.by_role(role)).0));
            }
            let counts = [Role::Knight, Role::Bishop, Role::Rook, Role::Queen]
                .map(|role| (board.by_color(side) & board.by_role(role)).count() as u64);
            key = mix(key ^ counts.iter().fold(0, |all, count| all << 8 | count));
        }
        SlotTable::slot(key)
    }

    /// The value of a leaf, corrected by the share `lambda` of the mean error in its slot. The smaller the weight of
    /// that mean, the smaller the correction.
    pub fn correct(&self, slot: u32, sample: Sample, lambda: f32) -> Sample {
        let Some((mean, weight)) = self.slots.get(slot) else { return sample };
        let wl = (sample.wl - lambda * mean * weight / (weight + PRIOR_WEIGHT)).clamp(-1.0, 1.0);
        Sample { wl, d: sample.d.min(1.0 - wl.abs()), ..sample }
    }

    /// Adds visits with the total weight `weight` to a slot. `error` is the network's wl minus the wl that these visits
    /// found.
    pub fn learn(&self, slot: u32, error: f32, weight: f32) {
        let Some(entry) = self.slots.entry(slot) else { return };
        if weight <= 0.0 || !error.is_finite() {
            return;
        }
        let (mean, known) = unpack(entry.load(Ordering::Relaxed));
        let known = (known + weight).min(MAX_WEIGHT.max(weight));
        let mean = mean + (error - mean) * weight / known;
        entry.store(pack((mean, known)), Ordering::Relaxed);
    }
}

impl Default for CorrectionHistory {
    fn default() -> CorrectionHistory {
        CorrectionHistory::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: Sample = Sample { wl: 0.2, d: 0.5, m: 40.0 };

    fn slot(fen: &str) -> u32 {
        CorrectionHistory::slot(&Position::from_fen(fen).unwrap())
    }

    #[test]
    fn similar_positions_share_a_slot() {
        let here = slot("r3k2r/pp3ppp/2n5/8/8/2N5/PP3PPP/R3K2R w KQkq - 0 1");
        // The pieces stand on other squares, and the move counters differ.
        assert_eq!(here, slot("2r1k2r/pp3ppp/8/8/4n3/8/PP1N1PPP/R3K2R w KQk - 7 9"));
        // The colours are swapped.
        assert_eq!(here, slot("r3k2r/pp3ppp/2n5/8/8/2N5/PP3PPP/R3K2R b KQkq - 0 1"));
        for other in [
            "r3k2r/pp3ppp/2n5/8/8/2N4P/PP3PP1/R3K2R w KQkq - 0 1",
            "r3k2r/pp3ppp/2n5/8/8/8/PP3PPP/R3K2R w KQkq - 0 1",
            "r4rk1/pp3ppp/2n5/8/8/2N5/PP3PPP/R3K2R w KQ - 0 1",
        ] {
            assert_ne!(here, slot(other), "{other}");
        }
    }

    #[test]
    fn corrects_by_the_mean_error_and_stays_within_probabilities() {
        let table = CorrectionHistory::new();
        assert_eq!(table.correct(7, SAMPLE, 0.5), SAMPLE);
        table.learn(7, 0.4, 4.0);
        let once = table.correct(7, SAMPLE, 0.5);
        assert!((once.wl - 0.1).abs() < 1e-6 && once.d == 0.5 && once.m == 40.0, "{once:?}");
        for _ in 0..10_000 {
            table.learn(7, -1.9, 3.0);
        }
        let corrected = table.correct(7, SAMPLE, 0.5);
        assert!(corrected.wl == 1.0 && corrected.d == 0.0, "{corrected:?}");
        assert_eq!(table.correct(8, SAMPLE, 0.5), SAMPLE, "another slot");
        assert_eq!(table.correct(0, SAMPLE, 0.5), SAMPLE, "no slot");
    }

    #[test]
    fn old_visits_fade() {
        let table = CorrectionHistory::new();
        table.learn(1, 0.5, 1e6);
        table.learn(1, -0.5, MAX_WEIGHT);
        assert!(table.correct(1, SAMPLE, 1.0).wl > SAMPLE.wl);
    }
}
