//! Position keys: two positions with the same key share an evaluation.
//!
//! A network sees eight positions, their repetitions and the rule-50 counter. If two positions agree in all of these,
//! their evaluations are equal, but a cache with such keys would hardly ever hit. [`cache_key`] therefore covers only
//! the parts that [`KeyRules`] select, while [`full_key`] covers almost everything.

use rukh_chess::{Position, PositionHistory};
use rukh_options::Options;

/// The width of the widest bucket of rule-50 counters, in plies. It is also the first counter whose bucket is narrower:
/// from there on, networks begin to foresee a draw by the fifty-move rule, and a wide bucket would hide that from the
/// search.
pub const WIDEST_RULE50_BUCKET: u16 = 64;
/// The largest width of a bucket of counters from [`WIDEST_RULE50_BUCKET`] on, in plies.
const LATE_RULE50_BUCKET: u16 = 8;
/// The first rule-50 counter that has a bucket of its own. All later counters have one too. So close to the draw at ply
/// 100, an evaluation must not come from a position that has more plies left.
const FIRST_EXACT_RULE50_PLY: u16 = 92;

/// Selects the parts of a position's history that its cache key covers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyRules {
    /// The number of earlier positions in the key (option `CacheHistoryLength`, 0 … 7).
    pub history_length: usize,
    /// The width of a bucket of rule-50 counters, in plies (option `MoveRuleBucketSize`, 1 … [`WIDEST_RULE50_BUCKET`]).
    pub rule50_bucket: u16,
}

impl KeyRules {
    /// Reads the rules from the engine's options.
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

/// The cache key of the last position of `history`. It covers the position, its repetitions, the bucket of its rule-50
/// counter, and the earlier positions that `rules` ask for. (lc0's key covers only the position and its repetitions.)
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

/// The first counter of the bucket that contains `rule50_ply`. `size` is the width of a bucket, in plies.
#[inline]
fn rule50_bucket(rule50_ply: u16, size: u16) -> u16 {
    let size = match rule50_ply {
        0..WIDEST_RULE50_BUCKET => size,
        WIDEST_RULE50_BUCKET..FIRST_EXACT_RULE50_PLY => size.min(LATE_RULE50_BUCKET),
        _ => return rule50_ply,
    };
    rule50_ply / size.max(1) * size.max(1)
}

/// A key of everything that a network sees in the last eight positions of `history`, for recordings.
pub fn full_key(history: &PositionHistory) -> u64 {
    let key = mix(position_key(history.last()) ^ u64::from(history.last().rule50_ply()) << 32);
    earlier_positions(history, 7).fold(key, |key, position| mix(key ^ position_key(position)))
}

/// A key of the position and its repetition count.
#[inline]
fn position_key(position: &Position) -> u64 {
    position.key() ^ u64::from(position.repetitions()).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The `count` positions before the last one, latest first. A shorter history yields fewer.
fn earlier_positions(history: &PositionHistory, count: usize) -> impl Iterator<Item = &Position> {
    history.positions().iter().rev().skip(1).take(count)
}

/// One step of SplitMix64 and its finaliser (Steele, Lea, Flood 2014). Every bit of the result depends on every bit of
/// `value`.
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
                // The difference between the counters of two positions that share an evaluation.
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
