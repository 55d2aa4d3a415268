//! A growing array that many threads read and extend without a lock.
//!
//! Entries live in fixed-size chunks that are allocated when first needed and never move, so a reference stays
//! good as long as the arena. Threads reserve blocks of entries with one `fetch_add`; a block never crosses a chunk.
//! What is freed goes to the lists of [`super::allocator`]; the arena itself only grows.

use super::sizes::INDEX_BITS;
use crate::sync::OnceLock;
use crate::sync::atomic::{AtomicU64, Ordering};

/// An append-only arena of `T` with 32-bit indices. Index 0 is never handed out, so that it can mean "none".
pub struct Arena<T> {
    chunks: Box<[OnceLock<Box<[T]>>]>,
    /// The next free entry. Wider than the index, so that a failed reservation cannot wrap around.
    next: AtomicU64,
    chunk_bits: u32,
}

impl<T: Default> Arena<T> {
    /// An empty arena of chunks of `2^chunk_bits` entries, at most `2^INDEX_BITS` entries in all.
    pub fn new(chunk_bits: u32) -> Arena<T> {
        let chunk_count = 1_usize << (INDEX_BITS - chunk_bits);
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
        if end > 1 << INDEX_BITS {
            return None;
        }
        let chunk = &self.chunks[(start >> self.chunk_bits) as usize];
        chunk.get_or_init(|| (0..chunk_size).map(|_| T::default()).collect());
        Some(start as u32)
    }

    /// The entry at any index: for an arena whose entries lie beside another's.
    #[inline]
    pub fn get_or_make(&self, index: u32) -> &T {
        let chunk = self.chunks[(index >> self.chunk_bits) as usize]
            .get_or_init(|| (0..1_u64 << self.chunk_bits).map(|_| T::default()).collect());
        &chunk[(index & ((1 << self.chunk_bits) - 1)) as usize]
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

    /// The entry at any index, if its chunk was made.
    pub fn get_made(&self, index: u32) -> Option<&T> {
        let chunk = self.chunks[(index >> self.chunk_bits) as usize].get()?;
        Some(&chunk[(index & ((1 << self.chunk_bits) - 1)) as usize])
    }

    /// All entries that were reserved lie below this index.
    pub fn reserved(&self) -> u64 {
        self.next.load(Ordering::Relaxed).min(1 << INDEX_BITS)
    }

    /// Bytes that the reserved entries take (chunks are allocated a little ahead of that).
    pub fn used_bytes(&self) -> u64 {
        self.reserved() * size_of::<T>() as u64
    }
}
