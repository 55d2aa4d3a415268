//! Counts the results of a tournament, from the view of player 1.

use std::collections::HashMap;

/// The result of a game.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub enum GameScore {
    /// White has won.
    WhiteWon,
    /// The game is drawn.
    Draw,
    /// Black has won.
    BlackWon,
}

/// The results of all finished games.
#[derive(Clone, Debug, Default)]
pub struct Score {
    /// Games that player 1 won, drew and lost: with white, and with black.
    pub results: [[u32; 2]; 3],
    /// The pairs of games with one opening and both colours, by the sum of player 1's points: 0, ½, 1, 1½ and 2.
    pub pairs: [u32; 5],
    /// Player 1's half points in the first finished game of a pair.
    pub half_pairs: HashMap<u64, usize>,
}

impl Score {
    /// Counts a game. `pair` is the number of its pair, if the games are played in pairs.
    pub fn add(&mut self, score: GameScore, player1_is_black: bool, pair: Option<u64>) {
        let mut index = score as usize;
        if player1_is_black {
            index = 2 - index;
        }
        self.results[index][usize::from(player1_is_black)] += 1;
        let half_points = 2 - index;
        let Some(pair) = pair else { return };
        match self.half_pairs.remove(&pair) {
            Some(other) => self.pairs[other + half_points] += 1,
            None => {
                self.half_pairs.insert(pair, half_points);
            }
        }
    }

    /// The games that player 1 has won.
    pub fn wins(&self) -> u32 {
        self.results[0].iter().sum()
    }

    /// The drawn games.
    pub fn draws(&self) -> u32 {
        self.results[1].iter().sum()
    }

    /// The games that player 1 has lost.
    pub fn losses(&self) -> u32 {
        self.results[2].iter().sum()
    }

    /// The number of games.
    pub fn games(&self) -> u32 {
        self.wins() + self.draws() + self.losses()
    }

    /// Player 1's share of the points, 0 to 1; `None` without a game.
    pub fn share(&self) -> Option<f64> {
        let points = f64::from(self.wins()) + f64::from(self.draws()) / 2.0;
        (self.games() > 0).then(|| points / f64::from(self.games()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use GameScore::{BlackWon, Draw, WhiteWon};

    #[test]
    fn games_are_counted_from_player_ones_view_and_in_pairs() {
        let mut score = Score::default();
        score.add(WhiteWon, false, Some(0));
        score.add(WhiteWon, false, Some(1));
        score.add(BlackWon, true, Some(0));
        score.add(Draw, true, Some(1));
        score.add(BlackWon, false, Some(2));
        assert_eq!((score.wins(), score.draws(), score.losses()), (3, 1, 1));
        assert_eq!(score.results, [[2, 1], [0, 1], [1, 0]]);
        assert_eq!(score.pairs, [0, 0, 0, 1, 1]);
        assert_eq!(score.share(), Some(0.7));
    }
}
