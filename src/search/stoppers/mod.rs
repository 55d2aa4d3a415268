//! The reasons to stop a search, one small object each.
//!
//! A [`Stopper`](super::Stopper) looks at the figures of the search so far and says whether to stop; while it
//! says no, it may tell how much longer it will probably say so. Each file here holds one idea:
//!
//! | file | stops when |
//! |---|---|
//! | [`nodes`] | the root has so many visits, or this search has made so many playouts |
//! | [`time_limit`] | so much time has passed since the move's clock started |
//! | [`goal`] | an average depth is reached, a mate in so many moves is found |
//! | [`kld_gain`] | more visits no longer change the distribution of visits |
//! | [`smart_pruning`] | nothing that is still to come can change the move |
//!
//! [`speed_limit`] is the odd one: it stops nothing, it slows down. [`chain`] asks all of them in order, and
//! [`build`] chooses them for one `go`. The clock's share of a move is not decided here but in
//! [`time`](super::time).
//!
//! None of this is hot: a stopper is asked once per batch and by a watchdog some ten times a second.

pub mod build;
pub mod chain;
pub mod goal;
pub mod kld_gain;
pub mod nodes;
pub mod smart_pruning;
pub mod speed_limit;
pub mod time_limit;

pub use build::{SearchStart, build_stoppers};
pub use chain::ChainStopper;
pub use goal::{DepthStopper, MateStopper, SolvedStopper};
pub use kld_gain::KldGainStopper;
pub use nodes::{PlayoutsStopper, VisitsStopper};
pub use smart_pruning::SmartPruningStopper;
pub use speed_limit::{SpeedHint, pause_for_speed_limit};
pub use time_limit::TimeLimitStopper;
