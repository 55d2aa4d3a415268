//! The memory of the evaluation cache.
//!
//! The memory for `NNCacheSize` entries, about 100 bytes each, is reserved once at the start, and the system provides
//! it page by page as the cache fills. The key chooses one of up to 128 shards. Each shard is a mutex around
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

use crate::backend::{CompactPrior, Evaluation, Value};
use crate::cache_line::{OwnLines, load_ahead_at};
use crate::sync::{Arc, Mutex, MutexGuard, PoisonError};
use crate::zeroed_array::ZeroedSlice;
use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// The number of words of a record before its priors: one for the key, one for q and d, and one for m, e and the number
/// of moves.
const RECORD_HEADER: usize = 3;
const PRIORS_PER_WORD: usize = 4;
/// The number of words reserved for each entry. They have room for 32 moves, about the average in real games.
const WORDS_PER_ENTRY: usize = RECORD_HEADER + 32 / PRIORS_PER_WORD;
/// The number of index entries in a bucket. A cache line holds two buckets.
const BUCKET: usize = 4;
/// The least number of entries in a shard. A small cache has fewer shards.
const MINIMUM_SHARD_ENTRIES: usize = 256;
/// Many more than threads, so that a thread seldom waits for another one.
const MAXIMUM_SHARDS: usize = 128;

/// All shards. Their number is a power of two, or 0 if the cache is off.
pub(super) struct Store {
    shards: Box<[OwnLines<Mutex<Shard>>]>,
    /// Where the index of each shard is.
    index_places: Box<[IndexPlace]>,
    /// The indices of all shards.
    indices: Mutex<Peek>,
}

/// A view of the indices of all shards without their locks. Most positions that are looked up are new, and their buckets
/// show that: then no thread has to wait for another one, or to take the shard's cache lines from another processor core.
#[derive(Clone, Default)]
pub(super) struct Peek {
    indices: Option<Arc<ZeroedSlice<AtomicU64>>>,
    /// The number of index entries of a shard.
    length: usize,
    shards: usize,
}

impl Peek {
    /// Whether there may be a record of `key`. A record that another thread writes at this moment may be missed, and so
    /// may those that were written after a change of the cache's size.
    #[inline]
    pub(super) fn may_have(&self, key: u64) -> bool {
        let Some(indices) = &self.indices else { return false };
        let start = shard_number(key, self.shards) * self.length;
        let bucket = bucket(&indices[start..start + self.length], key);
        bucket.iter().any(|entry| IndexEntry(entry.load(Relaxed)).tag() == tag(key))
    }
}

/// The address and the number of buckets of a shard's index, for a hint that takes no lock. A hint with an old address
/// does no harm, so these are atomics of `std` in every build.
#[derive(Default)]
struct IndexPlace {
    address: std::sync::atomic::AtomicUsize,
    buckets: std::sync::atomic::AtomicUsize,
}

impl IndexPlace {
    fn set(&self, shard: &Shard) {
        let index = shard.index();
        self.address.store(index.as_ptr().addr(), Relaxed);
        self.buckets.store(index.len() / BUCKET, Relaxed);
    }
}

impl Store {
    /// Returns `None` if there is not enough memory.
    pub(super) fn new(entries: usize) -> Option<Store> {
        let index_places: Box<[IndexPlace]> =
            (0..shard_count(entries)).map(|_| IndexPlace::default()).collect();
        let shard = |(shard, place): (Shard, &IndexPlace)| {
            place.set(&shard);
            OwnLines(Mutex::new(shard))
        };
        let shards = new_shards(entries, index_places.len())?;
        let indices = Mutex::new(peek_at(&shards));
        Some(Store {
            shards: shards.into_iter().zip(&index_places).map(shard).collect(),
            index_places,
            indices,
        })
    }

