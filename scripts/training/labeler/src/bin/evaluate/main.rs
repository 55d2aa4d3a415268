//! `evaluate` measures how well the outputs of networks agree with held-out labels, without a search.
//!
//! ```text
//! evaluate --weights a.pb.gz --weights b.pb.gz heldout-*.bin
//! ```
//!
//! The program measures any network that the engine can load. A network sees each position with White to move, because
//! records show positions from the side to move, and without history, as if the position came from a FEN.

mod heldout;

use anyhow::{Context as _, Result, bail};
use clap::Parser;
use heldout::Heldout;
use labeler::shards::read_shard;
use rukh_chess::{Color, PositionHistory};
use rukh_cpu::{CpuNetwork, InstructionSet, Precision, RawEvaluation};
use rukh_net::input::encode;
use rukh_net::policy_index::{index_of, move_at};
use rukh_net::{HeadSelection, HistoryFill, InputPlanes, Network};
use std::path::{Path, PathBuf};

/// Positions in a batch.
const BATCH: usize = 64;

/// Compares networks with held-out labelled positions.
#[derive(Parser)]
struct Arguments {
    /// Network file; may be given several times.
    #[arg(short, long, required = true)]
    weights: Vec<PathBuf>,
    /// Shards of held-out positions.
    #[arg(required = true)]
    shards: Vec<PathBuf>,
    /// Use at most this many positions.
    #[arg(long, default_value_t = 50_000)]
    positions: usize,
    /// Threads that evaluate positions.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Compute matrix products in bf16.
    #[arg(long)]
    bf16: bool,
}

/// Sums of the metrics over positions.
#[derive(Clone, Copy, Default)]
struct Sums {
    positions: usize,
    top1: usize,
    policy: f64,
    wdl: f64,
    q: f64,
    with_end: usize,
    moves_left: f64,
}

impl Sums {
    fn add(&mut self, heldout: &Heldout, transform: u8, outputs: &RawEvaluation) {
        // The policy of a network with canonical input refers to the transformed board.
        let logit = |index: u16| {
            let transformed = match transform {
                0 => index,
                _ => index_of(move_at(index, Color::White, 0), Color::White, transform),
            };
            f64::from(outputs.policy[usize::from(transformed)])
        };
        let best = logit(heldout.best);
        let largest = heldout.legal.iter().map(|&index| logit(index)).fold(f64::NEG_INFINITY, f64::max);
        let total: f64 = heldout.legal.iter().map(|&index| (logit(index) - largest).exp()).sum();
        self.positions += 1;
        self.top1 += usize::from(best == largest);
        self.policy += total.ln() - (best - largest);
        let (q, d) = (f64::from(outputs.q), f64::from(outputs.d));
        let wdl = [(1.0 - d + q) / 2.0, d, (1.0 - d - q) / 2.0];
        // The bound keeps a probability that was rounded to 0 from dominating the mean.
        let surprise = |(label, output): (f64, f64)| -label * output.max(1e-6).ln();
        self.wdl += heldout.wdl.into_iter().zip(wdl).map(surprise).sum::<f64>();
        self.q += (q - (heldout.wdl[0] - heldout.wdl[2])).abs();
        if let Some(plies) = heldout.plies_left {
            self.with_end += 1;
            self.moves_left += (f64::from(outputs.m) - f64::from(plies)).abs();
        }
    }

    fn plus(self, other: Sums) -> Sums {
        Sums {
            positions: self.positions + other.positions,
            top1: self.top1 + other.top1,
            policy: self.policy + other.policy,
            wdl: self.wdl + other.wdl,
            q: self.q + other.q,
            with_end: self.with_end + other.with_end,
            moves_left: self.moves_left + other.moves_left,
        }
    }
}

/// The first `limit` positions of the shards.
fn read(shards: &[PathBuf], limit: usize) -> Result<Vec<Heldout>> {
    let mut positions = Vec::new();
    let mut damage = None;
    for path in shards {
        if positions.len() == limit {
            break;
        }
        read_shard(path, |record| {
            if positions.len() < limit && damage.is_none() {
                match Heldout::from_record(record) {
                    Ok(heldout) => positions.push(heldout),
                    Err(error) => damage = Some(error),
                }
            }
        })?;
        if let Some(error) = damage {
            return Err(error).with_context(|| format!("{} has a damaged record", path.display()));
        }
    }
    Ok(positions)
}

/// Evaluates `positions` on the current thread.
fn measure(network: &CpuNetwork, format: rukh_net::InputFormat, positions: &[Heldout]) -> Sums {
    let mut sums = Sums::default();
    for batch in positions.chunks(BATCH) {
        let (inputs, transforms): (Vec<InputPlanes>, Vec<u8>) = batch
            .iter()
            .map(|heldout| {
                encode(&PositionHistory::new(heldout.position.clone()), format, HistoryFill::FenOnly)
            })
            .unzip();
        let evaluations = network.evaluate_raw(&inputs);
        for ((heldout, transform), outputs) in batch.iter().zip(transforms).zip(&evaluations) {
            sums.add(heldout, transform, outputs);
        }
    }
    sums
}

fn report(path: &Path, arguments: &Arguments, positions: &[Heldout]) -> Result<()> {
    let network = Network::load(path, &HeadSelection::default())?;
    let architecture = network.architecture.clone();
    let precision = if arguments.bf16 { Precision::Bf16 } else { Precision::Fp32 };
    let packed = CpuNetwork::new(network, precision, InstructionSet::best());
    let share = positions.len().div_ceil(arguments.threads.max(1));
    let sums = std::thread::scope(|scope| {
        let threads: Vec<_> = positions
            .chunks(share)
            .map(|part| scope.spawn(|| measure(&packed, architecture.input_format, part)))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("an evaluation does not panic"))
            .fold(Sums::default(), Sums::plus)
    });
    let count = sums.positions as f64;
    let or_none = |has: bool, value: f64| if has { format!("{value:.4}") } else { "-".to_owned() };
    println!(
        "| {} | {} | {:.2} % | {:.4} | {} | {:.4} | {} |",
        path.file_name().unwrap_or_default().display(),
        sums.positions,
        100.0 * sums.top1 as f64 / count,
        sums.policy / count,
        or_none(architecture.wdl, sums.wdl / count),
        sums.q / count,
        or_none(architecture.moves_left && sums.with_end > 0, sums.moves_left / sums.with_end as f64),
    );
    Ok(())
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let positions = read(&arguments.shards, arguments.positions)?;
    if positions.is_empty() {
        bail!("the shards hold no positions");
    }
    println!(
        "| network | positions | top 1 | policy cross-entropy | WDL cross-entropy | q error | moves-left error |"
    );
    println!("|---|---|---|---|---|---|---|");
    for path in &arguments.weights {
        report(path, &arguments, &positions)?;
    }
    Ok(())
}
