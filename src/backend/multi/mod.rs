//! Backends that contain several backends, for more than one device.
//!
//! | module | what it does |
//! |---|---|
//! | [`multiplexing`] | gives each batch to the next backend that is free, and merges small batches |
//! | [`demux`] | splits each batch among all backends |
//! | [`round_robin`] | gives each batch to the next backend in turn |
//! | [`children`] | describes the backends inside and combines their attributes |

mod children;
mod demux;
mod multiplexing;
mod round_robin;

pub use children::Child;
pub use demux::DemuxBackend;
pub use multiplexing::MultiplexingBackend;
pub use round_robin::RoundRobinBackend;
