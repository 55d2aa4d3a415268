//! Chooses the number format of a network on this processor.
//!
//! bf16 and 8-bit integers are faster than fp32 on some processors and slower on others, and how much a network's figures
//! change depends on the network. So some positions are evaluated in each format. The fastest format wins whose figures
//! are close enough to those in fp32. What was measured is kept in the user's cache folder for the next start.

use super::backend::{CpuBackend, CpuOptions, int8_convolutions_pay};
use super::calibration::{affordable_positions, games};
use super::network::{InstructionSet, Precision};
use rukh_backend::owned_request::{OwnedRequest, evaluate};
use rukh_backend::{Backend, BackendError, Comparison, Evaluations};
use rukh_base::cache_folder::{keep_line, kept_line};
use rukh_base::{processor, progress};
use rukh_net::Network;
use rukh_net::architecture::BodyKind;
use rukh_net::digest::Digest;
use rukh_net::input::HistoryFill;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The largest mean of the absolute differences of q that a format may have. `docs/networks.md` says why.
const LARGEST_Q_ERROR: f64 = 0.0065;
/// The largest mean of the policy's divergence, in nats.
const LARGEST_DIVERGENCE: f64 = 0.001;
/// A less accurate format must be this many times as fast as a more accurate one.
const LEAST_GAIN: f64 = 1.1;

/// The positions that are evaluated, unless the network is large.
const POSITIONS: usize = 100;
/// The least number of positions. With fewer, the mean difference would be known too badly.
const LEAST_POSITIONS: usize = 16;
/// The moves whose positions are evaluated, by their order in the policy. Those after the best move have been used to
/// round 8-bit weights.
const RANKS: std::ops::Range<usize> = 1..4;
/// The fewest rounds. In each round every format evaluates a batch once, and the shortest time of each counts. That is
/// the processor's time for this process (on Windows the elapsed time), because on a busy machine others have the
/// processor for longer than a batch takes.
const LEAST_ROUNDS: usize = 3;
/// The most rounds, where they are short.
const MOST_ROUNDS: usize = 25;
/// After this time no round begins, unless it is one of the fewest.
const TIME_FOR_ROUNDS: Duration = Duration::from_millis(300);

/// If the positions take longer in fp32, because the machine is busy or the network large, the user is told what is going
/// on.
const SILENCE: Duration = Duration::from_secs(1);

/// The first word of the cached files' names.
const NAME: &str = "cpu-format";

/// A format beside fp32 on the same positions.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Measured {
    precision: Precision,
    /// How many times as fast as fp32.
    gain: f64,
    /// The mean of the absolute differences of q.
    q_error: f64,
    /// The mean of the policy's Kullback-Leibler divergence, in nats.
    divergence: f64,
}

/// A number format, and what it was chosen by.
#[derive(Clone, PartialEq, Debug)]
pub struct Choice {
    /// The format to use.
    pub precision: Precision,
    measured: Vec<Measured>,
}

impl Choice {
    /// Chooses the format of `network`, by what an earlier start has measured or else by a measurement.
    ///
    /// # Errors
    /// A backend cannot be made, or its evaluation fails.
    pub fn new(network: &Arc<Network>, options: &CpuOptions) -> Result<Choice, BackendError> {
        let instructions = options.instructions.unwrap_or_else(InstructionSet::best);
        if is_tower(network) && !int8_convolutions_pay(network, instructions) {
            // The convolutions of a tower are in fp32 whatever the format.
            return Ok(Choice::of(Vec::new()));
        }
        let key = key(network, instructions);
        if let Some(choice) = kept_line(NAME, &key).and_then(|line| Choice::from_line(&line)) {
            return Ok(choice);
        }
        let choice = Choice::of(measure(network, instructions)?);
        // Without a cache folder, every start measures.
        let _ = keep_line(NAME, &key, &choice.line());
        Ok(choice)
    }

    /// The choice among fp32 and the measured formats, which are ordered from the most accurate to the least.
    fn of(measured: Vec<Measured>) -> Choice {
        let (mut precision, mut gain) = (Precision::Fp32, 1.0);
        for format in &measured {
            // A comparison with NaN is false, so that figures that are no numbers are never accurate enough.
            let is_accurate = format.q_error <= LARGEST_Q_ERROR && format.divergence <= LARGEST_DIVERGENCE;
            if is_accurate && format.gain >= LEAST_GAIN * gain {
                (precision, gain) = (format.precision, format.gain);
            }
        }
        Choice { precision, measured }
    }

