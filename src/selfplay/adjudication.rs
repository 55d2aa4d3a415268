//! Ends games whose result is certain enough: by the players' own values, as in lc0, and by tablebases.

use super::config::Resignation;
use super::score::GameScore;
use rukh_chess::Color;
use rukh_tree::Sample;

/// The probabilities of a win, a draw and a loss of the side to move.
fn probabilities(value: Sample) -> [f32; 3] {
    let win = (value.wl + 1.0 - value.d) / 2.0;
    [win, value.d, win - value.wl]
}

/// The score of a game that `color` has won.
pub(super) fn won_by(color: Color) -> GameScore {
    match color {
        Color::White => GameScore::WhiteWon,
        Color::Black => GameScore::BlackWon,
    }
}

/// The result on which the player of `side` would end the game. `value` is the value of its search, and `move_number`
/// counts the moves of the game.
pub(super) fn agreed(rule: &Resignation, value: Sample, side: Color, move_number: u32) -> Option<GameScore> {
    if rule.percentage <= 0.0 || move_number < rule.earliest_move {
        return None;
    }
    let share = rule.percentage / 100.0;
    if !rule.wdl_style {
        return ((value.wl + 1.0) / 2.0 < share).then(|| won_by(!side));
    }
    let [win, draw, loss] = probabilities(value);
    let threshold = 1.0 - share;
    if win > threshold {
        Some(won_by(side))
    } else if loss > threshold {
        Some(won_by(!side))
    } else {
        (draw > threshold).then_some(GameScore::Draw)
    }
}

/// The values of a game that was played to its end, by which a threshold for resignation can be judged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extremes {
    /// The lowest expected score of each side's searches.
    lowest_share: [f32; 2],
    /// The highest probability that White wins, that the game is drawn, and that Black wins.
    highest: [f32; 3],
}

impl Default for Extremes {
    fn default() -> Extremes {
        Extremes { lowest_share: [1.0; 2], highest: [0.0; 3] }
    }
}

impl Extremes {
    pub(super) fn add(&mut self, value: Sample, side: Color) {
        let index = usize::from(side == Color::Black);
        self.lowest_share[index] = self.lowest_share[index].min((value.wl + 1.0) / 2.0);
        let [win, draw, loss] = probabilities(value);
        let by_white = if side == Color::White { [win, draw, loss] } else { [loss, draw, win] };
        for (highest, probability) in self.highest.iter_mut().zip(by_white) {
            *highest = highest.max(probability);
        }
    }

    /// The threshold (a share of 1) at which the game would have ended with another result than it did.
    pub(super) fn false_positive_threshold(&self, score: GameScore, wdl_style: bool) -> f32 {
        let [white, draw, black] = self.highest;
        let [white_lowest, black_lowest] = self.lowest_share;
        match (wdl_style, score) {
            (true, GameScore::WhiteWon) => draw.max(black),
            (true, GameScore::BlackWon) => draw.max(white),
            (true, GameScore::Draw) => white.max(black),
            (false, GameScore::WhiteWon) => white_lowest,
            (false, GameScore::BlackWon) => black_lowest,
            (false, GameScore::Draw) => white_lowest.min(black_lowest),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(wl: f32, d: f32) -> Sample {
        Sample { wl, d, m: 0.0 }
    }

    #[test]
    fn a_player_resigns_below_its_percentage() {
        let rule = Resignation { percentage: 5.0, wdl_style: false, earliest_move: 10 };
        assert_eq!(agreed(&rule, sample(-0.95, 0.0), Color::White, 10), Some(GameScore::BlackWon));
        assert_eq!(agreed(&rule, sample(-0.95, 0.0), Color::White, 9), None);
        assert_eq!(agreed(&rule, sample(-0.85, 0.0), Color::White, 10), None);
        assert_eq!(agreed(&rule, sample(1.0, 0.0), Color::White, 10), None);
        assert_eq!(agreed(&Resignation::default(), sample(-1.0, 0.0), Color::White, 10), None);
    }

    #[test]
    fn in_wdl_style_any_result_can_be_agreed() {
        let rule = Resignation { percentage: 5.0, wdl_style: true, earliest_move: 0 };
        assert_eq!(agreed(&rule, sample(0.96, 0.02), Color::Black, 0), Some(GameScore::BlackWon));
        assert_eq!(agreed(&rule, sample(-0.96, 0.02), Color::Black, 0), Some(GameScore::WhiteWon));
        assert_eq!(agreed(&rule, sample(0.0, 0.96), Color::Black, 0), Some(GameScore::Draw));
        assert_eq!(agreed(&rule, sample(0.5, 0.4), Color::Black, 0), None);
    }

    #[test]
    fn thresholds_are_judged_by_the_losers_best_moment() {
        let mut extremes = Extremes::default();
        extremes.add(sample(-0.9, 0.1), Color::White);
        extremes.add(sample(-0.2, 0.4), Color::Black);
        assert!((extremes.false_positive_threshold(GameScore::WhiteWon, false) - 0.05).abs() < 1e-6);
        assert!((extremes.false_positive_threshold(GameScore::WhiteWon, true) - 0.9).abs() < 1e-6);
        assert!((extremes.false_positive_threshold(GameScore::Draw, false) - 0.05).abs() < 1e-6);
    }
}
