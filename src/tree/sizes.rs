//! The sizes of the pieces in which the tree's memory is allocated. Tests under `loom` and `shuttle` use small pieces,
//! because `loom` keeps a history of each atomic.

use super::arena::Arena;
use rukh_base::sync::atomic::{AtomicU32, AtomicU64};

/// An arena with an entry for each node.
pub(super) type PerNode<T> = Arena<T, { 1 << (INDEX_BITS - NODE_CHUNK_BITS) }, { 1 << NODE_CHUNK_BITS }>;
/// The arena of the 32-bit words that priors and links consist of.
pub(super) type Words = Arena<AtomicU32, { 1 << (INDEX_BITS - WORD_CHUNK_BITS) }, { 1 << WORD_CHUNK_BITS }>;

/// The arena of the reference counts of shared nodes, by node.
pub(super) type References =
    Arena<AtomicU32, { 1 << (INDEX_BITS - REFERENCE_CHUNK_BITS) }, { 1 << REFERENCE_CHUNK_BITS }>;
/// The arena of the entries of long shards of the transposition table.
pub(super) type Entries =
    Arena<AtomicU64, { 1 << (INDEX_BITS - ENTRY_CHUNK_BITS) }, { 1 << ENTRY_CHUNK_BITS }>;

/// The number of bits of an index.
const INDEX_BITS: u32 = if IS_MODEL { MODEL_INDEX_BITS } else { 32 };
/// Addresses are reserved for 2^18 nodes at a time (10 MiB) and for 2^22 words (16 MiB), which are several huge pages.
const NODE_CHUNK_BITS: u32 = if IS_MODEL { MODEL_NODE_CHUNK_BITS } else { 18 };
const WORD_CHUNK_BITS: u32 = if IS_MODEL { MODEL_WORD_CHUNK_BITS } else { 22 };
/// 8 MiB of reference counts, and 16 MiB of entries.
const REFERENCE_CHUNK_BITS: u32 = if IS_MODEL { MODEL_NODE_CHUNK_BITS } else { 21 };
const ENTRY_CHUNK_BITS: u32 = if IS_MODEL { MODEL_NODE_CHUNK_BITS } else { 21 };
/// The number of nodes and words that a thread reserves at once: many more than one node needs, and a small part of a
/// chunk.
pub(super) const NODE_BLOCK: u32 = if IS_MODEL { 1 << 2 } else { 1 << 7 };
pub(super) const WORD_BLOCK: u32 = 1 << if IS_MODEL { MODEL_WORD_BLOCK_BITS } else { 12 };
/// More than the length of any run of words. The longest runs are segments of links.
pub(super) const LONGEST_RUN: u32 = if IS_MODEL { 1 << MODEL_WORD_BLOCK_BITS } else { 1 << 10 };
/// The transposition table has 2^11 shards, so that those of a tree of 200 million nodes grow in about a millisecond.
pub(super) const SHARD_BITS: u32 = if IS_MODEL { 0 } else { 11 };
pub(super) const FIRST_SHARD_LENGTH: usize = 4;
/// A shard with more entries than this consists of pieces of so many entries.
pub(super) const PIECE: u32 = if IS_MODEL { 1 << MODEL_NODE_CHUNK_BITS } else { 1 << 9 };

const IS_MODEL: bool = cfg!(any(feature = "loom", feature = "shuttle"));
/// In tests under `loom`, a node has at most three moves. Tests under `shuttle` use endgames, with more moves.
const MODEL_INDEX_BITS: u32 = if cfg!(feature = "loom") { 8 } else { 18 };
const MODEL_NODE_CHUNK_BITS: u32 = if cfg!(feature = "loom") { 3 } else { 6 };
const MODEL_WORD_CHUNK_BITS: u32 = if cfg!(feature = "loom") { 6 } else { 9 };
const MODEL_WORD_BLOCK_BITS: u32 = if cfg!(feature = "loom") { 4 } else { 7 };
