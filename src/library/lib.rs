#![doc = include_str!("README.md")]
//!
//! # The modules
//!
//! | module | what it holds |
//! |---|---|
//! | `engine` | searches |
//! | `evaluator` | evaluations by the network alone |
//! | `network` | network files |
//! | `position` | positions and the moves before them |
//! | `error` | what may go wrong |

#[cfg(feature = "engine")]
mod engine;
mod error;
mod evaluator;
mod network;
mod position;

#[cfg(feature = "engine")]
pub use engine::{Analysis, Clock, Engine, EngineOptions, Info, Limits, Score, Stopper};
pub use error::Error;
pub use evaluator::{Evaluation, Evaluator, EvaluatorOptions, Pending};
pub use network::Network;
pub use position::{Outcome, Position};
pub use shakmaty as shakmaty_0_30;
