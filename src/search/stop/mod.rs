//! The stoppers: each has its own reason to stop a search.
//!
//! A [`Stopper`] reads the statistics of the search so far and decides whether to stop. While it does not stop, it may
//! hint how much longer the search will probably run.
//!
//! | module | stops when |
//! |---|---|
//! | [`chain`] | one of several stoppers stops |
//! | [`nodes`] | the root has enough visits, or this search has made enough playouts |
//! | [`time_limit`] | the time for the move is up |
//! | [`goal`] | the search has reached an average depth, found a short enough mate, proven the result, or has no choice |
//! | [`kld_gain`] | more visits no longer change the distribution of visits |
//! | [`smart_pruning`] | no move will catch up with the most visited one, or all others lose |
//! | [`patience`] | the search has not evaluated anything for too long |
//! | [`speed_limit`] | never; it tells other stoppers the speed to which the search is limited |
//! | [`stopper`] | (the interface of stoppers) |
//!
//! [`build_stoppers`](super::build_stoppers) chooses the stoppers for one `go`. The [time managers](super::time) decide
//! the time for a move.
//!
//! Stoppers need not be fast: a worker asks them once per batch, and the watchdog asks them about ten times a second if
//! the time is limited.

mod chain;
mod goal;
mod kld_gain;
mod nodes;
mod patience;
mod smart_pruning;
mod speed_limit;
mod stopper;
mod time_limit;

pub use chain::ChainStopper;
pub use goal::{DepthStopper, Enough, MateStopper, SolvedStopper};
pub use kld_gain::KldGainStopper;
pub use nodes::{PlayoutsStopper, VisitsStopper};
pub use patience::PatienceStopper;
pub use smart_pruning::SmartPruningStopper;
pub use speed_limit::{SpeedHint, pause_for_speed_limit};
pub use stopper::{IterationStats, Stopper, StopperHints, TimeUsageHint};
pub use time_limit::TimeLimitStopper;

/// The maximum number of visits of a root. Visits are counted in 32 bits, and this limit leaves room for visits in
/// flight.
pub(crate) const MOST_VISITS: u64 = 4_000_000_000;
