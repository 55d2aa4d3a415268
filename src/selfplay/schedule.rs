//! Which game comes next: its opening, and which player has which colour.

use super::config::{GameCount, OpeningsMode, TournamentConfig};
use super::openings::Opening;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

/// A game that is to be played.
#[derive(Clone, Debug)]
pub(super) struct Assignment {
    /// The number of the game, counted from 0.
    pub(super) number: u64,
    pub(super) opening: Opening,
    pub(super) player1_is_black: bool,
    /// The number of the pair of games with the same opening, if openings are mirrored.
    pub(super) pair: Option<u64>,
    /// Whether the game is played to its end although a player would give up.
    pub(super) plays_through: bool,
}

/// The list of all games. The same configuration gives the same list.
pub(super) struct Schedule {
    openings: Vec<Opening>,
    mode: OpeningsMode,
    mirrors: bool,
    playthrough: f32,
    /// The number of games; `None` means no end.
    total: Option<u64>,
    /// The pairs of games that are played: remainder and number of shards.
    shard: (u64, u64),
    next: u64,
    random: SmallRng,
    /// The opening of the last game, for its mirror image.
    last: usize,
}

impl Schedule {
    pub(super) fn new(config: &TournamentConfig) -> Schedule {
        let mut random = SmallRng::seed_from_u64(config.seed);
        let mut openings = config.openings.clone();
        if openings.is_empty() {
            openings.push(Opening::standard());
        }
        if config.openings_mode == OpeningsMode::Shuffled {
            openings.shuffle(&mut random);
        }
        let total = match config.games {
            GameCount::Games(games) => Some(games),
            GameCount::Endless => None,
            GameCount::Openings => Some(openings.len() as u64 * if config.mirror_openings { 2 } else { 1 }),
        };
        Schedule {
            openings,
            mode: config.openings_mode,
            mirrors: config.mirror_openings,
            playthrough: config.resign_playthrough,
            total,
            shard: config.shard,
            next: 0,
            random,
            last: 0,
        }
    }

    /// The number of games; `None` means no end.
    pub(super) fn total(&self) -> Option<u64> {
        let (remainder, shards) = self.shard;
        // Pairs of games, of which the last one may be half.
        let games = |total: u64| {
            let pairs = (total / 2 + shards - 1 - remainder) / shards;
            let has_half = total % 2 == 1 && (total / 2) % shards == remainder;
            2 * pairs + u64::from(has_half)
        };
        self.total.map(games)
    }

    /// The next game; `None` after the last one.
    pub(super) fn next(&mut self) -> Option<Assignment> {
        loop {
            let number = self.next;
            if self.total.is_some_and(|total| number >= total) {
                return None;
            }
            self.next += 1;
            // Random choices are made for the games of other shards as well, so that all shards have the same list.
            self.choose_opening(number);
            let plays_through = self.random.random_range(0.0..100.0) < self.playthrough;
            let (remainder, shards) = self.shard;
            if number / 2 % shards != remainder {
                continue;
            }
            return Some(Assignment {
                number,
                opening: self.openings[self.last].clone(),
                player1_is_black: number % 2 == 1,
                pair: self.mirrors.then_some(number / 2),
                plays_through,
            });
        }
    }

    /// Chooses the opening of a game. The second game of a pair keeps that of the first one.
    fn choose_opening(&mut self, number: u64) {
        let is_mirror_image = self.mirrors && number % 2 == 1;
        if is_mirror_image {
            return;
        }
        let count = self.openings.len();
        let round = if self.mirrors { number / 2 } else { number };
        self.last = match self.mode {
            OpeningsMode::Random => self.random.random_range(0..count),
            OpeningsMode::Sequential | OpeningsMode::Shuffled => (round % count as u64) as usize,
        };
    }
}
