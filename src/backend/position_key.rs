//! Which positions count as the same: the one place where that is decided.
//!
//! A network sees eight positions, the repetition marks, the rule-50 counter. Two positions that agree in all
//! of it get the same evaluation; the cache would hardly ever hit if it asked for that. What [`cache_key`]
//! asks for is a choice, [`full_key`] is nearly all of it.

use crate::chess::{Position, PositionHistory};
use crate::options::Options;

/// The widest bucket, and where the narrower ones begin: networks begin to see a draw by the fifty-move rule coming
/// somewhere after it, and evaluations shared across it would hide that from the search.
pub const WIDEST_RULE50_BUCKET: u16 = 64;
/// From there on, counters are alike in steps of at most this many plies.
const LATE_RULE50_BUCKET: u16 = 8;
/// From here on each counter stands for itself: an evaluation may not be taken over from one with more room to the
/// draw at 100.
const LAST_RULE50_PLIES: u16 = 92;

/// What else than the position the cache's key takes in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyRules {
    /// Earlier positions (option `CacheHistoryLength`, 0 … 7).
    pub history_length: usize,
    /// Plies without capture or pawn move that make no difference (option `MoveRuleBucketSize`, 1 …
    /// [`WIDEST_RULE50_BUCKET`]).
    pub rule50_bucket: u16,
}

impl KeyRules {
    /// The rules that `options` ask for.
    pub fn from_options(options: &Options) -> KeyRules {
        KeyRules {
            history_length: options.cache_history_length as usize,
            rule50_bucket: options.move_rule_bucket_size as u16,
        }
    }
}

/// The defaults of the option table.
impl Default for KeyRules {
    fn default() -> KeyRules {
        KeyRules::from_options(&Options::default())
    }
}

/// The cache's key of the last position of `history`: the position, how often it stood before, its bucket of the
/// rule-50 counter, and earlier positions.
///
/// lc0's cache key is the position and its repetitions only.
#[inline]
pub fn cache_key(history: &PositionHistory, rules: KeyRules) -> u64 {
    let last = history.last();
    let bucket = rule50_bucket(last.rule50_ply(), rules.rule50_bucket);
    let key = mix(position_key(last) ^ u64::from(bucket) << 32);
    if rules.history_length == 0 {
        return key;
    }
    let earlier = earlier_positions(history, rules.history_length);
    earlier.fold(key, |key, position| mix(key ^ position_key(position)))
}

/// The first counter of those that share an evaluation with `rule50_ply`.
#[inline]
fn rule50_bucket(rule50_ply: u16, size: u16) -> u16 {
    let size = match rule50_ply {
        0..WIDEST_RULE50_BUCKET => size,
        WIDEST_RULE50_BUCKET..LAST_RULE50_PLIES => size.min(LATE_RULE50_BUCKET),
        _ => return rule50_ply,
    };
    rule50_ply / size.max(1) * size.max(1)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_narrow_towards_the_draw() {
        for size in 1..=WIDEST_RULE50_BUCKET {
            let mut first = 0;
            for ply in 0..=100 {
                let bucket = rule50_bucket(ply, size);
                assert!(bucket == ply || bucket == first, "a bucket is a range: {ply} of {size}");
                // What a position is told may be off by so many plies of the way to the draw.
                let error = ply - bucket;
                let bound = if ply < 64 { size - 1 } else { 7 };
                assert!(error <= bound && (ply < 92 || error == 0), "{ply} of {size}: {error}");
                first = bucket;
            }
        }
        assert_eq!(rule50_bucket(63, 64), 0);
        assert_eq!(rule50_bucket(13, 8), 8);
    }
}
