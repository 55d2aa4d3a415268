//! The reasons to stop a search, one small type each.
//!
//! A [`Stopper`] looks at the figures of the search so far and says whether to stop. While it does not stop, it may hint
//! how much longer the search will probably go on.
//!
//! | module | stops when |
//! |---|---|
//! | [`chain`] | one of several stoppers does |
//! | [`nodes`] | the root has enough visits, or this search has made enough playouts |
//! | [`time_limit`] | the move's time is up |
//! | [`goal`] | an average depth is reached, a mate is found that is short enough, or nothing is left to find |
//! | [`kld_gain`] | more visits no longer change the distribution of visits |
//! | [`smart_pruning`] | no later visit can change the best move |
//! | [`speed_limit`] | never; it slows the search down |
//! | [`stopper`] | (the interface of stoppers) |
//!
//! [`build_stoppers`](super::build_stoppers) chooses the stoppers for one `go`. The [time managers](super::time) decide
//! the time for a move.
//!
//! None of this is hot: a stopper is asked once per batch, and by the watchdog some ten times a second.

mod chain;
mod goal;
mod kld_gain;
mod nodes;
mod smart_pruning;
mod speed_limit;
mod stopper;
mod time_limit;

pub use chain::ChainStopper;
pub use goal::{DepthStopper, MateStopper, SolvedStopper};
pub use kld_gain::KldGainStopper;
pub use nodes::{PlayoutsStopper, VisitsStopper};
pub use smart_pruning::SmartPruningStopper;
pub use speed_limit::{SpeedHint, pause_for_speed_limit};
pub use stopper::{IterationStats, Stopper, StopperHints, TimeUsageHint};
pub use time_limit::TimeLimitStopper;

/// The most visits of a root. They are counted in 32 bits, and this leaves room for visits in flight.
pub(crate) const MOST_VISITS: u64 = 4_000_000_000;
