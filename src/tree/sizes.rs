//! In which pieces the tree's memory is made and handed out. A model of a few nodes needs small ones: a model checker
//! keeps a history of each atomic.

/// Nodes and words are numbered with so many bits.
pub(super) const INDEX_BITS: u32 = if IS_MODEL { MODEL_INDEX_BITS } else { 32 };
/// Nodes are allocated 2^14 at a time (640 KiB), words 2^18 (1 MiB).
pub(super) const NODE_CHUNK_BITS: u32 = if IS_MODEL { MODEL_NODE_CHUNK_BITS } else { 14 };
pub(super) const WORD_CHUNK_BITS: u32 = if IS_MODEL { MODEL_WORD_CHUNK_BITS } else { 18 };
/// What one thread reserves at once: large beside one node's needs, small beside a chunk.
pub(super) const NODE_BLOCK: u32 = if IS_MODEL { 1 << 2 } else { 1 << 7 };
pub(super) const WORD_BLOCK: u32 = 1 << if IS_MODEL { MODEL_WORD_BLOCK_BITS } else { 12 };
/// No run is longer: the longest segment of links.
pub(super) const LONGEST_RUN: u32 = if IS_MODEL { 1 << MODEL_WORD_BLOCK_BITS } else { 1 << 10 };
/// The table of transpositions has 2^8 shards.
pub(super) const SHARD_BITS: u32 = if IS_MODEL { 0 } else { 8 };
pub(super) const FIRST_SHARD_LENGTH: usize = if IS_MODEL { 4 } else { 64 };

const IS_MODEL: bool = cfg!(any(feature = "loom", feature = "shuttle"));
/// In `loom`'s models a node has up to three moves; in `shuttle`'s searches as many as in an endgame.
const MODEL_INDEX_BITS: u32 = if cfg!(feature = "loom") { 8 } else { 18 };
const MODEL_NODE_CHUNK_BITS: u32 = if cfg!(feature = "loom") { 3 } else { 6 };
const MODEL_WORD_CHUNK_BITS: u32 = if cfg!(feature = "loom") { 6 } else { 9 };
const MODEL_WORD_BLOCK_BITS: u32 = if cfg!(feature = "loom") { 4 } else { 7 };
