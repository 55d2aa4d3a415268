//! A shard of the transposition table: a hash table of entries with linear probing.
//!
//! A short shard has its entries in a box. The entries of a longer one lie in *pieces* of one arena for all shards. The
//! arena has huge pages, which are faster to look into, and which the system takes back much faster when the process ends.

use super::node_id::NodeId;
use super::sizes::{Entries, PIECE};
use rukh_base::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use rukh_base::sync::{Mutex, MutexGuard, PoisonError};

/// The memory of the long shards.
#[derive(Default)]
pub(super) struct Pieces {
    arena: Entries,
    /// The pieces that no shard uses, each by its first entry.
    free: Mutex<Vec<u32>>,
}

impl Pieces {
    /// Pieces of zeros for `length` entries. `None` if the arena is full.
    fn take(&self, length: usize) -> Option<Vec<u32>> {
        let mut starts = Vec::with_capacity(length / PIECE as usize);
        while starts.len() * (PIECE as usize) < length {
            let freed = self.free().pop();
            let Some(start) = freed.or_else(|| self.arena.reserve(PIECE)) else {
                self.free().append(&mut starts);
                return None;
            };
            if freed.is_some() {
                let entries = self.arena.slice(start, PIECE as usize);
                entries.iter().for_each(|entry| entry.store(0, Ordering::Relaxed));
            }
            starts.push(start);
        }
        Some(starts)
    }

    fn free(&self) -> MutexGuard<'_, Vec<u32>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug, Default)]
pub(super) struct Shard {
    length: usize,
    /// The first entry of each piece. None if the shard is short.
    pieces: Box<[u32]>,
    /// The entries of a short shard. An entry is the upper half of the key and the node's index, or 0 if it is free.
    short: Box<[AtomicU64]>,
    pub(super) used: AtomicUsize,
}

impl Shard {
    /// An empty shard of about `length` entries.
    fn new(length: usize, pieces: &Pieces) -> Shard {
        let in_pieces = length.next_multiple_of(PIECE as usize);
        let used = AtomicUsize::new(0);
        match (length > PIECE as usize).then(|| pieces.take(in_pieces)).flatten() {
            Some(pieces) => Shard { length: in_pieces, pieces: pieces.into(), short: Box::default(), used },
            None => {
                let short = (0..length).map(|_| AtomicU64::new(0)).collect();
                Shard { length, pieces: Box::default(), short, used }
            }
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        (self.length * size_of::<AtomicU64>()) as u64
    }

    pub(super) fn is_full(&self) -> bool {
        4 * self.used.load(Ordering::Relaxed) >= 3 * self.length
    }

    /// Replaces the shard by one that is longer by at least a quarter and `least` entries.
    pub(super) fn grow(&mut self, least: usize, pieces: &Pieces) {
        let fresh = Shard::new(self.length + (self.length / 4).max(least), pieces);
        for place in 0..self.length {
            let entry = self.entry(place, pieces).load(Ordering::Relaxed);
            if entry != 0 {
                fresh.enter(entry, pieces);
            }
        }
        let old = std::mem::replace(self, fresh);
        if !old.pieces.is_empty() {
            pieces.free().extend_from_slice(&old.pieces);
        }
    }

    #[inline]
    fn entry<'shard>(&'shard self, place: usize, pieces: &'shard Pieces) -> &'shard AtomicU64 {
        match self.pieces.get(place / PIECE as usize) {
            Some(start) => pieces.arena.get(start + place as u32 % PIECE),
            None => &self.short[place],
        }
    }

    /// The first place for an entry with this key.
    fn first_place(&self, entry_key: u32) -> usize {
        ((u64::from(entry_key) * self.length as u64) >> 32) as usize
    }

    /// All places, in the order in which a search for an entry with this key probes them.
    fn probed(&self, entry_key: u32) -> impl Iterator<Item = usize> + use<> {
        let first = self.first_place(entry_key);
        (first..self.length).chain(0..first)
    }

    /// All entries, in the order in which a search for an entry with this key probes them.
    #[inline]
    pub(super) fn entries<'shard>(
        &'shard self,
        entry_key: u32,
        pieces: &'shard Pieces,
    ) -> impl Iterator<Item = &'shard AtomicU64> {
        self.probed(entry_key).map(|place| self.entry(place, pieces))
    }

    /// Removes the entry of the node `id`, whose key begins with the bits of `key_start`; the bits that are unknown are
    /// zero. Later entries of the same run of entries move up, so that a search for them does not end at the gap. `false`
    /// if the shard has no such entry.
    pub(super) fn remove(&mut self, id: NodeId, key_start: u32, pieces: &Pieces) -> bool {
        let length = self.length;
        let entry_at = |place: usize| self.entry(place, pieces).load(Ordering::Relaxed);
        let Some(mut gap) = self.probed(key_start).find(|&place| entry_at(place) as u32 == id.raw()) else {
            return false;
        };
        let mut place = gap;
        loop {
            place = (place + 1) % length;
            let entry = entry_at(place);
            if entry == 0 || place == gap {
                break;
            }
            // The entry may move to the gap unless its first place lies between the gap and the entry's place.
            let first = self.first_place((entry >> 32) as u32);
            if (place + length - first) % length >= (place + length - gap) % length {
                self.entry(gap, pieces).store(entry, Ordering::Relaxed);
                gap = place;
            }
        }
        self.entry(gap, pieces).store(0, Ordering::Relaxed);
        self.used.fetch_sub(1, Ordering::Relaxed);
        true
    }

    /// Adds an entry that the shard does not have yet.
    fn enter(&self, entry: u64, pieces: &Pieces) {
        let mut entries = self.entries((entry >> 32) as u32, pieces);
        if let Some(free) = entries.find(|place| place.load(Ordering::Relaxed) == 0) {
            free.store(entry, Ordering::Relaxed);
            self.used.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::*;

    #[test]
    fn a_long_shard_keeps_its_entries_when_it_grows_and_others_get_its_pieces() {
        let pieces = Pieces::default();
        let mut shard = Shard::default();
        let entry_of = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15) & !0xFFFF_FFFF | number;
        let count = 5 * u64::from(PIECE);
        for number in 1..=count {
            if shard.is_full() {
                shard.grow(4, &pieces);
            }
            shard.enter(entry_of(number), &pieces);
        }
        assert!(shard.pieces.len() > 5 && shard.length == shard.pieces.len() * PIECE as usize);
        for number in 1..=count {
            let mut entries = shard.entries((entry_of(number) >> 32) as u32, &pieces);
            let found = entries.find(|entry| [0, entry_of(number)].contains(&entry.load(Ordering::Relaxed)));
            assert_eq!(found.map(|entry| entry.load(Ordering::Relaxed)), Some(entry_of(number)));
        }
        // Another shard begins with zeros in pieces that were used before.
        assert!(!pieces.free().is_empty());
        let reserved = pieces.arena.reserved();
        let other = Shard::new(PIECE as usize + 1, &pieces);
        assert!(pieces.arena.reserved() == reserved && !other.pieces.is_empty());
        assert!(other.entries(0, &pieces).all(|entry| entry.load(Ordering::Relaxed) == 0));
    }
}