    /// What [`Choice::from_line`] reads.
    fn line(&self) -> String {
        let format = |measured: &Measured| {
            let Measured { precision, gain, q_error, divergence } = measured;
            format!("{} {gain} {q_error} {divergence}", precision.name())
        };
        self.measured.iter().map(format).collect::<Vec<_>>().join(";")
    }

    /// `None` if this is not what [`Choice::line`] writes.
    fn from_line(line: &str) -> Option<Choice> {
        let format = |text: &str| {
            let mut words = text.split(' ');
            let name = words.next()?;
            let precision = CANDIDATES.into_iter().find(|precision| precision.name() == name)?;
            let mut number = || words.next()?.parse().ok();
            Some(Measured { precision, gain: number()?, q_error: number()?, divergence: number()? })
        };
        Some(Choice::of(line.split(';').map(format).collect::<Option<_>>()?))
    }
}

/// For the user: the format that is used, and why.
impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cpu-auto uses {}", self.precision.name())?;
        match self.measured.iter().find(|measured| measured.precision == self.precision) {
            Some(Measured { gain, q_error, .. }) => {
                write!(f, ": {gain:.2} times as fast as cpu, and q differs by {q_error:.4} on average")
            }
            None if self.measured.is_empty() => Ok(()),
            None => f.write_str(": no faster number format is accurate enough for this network"),
        }
    }
}

/// The formats beside fp32, from the most accurate to the least.
const CANDIDATES: [Precision; 2] = [Precision::Bf16, Precision::Int8];

/// Whether the network is a residual tower.
fn is_tower(network: &Network) -> bool {
    matches!(network.architecture.body, BodyKind::Convolution { .. })
}

/// What the measurement depends on.
fn key(network: &Network, instructions: InstructionSet) -> String {
    format!(
        "{}\n{}\n{}\n{:016x}\n",
        rukh_base::version::version(),
        processor::name(),
        instructions.name(),
        fingerprint(network)
    )
}

/// A number that two networks share only if their value heads are the same. Training changes all weights.
fn fingerprint(network: &Network) -> u64 {
    let mut digest = Digest::new(&network.architecture);
    digest.scalar_head(&network.value);
    digest.number()
}

/// Measures the formats that may be faster than fp32.
fn measure(network: &Arc<Network>, instructions: InstructionSet) -> Result<Vec<Measured>, BackendError> {
    // The convolutions of a tower are never in bf16.
    let bf16_pays = !is_tower(network) && instructions.bf16_pays();
    let candidates = CANDIDATES.into_iter().filter(|&format| format != Precision::Bf16 || bf16_pays);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let options = CpuOptions { threads, instructions: Some(instructions), ..CpuOptions::default() };
    let backend =
        |precision| CpuBackend::new(Arc::clone(network), precision, &options, 1.0, HistoryFill::FenOnly);
    let begin = Instant::now();
    let reference = backend(Precision::Fp32)?;
    let requests = requests(&reference, affordable_positions(network).clamp(LEAST_POSITIONS, POSITIONS))?;
    let expected = evaluate_all(&reference, &requests)?;
    if begin.elapsed() > SILENCE {
        progress::tell(
            "measuring which number format is the fastest on this processor, once for each network",
        );
    }
    let tested: Vec<CpuBackend> = candidates.clone().map(backend).collect::<Result<_, _>>()?;
    let mut measured = Vec::new();
    for ((precision, tested), gain) in candidates.zip(&tested).zip(gains(&reference, &tested, &requests)?) {
        let said = evaluate_all(tested, &requests)?;
        let mean = |difference: fn(Comparison<'_>) -> f64| {
            let pairs = said.iter().zip(expected.iter());
            let sum: f64 = pairs.map(|(said, right)| difference(Comparison::new(said, right))).sum();
            sum / requests.len().max(1) as f64
        };
        measured.push(Measured {
            precision,
            gain,
            q_error: mean(|comparison| comparison.q().absolute()),
            divergence: mean(|comparison| comparison.divergence()),
        });
    }
    Ok(measured)
}

