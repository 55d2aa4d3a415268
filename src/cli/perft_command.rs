//! The `perft` mode: prints the counts as lines or JSON.

use super::args::PerftArgs;
use super::error::{CliError, WrongArguments};
use crate::uci::output::Output;
use rukh_chess::perft::divide;
use rukh_chess::{Position, uci_move};
use std::time::Instant;

/// Prints the count for each first move, and the total.
///
/// # Errors
/// The FEN is invalid.
pub(super) fn run(arguments: &PerftArgs, output: &Output) -> Result<(), CliError> {
    let position = Position::from_fen(&arguments.fen).map_err(WrongArguments::because_of)?;
    let depth = arguments.depth;
    let start = Instant::now();
    let mut moves = serde_json::Map::new();
    let mut total = u64::from(depth == 0);
    for (m, nodes) in divide(&position, depth, &|| false) {
        let text = uci_move::text(m, arguments.chess960);
        total += nodes;
        match arguments.json {
            true => drop(moves.insert(text, nodes.into())),
            false => output.line(&format!("{text}: {nodes}")),
        }
    }
    if !arguments.json {
        output.line(&format!("total: {total}"));
        return Ok(());
    }
    let time_ms = start.elapsed().as_millis() as u64;
    output.line(
        &serde_json::json!({ "depth": depth, "moves": moves, "nodes": total, "time_ms": time_ms })
            .to_string(),
    );
    Ok(())
}
