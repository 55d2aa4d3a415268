//! The flags of `selfplay`: those of the tournament, and those of a player, which each player can have for itself
//! (`--player1.visits=800`).

use super::error::{CliError, WrongArguments};
use super::flags;
use super::openings_file;
use super::shard::shard;
use crate::selfplay::config::{
    GameCount, Limits, MoveChoice, OpeningsMode, PlayerConfig, Resignation, TournamentConfig,
};
use crate::selfplay::elo::Sprt;
use clap::ArgAction::Set;
use clap::error::{ContextKind, ContextValue};
use clap::{Args, FromArgMatches};
use rukh_net::InputFormat;
use rukh_options::{Options, Spec};
use std::ffi::OsString;
use std::path::PathBuf;

/// The most games that are played at once.
const MOST_AT_ONCE: u32 = 4096;

/// The prefixes of the flags of one player.
const PREFIXES: [&str; 2] = ["--player1.", "--player2."];

/// lc0 lets the flags of a player depend on its colour.
const COLOR_PREFIXES: [&str; 4] = ["white.", "black.", "--white.", "--black."];

/// Flags of `selfplay`.
#[derive(Args, Debug, Clone)]
pub(super) struct SelfplayArgs {
    /// Number of games; -1 plays until ctrl-C, -2 plays every opening once, or twice if they are mirrored
    #[arg(long, default_value_t = -1, allow_negative_numbers = true, value_name = "N",
          value_parser = clap::value_parser!(i64).range(-2..=999_999_999))]
    games: i64,
    /// Number of games to play at once; 0 chooses as many as keep the backend busy
    #[arg(long, default_value_t = 0, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=i64::from(MOST_AT_ONCE)))]
    parallelism: u32,
    /// Plays without searches, each time the move that the policy prefers: N games at once, times --parallelism
    #[arg(long, default_value_t = 0, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=1024))]
    policy_mode_size: u32,
    /// The same with the move after which the value is best
    #[arg(long, default_value_t = 0, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=64))]
    value_mode_size: u32,
    /// File of openings: a PGN, or positions as EPD or FEN lines in a file named *.epd or *.fen; also as .gz or .zst
    #[arg(long, value_name = "FILE")]
    pub(super) openings_pgn: Option<PathBuf>,
    /// Order of the openings
    #[arg(long, value_enum, default_value = "sequential")]
    openings_mode: Mode,
    /// Plays each opening twice, with both colours
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = Set,
          default_value_t = false, hide_default_value = true, value_name = "true|false",
          overrides_with = "no_mirror_openings")]
    mirror_openings: bool,
    #[arg(long, hide = true, overrides_with = "mirror_openings")]
    no_mirror_openings: bool,
    /// Lets both players search one tree; for training games, with equal players
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = Set,
          default_value_t = false, hide_default_value = true, value_name = "true|false",
          overrides_with = "no_share_trees")]
    share_trees: bool,
    #[arg(long, hide = true, overrides_with = "share_trees")]
    no_share_trees: bool,
    /// Percentage of games that are played to their end although a player would resign
    #[arg(long, default_value_t = 0.0, value_name = "PERCENT", value_parser = percentage)]
    resign_playthrough: f32,
    /// Writes training data, and begins with the options of lc0's training games
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = Set,
          default_value_t = false, hide_default_value = true, value_name = "true|false",
          overrides_with = "no_training")]
    pub(super) training: bool,
    #[arg(long, hide = true, overrides_with = "training")]
    no_training: bool,
    /// Folder of the training data; by default a new one in the user's cache folder
    #[arg(long, value_name = "FOLDER", requires = "training")]
    pub(super) training_dir: Option<PathBuf>,
    /// Puts the training data of so many games into each tar archive; 0 makes a file for each game
    #[arg(long, default_value_t = 0, value_name = "GAMES", requires = "training",
          value_parser = clap::value_parser!(u32).range(0..=100_000_000))]
    pub(super) training_tar: u32,
    /// Number of the input format of the training data, as in network files: 1, 2, 3, 4, 5, 132 or 133
    #[arg(long, default_value = "1", value_name = "N", value_parser = input_format, requires = "training")]
    training_input_format: InputFormat,
    /// Percentage of games that begin where --minimum-allowed-visits has refused a move, if there is such a position
    #[arg(long, default_value_t = 0.0, value_name = "PERCENT", value_parser = percentage)]
    discarded_start_chance: f32,
    /// Ends the tournament as soon as it decides between these two Elo differences, as in `0,5`; each error has a
    /// probability of 5 %
    #[arg(long, value_name = "ELO0,ELO1", allow_hyphen_values = true)]
    sprt: Option<Sprt>,
    /// Plays only every n-th pair of games, from the i-th on (i is 1 to n), so that n processes share the games
    #[arg(long, value_name = "I/N", value_parser = shard)]
    shard: Option<(u64, u64)>,
    /// Seed of the random choices of openings
    #[arg(long, default_value_t = 0, value_name = "N")]
    seed: u64,
    /// File to which each finished game is appended
    #[arg(long, value_name = "FILE")]
    pub(super) pgn: Option<PathBuf>,
    /// File to which the result is appended, in lc0's format
    #[arg(long, value_name = "FILE")]
    pub(super) tournament_results_file: Option<PathBuf>,
    /// Prints only the result, as JSON
    #[arg(long)]
    pub(super) json: bool,
    /// Ends at once when stdin ends, as it does when the program that started this one is killed
    #[arg(long)]
    pub(super) end_with_stdin: bool,
    #[command(flatten)]
    player: PlayerArgs,
    /// The players, with the flags of their own.
    #[arg(skip)]
    players: Vec<(PlayerArgs, Options)>,
}

