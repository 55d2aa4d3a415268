//! Packs a network. 8-bit weights are rounded by what the inputs of their layers are on real positions.
//!
//! The positions are those of the benchmark, from openings to endgames, and the next ones after the move that the network
//! prefers. The network evaluates them in fp32 first.

use super::network::{CpuNetwork, InstructionSet, Precision};
use super::rounder::{Guide, Rounder};
use super::scratch::{Outputs, Scratch};
use super::steps::NetworkStatistics;
use rukh_chess::{PackedMove, Position, PositionHistory, bench_positions, uci_move};
use rukh_net::Network;
use rukh_net::input::{HistoryFill, encode};
use rukh_net::policy_index::index_of;

/// The most positions of each game: with more, the errors of the embedded network are no smaller.
const MOST_PLIES: usize = 4;
/// The most floating-point operations: a second on a core with AVX-512.
const OPERATIONS: u64 = 100_000_000_000;
/// The least number of games. Their positions may take more operations.
const LEAST_GAMES: usize = 8;

impl CpuNetwork {
    /// Packs a network. Each of its layers is freed as soon as it is packed. For 8-bit products the network is packed in
    /// fp32 first, and evaluates some positions.
    pub fn new(network: Network, precision: Precision, instructions: InstructionSet) -> CpuNetwork {
        let rounder = match precision {
            Precision::Int8 | Precision::Int8Dense => {
                calibrated(&network, instructions, instructions.0.largest_int8_weight())
            }
            Precision::Fp32 | Precision::Bf16 => Rounder::idle(instructions.0),
        };
        CpuNetwork::pack(network, precision, instructions, rounder).0
    }
}

/// Evaluates some positions in fp32, to round the network's weights for products in bytes. `largest` is the largest 8-bit
/// weight.
pub(super) fn calibrated(network: &Network, instructions: InstructionSet, largest: i8) -> Rounder {
    Rounder::new(instructions.0, largest, Guide::Statistics(statistics(network, instructions)))
}

/// What the inputs of the network's layers are, in the order in which they are packed.
fn statistics(network: &Network, instructions: InstructionSet) -> NetworkStatistics {
    let format = network.architecture.input_format;
    let mut games = games();
    let affordable = affordable_positions(network);
    games.truncate(affordable.max(LEAST_GAMES));
    let plies = affordable / games.len().max(1);
    let idle = Rounder::idle(instructions.0);
    let (packed, _) = CpuNetwork::pack(network.clone(), Precision::Fp32, instructions, idle);
    let (mut scratch, mut outputs) = (Scratch::new(packed.isa), Outputs::default());
    scratch.steps.statistics = Some(NetworkStatistics::default());
    for _ in 0..plies.clamp(1, MOST_PLIES) {
        let (planes, transforms): (Vec<_>, Vec<u8>) =
            games.iter().map(|game| encode(game, format, HistoryFill::FenOnly)).unzip();
        packed.forward(&planes, &mut scratch, &mut outputs);
        for (index, (game, transform)) in games.iter_mut().zip(transforms).enumerate() {
            let logits = packed.logits(&outputs, index);
            let side = game.last().side_to_move();
            let logit = |place: u16| logits[usize::from(packed.policy_places[usize::from(place)])];
            let moves = game.last().legal_moves();
            let preferred = moves.iter().max_by(|&&a, &&b| {
                let [a, b] = [a, b].map(|m| logit(index_of(PackedMove::new(m), side, transform)));
                a.total_cmp(&b)
            });
            if let Some(&preferred) = preferred {
                game.push(preferred);
            }
        }
    }
    scratch.steps.statistics.take().unwrap_or_default()
}

/// The number of positions that can be evaluated at a start.
pub(super) fn affordable_positions(network: &Network) -> usize {
    usize::try_from(OPERATIONS / network.flops().total().max(1)).unwrap_or(usize::MAX)
}

/// The games whose last positions are those of the benchmark.
pub(super) fn games() -> Vec<PositionHistory> {
    bench_positions::POSITIONS.into_iter().filter_map(game).collect()
}

/// A FEN, with moves if there are any.
fn game(text: &str) -> Option<PositionHistory> {
    let (fen, moves) = text.split_once(" moves ").unwrap_or((text, ""));
    let mut game = PositionHistory::new(Position::from_fen(fen).ok()?);
    for text in moves.split_whitespace() {
        game.push(uci_move::parse(game.last(), text).ok()?);
    }
    Some(game)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_positions_are_used() {
        assert_eq!(games().len(), bench_positions::POSITIONS.len());
    }
}
