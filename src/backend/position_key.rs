//! Which positions count as the same: the one place where that is decided.
//!
//! A network sees eight positions, the repetition marks, the rule-50 counter. Two positions that agree in all
//! of it get the same evaluation; the cache would hardly ever hit if it asked for that. What [`cache_key`]
//! asks for is a choice, [`full_key`] is nearly all of it.

use crate::chess::{Position, PositionHistory};

/// Below this many plies without capture or pawn move the counter makes no difference to the cache. Networks
/// begin to see the draw coming somewhere after it; sharing evaluations across it would hide that from the
/// search.
const RULE50_START: u16 = 64;
/// From there on, counters are alike in steps of this many plies.
const RULE50_STEP: u16 = 8;

/// The cache's key of the last position of `history`: the position, how often it stood before, a coarse
/// rule-50 counter from 64 plies on, and the `history_length` positions before it (option
/// `CacheHistoryLength`, 0 … 7).
///
/// lc0's cache key is the position and its repetitions only.
#[inline]
pub fn cache_key(history: &PositionHistory, history_length: usize) -> u64 {
    let last = history.last();
    let rule50_step = last.rule50_ply().saturating_sub(RULE50_START - RULE50_STEP) / RULE50_STEP;
    let key = mix(position_key(last) ^ u64::from(rule50_step) << 32);
    if history_length == 0 {
        return key;
    }
    earlier_positions(history, history_length).fold(key, |key, position| mix(key ^ position_key(position)))
}

/// A key of everything that a network can see in the last eight positions of `history`, for recordings.
pub fn full_key(history: &PositionHistory) -> u64 {
    let key = mix(position_key(history.last()) ^ u64::from(history.last().rule50_ply()) << 32);
    earlier_positions(history, 7).fold(key, |key, position| mix(key ^ position_key(position)))
}

/// The position and its repetition count.
#[inline]
fn position_key(position: &Position) -> u64 {
    position.key() ^ u64::from(position.repetitions()).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// At most `count` positions before the last, latest first.
fn earlier_positions(history: &PositionHistory, count: usize) -> impl Iterator<Item = &Position> {
    history.positions().iter().rev().skip(1).take(count)
}

/// The finaliser of SplitMix64 (Steele, Lea, Flood 2014) after one step of its counter: every bit of the
/// result depends on every bit of `value`.
#[inline]
pub fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