/// The flags that each player can have for itself.
#[derive(Args, Debug, Clone, Default)]
struct PlayerArgs {
    /// Visits of the root at which a search ends, with those from earlier searches; -1 means no limit
    #[arg(long, allow_negative_numbers = true, value_name = "N", value_parser = limit())]
    visits: Option<i64>,
    /// Visits at which a search ends, without those from earlier searches; -1 means no limit
    #[arg(long, allow_negative_numbers = true, value_name = "N", value_parser = limit())]
    playouts: Option<i64>,
    /// Milliseconds for each move; -1 means no limit
    #[arg(long, allow_negative_numbers = true, value_name = "MS", value_parser = limit())]
    movetime: Option<i64>,
    /// Begins a search with the part of the last tree that can still be reached (the default)
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = Set,
          value_name = "true|false", overrides_with = "no_reuse_tree")]
    reuse_tree: Option<bool>,
    #[arg(long, hide = true, overrides_with = "reuse_tree")]
    no_reuse_tree: bool,
    /// Expected score in percent below which a player resigns; 0 means never
    #[arg(long, value_name = "PERCENT", value_parser = percentage)]
    resign_percentage: Option<f32>,
    /// Ends a game instead when the probability of a win, of a draw or of a loss is above 100 % minus the percentage
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = Set,
          value_name = "true|false", overrides_with = "no_resign_wdlstyle")]
    resign_wdlstyle: Option<bool>,
    #[arg(long, hide = true, overrides_with = "resign_wdlstyle")]
    no_resign_wdlstyle: bool,
    /// First move at which a player may resign
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=1000))]
    resign_earliest_move: Option<u32>,
    /// Visits below which a move that temperature has chosen is chosen anew, unless it is the best
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    minimum_allowed_visits: Option<u32>,
    /// Probability with which a game leaves its opening before each of its moves, or 1/n if n moves are left
    #[arg(long, value_name = "P", value_parser = probability)]
    opening_stop_prob: Option<f32>,
}

/// lc0's names of the orders.
#[derive(clap::ValueEnum, Debug, Clone, Copy)]
enum Mode {
    Sequential,
    Shuffled,
    Random,
}

fn limit() -> clap::builder::RangedI64ValueParser {
    clap::value_parser!(i64).range(-1..=999_999_999)
}

fn percentage(text: &str) -> Result<f32, String> {
    let value = text.parse().ok().filter(|value| (0.0..=100.0).contains(value));
    value.ok_or_else(|| "not a number from 0 to 100".to_owned())
}

fn probability(text: &str) -> Result<f32, String> {
    let value = text.parse().ok().filter(|value| (0.0..=1.0).contains(value));
    value.ok_or_else(|| "not a number from 0 to 1".to_owned())
}

