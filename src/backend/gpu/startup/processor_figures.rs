//! What the processor finds for a few positions, with which a card's figures are compared.
//!
//! A large network takes seconds to be prepared and evaluated on the processor. The figures are therefore kept in the
//! cache folder for each network: a card is checked again whenever its settings change, and they change at some starts
//! until all GEMMs have been measured.

use rukh_backend::{Backend, BackendError, EvalRequest, Value};
use rukh_base::cache_folder;
use rukh_chess::{PackedMove, Position, PositionHistory, uci_move};
use rukh_cpu::{CpuBackend, CpuOptions, Precision};
use rukh_net::Network;
use rukh_net::architecture::InputFormat;
use rukh_net::digest::digest;
use rukh_net::input::{HistoryFill, InputPlanes, encode};
use rukh_net::policy_index::index_of;
use std::sync::Arc;

/// The positions to evaluate: a FEN, and moves from there. They have castling, en passant, checks and promotions, and
/// histories of different lengths.
const POSITIONS: [(&str, &str); 4] = [
    ("rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1", ""),
    (
        "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1",
        "e2e4 e7e5 g1f3 b8c6 f1b5 a7a6 b5c6 d7c6 f3e5",
    ),
    ("r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1", ""),
    ("n1n5/PPPk4/8/8/8/8/4Kppp/5N1N b - - 12 40", ""),
];

/// A network with more floating-point operations per position is slow on the processor, so that only
/// [`FEW_POSITIONS`] are evaluated.
const SLOW_NETWORK: u64 = 2_000_000_000;
const FEW_POSITIONS: usize = 2;

/// The first part of the names of the files that keep figures.
const NAME: &str = "processor";

const FILL: HistoryFill = HistoryFill::FenOnly;

/// A position, encoded for the device, with the processor's results.
pub(super) struct Expected {
    pub(super) planes: InputPlanes,
    /// The policy indices of the legal moves.
    pub(super) moves: Vec<u16>,
    pub(super) value: Value,
    pub(super) priors: Vec<f32>,
}

/// The results of a position: q, d, m and e, and the priors.
type Figures = ([f32; 4], Vec<f32>);

/// What the figures depend on, apart from the network itself, which is dropped before they may be needed.
#[derive(Clone)]
pub(super) struct Question {
    /// The network's number ([`digest()`]).
    pub(super) digest: u64,
    pub(super) has_value_error: bool,
    temperature: f32,
    input_format: InputFormat,
    /// How many of [`POSITIONS`] are evaluated.
    count: usize,
}

impl Question {
    pub(super) fn of(network: &Network, temperature: f32) -> Question {
        Question::with_digest(network, temperature, digest(network))
    }

    /// [`Question::of`] without computing the network's number, which takes a while.
    pub(super) fn with_digest(network: &Network, temperature: f32, digest: u64) -> Question {
        let count = if network.flops().total() > SLOW_NETWORK { FEW_POSITIONS } else { POSITIONS.len() };
        Question {
            digest,
            has_value_error: network.value_error.is_some(),
            temperature,
            input_format: network.architecture.input_format,
            count,
        }
    }

    fn key(&self) -> String {
        format!("{},{:016x},{}", rukh_base::version::version(), self.digest, self.temperature)
    }

    fn histories(&self) -> Vec<PositionHistory> {
        POSITIONS.into_iter().take(self.count).filter_map(|(fen, moves)| history(fen, moves)).collect()
    }

    /// The positions with the results that an earlier start has kept.
    pub(super) fn kept(&self) -> Option<Vec<Expected>> {
        let histories = self.histories();
        let figures = parsed(&cache_folder::kept_line(NAME, &self.key())?)?;
        let fits =
            |(history, (_, priors)): (&PositionHistory, &Figures)| priors.len() == legal_moves(history).len();
        let all_fit = figures.len() == histories.len() && histories.iter().zip(&figures).all(fits);
        all_fit.then(|| expected(&histories, figures, self.input_format))
    }

