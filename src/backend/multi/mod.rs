//! Backends that contain several backends, for more than one device, and one that many searches share.
//!
//! | module | what it does |
//! |---|---|
//! | [`multiplexing`] | gives each batch to the next backend that is free, and merges small batches |
//! | [`demux`] | splits each batch among all backends |
//! | [`gathering`] | collects the batches of many searches into large ones for one backend |
//! | [`round_robin`] | gives each batch to the next backend in turn |
//! | [`merge`] | evaluates several batches as one |
//! | [`children`] | describes the backends inside and combines their attributes |
//! | [`meter`] | measures how long a backend works |

mod children;
mod demux;
mod gathering;
mod merge;
mod meter;
mod multiplexing;
mod round_robin;

pub use children::Child;
pub use demux::DemuxBackend;
pub use gathering::{BatchCounts, GatheringBackend, Searching};
pub use multiplexing::MultiplexingBackend;
pub use round_robin::RoundRobinBackend;
