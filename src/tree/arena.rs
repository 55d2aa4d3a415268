//! A growing array that many threads read and extend without a lock.
//!
//! Entries live in chunks of fixed size, which are allocated when they are first needed and never move. A reference to
//! an entry therefore stays valid as long as the arena exists. Threads reserve blocks of entries with one `fetch_add`,
//! and a block lies within one chunk. Freed entries go to the lists of [`super::allocator`]; the arena itself only
//! grows.

use rukh_base::cache_line::OwnLines;
use rukh_base::sync::OnceLock;
use rukh_base::sync::atomic::{AtomicU64, Ordering};
#[cfg(not(any(feature = "loom", feature = "shuttle")))]
use rukh_base::zeroed_array::ZeroedArray;

/// The first bytes of an arena are not in huge pages, so that a small tree takes little memory. They are as many as a huge
/// page has.
#[cfg(not(any(feature = "loom", feature = "shuttle")))]
const BYTES_WITHOUT_HUGE_PAGES: usize = 1 << 21;

#[cfg(not(any(feature = "loom", feature = "shuttle")))]
pub(super) type Chunk<T, const CHUNK: usize> = ZeroedArray<T, CHUNK>;
/// The atomics of a model checker cannot be made from zeros.
#[cfg(any(feature = "loom", feature = "shuttle"))]
pub(super) type Chunk<T, const CHUNK: usize> = Box<[T; CHUNK]>;

/// A type that an arena can contain. A new entry has the default value, whose bytes are all zero.
#[cfg(not(any(feature = "loom", feature = "shuttle")))]
pub(super) trait Entry: Default + zerocopy::FromZeros {}
#[cfg(not(any(feature = "loom", feature = "shuttle")))]
impl<T: Default + zerocopy::FromZeros> Entry for T {}
#[cfg(any(feature = "loom", feature = "shuttle"))]
pub(super) trait Entry: Default {}
#[cfg(any(feature = "loom", feature = "shuttle"))]
impl<T: Default> Entry for T {}

/// An append-only arena of `T` with 32-bit indices: at most `CHUNKS` chunks of `CHUNK` entries. [`super::allocator`]
/// skips index 0, so that it can mean "none".
///
/// Both numbers are powers of two that are known at compile time. So an index is split by a shift and a mask, and needs
/// no bounds check if the arena has an entry for every 32-bit index.
pub(super) struct Arena<T, const CHUNKS: usize, const CHUNK: usize> {
    chunks: Box<[OnceLock<Chunk<T, CHUNK>>; CHUNKS]>,
    /// The next free index. It has more bits than an index needs, so that a failed reservation cannot wrap around.
    next: OwnLines<AtomicU64>,
}

impl<T, const CHUNKS: usize, const CHUNK: usize> Default for Arena<T, CHUNKS, CHUNK> {
    fn default() -> Self {
        Arena { chunks: boxed_array(OnceLock::new), next: OwnLines::default() }
    }
}

impl<T: Entry, const CHUNKS: usize, const CHUNK: usize> Arena<T, CHUNKS, CHUNK> {
    const CAPACITY: u64 = {
        assert!(CHUNKS.is_power_of_two() && CHUNK.is_power_of_two());
        CHUNKS as u64 * CHUNK as u64
    };

    /// Reserves `count` consecutive entries within one chunk. `count` must be a power of two and at most `CHUNK`.
    /// Returns the first index, or `None` if all indices are taken.
    pub(super) fn reserve(&self, count: u32) -> Option<u32> {
        debug_assert!(count.is_power_of_two() && count as usize <= CHUNK);
        // Relaxed suffices, because the counter publishes no other data. The `OnceLock` of a chunk publishes the chunk.
        let start = self.next.fetch_add(u64::from(count), Ordering::Relaxed);
        // A block may cross the end of a chunk, because blocks have different sizes. Such a block is skipped.
        let end = start + u64::from(count);
        if start / CHUNK as u64 != (end - 1) / CHUNK as u64 {
            return self.reserve(count);
        }
        if end > Self::CAPACITY {
            return None;
        }
        self.get_or_make(start as u32);
        Some(start as u32)
    }

