//! The positions that are compared.

use super::super::openings_file;
use crate::selfplay::openings::OpeningsError;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rukh_backend::Evaluations;
use rukh_backend::owned_request::OwnedRequest;
use rukh_chess::{Position, PositionHistory};
use std::path::PathBuf;

/// The first plies of a game, which many games have in common. Their positions are not compared.
const COMMON_PLIES: usize = 6;

/// A game that has this many plies is not played on.
const LONGEST_GAME: usize = 250;

/// Where the positions come from.
pub(super) enum Positions {
    /// The games of files, and how many positions of the last of them are still to come.
    Files { games: Vec<PositionHistory>, left: usize },
    /// Games that are played at once, one for each place of a batch.
    Own { games: Vec<PositionHistory>, random: SmallRng },
}

impl Positions {
    /// Reads the files; without a file, games are played.
    ///
    /// # Errors
    /// A file cannot be read, or is damaged.
    pub(super) fn new(files: &[PathBuf], seed: u64) -> Result<Positions, OpeningsError> {
        if files.is_empty() {
            return Ok(Positions::Own { games: Vec::new(), random: SmallRng::seed_from_u64(seed) });
        }
        let mut games = Vec::new();
        for file in files {
            games.extend(openings_file::read(file)?.into_iter().map(|game| game.history));
        }
        games.reverse();
        let left = games.last().map_or(0, |game| game.positions().len());
        Ok(Positions::Files { games, left })
    }

    /// The next positions, at most `count`; none at the end of the files.
    pub(super) fn next(&mut self, count: usize) -> Vec<OwnedRequest> {
        match self {
            Positions::Files { games, left } => {
                let mut requests = Vec::new();
                while requests.len() < count
                    && let Some(game) = games.last()
                {
                    if *left == 0 {
                        games.pop();
                        *left = games.last().map_or(0, |game| game.positions().len());
                        continue;
                    }
                    let mut history = game.clone();
                    history.truncate(game.positions().len() + 1 - *left);
                    requests.extend(OwnedRequest::about(history));
                    *left -= 1;
                }
                requests
            }
            Positions::Own { games, random } => {
                games.truncate(count);
                games.resize_with(count, || new_game(random));
                games.iter().cloned().filter_map(OwnedRequest::about).collect()
            }
        }
    }

    /// Plays a move in each game, drawn by the priors of `evaluations`, which are those of the last positions. A game
    /// that ends makes room for a new one.
    pub(super) fn play(&mut self, evaluations: &Evaluations) {
        let Positions::Own { games, random } = self else {
            return;
        };
        for (game, (_, priors)) in games.iter_mut().zip(evaluations.iter()) {
            let moves = game.last().legal_moves();
            let mut rest = random.random::<f32>();
            let drawn = priors.iter().position(|prior| {
                rest -= prior;
                rest < 0.0
            });
            // Rounding may leave a rest after the last move.
            if let Some(&played) = moves.get(drawn.unwrap_or(moves.len().saturating_sub(1))) {
                game.push(played);
            }
            if game.result().is_some() || game.positions().len() > LONGEST_GAME {
                *game = new_game(random);
            }
        }
    }
}

/// A game after a few random moves.
fn new_game(random: &mut SmallRng) -> PositionHistory {
    loop {
        let mut game = PositionHistory::new(Position::startpos());
        while game.positions().len() <= COMMON_PLIES && game.result().is_none() {
            let moves = game.last().legal_moves();
            game.push(moves[random.random_range(0..moves.len())]);
        }
        if game.result().is_none() {
            return game;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn games_of_files_give_each_position_once_and_in_order() {
        let directory = tempfile::tempdir().expect("a folder");
        let path = directory.path().join("games.pgn");
        std::fs::write(&path, "1. e4 e5 2. Nf3 *\n\n1. f3 e5 2. g4 Qh4# 0-1\n").expect("the file is written");
        let mut positions = Positions::new(&[path], 0).expect("the games are read");
        let lengths = |requests: Vec<OwnedRequest>| -> Vec<usize> {
            requests.iter().map(|request| request.history.positions().len()).collect()
        };
        assert_eq!(lengths(positions.next(3)), [1, 2, 3]);
        // The mated side has no move, so that position is left out.
        assert_eq!(lengths(positions.next(100)), [4, 1, 2, 3, 4]);
        assert!(positions.next(100).is_empty());
    }
}
