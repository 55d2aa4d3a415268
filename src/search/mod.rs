//! Gathers leaves into batches, selects, backs up, decides when to stop.

pub mod info;
pub mod limits;
pub mod stopper;
pub mod stoppers;
pub mod time;

pub use info::{BestMove, Responder, Score, ThinkingInfo};
pub use limits::{GoParams, PositionCommand, StartPosition};
pub use stopper::{IterationStats, Stopper, StopperHints, TimeUsageHint};