    /// A view of the indices, for as long as the cache keeps its size.
    pub(super) fn peek(&self) -> Peek {
        self.indices.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Empties the store and changes its size, without a change of the number of shards. `false` if the new size needs
    /// another number of shards, or more memory than there is. Then nothing has changed.
    pub(super) fn resize(&self, entries: usize) -> bool {
        let count = self.shards.len();
        if count == 0 || count != shard_count(entries) {
            return false;
        }
        let Some(fresh) = new_shards(entries, count) else { return false };
        *self.indices.lock().unwrap_or_else(PoisonError::into_inner) = peek_at(&fresh);
        for ((shard, place), fresh) in self.shards.iter().zip(&self.index_places).zip(fresh) {
            place.set(&fresh);
            *lock(&shard.0) = fresh;
        }
        true
    }

    #[inline]
    fn shard(&self, key: u64) -> Option<&Mutex<Shard>> {
        Some(&self.shards.get(self.shard_number(key))?.0)
    }

    #[inline]
    fn shard_number(&self, key: u64) -> usize {
        shard_number(key, self.shards.len())
    }

    pub(super) fn get(&self, key: u64, moves: usize) -> Option<Evaluation> {
        lock(self.shard(key)?).get(key, moves)
    }

    /// Starts to load the index entries of `key` into the processor's cache. The index is far larger than that cache,
    /// so the entries are rarely there already.
    pub(super) fn load_ahead(&self, key: u64) {
        if let Some(place) = self.index_places.get(self.shard_number(key)) {
            let bucket = bucket_number(key, place.buckets.load(Relaxed));
            let offset = bucket * size_of::<[u64; BUCKET]>();
            load_ahead_at(place.address.load(Relaxed).wrapping_add(offset));
        }
    }

    pub(super) fn insert(&self, key: u64, value: Value, priors: &[f32]) {
        if let Some(shard) = self.shard(key) {
            lock(shard).insert(key, value, priors);
        }
    }

    pub(super) fn clear(&self) {
        for shard in &self.shards {
            lock(&shard.0).clear();
        }
    }

    pub(super) fn fullness_permille(&self) -> u32 {
        let (filled, capacity) =
            self.shards.iter().map(|shard| lock(&shard.0).fill()).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
        if capacity == 0 { 0 } else { (filled as u64 * 1000 / capacity as u64) as u32 }
    }
}

/// The number of shards of a store with this many entries.
fn shard_count(entries: usize) -> usize {
    match entries {
        0 => 0,
        _ => (entries / MINIMUM_SHARD_ENTRIES + 1).next_power_of_two().min(MAXIMUM_SHARDS),
    }
}

/// `count` empty shards of a store with this many entries. `None` if there is not enough memory.
fn new_shards(entries: usize, count: usize) -> Option<Vec<Shard>> {
    if count == 0 {
        return Some(Vec::new());
    }
    let entries = entries.div_ceil(count).max(MINIMUM_SHARD_ENTRIES);
    // The index has four entries for every three records, so few buckets overflow before the ring wraps.
    let length = (entries / 3 + 1).checked_mul(BUCKET)?;
    let indices = Arc::new(ZeroedSlice::new(length.checked_mul(count)?).ok()?);
    (0..count).map(|shard| Shard::new(entries, &indices, shard * length..(shard + 1) * length)).collect()
}

/// Ignores poisoning: a panic cannot leave a shard in an invalid state.
fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One part of the cache, with the layout shown at the top of this file.
struct Shard {
    /// The records. The vector grows as records are written, mostly on the first lap, so that unused memory is never
    /// touched.
    ring: Vec<u64>,
    /// The largest length of the ring, in words.
    capacity: usize,
    /// The index in the ring where the next record goes.
    head: usize,
    /// The number of times that the head has passed the end, modulo 256.
    lap: u8,
    /// Whether the head has ever passed the end.
    has_wrapped: bool,
    /// The indices of all shards: buckets of [`BUCKET`] [`IndexEntry`]s. They are in one piece of memory, so that it can
    /// have huge pages: every lookup goes to another place of it, and in small pages would first wait for the place's
    /// address. The entries are atomics because the shards share the memory. The lock of the shard orders all accesses.
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
    fn new(entries: usize, indices: &Arc<ZeroedSlice<AtomicU64>>, own: Range<usize>) -> Option<Shard> {
        let capacity = entries.checked_mul(WORDS_PER_ENTRY)?;
        if capacity >= u32::MAX as usize {
            return None; // An index entry has only 32 bits for the place.
        }
        let mut ring = Vec::new();
        ring.try_reserve_exact(capacity).ok()?;
        let indices = Arc::clone(indices);
        Some(Shard { ring, capacity, head: 0, lap: 0, has_wrapped: false, indices, own })
    }

    #[inline]
    fn index(&self) -> &[AtomicU64] {
        &self.indices[self.own.clone()]
    }

    /// The index of `key`'s record. A record with another number of moves belongs to another position with the same
    /// key.
    fn locate(&self, key: u64, moves: usize) -> Option<usize> {
        let at = self.bucket(key).iter().find_map(|entry| self.find(IndexEntry(entry.load(Relaxed)), key))?;
        let stored_moves = self.ring.get(at + 2)? >> 48;
        (stored_moves as usize == moves).then_some(at)
    }

