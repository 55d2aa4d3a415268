//! The `perft` mode: prints the counts as lines or JSON.

use super::args::PerftArgs;
use super::error::CliError;
use super::perft;
use crate::uci::output::Output;
use rukh_chess::{Position, uci_move};
use std::time::Instant;

/// Prints the count for each first move, and the total.
///
/// # Errors
/// The FEN is invalid.
pub(super) fn run(arguments: &PerftArgs, output: &Output) -> Result<(), CliError> {
    let position = Position::from_fen(&arguments.fen)?;
    let depth = arguments.depth;
    let start = Instant::now();
    if !arguments.json {
        let text = perft::divide(&position, depth, arguments.chess960);
        output.lines(&text.lines().collect::<Vec<_>>());
        return Ok(());
    }
    let mut moves = serde_json::Map::new();
    let mut total = u64::from(depth == 0);
    if depth > 0 {
        for &m in &position.legal_moves() {
            let nodes = perft::perft(&position.play(m), depth - 1);
            total += nodes;
            moves.insert(uci_move::text(m, arguments.chess960), nodes.into());
        }
    }
    let time_ms = start.elapsed().as_millis() as u64;
    output.line(
        &serde_json::json!({ "depth": depth, "moves": moves, "nodes": total, "time_ms": time_ms })
            .to_string(),
    );
    Ok(())
}
