//! A shard of the evaluation cache: a ring of records and an index.
//! ```text
//! ring    [ key | q d | m e n | p p p p | p p … ][ key | q d | … ] …   u64 words, record after record
//!           ^ overwritten first                          ^ head
//! index   [ tag lap at | tag lap at | tag lap at | tag lap at ] …      buckets of four u64
//! ```
//! Records vary in length (two bytes for each prior, see [`CompactPrior`]), so the ring holds as many as fit, and a new
//! record overwrites the oldest. An index entry holds a tag, which is part of the key, and the lap on which its record
//! was written, which shows whether the record has been overwritten since. Two keys can have the same tag, so a lookup
//! also compares the key in the record. Records are written front to back, so an overwritten record loses its key
//! first.

use super::cache_ring::Ring;
use crate::{CompactPrior, Evaluation, Value};
use rukh_base::sync::Arc;
use rukh_base::zeroed_array::ZeroedSlice;
use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// The number of words of a record before its priors: one for the key, one for q and d, and one for m, e and the number
/// of moves.
const RECORD_HEADER: usize = 3;
const PRIORS_PER_WORD: usize = 4;
/// The number of words reserved for each entry. They have room for 32 moves, about the average in real games.
pub(super) const WORDS_PER_ENTRY: usize = RECORD_HEADER + 32 / PRIORS_PER_WORD;
/// The number of index entries in a bucket. A cache line holds two buckets.
pub(super) const BUCKET: usize = 4;

/// One part of the cache, with the layout shown at the top of this file. A mutex around it orders all accesses.
pub(super) struct Shard {
    /// The records.
    ring: Ring,
    /// The index in the ring where the next record goes.
    head: usize,
    /// The number of times that the head has passed the end, modulo 256.
    lap: u8,
    /// Whether the head has ever passed the end.
    has_wrapped: bool,
    /// The indices of all shards: buckets of [`BUCKET`] [`IndexEntry`]s. They are in one piece of memory, so that it can
    /// have huge pages: every lookup goes to another place of it, and in small pages would first wait for the place's
    /// address. The entries are atomics because the shards share the memory.
    indices: Arc<ZeroedSlice<AtomicU64>>,
    /// The part of `indices` that belongs to this shard.
    own: Range<usize>,
}

/// The place of a record. From the top: 24 bits of its key, 8 bits for the lap on which it was written, and 32 bits for
/// its index in the ring plus 1. The value 0 means an empty entry.
#[derive(Clone, Copy, PartialEq, Eq)]
struct IndexEntry(u64);

impl IndexEntry {
    fn new(tag: u32, lap: u8, at: usize) -> IndexEntry {
        IndexEntry(u64::from(tag) << 40 | u64::from(lap) << 32 | (at as u64 + 1))
    }

    fn tag(self) -> u32 {
        (self.0 >> 40) as u32
    }

    fn lap(self) -> u8 {
        (self.0 >> 32) as u8
    }

    fn at(self) -> Option<usize> {
        (self.0 as u32).checked_sub(1).map(|at| at as usize)
    }
}

impl Shard {
    /// An empty shard. `own` is its part of `indices`, whose entries are 0.
    pub(super) fn new(ring: Ring, indices: &Arc<ZeroedSlice<AtomicU64>>, own: Range<usize>) -> Shard {
        Shard { ring, head: 0, lap: 0, has_wrapped: false, indices: Arc::clone(indices), own }
    }

    /// The indices of all shards.
    pub(super) fn all_indices(&self) -> Arc<ZeroedSlice<AtomicU64>> {
        Arc::clone(&self.indices)
    }

    #[inline]
    pub(super) fn index(&self) -> &[AtomicU64] {
        &self.indices[self.own.clone()]
    }

    /// The index of `key`'s record. A record with another number of moves belongs to another position with the same
    /// key.
    fn locate(&self, key: u64, moves: usize) -> Option<usize> {
        let at = self.bucket(key).iter().find_map(|entry| self.find(IndexEntry(entry.load(Relaxed)), key))?;
        let [.., m_e_and_count] = self.ring.record(at, RECORD_HEADER)? else { return None };
        (m_e_and_count.load(Relaxed) >> 48 == moves as u64).then_some(at)
    }

    pub(super) fn get(&self, key: u64, moves: usize) -> Option<Evaluation> {
        let at = self.locate(key, moves)?;
        let record = self.ring.record(at, RECORD_HEADER + moves.div_ceil(PRIORS_PER_WORD))?;
        let [_, q_and_d, m_e_and_count, words @ ..] = record else { return None };
        let (q_and_d, m_e_and_count) = (q_and_d.load(Relaxed), m_e_and_count.load(Relaxed));
        let priors = (0..moves)
            .map(|index| {
                let word = words[index / PRIORS_PER_WORD].load(Relaxed);
                CompactPrior::from_bits((word >> (16 * (index % PRIORS_PER_WORD))) as u16).get()
            })
            .collect();
        let value = Value {
            q: f32::from_bits(q_and_d as u32),
            d: f32::from_bits((q_and_d >> 32) as u32),
            m: f32::from_bits(m_e_and_count as u32),
            e: CompactPrior::from_bits((m_e_and_count >> 32) as u16).get(),
        };
        Some(Evaluation { value, priors })
    }

