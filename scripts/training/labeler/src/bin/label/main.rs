//! `label` makes training positions: it plays games with Stockfish and records the results of its searches.
//!
//! ```text
//! label --stockfish /usr/games/stockfish --processes 64 --seconds 600 --nodes 2000 --output labels --seed 1
//! label --check labels/*.bin
//! ```
//!
//! Each core runs a thread and a Stockfish process (version 15 or later, for `UCI_ShowWDL`) that plays games against
//! itself. A game begins after 0…14 random moves from the starting position or from a random Chess960 position, or with
//! a random endgame; most lopsided starts are discarded. Every position is searched for a fixed number of nodes. The
//! best move, the score and the win/draw/loss of that search are the label of the position, and usually the best move
//! is played. Sometimes another move is played, one of the best few or any legal one, so that the data has positions
//! after mistakes too. For some positions, a second search scores the best four moves.
//!
//! A position is recorded once, whatever its rule-50 counter. The complete shards in the output folder count as well,
//! so that a later run with another seed adds to them. Games end by the rules or by adjudication, which ends most games
//! that are clearly won and most that stay level. When the run ends (time, positions, interrupt), unfinished games are
//! written without a result. [`labeler::layout`] describes the records, and [`labeler::shards`] the files:
//! `train-SEED-NUMBER.bin`, and `heldout-SEED-NUMBER.bin` for one game in 200.
//!
//! A Stockfish process that dies or prints nothing for 10 s is replaced. A build for the processor at hand is worth the
//! effort: Debian's Stockfish 15.1, which uses SSE2 alone, takes 1.6 times as long as a build for AVX2.

mod adjudication;
mod check;
mod deviation;
mod explorer;
mod game;
mod generate;
mod openings;
mod progress;
mod seen;
mod stockfish;

use anyhow::{Context as _, Result, ensure};
use clap::Parser;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Makes labelled training positions: games played by Stockfish, every position judged by a search.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// The path of the Stockfish program.
    #[arg(long, value_name = "PATH", default_value = "stockfish")]
    stockfish: PathBuf,
    /// Stockfish processes to run at a time; one per core is best.
    #[arg(long, value_name = "N", default_value_t = default_processes())]
    processes: usize,
    /// Stop after this time.
    #[arg(long, value_name = "SECONDS", default_value_t = 600.0)]
    seconds: f64,
    /// Stop after about this many positions.
    #[arg(long, value_name = "COUNT", default_value_t = u64::MAX, hide_default_value = true)]
    positions: u64,
    /// Nodes of a search.
    #[arg(long, value_name = "NODES", default_value_t = 2000)]
    nodes: u64,
    /// Nodes of the second search, which scores four moves [default: 1.5 times --nodes].
    #[arg(long, value_name = "NODES")]
    multipv_nodes: Option<u64>,
    /// Share of positions with four scored moves (at least the 10 % or so that deviations need).
    #[arg(long, value_name = "SHARE", default_value_t = 0.25, value_parser = share)]
    multipv_share: f64,
    /// Share of games from Chess960 starts.
    #[arg(long, value_name = "SHARE", default_value_t = 0.03, value_parser = share)]
    chess960_share: f64,
    /// Share of games from random endgames.
    #[arg(long, value_name = "SHARE", default_value_t = 0.06, value_parser = share)]
    endgame_share: f64,
    /// Network file, or `<embedded>`, whose policy chooses the moves of exploring side lines.
    #[arg(long, value_name = "FILE")]
    explorer: Option<String>,
    /// Share of the positions of games at which an exploring line of 1 to 6 positions begins.
    #[arg(long, value_name = "SHARE", default_value_t = 0.5, value_parser = share, requires = "explorer")]
    explore_share: f64,
    /// Folder for the shards.
    #[arg(long, value_name = "FOLDER", required_unless_present = "check")]
    output: Option<PathBuf>,
    /// Seed of openings and deviations; each run into the same folder needs its own seed.
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,
    /// Hold out one game in this many.
    #[arg(long, value_name = "GAMES", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    heldout_every: u32,
    /// Positions in a shard.
    #[arg(long, value_name = "COUNT", default_value_t = 65536)]
    shard_positions: usize,
    /// Close a shard after this time, full or not.
    #[arg(long, value_name = "SECONDS", default_value_t = 30.0)]
    shard_seconds: f64,
    /// Verify these shards and print their statistics, instead of making new ones.
    #[arg(long, value_name = "SHARD", num_args = 1.., exclusive = true)]
    check: Option<Vec<PathBuf>>,
}

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("label: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> Result<()> {
    if let Some(shards) = &arguments.check {
        return check::check(shards);
    }
    let share_of_kinds = arguments.chess960_share + arguments.endgame_share;
    ensure!(
        share_of_kinds <= 1.0,
        "--chess960-share and --endgame-share add up to {share_of_kinds}, more than 1"
    );
    let seconds = |value: f64| Duration::try_from_secs_f64(value);
    let settings = generate::Settings {
        stockfish: arguments.stockfish,
        processes: arguments.processes.max(1),
        output: arguments.output.unwrap_or_default(),
        seed: arguments.seed,
        heldout_every: arguments.heldout_every,
        shard_positions: arguments.shard_positions.max(1),
        shard_age: seconds(arguments.shard_seconds)?,
        plan: game::Plan {
            nodes: arguments.nodes.max(1),
            multipv_nodes: arguments
                .multipv_nodes
                .unwrap_or(arguments.nodes.saturating_add(arguments.nodes / 2))
                .max(1),
            multipv_share: arguments.multipv_share,
            shares: openings::Shares { chess960: arguments.chess960_share, endgame: arguments.endgame_share },
            explorer: (arguments.explorer.as_deref())
                .map(|name| explorer::Explorer::load(name, arguments.explore_share))
                .transpose()?,
        },
    };
    let progress = progress::Progress::new(seconds(arguments.seconds)?, arguments.positions);
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, progress.stop_flag()).context("cannot catch signals")?;
    }
    generate::generate(&settings, &progress)
}

fn default_processes() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// A number from 0 to 1.
fn share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("expected a number from 0 to 1".to_owned()),
    }
}
