//! Reports of a running search: the best move, info lines, and the statistics of all root moves.
//!
//! | module | contents |
//! |---|---|
//! | [`move_statistics`] | the statistics of all root moves |
//! | [`mod@info_lines`] | the best moves with their scores and lines of play |
//! | [`devices`] | how long each of several devices has waited |
//! | [`root`] | what a finished search has found out about its root, as plain data |
//! | [`mod@best_move`] | the ranking of moves, and the choice of the move to play |
//! | [`score`] | the formulas for scores, which the engine uses too |

mod best_move;
mod devices;
mod info_lines;
mod move_statistics;
mod root;
pub mod score;

pub(crate) use best_move::{best_move, ranked_root_moves};
pub(crate) use devices::device_notice;
pub(crate) use info_lines::{info_lines, is_news};
pub(crate) use move_statistics::move_statistics_lines;
pub use root::{RootMove, RootReport, root_report};
