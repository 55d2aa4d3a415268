//! What a tournament is asked to do.

use super::elo::Sprt;
use super::openings::Opening;
use crate::concurrent::words;
use rukh_net::InputFormat;
use rukh_options::Options;

/// The settings of one player.
#[derive(Clone, Debug)]
pub struct PlayerConfig {
    /// The engine's options.
    pub options: Options,
    /// When a search ends.
    pub limits: Limits,
    /// Whether the next search begins with what the last one found out.
    pub reuse_tree: bool,
    /// When the player gives up.
    pub resignation: Resignation,
    /// A move that temperature has chosen is chosen anew if it has fewer visits than this, unless it is the best.
    pub minimum_allowed_visits: u32,
    /// The probability that the game leaves its opening at a position in which this player is to move.
    pub opening_stop_probability: f32,
}

/// The limits of each search. The one that is reached first ends it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Limits {
    /// Visits of the root, including those that the tree had before.
    pub visits: Option<u64>,
    /// Visits of this search.
    pub playouts: Option<u64>,
    /// Milliseconds.
    pub movetime_ms: Option<u64>,
}

impl Limits {
    /// The limits in words, such as `800 visits`; empty without any.
    pub fn in_words(&self) -> String {
        words::limits(&[(self.visits, "visits"), (self.playouts, "playouts"), (self.movetime_ms, "ms")])
    }

    /// Whether a search would never end.
    pub fn are_absent(&self) -> bool {
        *self == Limits::default()
    }
}

/// When a game ends because a player is sure of its result.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Resignation {
    /// In percent. The player resigns when its expected score is below this; 0 means never.
    pub percentage: f32,
    /// Whether the player instead ends the game as soon as its probability of a win, of a draw or of a loss is above
    /// 100 % minus the percentage.
    pub wdl_style: bool,
    /// The first move at which this counts.
    pub earliest_move: u32,
}

/// The order in which openings are played.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OpeningsMode {
    /// In the order of the file.
    #[default]
    Sequential,
    /// In an order that is chosen at random before the tournament.
    Shuffled,
    /// Each game's opening is chosen at random.
    Random,
}

/// The number of games.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GameCount {
    /// This many games.
    Games(u64),
    /// Games until the tournament is interrupted.
    Endless,
    /// A game for each opening, or two if they are mirrored.
    Openings,
}

/// How the players choose their moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MoveChoice {
    /// By a search.
    #[default]
    Search,
    /// By the network's policy alone.
    Policy,
    /// By the network's value of the positions after each move.
    Value,
}

/// A tournament of two players.
#[derive(Clone, Debug)]
pub struct TournamentConfig {
    /// Player 1 and player 2.
    pub players: [PlayerConfig; 2],
    /// How they choose their moves.
    pub choice: MoveChoice,
    /// The number of games.
    pub games: GameCount,
    /// The number of games that are played at once; `None` chooses a number that keeps the backend busy.
    pub parallelism: Option<usize>,
    /// Whether both players search one tree. Then they must differ in nothing that its values depend on.
    pub share_trees: bool,
    /// The openings. There is at least one.
    pub openings: Vec<Opening>,
    /// Their order.
    pub openings_mode: OpeningsMode,
    /// Whether each opening is played twice, with both colours.
    pub mirror_openings: bool,
    /// The percentage of games that are played to their end although a player would give up.
    pub resign_playthrough: f32,
    /// The percentage of games that begin where a move was refused for its few visits, if there is such a position.
    pub discarded_start_chance: f32,
    /// The input format of the training data to make; `None` makes none.
    pub training: Option<InputFormat>,
    /// The test that may end the tournament.
    pub sprt: Option<Sprt>,
    /// Directories of the tablebases that decide games; empty means none.
    pub tablebases: String,
    /// Which games are played: the pairs of games whose number, from 0, leaves this remainder (first) after the division by
    /// the number of shards (second).
    pub shard: (u64, u64),
    /// The seed of all random choices, except those of the searches.
    pub seed: u64,
}
