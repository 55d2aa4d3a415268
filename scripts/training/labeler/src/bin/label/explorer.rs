//! Chooses moves as a search with a network would try them, so that the training positions are like those that a search
//! evaluates.
//!
//! A search tries moves in proportion to the policy, so that most positions that it evaluates come after moves that
//! neither side would play. Games of a strong player have few such positions, and a network trained on those games
//! alone does not know how to punish mistakes.

use anyhow::{Result, anyhow};
use rand::RngExt as _;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rukh_chess::{Move, PackedMove, PositionHistory};
use rukh_cpu::{CpuNetwork, InstructionSet, Precision};
use rukh_net::discover::find_network;
use rukh_net::input::encode;
use rukh_net::policy_index::index_of;
use rukh_net::{HeadSelection, HistoryFill, InputFormat};

/// lc0's default PolicyTemperature, which its search applies to the policy.
const TEMPERATURE: f64 = 1.359;
/// Probability that a legal move is drawn uniformly, so that moves with almost no share of the policy are tried too.
const UNIFORM_SHARE: f64 = 0.1;

/// A network that proposes moves, shared by all threads.
pub(crate) struct Explorer {
    network: CpuNetwork,
    format: InputFormat,
    /// Probability that a line begins at a position of a game.
    share: f64,
}

impl Explorer {
    /// Loads a network that is named as in the option `WeightsFile`. `share` is the probability that a line begins at a
    /// position of a game.
    ///
    /// # Errors
    /// The file cannot be read or is not a network.
    pub(crate) fn load(name: &str, share: f64) -> Result<Explorer> {
        let network = find_network(name, |message| eprintln!("{message}"))
            .and_then(|file| file.network(&HeadSelection::default()))
            // The text of the error contains its causes already.
            .map_err(|error| anyhow!("{error}"))?;
        let format = network.architecture.input_format;
        let network = CpuNetwork::new(network, Precision::Bf16, InstructionSet::best());
        Ok(Explorer { network, format, share })
    }

    /// Decides at random whether a line begins here.
    pub(crate) fn begins_line(&self, rng: &mut StdRng) -> bool {
        rng.random_bool(self.share)
    }

    /// Draws a legal move of the last position from the policy, or sometimes from all moves with equal probability.
    /// Returns `None` if there is no legal move.
    pub(crate) fn choose(&self, rng: &mut StdRng, history: &PositionHistory) -> Option<Move> {
        let position = history.last();
        let moves = position.legal_moves();
        if rng.random_bool(UNIFORM_SHARE) {
            return moves.choose(rng).copied();
        }
        let (planes, transform) = encode(history, self.format, HistoryFill::FenOnly);
        let outputs = self.network.evaluate_raw(&[planes]);
        let side = position.side_to_move();
        let logit = |m: Move| {
            f64::from(outputs[0].policy[usize::from(index_of(PackedMove::new(m), side, transform))])
        };
        let largest = moves.iter().map(|&m| logit(m)).fold(f64::NEG_INFINITY, f64::max);
        moves.choose_weighted(rng, |&m| ((logit(m) - largest) / TEMPERATURE).exp()).ok().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng as _;
    use rukh_chess::{Position, uci_move};
    use rukh_net::discover::EMBEDDED;

    #[test]
    fn likely_moves_are_tried_often_and_bad_moves_sometimes() {
        let explorer = Explorer::load(EMBEDDED, 0.5).expect("a network");
        // Black's queen hangs.
        let fen = "rnb1kbnr/pppp1ppp/8/4p1q1/4P3/5N2/PPPP1PPP/RNBQKB1R w KQkq - 2 3";
        let history = PositionHistory::new(Position::from_fen(fen).expect("a position"));
        let taking = uci_move::parse(history.last(), "f3g5").expect("a move");
        let mut rng = StdRng::seed_from_u64(5);
        let chosen: Vec<_> = (0..200).filter_map(|_| explorer.choose(&mut rng, &history)).collect();
        let takes = chosen.iter().filter(|&&m| m == taking).count();
        assert!((120..195).contains(&takes), "{takes} of {}", chosen.len());
    }
}
