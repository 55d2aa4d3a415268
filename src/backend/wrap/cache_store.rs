//! The memory of the evaluation cache: up to 128 [shards](super::cache_shard), of which a position's key chooses one.
//!
//! The memory for `NNCacheSize` entries, about 100 bytes each, is reserved once at the start, and the system provides it
//! bit by bit as the cache fills.

use super::cache_ring::new_rings;
use super::cache_shard::{BUCKET, Shard, WORDS_PER_ENTRY, bucket_number, may_have};
use crate::{Evaluation, Value};
use rukh_base::cache_line::{OwnLines, load_ahead_at};
use rukh_base::sync::{Arc, Mutex, MutexGuard, PoisonError};
use rukh_base::zeroed_array::ZeroedSlice;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

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
        may_have(&indices[start..start + self.length], key)
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

    /// The memory of the store when it is full, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.shards.iter().map(|shard| lock(&shard.0).bytes()).sum()
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
    let rings = new_rings(count, entries.checked_mul(WORDS_PER_ENTRY)?)?;
    let own = |shard| shard * length..(shard + 1) * length;
    Some(rings.enumerate().map(|(shard, ring)| Shard::new(ring, &indices, own(shard))).collect())
}

/// Ignores poisoning: a panic cannot leave a shard in an invalid state.
fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
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
            Peek { indices: Some(shard.all_indices()), length: shard.index().len(), shards: shards.len() }
        }
        None => Peek::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::position_key::mix;

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
