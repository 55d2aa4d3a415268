//! The flags of `profile`.

use clap::Args;
use std::path::PathBuf;

/// Flags of `profile`.
#[derive(Args, Debug, Clone)]
pub(super) struct ProfileArgs {
    /// Positions in the batch; by default as many as the backend recommends
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub batch: Option<u32>,
    /// How often each time is measured
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub passes: u32,
    /// Position to evaluate, as a FEN
    #[arg(long, default_value = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1")]
    pub fen: String,
    /// Prints the result as JSON
    #[arg(long)]
    pub json: bool,
    /// Also draws the time by operation, a roofline and the throughput by batch size: in this file, and in two files
    /// whose names end in `-roofline` and `-throughput`
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Compares with the profile in this file, and fails if an operation has become slower. If there is no such file,
    /// writes it
    #[arg(long, value_name = "FILE")]
    pub baseline: Option<PathBuf>,
    /// Prints the waves of each kernel that fit on a card of this architecture, and what limits them; `all` prints those
    /// of every architecture. Nothing is measured
    #[arg(long, value_name = "ARCHITECTURE", num_args = 0..=1, default_missing_value = "all",
          conflicts_with_all = ["svg", "baseline", "rocprof", "rocprof_command"])]
    pub occupancy: Option<String>,
    /// Shows the CSV files that AMD's rocprofv3 has written in this folder. Nothing is measured
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["svg", "baseline", "rocprof_command"])]
    pub rocprof: Option<PathBuf>,
    /// Prints the commands that make such files for this network and batch size
    #[arg(long)]
    pub rocprof_command: bool,
    /// Changes of up to so many per cent are not regressions
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0, requires = "baseline")]
    pub tolerance: f64,
}
