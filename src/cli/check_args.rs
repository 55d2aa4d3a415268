//! The flags of `check`.

use clap::Args;
use rukh_options::BackendName;
use std::path::PathBuf;

/// Flags of `check`.
#[derive(Args, Debug, Clone)]
pub(super) struct CheckArgs {
    /// Games (PGN) or positions (`.epd`, `.fen`) to evaluate, also compressed. Without a file the network plays games
    /// against itself, with moves drawn by its policy
    pub files: Vec<PathBuf>,
    /// The number of positions; a file may have fewer
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    pub positions: u32,
    /// The backend that is compared with `--backend`
    #[arg(long, default_value = BackendName::Cpu.name())]
    pub reference: String,
    /// Options of that backend
    #[arg(long, default_value = "", hide_default_value = true)]
    pub reference_opts: String,
    /// Positions in a batch
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub batch: u32,
    /// Begins other random choices
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Prints the result as JSON
    #[arg(long)]
    pub json: bool,
}