    /// The entry at any index, reserved or not. Its chunk is allocated if necessary. This is for an arena
    /// with the same indices as another arena.
    #[inline]
    pub(super) fn get_or_make(&self, index: u32) -> &T {
        let number = chunk_of::<CHUNK>(index);
        let chunk = self.chunks[number].get_or_init(|| new_chunk(number == 0));
        &chunk[index as usize % CHUNK]
    }

    /// The entry at a reserved index.
    #[inline]
    pub(super) fn get(&self, index: u32) -> &T {
        &self.chunk(index)[index as usize % CHUNK]
    }

    /// The `count` entries from `start` on, which must come from one reservation.
    #[inline]
    pub(super) fn slice(&self, start: u32, count: usize) -> &[T] {
        &self.chunk(start)[start as usize % CHUNK..][..count]
    }

    #[inline]
    fn chunk(&self, index: u32) -> &[T; CHUNK] {
        let chunk = self.chunks[chunk_of::<CHUNK>(index)].get();
        let Some(chunk) = chunk else {
            unreachable!("arena index {index} was never reserved");
        };
        chunk
    }

    /// The entry at any index, if its chunk is allocated.
    pub(super) fn get_made(&self, index: u32) -> Option<&T> {
        let chunk = self.chunks[chunk_of::<CHUNK>(index)].get()?;
        Some(&chunk[index as usize % CHUNK])
    }

    /// The entries from any index on to the end of its chunk, or none if the chunk is not allocated.
    pub(super) fn made_from(&self, start: u32) -> &[T] {
        let chunk = self.chunks[chunk_of::<CHUNK>(start)].get();
        chunk.map_or(&[], |chunk| &chunk[start as usize % CHUNK..])
    }

    /// The index after the last reserved one.
    pub(super) fn reserved(&self) -> u64 {
        self.next.load(Ordering::Relaxed).min(Self::CAPACITY)
    }

    /// The memory of the arena in so many parts, which different threads may free.
    pub(super) fn into_parts(self, parts: usize) -> Vec<Vec<Chunk<T, CHUNK>>> {
        let mut divided: Vec<Vec<_>> = (0..parts.max(1)).map(|_| Vec::new()).collect();
        let chunks = Vec::from(self.chunks as Box<[_]>).into_iter().filter_map(OnceLock::into_inner);
        chunks.zip((0..divided.len()).cycle()).for_each(|(chunk, part)| divided[part].push(chunk));
        divided
    }

    /// The size of the reserved entries in bytes. The memory that the system has provided is slightly larger.
    pub(super) fn used_bytes(&self) -> u64 {
        self.reserved() * size_of::<T>() as u64
    }
}

#[inline]
fn chunk_of<const CHUNK: usize>(index: u32) -> usize {
    index as usize / CHUNK
}

#[cfg(not(any(feature = "loom", feature = "shuttle")))]
fn new_chunk<T: Entry, const CHUNK: usize>(is_first: bool) -> Chunk<T, CHUNK> {
    ZeroedArray::new(if is_first { BYTES_WITHOUT_HUGE_PAGES } else { 0 })
}

#[cfg(any(feature = "loom", feature = "shuttle"))]
fn new_chunk<T: Entry, const CHUNK: usize>(_: bool) -> Chunk<T, CHUNK> {
    boxed_array(T::default)
}

/// An array of values made by `make`, built on the heap because it may be too large for the stack.
fn boxed_array<T, const LENGTH: usize>(make: impl Fn() -> T) -> Box<[T; LENGTH]> {
    let entries: Box<[T]> = (0..LENGTH).map(|_| make()).collect();
    let Ok(entries) = entries.try_into() else { unreachable!("it has that length") };
    entries
}
