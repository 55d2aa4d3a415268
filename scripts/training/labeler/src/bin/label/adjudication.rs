//! Adjudication: ends games that are clearly won, and games that stay level.

use rand::RngExt as _;
use rand::rngs::StdRng;
use rukh_chess::{Color, GameResult};

/// Two rules for won games: the score in centipawns, the number of consecutive searches above it, and the share of
/// games with this rule. The other games are played to mate, which the moves-left head needs.
const WON: [(i16, usize, f64); 2] = [(400, 8, 0.4), (1000, 6, 0.35)];
/// The largest score of a level position, in centipawns.
const LEVEL_SCORE: i16 = 10;
/// Consecutive level searches that end a game.
const LEVEL_PLIES: usize = 16;
/// The first ply at which a game can end as level.
const LEVEL_AFTER: usize = 60;
/// Share of games that end when they are level.
const LEVEL_SHARE: f64 = 0.75;

/// Follows the scores of one game.
pub(crate) struct Adjudicator {
    /// The rule for wins: score and number of searches. `None`: wins are played out.
    won: Option<(i16, usize)>,
    calls_draws: bool,
    winner: Color,
    won_plies: usize,
    level_plies: usize,
}

impl Adjudicator {
    /// Draws at random which rules apply to this game.
    pub(crate) fn new(rng: &mut StdRng) -> Adjudicator {
        Adjudicator {
            won: Self::toss_won(rng.random()),
            calls_draws: rng.random_bool(LEVEL_SHARE),
            winner: Color::White,
            won_plies: 0,
            level_plies: 0,
        }
    }

    fn toss_won(mut toss: f64) -> Option<(i16, usize)> {
        for (score, plies, share) in WON {
            if toss < share {
                return Some((score, plies));
            }
            toss -= share;
        }
        None
    }

    /// Takes the score of the position after `ply` plies, as seen by `side`, which is to move. Returns the result if
    /// the score ends the game.
    pub(crate) fn call(&mut self, side: Color, score: i16, ply: usize) -> Option<GameResult> {
        let winner = if score > 0 { side } else { !side };
        let (won_score, won_plies) = self.won.unwrap_or((i16::MAX, usize::MAX));
        self.won_plies = match score.abs() > won_score {
            true if winner == self.winner => self.won_plies + 1,
            true => 1,
            false => 0,
        };
        self.winner = winner;
        self.level_plies = if score.abs() <= LEVEL_SCORE { self.level_plies + 1 } else { 0 };
        if self.won_plies >= won_plies {
            Some(GameResult::Won(winner))
        } else if self.calls_draws && self.level_plies >= LEVEL_PLIES && ply >= LEVEL_AFTER {
            Some(GameResult::Drawn)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn adjudicator() -> Adjudicator {
        let (winner, won_plies, level_plies) = (Color::White, 0, 0);
        Adjudicator { won: Some((1000, 6)), calls_draws: true, winner, won_plies, level_plies }
    }

    #[test]
    fn a_win_is_called_when_both_sides_agree_for_long_enough() {
        let mut game = adjudicator();
        let mut side = Color::White;
        let mut calls = Vec::new();
        // Black is winning from the second search on; the score of one side alone decides nothing.
        for score in [1001, 1001, -1600, 1600, -32000, 31999, -1001, 1001] {
            calls.push(game.call(side, score, 0));
            side = !side;
        }
        let won = Some(GameResult::Won(Color::Black));
        assert_eq!(calls, [None, None, None, None, None, None, won, won]);
    }

    #[test]
    fn a_level_game_is_called_late_only() {
        let mut game = adjudicator();
        for ply in 0..LEVEL_AFTER {
            assert_eq!(game.call(Color::White, 0, ply), None);
        }
        assert_eq!(game.call(Color::White, 11, LEVEL_AFTER), None);
        for ply in 1..LEVEL_PLIES {
            assert_eq!(game.call(Color::White, -10, LEVEL_AFTER + ply), None);
        }
        assert_eq!(game.call(Color::White, 10, LEVEL_AFTER + LEVEL_PLIES), Some(GameResult::Drawn));
    }
}