    pub(super) fn insert(&mut self, key: u64, value: Value, priors: &[f32]) {
        let length = RECORD_HEADER + priors.len().div_ceil(PRIORS_PER_WORD);
        if length > Ring::LONGEST_RECORD {
            return;
        }
        // If another thread has inserted the position in the meantime, its record stays. A record of another position
        // with the same key has another number of moves and is replaced.
        if self.locate(key, priors.len()).is_some() {
            return;
        }
        let at = self.make_room(length);
        let Some(record) = self.ring.record(at, length) else { return };
        let both = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let e_and_count = u32::from(CompactPrior::new(value.e).bits()) | (priors.len() as u32) << 16;
        let header = [key, both(value.q.to_bits(), value.d.to_bits()), both(value.m.to_bits(), e_and_count)];
        let (header_words, words) = record.split_at(RECORD_HEADER);
        header_words.iter().zip(header).for_each(|(word, value)| word.store(value, Relaxed));
        // Many priors are packed at a time, because the compiler vectorises that.
        const AT_A_TIME: usize = 8 * PRIORS_PER_WORD;
        for (words, priors) in words.chunks(AT_A_TIME / PRIORS_PER_WORD).zip(priors.chunks(AT_A_TIME)) {
            let mut codes = [0_u16; AT_A_TIME];
            for (code, &prior) in codes.iter_mut().zip(priors) {
                *code = CompactPrior::new(prior).bits();
            }
            for (word, codes) in words.iter().zip(codes.as_chunks::<PRIORS_PER_WORD>().0) {
                word.store(codes.iter().rev().fold(0, |word, &code| word << 16 | u64::from(code)), Relaxed);
            }
        }
        if let Some(entry) = self.entry_to_replace(key) {
            entry.store(IndexEntry::new(tag(key), self.lap, at).0, Relaxed);
        }
    }

    /// Reserves `length` words at the head, and returns their index. Wraps to the start if they do not fit before the end.
    fn make_room(&mut self, length: usize) -> usize {
        self.head = self.ring.next_place(self.head, length).unwrap_or_else(|| {
            self.lap = self.lap.wrapping_add(1);
            self.has_wrapped = true;
            0
        });
        let at = self.head;
        self.head += length;
        at
    }

    /// The index entry to overwrite: the one with the same key, so that no key has two records, or else one whose record
    /// has been overwritten, or an empty one. If there is none of these, it is the entry with the oldest record.
    fn entry_to_replace(&self, key: u64) -> Option<&AtomicU64> {
        let oldest_first = |entry: &&AtomicU64| {
            let entry = IndexEntry(entry.load(Relaxed));
            match entry.at() {
                _ if self.find(entry, key).is_some() => usize::MAX,
                Some(at) if self.is_alive(entry, at) && at < self.head => self.head - at,
                Some(at) if self.is_alive(entry, at) => self.head + self.ring.length() - at,
                _ => usize::MAX - 1,
            }
        };
        self.bucket(key).iter().max_by_key(oldest_first)
    }

    /// The index of the record that `entry` points to, if the record has this key.
    fn find(&self, entry: IndexEntry, key: u64) -> Option<usize> {
        let at = entry.at().filter(|_| entry.tag() == tag(key))?;
        let [stored_key] = self.ring.record(at, 1)? else { return None };
        (self.is_alive(entry, at) && stored_key.load(Relaxed) == key).then_some(at)
    }

    /// Whether the record has not been overwritten. Such a record was written on this lap, or on the previous lap in a
    /// place that the head has not reached.
    fn is_alive(&self, entry: IndexEntry, at: usize) -> bool {
        match self.lap.wrapping_sub(entry.lap()) {
            0 => at < self.head,
            1 => at >= self.head,
            _ => false,
        }
    }

    fn bucket(&self, key: u64) -> &[AtomicU64] {
        bucket(self.index(), key)
    }

    pub(super) fn clear(&mut self) {
        if self.head == 0 {
            return;
        }
        self.index().iter().for_each(|entry| entry.store(0, Relaxed));
        (self.head, self.lap, self.has_wrapped) = (0, 0, false);
    }

    /// The memory of the ring and of the index, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        ((self.ring.length() + self.own.len()) * size_of::<AtomicU64>()) as u64
    }

    /// The words in use, and the capacity in words.
    pub(super) fn fill(&self) -> (usize, usize) {
        let capacity = self.ring.length();
        (if self.has_wrapped { capacity } else { self.head }, capacity)
    }
}

/// Whether the shard with this index may have a record of `key`.
#[inline]
pub(super) fn may_have(index: &[AtomicU64], key: u64) -> bool {
    bucket(index, key).iter().any(|entry| IndexEntry(entry.load(Relaxed)).tag() == tag(key))
}

/// The bucket of a key in the index of its shard.
#[inline]
fn bucket(index: &[AtomicU64], key: u64) -> &[AtomicU64] {
    let start = bucket_number(key, index.len() / BUCKET) * BUCKET;
    &index[start..start + BUCKET]
}

/// Scales the low half of the key to the number of buckets.
#[inline]
pub(super) fn bucket_number(key: u64, buckets: usize) -> usize {
    ((u64::from(key as u32) * buckets as u64) >> 32) as usize
}

/// The top 24 bits of the key. They do not choose the bucket, and only seven of them choose the shard.
fn tag(key: u64) -> u32 {
    (key >> 40) as u32
}
