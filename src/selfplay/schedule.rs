//! Which game comes next: its opening, and which player has which colour.

use super::config::{GameCount, OpeningsMode, TournamentConfig};
use super::openings::Opening;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rukh_chess::Color;

/// The most positions that are kept to begin games from. More would only need memory.
const MOST_DISCARDED: usize = 10_000;

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
    /// Whether other games may begin with the moves that are refused in this one.
    pub(super) keeps_refused: bool,
}

/// The list of all games. The same configuration gives the same list.
pub(super) struct Schedule {
    openings: Vec<Opening>,
    mode: OpeningsMode,
    mirrors: bool,
    playthrough: f32,
    /// The probabilities with which player 1 and player 2 leave the opening in each position.
    stop_probabilities: [f32; 2],
    /// The beginnings of games that end with a refused move, and the percentage of games that begin with one of them.
    discarded: Vec<Opening>,
    discarded_chance: f32,
    /// Makes the choices among them, which depend on the games. All other choices stay the same.
    discarded_random: SmallRng,
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
            stop_probabilities: config.players.each_ref().map(|player| player.opening_stop_probability),
            discarded: Vec::new(),
            discarded_chance: config.discarded_start_chance,
            discarded_random: SmallRng::seed_from_u64(!config.seed),
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
            let player1_is_black = number % 2 == 1;
            let plies = self.plies_of_opening(player1_is_black);
            let plays_through = self.random.random_range(0.0..100.0) < self.playthrough;
            let (remainder, shards) = self.shard;
            if number / 2 % shards != remainder {
                continue;
            }
            let discarded = self.take_discarded();
            let is_usual = discarded.is_none() && self.stop_probabilities == [0.0; 2];
            return Some(Assignment {
                number,
                opening: discarded.unwrap_or_else(|| self.openings[self.last].first(plies)),
                player1_is_black,
                // The games of a pair may begin differently otherwise.
                pair: (self.mirrors && is_usual).then_some(number / 2),
                plays_through,
                keeps_refused: self.discarded_chance > 0.0,
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

    /// How many moves of the opening are played, with lc0's probabilities: in each position the opening is left with the
    /// probability of the player to move, or with the one that makes all positions that are left equally probable, if
    /// that is higher.
    fn plies_of_opening(&mut self, player1_is_black: bool) -> usize {
        let opening = &self.openings[self.last];
        let count = opening.moves.len();
        for (ply, position) in opening.history.positions().iter().take(count).enumerate() {
            let is_black = position.side_to_move() == Color::Black;
            let player = usize::from(is_black != player1_is_black);
            let (now, next) = (self.stop_probabilities[player], self.stop_probabilities[1 - player]);
            let positions = count - ply + 1;
            let stops_left = now * positions.div_ceil(2) as f32 + next * (positions / 2) as f32;
            if now > 0.0 && self.random.random::<f32>() < now.max(now / stops_left) {
                return ply;
            }
        }
        count
    }

    /// One of the discarded beginnings, with their probability.
    fn take_discarded(&mut self) -> Option<Opening> {
        let is_due = self.discarded_random.random_range(0.0..100.0) < self.discarded_chance;
        if self.discarded.is_empty() || !is_due {
            return None;
        }
        let place = self.discarded_random.random_range(0..self.discarded.len());
        Some(self.discarded.swap_remove(place))
    }

    /// Keeps beginnings of games for later games. If there are too many, a random one is forgotten.
    pub(super) fn keep_discarded(&mut self, openings: Vec<Opening>) {
        for opening in openings {
            self.discarded.push(opening);
            if self.discarded.len() > MOST_DISCARDED {
                let place = self.discarded_random.random_range(0..self.discarded.len());
                self.discarded.swap_remove(place);
            }
        }
    }
}