    fn get(&self, key: u64, moves: usize) -> Option<Evaluation> {
        let at = self.locate(key, moves)?;
        let (q_and_d, m_e_and_count) = (*self.ring.get(at + 1)?, *self.ring.get(at + 2)?);
        let start = at + RECORD_HEADER;
        let words = self.ring.get(start..start + moves.div_ceil(PRIORS_PER_WORD))?;
        let priors = (0..moves)
            .map(|index| {
                let bits = words[index / PRIORS_PER_WORD] >> (16 * (index % PRIORS_PER_WORD));
                CompactPrior::from_bits(bits as u16).get()
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

    fn insert(&mut self, key: u64, value: Value, priors: &[f32]) {
        let length = RECORD_HEADER + priors.len().div_ceil(PRIORS_PER_WORD);
        if length > self.capacity || priors.len() > usize::from(u16::MAX) {
            return;
        }
        // If another thread has inserted the position in the meantime, its record stays. A record of another position
        // with the same key has another number of moves and is replaced.
        if self.locate(key, priors.len()).is_some() {
            return;
        }
        let at = self.make_room(length);
        let both = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let e_and_count = u32::from(CompactPrior::new(value.e).bits()) | (priors.len() as u32) << 16;
        let header = [key, both(value.q.to_bits(), value.d.to_bits()), both(value.m.to_bits(), e_and_count)];
        let (header_words, words) = self.ring[at..at + length].split_at_mut(RECORD_HEADER);
        header_words.copy_from_slice(&header);
        // Many priors are packed at a time, because the compiler vectorises that.
        const AT_A_TIME: usize = 8 * PRIORS_PER_WORD;
        for (words, priors) in words.chunks_mut(AT_A_TIME / PRIORS_PER_WORD).zip(priors.chunks(AT_A_TIME)) {
            let mut codes = [0_u16; AT_A_TIME];
            for (code, &prior) in codes.iter_mut().zip(priors) {
                *code = CompactPrior::new(prior).bits();
            }
            for (word, codes) in words.iter_mut().zip(codes.as_chunks::<PRIORS_PER_WORD>().0) {
                *word = codes.iter().rev().fold(0, |word, &code| word << 16 | u64::from(code));
            }
        }
        if let Some(entry) = self.entry_to_replace(key) {
            entry.store(IndexEntry::new(tag(key), self.lap, at).0, Relaxed);
        }
    }

    /// Reserves `length` words at the head, which the ring then has, and returns their index. Wraps to the start if they
    /// do not fit before the end.
    fn make_room(&mut self, length: usize) -> usize {
        if self.head + length > self.capacity {
            self.head = 0;
            self.lap = self.lap.wrapping_add(1);
            self.has_wrapped = true;
        }
        let at = self.head;
        self.head += length;
        if self.ring.len() < self.head {
            // The ring still grows, on the first lap or on a lap that comes closer to the end than the earlier ones.
            // The capacity is reserved, so this never reallocates.
            self.ring.resize(self.head, 0);
        }
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
                Some(at) if self.is_alive(entry, at) => self.head + self.capacity - at,
                _ => usize::MAX - 1,
            }
        };
        self.bucket(key).iter().max_by_key(oldest_first)
    }

    /// The index of the record that `entry` points to, if the record has this key.
    fn find(&self, entry: IndexEntry, key: u64) -> Option<usize> {
        let at = entry.at().filter(|_| entry.tag() == tag(key))?;
        (self.is_alive(entry, at) && self.ring.get(at) == Some(&key)).then_some(at)
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

    fn clear(&mut self) {
        if self.ring.is_empty() {
            return;
        }
        self.ring.clear();
        self.index().iter().for_each(|entry| entry.store(0, Relaxed));
        (self.head, self.lap, self.has_wrapped) = (0, 0, false);
    }

    /// The words in use, and the capacity in words.
    fn fill(&self) -> (usize, usize) {
        (if self.has_wrapped { self.capacity } else { self.head }, self.capacity)
    }
}

/// The number of a key's shard.
#[inline]
fn shard_number(key: u64, shards: usize) -> usize {
    // The number of shards is a power of two, at most 128: the top seven bits choose.
    (key >> 57) as usize & shards.wrapping_sub(1)
}

/// A view of the indices of these shards.
fn peek_at(shards: &[Shard]) -> Peek {
    match shards.first() {
        Some(shard) => {
            Peek { indices: Some(Arc::clone(&shard.indices)), length: shard.own.len(), shards: shards.len() }
        }
        None => Peek::default(),
    }
}

/// The bucket of a key in the index of its shard.
#[inline]
fn bucket(index: &[AtomicU64], key: u64) -> &[AtomicU64] {
    let start = bucket_number(key, index.len() / BUCKET) * BUCKET;
    &index[start..start + BUCKET]
}

/// Scales the low half of the key to the number of buckets.
#[inline]
fn bucket_number(key: u64, buckets: usize) -> usize {
    ((u64::from(key as u32) * buckets as u64) >> 32) as usize
}

/// The top 24 bits of the key. They do not choose the bucket, and only seven of them choose the shard.
fn tag(key: u64) -> u32 {
    (key >> 40) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::position_key::mix;

    fn priors(key: u64) -> Vec<f32> {
        vec![1.0 / (1 + key % 7) as f32; 20 + (key % 23) as usize]
    }

    fn value(key: u64) -> Value {
        Value { q: (key % 1000) as f32 / 1000.0, d: 0.25, m: key as f32, e: (key % 4) as f32 / 4.0 }
    }

    /// Whether `key` is in the store. If it is, its evaluation must be the one that was stored.
    fn check(store: &Store, key: u64) -> bool {
        let Some(found) = store.get(mix(key), priors(key).len()) else {
            return false;
        };
        assert_eq!(found.value, value(key));
        for (found, stored) in found.priors.iter().zip(priors(key)) {
            assert!((found - stored).abs() <= stored / 4096.0);
        }
        true
    }

    #[test]
    fn of_two_positions_with_one_key_the_newer_one_is_found() {
        const ENTRIES: u64 = 5000;
        let store = Store::new(ENTRIES as usize).unwrap();
        for key in 0..10 * ENTRIES {
            store.insert(mix(key), value(key), &priors(key));
            // In the meantime, records of other keys in the same bucket were overwritten.
            let Some(earlier) = key.checked_sub(ENTRIES / 2) else { continue };
            let more_moves = vec![0.02; 50];
            store.insert(mix(earlier), value(earlier + 1), &more_moves);
            let found = store.get(mix(earlier), more_moves.len());
            assert_eq!(found.map(|found| found.value), Some(value(earlier + 1)), "{earlier}");
        }
    }

    #[test]
    fn the_newest_entries_stay_and_are_correct() {
        const ENTRIES: u64 = 5000;
        let store = Store::new(ENTRIES as usize).unwrap();
        let peek = store.peek();
        let mut seen_before = 0;
        for key in 0..20 * ENTRIES {
            seen_before += u64::from(peek.may_have(mix(key)));
            store.insert(mix(key), value(key), &priors(key));
            assert!(check(&store, key), "an entry can be read right after insertion");
            assert!(peek.may_have(mix(key)), "without the lock, too");
        }
        let newest = (19 * ENTRIES..20 * ENTRIES).filter(|&key| check(&store, key)).count() as u64;
        assert!(newest > ENTRIES * 9 / 10, "only {newest} of the newest {ENTRIES} are left");
        assert!((0..18 * ENTRIES).filter(|&key| check(&store, key)).count() == 0, "the oldest are gone");
        assert_eq!(store.fullness_permille(), 1000);
        assert!(seen_before < ENTRIES / 100, "{seen_before} new keys share their tag with another one");
        store.clear();
        assert!(!(0..20 * ENTRIES).any(|key| check(&store, key)));
        assert_eq!(store.fullness_permille(), 0);
    }

    #[test]
    fn another_number_of_moves_is_another_position() {
        let store = Store::new(100).unwrap();
        store.insert(1, value(1), &[0.5, 0.5]);
        assert!(store.get(1, 2).is_some() && store.get(1, 3).is_none());
        store.insert(1, value(2), &[0.2, 0.3, 0.5]);
        assert!(store.get(1, 2).is_none());
        assert_eq!(store.get(1, 3).unwrap().value, value(2));
    }

    #[test]
    fn a_resized_store_is_empty_and_has_the_new_size() {
        let store = Store::new(100_000).unwrap();
        for (entries, key) in [(20_000, 1), (200_000, 2)] {
            (0..100_000).for_each(|key| store.insert(mix(key), value(key), &priors(key)));
            assert!(store.resize(entries));
            assert_eq!(store.fullness_permille(), 0);
            assert!(!(0..100_000).any(|key| check(&store, key)));
            store.insert(mix(key), value(key), &priors(key));
            assert!(check(&store, key));
        }
        for entries in [0, 1, usize::MAX] {
            assert!(!store.resize(entries), "{entries}");
        }
        assert!(!Store::new(0).unwrap().resize(100));
    }

    #[test]
    fn a_cache_may_be_off_or_tiny_and_an_impossible_size_is_refused() {
        let off = Store::new(0).unwrap();
        off.insert(1, value(1), &[1.0]);
        assert!(off.get(1, 1).is_none());
        let small = Store::new(1).unwrap();
        small.insert(1, value(1), &[1.0]);
        assert!(small.get(1, 1).is_some());
        assert!(Store::new(usize::MAX).is_none(), "an error, not an abort");
    }
}