fn input_format(text: &str) -> Result<InputFormat, String> {
    let format = text.parse().ok().and_then(InputFormat::from_number);
    let numbers = || InputFormat::ALL.map(|format| (format as u32).to_string()).join(", ");
    format.ok_or_else(|| format!("not one of {}", numbers()))
}

impl PlayerArgs {
    /// These flags, where they are given, and otherwise those of `all`.
    fn or(self, all: &PlayerArgs) -> PlayerArgs {
        let switch = |own: Option<bool>, own_no: bool, all: Option<bool>, all_no: bool| match own_no {
            true => Some(false),
            false => own.or(if all_no { Some(false) } else { all }),
        };
        PlayerArgs {
            visits: self.visits.or(all.visits),
            playouts: self.playouts.or(all.playouts),
            movetime: self.movetime.or(all.movetime),
            reuse_tree: switch(self.reuse_tree, self.no_reuse_tree, all.reuse_tree, all.no_reuse_tree),
            no_reuse_tree: false,
            resign_percentage: self.resign_percentage.or(all.resign_percentage),
            resign_wdlstyle: switch(
                self.resign_wdlstyle,
                self.no_resign_wdlstyle,
                all.resign_wdlstyle,
                all.no_resign_wdlstyle,
            ),
            no_resign_wdlstyle: false,
            resign_earliest_move: self.resign_earliest_move.or(all.resign_earliest_move),
            minimum_allowed_visits: self.minimum_allowed_visits.or(all.minimum_allowed_visits),
            opening_stop_prob: self.opening_stop_prob.or(all.opening_stop_prob),
        }
    }

    fn config(&self, options: &Options, is_training: bool) -> PlayerConfig {
        let limit = |limit: Option<i64>| limit.and_then(|limit| u64::try_from(limit).ok());
        // A limit on visits is one on visits, whatever `go nodes` means.
        let options = Options { nodes_as_playouts: false, ..options.clone() };
        PlayerConfig {
            options,
            limits: Limits {
                visits: limit(self.visits),
                playouts: limit(self.playouts),
                movetime_ms: limit(self.movetime),
            },
            // As in lc0, training games begin each search with an empty tree.
            reuse_tree: self.reuse_tree.unwrap_or(!is_training),
            resignation: Resignation {
                percentage: self.resign_percentage.unwrap_or(0.0),
                wdl_style: self.resign_wdlstyle.unwrap_or(false),
                earliest_move: self.resign_earliest_move.unwrap_or(0),
            },
            minimum_allowed_visits: self.minimum_allowed_visits.unwrap_or(0),
            opening_stop_probability: self.opening_stop_prob.unwrap_or(0.0),
        }
    }
}

