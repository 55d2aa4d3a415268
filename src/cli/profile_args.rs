//! The flags of `profile`.

use clap::Args;

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
}
