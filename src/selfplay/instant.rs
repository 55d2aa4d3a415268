//! Chooses moves without a search, as lc0's tournaments do with `--policy-mode-size` and `--value-mode-size`: by the
//! network's policy for the position, or by its value for the positions after each move.

use rukh_backend::ticket::evaluate_one;
use rukh_backend::{Added, Backend, BackendError, EvalRequest, Evaluation, Value};
use rukh_chess::{GameResult, Move, PositionHistory};
use rukh_tree::Sample;

/// A move that was chosen without a search.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Instant {
    pub(super) chosen: Move,
    /// The network's value of the position, or of the position after the move, from the mover's view.
    pub(super) value: Sample,
    /// The positions that were evaluated.
    pub(super) evaluations: u64,
}

/// The move that the network's policy prefers in the last position of `history`; the first one of equals. `None` without
/// a legal move.
///
/// # Errors
/// The backend fails.
pub(super) fn by_policy(
    backend: &dyn Backend,
    history: &PositionHistory,
) -> Result<Option<Instant>, BackendError> {
    let Evaluation { value, priors } = evaluate(backend, history)?;
    let value = Sample { wl: value.q, d: value.d, m: value.m };
    let best = first_highest(priors);
    let chosen = best.and_then(|best| history.last().legal_moves().get(best).copied());
    Ok(chosen.map(|chosen| Instant { chosen, value, evaluations: 1 }))
}

/// The network's own evaluation of the last position of `history`.
///
/// # Errors
/// The backend fails.
pub(super) fn evaluate(backend: &dyn Backend, history: &PositionHistory) -> Result<Evaluation, BackendError> {
    let mut moves = Vec::new();
    history.last().packed_moves(&mut moves);
    evaluate_one(backend, EvalRequest { history, moves: &moves })
}

/// The move after which the network's value is best for the mover; the first one of equals. Moves that end the game have
/// the value of its result. `None` without a legal move.
///
/// # Errors
/// The backend fails.
pub(super) fn by_value(
    backend: &dyn Backend,
    history: &PositionHistory,
) -> Result<Option<Instant>, BackendError> {
    let moves = history.last().legal_moves();
    let mut batch = backend.new_batch();
    // From the opponent's view. Those that the batch evaluates are filled in later.
    let mut values = Vec::with_capacity(moves.len());
    let mut queued = Vec::new();
    let mut replies = Vec::new();
    let mut after = history.clone();
    for (place, &m) in moves.iter().enumerate() {
        after.push(m);
        values.push(match after.result() {
            Some(GameResult::Drawn) => Value { d: 1.0, ..Value::default() },
            Some(GameResult::Won(_)) => Value { q: -1.0, ..Value::default() },
            None => {
                after.last().packed_moves(&mut replies);
                match batch.add(EvalRequest { history: &after, moves: &replies }) {
                    Added::Ready(evaluation) => evaluation.value,
                    Added::Queued => {
                        queued.push(place);
                        Value::default()
                    }
                }
            }
        });
        after.pop();
    }
    if !queued.is_empty() {
        let evaluations = batch.submit().wait()?;
        for (&place, (value, _)) in queued.iter().zip(evaluations.iter()) {
            values[place] = value;
        }
    }
    let best = first_highest(values.iter().map(|value| -value.q));
    Ok(best.map(|best| {
        let value = values[best];
        Instant {
            chosen: moves[best],
            // The signs change, because the value is from the opponent's view.
            value: Sample { wl: -value.q, d: value.d, m: value.m + 1.0 },
            evaluations: queued.len() as u64,
        }
    }))
}

/// The place of the highest number, or of the first of several; `None` without a number.
fn first_highest(numbers: impl IntoIterator<Item = f32>) -> Option<usize> {
    let numbers = numbers.into_iter().enumerate();
    let best = numbers.reduce(|best, next| if next.1 > best.1 { next } else { best });
    best.map(|(place, _)| place)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rukh_backend::synthetic::TrivialBackend;
    use rukh_chess::{Position, uci_move};

    #[test]
    fn the_first_of_equals_is_taken() {
        assert_eq!(first_highest([0.25, 0.5, 0.5, f32::NAN]), Some(1));
        assert_eq!(first_highest([]), None);
    }

    fn chosen(
        choose: fn(&dyn Backend, &PositionHistory) -> Result<Option<Instant>, BackendError>,
        fen: &str,
    ) -> Option<(String, Sample)> {
        let history = PositionHistory::new(Position::from_fen(fen).unwrap());
        let instant = choose(&TrivialBackend::new(), &history).unwrap();
        instant.map(|instant| (uci_move::text(instant.chosen, false), instant.value))
    }

    /// A mate is better than a knight, and a draw is better than to be behind.
    #[test]
    fn the_value_after_each_move_decides() {
        let (mate, value) = chosen(by_value, "k7/7R/1K6/8/8/7n/8/8 w - - 0 1").unwrap();
        assert_eq!((mate.as_str(), value.wl, value.d), ("h7h8", 1.0, 0.0));
        let (capture, value) = chosen(by_value, "7k/8/8/8/8/3q4/8/K2R4 w - - 0 1").unwrap();
        assert_eq!(capture, "d1d3");
        assert!(value.wl > 0.0, "{value:?}");
        // Every move is the hundredth ply without a capture.
        let (_, value) = chosen(by_value, "8/8/8/8/8/5k2/5p2/6K1 w - - 99 90").unwrap();
        assert_eq!((value.wl, value.d), (0.0, 1.0));
    }

    #[test]
    fn the_policy_decides_by_its_highest_prior() {
        let fen = "7k/8/8/8/8/3q4/8/K2R4 w - - 0 1";
        let history = PositionHistory::new(Position::from_fen(fen).unwrap());
        let Evaluation { priors, .. } = evaluate(&TrivialBackend::new(), &history).unwrap();
        let best = priors.iter().copied().fold(0.0, f32::max);
        let place = priors.iter().position(|&prior| prior == best).unwrap();
        let expected = uci_move::text(history.last().legal_moves()[place], false);
        assert_eq!(chosen(by_policy, fen).unwrap().0, expected);
        let mated = "k6R/8/1K6/8/8/8/8/8 b - - 0 1";
        assert_eq!((chosen(by_policy, mated), chosen(by_value, mated)), (None, None));
    }
}