impl SelfplayArgs {
    /// Reads the flags of the players, which [`take_player_flags`] has taken from the command line. `options` are those
    /// of both players.
    ///
    /// # Errors
    /// A flag is unknown or its value is wrong, or it is one of the tournament's.
    pub(super) fn read_players(
        &mut self,
        flags: [Vec<OsString>; 2],
        options: &Options,
    ) -> Result<(), clap::Error> {
        let mut players = Vec::new();
        for (prefix, flags) in PREFIXES.iter().zip(flags) {
            // The name appears in clap's messages.
            let name = format!("rukh selfplay {}", prefix.trim_end_matches('.'));
            let command = clap::Command::new(name)
                .styles(flags::STYLES)
                .args_override_self(true)
                .disable_help_flag(true);
            // The configuration file and the log are those of the process.
            let is_of_player =
                |spec: &Spec| flags::counts_in_games(spec) && !matches!(spec.field, "config" | "logfile");
            let command = flags::add(PlayerArgs::augment_args(command), options, false, is_of_player);
            let mut command = command.no_binary_name(true).after_help(format!(
                "These flags follow {prefix}, as in {prefix}visits=800. The tournament's flags have no player."
            ));
            // clap would name the flag without its prefix, and a usage that does not exist.
            let named = |mut error: clap::Error| {
                if let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) {
                    let flag = format!("{prefix}{}", flag.trim_start_matches('-'));
                    error.insert(ContextKind::InvalidArg, ContextValue::String(flag));
                }
                error.remove(ContextKind::Usage);
                error
            };
            let matches = command.try_get_matches_from_mut(flags).map_err(named)?;
            let own = PlayerArgs::from_arg_matches(&matches)?;
            let mut options = options.clone();
            flags::apply(&matches, &mut options).map_err(|error| {
                clap::Error::raw(clap::error::ErrorKind::ValueValidation, format!("{error}\n"))
            })?;
            players.push((own.or(&self.player), options));
        }
        self.players = players;
        Ok(())
    }

    /// The tournament that the flags describe. `options` are those of both players.
    ///
    /// # Errors
    /// The openings cannot be read, or moves should be chosen in two ways.
    pub(super) fn config(&self, options: &Options) -> Result<TournamentConfig, CliError> {
        let (choice, games_in_each) = match (self.policy_mode_size, self.value_mode_size) {
            (0, 0) => (MoveChoice::Search, 1),
            (games, 0) => (MoveChoice::Policy, games),
            (0, games) => (MoveChoice::Value, games),
            _ => {
                return Err(WrongArguments(
                    "--policy-mode-size and --value-mode-size exclude each other".to_owned(),
                )
                .into());
            }
        };
        let parallelism = match choice {
            MoveChoice::Search => self.parallelism,
            MoveChoice::Policy | MoveChoice::Value => self.parallelism.max(1).saturating_mul(games_in_each),
        };
        let player = |index: usize| match self.players.get(index) {
            Some((player, options)) => player.config(options, self.training),
            None => PlayerArgs::default().or(&self.player).config(options, self.training),
        };
        Ok(TournamentConfig {
            players: [player(0), player(1)],
            games: match u64::try_from(self.games) {
                Ok(games) => GameCount::Games(games),
                Err(_) if self.games == -1 => GameCount::Endless,
                Err(_) => GameCount::Openings,
            },
            parallelism: Some(parallelism.min(MOST_AT_ONCE) as usize).filter(|&games| games > 0),
            choice,
            share_trees: self.share_trees,
            openings: self.openings_pgn.as_deref().map(openings_file::read).transpose()?.unwrap_or_default(),
            openings_mode: match self.openings_mode {
                Mode::Sequential => OpeningsMode::Sequential,
                Mode::Shuffled => OpeningsMode::Shuffled,
                Mode::Random => OpeningsMode::Random,
            },
            mirror_openings: self.mirror_openings,
            resign_playthrough: self.resign_playthrough,
            discarded_start_chance: self.discarded_start_chance,
            training: self.training.then_some(self.training_input_format),
            sprt: self.sprt,
            tablebases: options.syzygy_paths.clone(),
            shard: self.shard.unwrap_or((0, 1)),
            seed: self.seed,
        })
    }
}

/// Whether this is the command line of `selfplay`. Flags may come before the mode.
fn is_selfplay(arguments: &[OsString]) -> bool {
    arguments.iter().skip(1).any(|argument| argument == "selfplay")
}

/// Takes the flags of single players from the command line of `selfplay`, and returns them without their prefixes. In
/// another mode nothing is taken.
///
/// # Errors
/// A flag is for a player with one colour.
pub(super) fn take_player_flags(arguments: &mut Vec<OsString>) -> Result<[Vec<OsString>; 2], clap::Error> {
    let mut taken = [Vec::new(), Vec::new()];
    if !is_selfplay(arguments) {
        return Ok(taken);
    }
    let mut refused = None;
    arguments.retain(|argument| {
        let Some(text) = argument.to_str() else { return true };
        let flag = PREFIXES.iter().position(|prefix| text.starts_with(prefix));
        let name = flag.map_or(text, |player| &text[PREFIXES[player].len()..]);
        if COLOR_PREFIXES.iter().any(|prefix| name.starts_with(prefix) && text.starts_with("--")) {
            refused = Some(text.to_owned());
        }
        let Some(player) = flag else { return true };
        // A switch and a long flag are written in the same way for a player as for both.
        taken[player].push(OsString::from(format!("--{name}")));
        false
    });
    match refused {
        Some(flag) => Err(clap::Error::raw(
            clap::error::ErrorKind::UnknownArgument,
            format!("{flag}: a player has the same settings with white and with black\n"),
        )),
        None => Ok(taken),
    }
}
