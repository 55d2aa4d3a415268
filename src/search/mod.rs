//! Gathers leaves into batches, selects, backs up, decides when to stop.

pub mod stopper;

pub use stopper::{IterationStats, Stopper, StopperHints, TimeUsageHint};
