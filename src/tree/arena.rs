//! A growing array that many threads read and extend without a lock.
//!
//! Entries live in fixed-size chunks that are allocated when first needed and never move, so a reference stays
//! good as long as the arena. Threads reserve runs of entries with one `fetch_add`; a run never crosses a chunk.
//! Nothing is freed one by one: a tree that is no longer needed is dropped whole (see [`super::reroot`]).

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// An append-only arena of `T` with 32-bit indices. Index 0 is never handed out, so that it can mean "none".
pub struct Arena<T> {
    chunks: Box<[OnceLock<Box<[T]>>]>,
    /// The next free entry. Wider than the index, so that a failed reservation cannot wrap around.
    next: AtomicU64,
    chunk_bits: u32,
}

impl<T: Default> Arena<T> {
    /// An empty arena of chunks of `2^chunk_bits` entries, at most `2^32` entries in all.
    pub fn new(chunk_bits: u32) -> Arena<T> {
        let chunk_count = 1_usize << (32 - chunk_bits);
        Arena {
            chunks: (0..chunk_count).map(|_| OnceLock::new()).collect(),
            next: AtomicU64::new(0),
            chunk_bits,
        }
    }

    /// Reserves `count` entries in a row within one chunk; `count` must be a power of two, at most a chunk.
    /// Returns the first index, or `None` when all indices are taken.
    pub fn reserve(&self, count: u32) -> Option<u32> {
        debug_assert!(count.is_power_of_two() && count <= 1 << self.chunk_bits);
        // Relaxed: the counter publishes nothing but itself; chunks are published by their `OnceLock`.
        let start = self.next.fetch_add(u64::from(count), Ordering::Relaxed);
        // Mixed sizes could straddle a chunk's end: step over it.
        let chunk_size = 1_u64 << self.chunk_bits;
        let end = start + u64::from(count);
        if start / chunk_size != (end - 1) / chunk_size {
            return self.reserve(count);
        }
        if end > 1 << 32 {
            return None;
        }
        let chunk = &self.chunks[(start >> self.chunk_bits) as usize];
        chunk.get_or_init(|| (0..chunk_size).map(|_| T::default()).collect());
        Some(start as u32)
    }

    /// The entry at a reserved index.
    #[inline]
    pub fn get(&self, index: u32) -> &T {
        let chunk = self.chunks[(index >> self.chunk_bits) as usize].get();
        let Some(chunk) = chunk else {
            unreachable!("arena index {index} was never reserved");
        };
        &chunk[(index & ((1 << self.chunk_bits) - 1)) as usize]
    }

    /// `count` entries from `start`, all from one reservation.
    #[inline]
    pub fn slice(&self, start: u32, count: usize) -> &[T] {
        let chunk = self.chunks[(start >> self.chunk_bits) as usize].get();
        let Some(chunk) = chunk else {
            unreachable!("arena index {start} was never reserved");
        };
        let offset = (start & ((1 << self.chunk_bits) - 1)) as usize;
        &chunk[offset..offset + count]
    }

    /// Bytes that the reserved entries take (chunks are allocated a little ahead of that).
    pub fn used_bytes(&self) -> u64 {
        self.next.load(Ordering::Relaxed).min(1 << 32) * size_of::<T>() as u64
    }
}

/// One thread's private part of an [`Arena`]: hands out entries of a reserved block one run at a time.
#[derive(Debug, Default)]
pub struct Reservation {
    next: u32,
    end: u32,
}

impl Reservation {
    /// Takes `count` entries in a row, from a new block of `block` entries where the old one is used up. The rest
    /// of the old block is lost: `block` should be much larger than `count`.
    #[inline]
    pub fn take<T: Default>(&mut self, arena: &Arena<T>, count: u32, block: u32) -> Option<u32> {
        if self.end - self.next < count {
            let start = arena.reserve(block.max(count.next_power_of_two()))?;
            self.next = start;
            self.end = start + (block.max(count.next_power_of_two()) - 1);
            // Index 0 means "none": skip it. Likewise the very last index, so that `end` cannot overflow.
            if start == 0 {
                self.next = 1;
            }
            if self.end - self.next < count {
                return self.take(arena, count, (2 * block).max(2 * count.next_power_of_two()));
            }
        }
        let start = self.next;
        self.next += count;
        Some(start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::sync::Mutex;

    #[test]
    fn reservations_never_overlap_and_never_give_zero() {
        let arena: Arena<u32> = Arena::new(10);
        let seen = Mutex::new(HashSet::new());
        std::thread::scope(|scope| {
            for thread in 0..4_u32 {
                let (arena, seen) = (&arena, &seen);
                scope.spawn(move || {
                    let mut reservation = Reservation::default();
                    let mut mine = Vec::new();
                    for i in 0..500_u32 {
                        let count = 1 + (i * 7 + thread) % 23;
                        let start = reservation.take(arena, count, 64).expect("room is left");
                        assert_eq!(arena.slice(start, count as usize).len(), count as usize);
                        mine.extend(start..start + count);
                    }
                    let mut seen = seen.lock().expect("no thread panics while it holds the lock");
                    for index in mine {
                        assert_ne!(index, 0);
                        assert!(seen.insert(index), "entry {index} was handed out twice");
                    }
                });
            }
        });
    }

    #[test]
    fn a_run_larger_than_the_block_still_fits() {
        let arena: Arena<u32> = Arena::new(10);
        let mut reservation = Reservation::default();
        let start = reservation.take(&arena, 300, 64).expect("room is left");
        assert_eq!(arena.slice(start, 300).len(), 300);
    }
}
