//! The memory of the evaluation cache's records: for each shard a ring of words, all of them in one map.
//!
//! The rings are cut into pieces, and lie piece by piece side by side:
//! ```text
//! piece 0 of ring 0 | piece 0 of ring 1 | … | piece 1 of ring 0 | piece 1 of ring 1 | …
//! ```
//! All rings fill alike. So the memory that is in use is always the first part of the map, and huge pages waste nothing.
//! They are faster to look into, and the system takes them back much faster when the process ends.

use rukh_base::sync::Arc;
use rukh_base::zeroed_array::ZeroedSlice;
use std::sync::atomic::AtomicU64;

/// The number of words of a piece. Its end stays unused if the next record does not fit, some six words on average.
const PIECE: usize = 512;

/// The words of one shard. They are atomics because the rings share a map; the shard's lock orders all accesses.
pub(super) struct Ring {
    words: Arc<ZeroedSlice<AtomicU64>>,
    number: usize,
    rings: usize,
    /// The number of words of the ring.
    length: usize,
}

/// `count` rings of at most `length` words of zeros, and at least one piece. `None` if there is not enough memory, or if
/// an index would need more than 32 bits.
pub(super) fn new_rings(count: usize, length: usize) -> Option<impl Iterator<Item = Ring>> {
    let length = (length / PIECE).max(1) * PIECE;
    if length >= u32::MAX as usize {
        return None;
    }
    let words = Arc::new(ZeroedSlice::new(length.checked_mul(count)?).ok()?);
    Some((0..count).map(move |number| Ring { words: Arc::clone(&words), number, rings: count, length }))
}

impl Ring {
    /// The most words that a record may have.
    pub(super) const LONGEST_RECORD: usize = PIECE;

    /// The number of words.
    pub(super) fn length(&self) -> usize {
        self.length
    }

    /// Where a record of `length` words can begin, from `at` on. `None` if there is no room before the end of the ring.
    pub(super) fn next_place(&self, at: usize, length: usize) -> Option<usize> {
        let fits = at % PIECE + length <= PIECE;
        let place = if fits { at } else { at.next_multiple_of(PIECE) };
        (place + length <= self.length).then_some(place)
    }

    /// The `length` words of the record that begins at the word `at`. `None` if a piece ends among them.
    #[inline]
    pub(super) fn record(&self, at: usize, length: usize) -> Option<&[AtomicU64]> {
        let (piece, word) = (at / PIECE, at % PIECE);
        let start = (piece * self.rings + self.number) * PIECE;
        self.words.get(start..start + PIECE)?.get(word..word + length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn every_word_of_a_ring_is_one_of_its_own() {
        let rings: Vec<Ring> = new_rings(3, 3 * PIECE - 1).expect("there is room for three rings").collect();
        assert_eq!(rings.len(), 3);
        for ring in &rings {
            assert_eq!(ring.length(), 2 * PIECE);
            for at in 0..ring.length() {
                let word = &ring.record(at, 1).expect("the word is in the ring")[0];
                assert_eq!(word.swap(1, Relaxed), 0, "word {at} of ring {}", ring.number);
            }
        }
        assert!(rings[0].words.iter().all(|word| word.load(Relaxed) == 1));
        assert!(rings[2].record(2 * PIECE, 1).is_none(), "beyond the end");
    }

    #[test]
    fn a_record_lies_in_one_piece() {
        let ring = new_rings(2, 3 * PIECE).and_then(|mut rings| rings.next()).expect("there is room");
        assert_eq!(ring.next_place(0, PIECE), Some(0));
        assert_eq!(ring.next_place(PIECE - 5, 5), Some(PIECE - 5));
        assert_eq!(ring.next_place(PIECE - 5, 6), Some(PIECE));
        assert_eq!(ring.next_place(3 * PIECE - 5, 5), Some(3 * PIECE - 5));
        assert_eq!(ring.next_place(3 * PIECE - 5, 6), None, "the ring ends");
        assert!(ring.record(PIECE - 5, 5).is_some() && ring.record(PIECE - 5, 6).is_none());
    }

    #[test]
    fn a_ring_of_impossible_length_is_refused() {
        assert!(new_rings(128, u32::MAX as usize).is_none(), "more than 32 bits");
        assert!(new_rings(128, usize::MAX).is_none());
    }
}
