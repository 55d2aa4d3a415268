//! The places of one shard of the transposition table: an array of words that grows by a quarter at a time, and whose
//! words never move in memory.
//!
//! The words are in pieces. A longer array has the same pieces and one more:
//! ```text
//!  piece    0      1     2     3     4     5     6     7     8     9   …
//!  words   64  |  16    16    16    16  |  32    32    32    32  |  64 …    each group doubles the length
//! ```
//! An array in one piece would have to be copied to grow. Each step would then leave a hole of another size in the
//! system's heap, and since every thread has a heap of its own, most holes would stay empty. With a limit of
//! 200 MB, eight threads lost some 10 MB by that.

use super::sizes::FIRST_SHARD_LENGTH;
use crate::sync::atomic::AtomicU64;

const FIRST_BITS: u32 = FIRST_SHARD_LENGTH.ilog2();
/// The number of pieces that double the length.
const GROUP: usize = 1 << GROUP_BITS;
const GROUP_BITS: u32 = 2;

/// An array of words that are 0 at first. It begins without any words.
#[derive(Debug, Default)]
pub(super) struct Places {
    pieces: Vec<Box<[AtomicU64]>>,
    length: usize,
}

impl Places {
    /// The number of words.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.length
    }

    /// The size of the words in bytes. The list of pieces is small beside them.
    pub(super) fn bytes(&self) -> u64 {
        (self.length * size_of::<AtomicU64>()) as u64
    }

    /// The word at `index`, which must be less than the length.
    pub(super) fn get(&self, index: usize) -> &AtomicU64 {
        let (piece, offset) = locate(index);
        &self.pieces[piece][offset]
    }

    /// All words, from the one at `first` to the last, and then those before it.
    #[inline]
    pub(super) fn circle_from(&self, first: usize) -> impl Iterator<Item = &AtomicU64> {
        let (piece, offset) = locate(first);
        let (before, after) = self.pieces.split_at(piece.min(self.pieces.len()));
        let (middle, after) = match after {
            [middle, after @ ..] => (&middle[..], after),
            [] => (&[][..], after),
        };
        let (end, start) = middle.split_at(offset.min(middle.len()));
        start.iter().chain(after.iter().flatten()).chain(before.iter().flatten()).chain(end)
    }

    /// Makes the array longer by a quarter or a little less.
    pub(super) fn lengthen(&mut self) {
        let more = match self.pieces.len() {
            0 => FIRST_SHARD_LENGTH,
            count => FIRST_SHARD_LENGTH >> GROUP_BITS << ((count - 1) / GROUP),
        };
        self.pieces.push((0..more).map(|_| AtomicU64::new(0)).collect());
        self.length += more;
    }
}

/// The piece that holds the word at `index`, and its place in the piece.
#[inline]
fn locate(index: usize) -> (usize, usize) {
    let Some(doublings) = (index >> FIRST_BITS).checked_ilog2() else { return (0, index) };
    let piece_bits = FIRST_BITS - GROUP_BITS + doublings;
    // The group begins where the length was doubled.
    let in_group = index - (FIRST_SHARD_LENGTH << doublings);
    (1 + GROUP * doublings as usize + (in_group >> piece_bits), in_group & ((1 << piece_bits) - 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::atomic::Ordering;

    #[test]
    fn words_stay_in_order_while_the_array_grows() {
        let mut places = Places::default();
        assert_eq!(places.circle_from(0).count(), 0);
        for _ in 0..30 {
            let before = places.len();
            let addresses: Vec<_> = places.circle_from(0).map(std::ptr::from_ref).collect();
            places.lengthen();
            // No word has moved.
            assert!(places.circle_from(0).map(std::ptr::from_ref).take(before).eq(addresses));
            assert!(before == 0 || (places.len() - before) * 4 <= before.max(4));
            for (index, place) in places.circle_from(0).enumerate() {
                assert_eq!(place.load(Ordering::Relaxed), if index < before { index as u64 } else { 0 });
                place.store(index as u64, Ordering::Relaxed);
            }
        }
        let length = places.len() as u64;
        for first in [0, 1, 63, 64, 65, 79, 80, 127, 128, 1000, length - 1] {
            assert_eq!(places.get(first as usize).load(Ordering::Relaxed), first);
            let found: Vec<u64> =
                places.circle_from(first as usize).map(|place| place.load(Ordering::Relaxed)).collect();
            assert!(found.into_iter().eq((first..length).chain(0..first)), "from {first} of {length}");
        }
    }
}
