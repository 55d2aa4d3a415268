//! The backends of the players: one for each network, shared by all games.

use super::config::PlayerConfig;
use crate::concurrent::evaluator::{SharedEvaluator, searches_at_once};
use rukh_backend::BackendError;
use std::sync::Arc;

/// Makes the backends of both players. They are one if the players have the same network and the same settings of the
/// backend.
pub(super) fn make(players: &[PlayerConfig; 2]) -> Result<[Arc<SharedEvaluator>; 2], BackendError> {
    let [player1, player2] = players;
    let first = Arc::new(SharedEvaluator::new(&player1.options)?);
    let second = match first.serves(&player2.options) {
        true => Arc::clone(&first),
        false => Arc::new(SharedEvaluator::new(&player2.options)?),
    };
    Ok([first, second])
}

/// The number of games to play at once if the user does not say: as many as keep the backends busy.
pub(super) fn games_at_once(evaluators: &[Arc<SharedEvaluator>; 2], players: &[PlayerConfig; 2]) -> usize {
    let to_fill = evaluators
        .iter()
        .zip(players)
        .filter_map(|(evaluator, player)| evaluator.searches_to_fill(&player.options));
    // Two networks take turns in each game.
    let factor = if Arc::ptr_eq(&evaluators[0], &evaluators[1]) { 1 } else { 2 };
    searches_at_once(to_fill.max().map(|games| factor * games))
}