/// About `count` positions, one move after those of the benchmark.
fn requests(reference: &CpuBackend, count: usize) -> Result<Vec<OwnedRequest>, BackendError> {
    let mut parents: Vec<OwnedRequest> = games().into_iter().filter_map(OwnedRequest::about).collect();
    parents.truncate(count.div_ceil(RANKS.len()));
    let evaluations = evaluate_all(reference, &parents)?;
    let mut requests = Vec::new();
    for (parent, (_, priors)) in parents.iter().zip(evaluations.iter()) {
        let moves = parent.history.last().legal_moves();
        let mut order: Vec<usize> = (0..moves.len()).collect();
        order.sort_by(|&a, &b| priors[b].total_cmp(&priors[a]));
        for &index in order.iter().take(RANKS.end).skip(RANKS.start) {
            let mut history = parent.history.clone();
            history.push(moves[index]);
            requests.extend(OwnedRequest::about(history));
        }
    }
    Ok(requests)
}

/// How many times as fast as `reference` each of the other backends evaluates a batch of `requests`.
fn gains(
    reference: &CpuBackend,
    tested: &[CpuBackend],
    requests: &[OwnedRequest],
) -> Result<Vec<f64>, BackendError> {
    let batch = &requests[..requests.len().min(reference.attributes().recommended_batch_size)];
    let begin = Instant::now();
    let mut shortest = vec![Duration::MAX; 1 + tested.len()];
    for round in 0..MOST_ROUNDS {
        if round >= LEAST_ROUNDS && begin.elapsed() > TIME_FOR_ROUNDS {
            break;
        }
        for (backend, shortest) in std::iter::once(reference).chain(tested).zip(&mut shortest) {
            let time = || processor::time_used().unwrap_or_else(|| begin.elapsed());
            let start = time();
            evaluate(backend, batch)?;
            *shortest = time().saturating_sub(start).min(*shortest);
        }
    }
    let seconds: Vec<f64> = shortest.iter().map(Duration::as_secs_f64).collect();
    Ok(seconds[1..].iter().map(|tested| seconds[0] / tested).collect())
}

/// Evaluates positions in batches of the size that the backend recommends.
fn evaluate_all(backend: &CpuBackend, requests: &[OwnedRequest]) -> Result<Evaluations, BackendError> {
    let mut evaluations = Evaluations::with_capacity(requests.len());
    for part in requests.chunks(backend.attributes().recommended_batch_size.max(1)) {
        evaluations.append(&evaluate(backend, part)?);
    }
    Ok(evaluations)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(precision: Precision, gain: f64, q_error: f64) -> Measured {
        Measured { precision, gain, q_error, divergence: 0.0 }
    }

    #[test]
    fn the_fastest_format_that_is_accurate_enough_is_chosen() {
        let chosen = |bf16: Measured, int8: Measured| Choice::of(vec![bf16, int8]).precision;
        let bf16 = |gain, q_error| measured(Precision::Bf16, gain, q_error);
        let int8 = |gain, q_error| measured(Precision::Int8, gain, q_error);
        assert_eq!(chosen(bf16(1.5, 0.001), int8(2.0, 0.002)), Precision::Int8);
        assert_eq!(
            chosen(bf16(1.9, 0.001), int8(2.0, 0.002)),
            Precision::Bf16,
            "hardly slower, more accurate"
        );
        assert_eq!(
            chosen(bf16(1.5, 0.001), int8(2.0, 0.007)),
            Precision::Bf16,
            "int8 is not accurate enough"
        );
        assert_eq!(chosen(bf16(1.5, 0.007), int8(2.0, f64::NAN)), Precision::Fp32);
        assert_eq!(chosen(bf16(0.8, 0.001), int8(1.05, 0.002)), Precision::Fp32, "hardly faster");
        let coarse_policy = Measured { divergence: 0.002, ..int8(2.0, 0.002) };
        assert_eq!(chosen(bf16(1.0, 0.001), coarse_policy), Precision::Fp32);
        assert_eq!(Choice::of(Vec::new()).precision, Precision::Fp32);
    }

    #[test]
    fn a_kept_line_gives_the_same_choice_and_a_damaged_one_none() {
        let choice =
            Choice::of(vec![measured(Precision::Bf16, 1.5, 0.001), measured(Precision::Int8, 2.0, 0.01)]);
        assert_eq!(Choice::from_line(&choice.line()), Some(choice));
        for damaged in ["", "cpu-bf16", "cpu-bf16 1 2", "cpu-bf16 1 2 x", "cpu-fp7 1 2 3", "cpu 1 2 3;"] {
            assert_eq!(Choice::from_line(damaged), None, "{damaged}");
        }
    }
}
