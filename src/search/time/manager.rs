//! The interface of time managers.

use super::clock::Clock;
use crate::stop::Stopper;

/// Divides the time on the clock among the moves of one game.
pub trait TimeManager: Send {
    /// The stopper for the next move. `game_ply` plies were played before it, and the root already has `reused_nodes`
    /// visits.
    fn stopper(&mut self, clock: &Clock, game_ply: u32, reused_nodes: u64) -> Box<dyn Stopper>;
}
