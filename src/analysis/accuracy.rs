//! How well each player of a game has played, by lichess's formulas.
//!
//! A move that loses x percent of a point of expected score has the accuracy 103.1668 exp(-0.04354 x) - 3.1669 + 1,
//! between 0 and 100 percent; a move that loses nothing has 100. The accuracy of a player is the mean of two means of
//! these: the harmonic one, and one that is weighted by how much was at stake, which is the standard deviation of the
//! expected score in a window up to the move. Constants and windows are those of lila's `AccuracyPercent` (2026).
//!
//! lichess estimates the expected score from Stockfish's centipawns. Rukh takes the network's own, from which its
//! centipawns are computed.

use rukh_chess::Color;

/// The fitted curve of a move's accuracy: factor, rate for each percent, and offset.
const CURVE: [f64; 3] = [103.1668100711649, 0.04354415386753951, -3.166924740191411];
/// What lichess adds because the analysis is not perfect.
const BONUS: f64 = 1.0;
/// The least and the most positions of a window. In between, it has a tenth of the moves.
const WINDOW: (usize, usize) = (2, 8);
/// The least and the highest weight of a move.
const WEIGHT: (f64, f64) = (0.5, 12.0);
/// An accuracy counts as at least this in the harmonic mean.
const LEAST_HARMONIC: f64 = 1.0;

/// A move that was judged.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Judged {
    /// Who made it.
    pub(super) side: Color,
    /// The place of the position after the move among the positions that were searched.
    pub(super) after: usize,
    /// The loss of expected score, 0 … 1.
    pub(super) loss: f64,
}

/// How well a player has played. Both are in percent.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Accuracy {
    /// 100 if no move was worse than the best.
    pub accuracy: f64,
    /// The mean loss of expected score.
    pub loss: f64,
}

/// White's and Black's accuracy. `white` has White's expected score (0 … 1) in the positions that were searched, in the
/// order of the game. `None` without a judged move.
pub(super) fn accuracies(white: &[f64], moves: &[Judged]) -> [Option<Accuracy>; 2] {
    let size = (white.len().saturating_sub(1) / 10).clamp(WINDOW.0, WINDOW.1).min(white.len());
    let weight = |m: &Judged| {
        let start = (m.after + 1).saturating_sub(size);
        (100.0 * deviation(&white[start..start + size])).clamp(WEIGHT.0, WEIGHT.1)
    };
    [Color::White, Color::Black].map(|side| {
        let own: Vec<&Judged> = moves.iter().filter(|m| m.side == side && m.after < white.len()).collect();
        let count = own.len() as f64;
        if own.is_empty() {
            return None;
        }
        let sum = |value: &dyn Fn(&Judged) -> f64| own.iter().map(|m| value(m)).sum::<f64>();
        let weighted = sum(&|m| weight(m) * of_move(m.loss)) / sum(&weight);
        let harmonic = count / sum(&|m| 1.0 / of_move(m.loss).max(LEAST_HARMONIC));
        Some(Accuracy { accuracy: (weighted + harmonic) / 2.0, loss: 100.0 * sum(&|m| m.loss) / count })
    })
}

/// The accuracy of a move in percent.
fn of_move(loss: f64) -> f64 {
    let [factor, rate, offset] = CURVE;
    match loss > 0.0 {
        true => (factor * (-rate * 100.0 * loss).exp() + offset + BONUS).clamp(0.0, 100.0),
        false => 100.0,
    }
}

/// The standard deviation of `values`, which are all there are.
fn deviation(values: &[f64]) -> f64 {
    let count = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / count;
    (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moves_accuracy_is_lichesss() {
        for (loss, accuracy) in [(0.05, 80.815), (0.1, 64.580), (0.2, 41.017), (0.4, 15.909), (0.8, 1.0)] {
            assert!((of_move(loss) - accuracy).abs() < 1e-3, "{loss}: {}", of_move(loss));
        }
        assert_eq!([of_move(0.0), of_move(1e-9), of_move(1.0)], [100.0, 100.0, 0.0]);
    }

    /// Games whose accuracies lila's tests name, by centipawns after each move, with lichess's expected score.
    #[test]
    fn accuracies_of_games_are_lichesss() {
        let expected = |cp: f64| 1.0 / (1.0 + (-0.00368208 * cp).exp());
        let of = |centipawns: &[f64]| {
            let white: Vec<f64> = std::iter::once(&15.0).chain(centipawns).map(|&cp| expected(cp)).collect();
            let judged = |(index, pair): (usize, &[f64])| {
                let (side, sign) = if index % 2 == 0 { (Color::White, 1.0) } else { (Color::Black, -1.0) };
                Judged { side, after: index + 1, loss: (sign * (pair[0] - pair[1])).max(0.0) }
            };
            let moves: Vec<Judged> = white.windows(2).enumerate().map(judged).collect();
            accuracies(&white, &moves).map(|player| player.unwrap().accuracy)
        };
        let good = |count| vec![15.0; count];
        let pairs = |bad| [bad, 15.0].repeat(50);
        for (game, white, black, tolerance) in [
            (vec![15.0, 15.0], 100.0, 100.0, 1.0),
            (vec![-900.0, -900.0], 10.0, 100.0, 5.0),
            (vec![15.0, 900.0], 100.0, 10.0, 5.0),
            ([good(20), vec![-900.0]].concat(), 50.0, 100.0, 5.0),
            ([good(21), vec![900.0]].concat(), 100.0, 50.0, 5.0),
            (pairs(-50.0), 76.0, 76.0, 8.0),
            (pairs(-135.0), 54.0, 54.0, 8.0),
            (pairs(-435.0), 20.0, 20.0, 8.0),
        ] {
            let [found_white, found_black] = of(&game);
            let is_near = (found_white - white).abs() < tolerance && (found_black - black).abs() < tolerance;
            assert!(is_near, "{game:?}: {found_white}, {found_black}");
        }
    }

    /// By a calculation of its own: White's moves lose nothing, 10 % and 0 %, Black's 0 %, 0 % and 50 %.
    #[test]
    fn a_players_accuracy_weighs_moves_by_what_was_at_stake() {
        let white = [0.5, 0.5, 0.5, 0.4, 0.4, 0.4, 0.9];
        let judged = |side, after, loss| Judged { side, after, loss };
        let (w, b) = (Color::White, Color::Black);
        let moves = [
            judged(w, 1, 0.0),
            judged(b, 2, 0.0),
            judged(w, 3, 0.1),
            judged(b, 4, 0.0),
            judged(w, 5, 0.0),
            judged(b, 6, 0.5),
        ];
        let [white_player, black] = accuracies(&white, &moves).map(Option::unwrap);
        // The windows are two positions: 0, 0 and 5 % for White, 0, 0 and 25 % for Black, at least 0.5 and at most 12.
        let slip = of_move(0.1);
        let weighted = (0.5 * 100.0 + 5.0 * slip + 0.5 * 100.0) / 6.0;
        let harmonic = 3.0 / (0.01 + 1.0 / slip + 0.01);
        assert!((white_player.accuracy - (weighted + harmonic) / 2.0).abs() < 1e-9, "{white_player:?}");
        assert!((white_player.loss - 10.0 / 3.0).abs() < 1e-9);
        let blunder = of_move(0.5);
        let weighted = (50.0 + 50.0 + 12.0 * blunder) / 13.0;
        let harmonic = 3.0 / (0.02 + 1.0 / blunder);
        assert!((black.accuracy - (weighted + harmonic) / 2.0).abs() < 1e-9, "{black:?}");
        assert_eq!(accuracies(&[0.5], &[]), [None, None]);
    }
}
