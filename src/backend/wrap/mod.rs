//! Decorators: backends that contain another backend, or two in the case of `check`.
//!
//! | module | what it does |
//! |---|---|
//! | [`cache`] | answers from the evaluation cache, and evaluates the rest |
//! | [`cache_store`] | holds the shards of the cache |
//! | [`cache_shard`] | holds a part of the records, with an index |
//! | [`cache_ring`] | the memory of the records |
//! | [`batch_split`] | accepts larger batches than the backend inside |
//! | [`recover`] | evaluates on the processor while the device inside is lost |
//! | [`check`] | compares two backends and reports the differences |
//! | [`record`] | writes every evaluation to a file, or reads evaluations from such a file |

mod batch_split;
mod cache;
mod cache_ring;
mod cache_shard;
mod cache_store;
mod check;
mod record;
mod recover;

pub use batch_split::BatchSplittingBackend;
pub use cache::fitting_entries;
pub use cache::{BYTES_PER_ENTRY, CachingBackend};
pub use check::{CheckBackend, CheckMode, CheckOptions, ReportSink};
pub use record::{RecordingBackend, ReplayingBackend};
pub use recover::{Make, RecoveringBackend, RecoveryPlan};