    /// Evaluates the positions with the CPU backend, and keeps the results. `network` must be the one asked about.
    ///
    /// # Errors
    /// The CPU backend cannot be made, or its evaluation fails.
    pub(super) fn computed(&self, network: Arc<Network>) -> Result<Vec<Expected>, BackendError> {
        let histories = self.histories();
        let figures = evaluated(network, self.temperature, &histories)?;
        // Without a cache folder the next check computes them again.
        let _ = cache_folder::keep_line(NAME, &self.key(), &text(&figures));
        Ok(expected(&histories, figures, self.input_format))
    }
}

fn expected(
    histories: &[PositionHistory],
    figures: Vec<Figures>,
    input_format: InputFormat,
) -> Vec<Expected> {
    let with_figures = |(history, ([q, d, m, e], priors)): (&PositionHistory, Figures)| {
        let (planes, transform) = encode(history, input_format, FILL);
        let side = history.last().side_to_move();
        let moves = legal_moves(history).into_iter().map(|one| index_of(one, side, transform)).collect();
        Expected { planes, moves, value: Value { q, d, m, e }, priors }
    };
    histories.iter().zip(figures).map(with_figures).collect()
}

/// Evaluates the positions with the CPU backend.
fn evaluated(
    network: Arc<Network>,
    temperature: f32,
    histories: &[PositionHistory],
) -> Result<Vec<Figures>, BackendError> {
    let count = histories.len();
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(count);
    let options = CpuOptions { threads, maximum_batch_size: count, instructions: None };
    let cpu = CpuBackend::new(network, Precision::Fp32, &options, temperature, FILL)?;
    let mut batch = cpu.new_batch();
    for history in histories {
        batch.add(EvalRequest { history, moves: &legal_moves(history) });
    }
    let evaluations = batch.submit().wait()?;
    let figures = |(Value { q, d, m, e }, priors): (Value, &[f32])| ([q, d, m, e], priors.to_vec());
    Ok(evaluations.iter().map(figures).collect())
}

/// The figures as a line of a file: a hash and JSON.
fn text(figures: &[Figures]) -> String {
    let json = serde_json::to_string(figures).unwrap_or_default();
    format!("{:016x} {json}", cache_folder::hash_of(&json))
}

/// The figures in such a line; `None` if the line is damaged.
fn parsed(line: &str) -> Option<Vec<Figures>> {
    let (hash, json) = line.split_once(' ')?;
    let is_sound = hash == format!("{:016x}", cache_folder::hash_of(json));
    serde_json::from_str(json).ok().filter(|_| is_sound)
}

fn legal_moves(history: &PositionHistory) -> Vec<PackedMove> {
    history.last().legal_moves().iter().map(|&one| PackedMove::new(one)).collect()
}

/// The history of a position of [`POSITIONS`].
fn history(fen: &str, moves: &str) -> Option<PositionHistory> {
    let mut history = PositionHistory::new(Position::from_fen(fen).ok()?);
    for text in moves.split_whitespace() {
        let next = uci_move::parse(history.last(), text).ok()?;
        history.push(next);
    }
    Some(history)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_position_can_be_played() {
        for (fen, moves) in POSITIONS {
            let history = history(fen, moves).unwrap();
            assert!(!history.last().legal_moves().is_empty(), "{fen} {moves}");
        }
    }

    #[test]
    fn a_damaged_line_is_not_believed() {
        let figures =
            vec![([0.1, 0.25, 33.5, 0.0], vec![0.7, 1e-9]), ([-0.1, 0.5, 1.0 / 3.0, 0.0], vec![1.0])];
        let line = text(&figures);
        assert_eq!(parsed(&line), Some(figures));
        assert_eq!(parsed(&line.replace("33.5", "38.5")), None);
        assert_eq!(parsed(&line[..line.len() - 1]), None);
    }
}
