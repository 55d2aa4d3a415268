//! The profile of a network on a device.
//!
//! The time of the steps of one kind, such as the QKV products of all encoders, is that of a whole pass less that of a
//! pass without them, both as captured graphs and timed by device events in turn. So it includes what a step costs
//! because the one before it ran another kernel and used other memory. The times of all kinds add up to the pass, as far
//! as no step changes how fast the others run. Kinds that take less than a hundredth of the pass would get the
//! differences of large numbers, so these run alone, one after another.
//!
//! | module | what it does |
//! |---|---|
//! | [`ceilings`] | measures what the device can do at most |
//! | [`place`](mod@place) | finds the part of the network that a step belongs to |

mod ceilings;
mod place;

use super::backend::recommended_batch;
use super::buckets::{bucket_of, bucket_sizes};
use super::doctor::subject::Subject;
use super::doctor::{Request, Settings, Stage};
use super::error::{Result, RocmError};
use super::ffi::program::{StepFacts, Stopwatch};
use super::precision::RocmPrecision;
use super::slot::{LaidOut, Requests, Slot, SlotMaker};
use crate::backend::BackendError;
use crate::backend::profile::{
    self, Ceilings, Pass, Profile, ProfileRequest, Profiler, StepProfile, faster_half,
};
use crate::net::input::{HistoryFill, encode};
use crate::net::policy_index::index_of;
use place::place;

/// The share of a pass from which on the steps of a kind are timed by what a pass takes without them.
const LARGE_SHARE: f64 = 0.01;

/// Steps of one kind that run alone are repeated until a graph has so many, because events have a resolution of half a microsecond.
const STEPS_OF_A_GRAPH: usize = 24;

/// Profiles a network on a device.
pub struct RocmProfiler {
    subject: Subject,
    maximum_batch: usize,
    /// The batch sizes that the engine lays passes out for, in ascending order.
    sizes: Vec<usize>,
    notices: Vec<String>,
}

impl RocmProfiler {
    /// Opens the device, loads the network, and tunes its products as the engine does at its first start. `options` is
    /// the text of `BackendOptions`, and `weights` the name of the network.
    ///
    /// # Errors
    /// An option is invalid, ROCm or the device is missing, the network cannot be read, or a call fails.
    pub fn open(
        precision: RocmPrecision,
        options: &str,
        weights: &str,
    ) -> std::result::Result<RocmProfiler, BackendError> {
        Settings::read(options)?;
        let open = || -> Result<RocmProfiler> {
            let subject = Subject::open(&Request {
                stage: Stage::Speed,
                precision,
                options: options.to_owned(),
                weights: weights.to_owned(),
                is_quick: false,
                done: Vec::new(),
                killers: Vec::new(),
            })?;
            let notices = subject.tune()?;
            let maximum_batch = subject.maker()?.maximum_batch;
            let sizes = bucket_sizes(&subject.ladder()?, maximum_batch);
            Ok(RocmProfiler { subject, maximum_batch, sizes, notices })
        };
        open().map_err(|error| BackendError::Create { name: "rocm".to_owned(), reason: error.to_string() })
    }

    /// Messages for the user.
    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    fn failed(&self, error: &RocmError) -> BackendError {
        BackendError::Evaluate { name: self.subject.gpu.name.clone(), reason: error.to_string() }
    }

    /// The times of whole passes. Batches of one bucket take the same time, which is measured once.
    fn whole_passes(&self, wanted: &ProfileRequest<'_>, sizes: &[usize]) -> Result<Vec<Pass>> {
        let maker = self.subject.maker()?;
        let mut stopwatch = Stopwatch::new(self.subject.gpu.device)?;
        let mut known: Vec<(usize, f64)> = Vec::new();
        let mut passes = Vec::new();
        for &positions in sizes {
            let bucket = bucket_of(&self.sizes, positions).map(|index| self.sizes[index]);
            let bucket = bucket.ok_or_else(|| too_large(positions, self.maximum_batch))?;
            let microseconds = match known.iter().find(|(size, _)| *size == bucket) {
                Some((_, time)) => *time,
                None => {
                    let maker = SlotMaker { maximum_batch: bucket, ..maker };
                    let slot = ready_slot(&maker, &requests(wanted, bucket, &maker))?;
                    let times = whole(&laid_out(&slot, bucket)?, wanted.passes.max(1), &mut stopwatch)?;
                    let time = profile::mean(&kept(&times));
                    known.push((bucket, time));
                    time
                }
            };
            passes.push(Pass { positions, microseconds });
        }
        Ok(passes)
    }

    fn measure(&self, wanted: &ProfileRequest<'_>) -> Result<Profile> {
        let positions = bucket_of(&self.sizes, wanted.positions).map(|index| self.sizes[index]);
        let positions = positions.ok_or_else(|| too_large(wanted.positions, self.maximum_batch))?;
        let maker = SlotMaker { maximum_batch: positions, ..self.subject.maker()? };
        let requests = requests(wanted, positions, &maker);
        // Branches run one after another, because the times of steps that run beside others would not add up.
        let serial = ready_slot(&SlotMaker { fork: 0, ..maker }, &requests)?;
        let parallel = if maker.fork >= positions { Some(ready_slot(&maker, &requests)?) } else { None };
        let passes = wanted.passes.max(1);
        let mut stopwatch = Stopwatch::new(self.subject.gpu.device)?;
        let parallel_microseconds = match &parallel {
            Some(slot) => kept(&whole(&laid_out(slot, positions)?, passes, &mut stopwatch)?),
            None => Vec::new(),
        };
        let (whole_microseconds, steps) = steps(&laid_out(&serial, positions)?, passes, &mut stopwatch)?;
        Ok(Profile { positions, whole_microseconds, parallel_microseconds, steps })
    }
}

fn too_large(positions: usize, most: usize) -> RocmError {
    RocmError::Unsupported(format!("a batch of {positions} positions is too large: at most {most} fit"))
}

fn laid_out(slot: &Slot, positions: usize) -> Result<LaidOut<'_>> {
    slot.laid_out(positions).ok_or_else(|| too_large(positions, 0))
}

/// A slot that has evaluated a batch: its input holds the planes of a real position, and the libraries have loaded
/// their code.
fn ready_slot(maker: &SlotMaker<'_>, requests: &Requests) -> Result<Slot> {
    let mut slot = maker.slot()?;
    slot.evaluate(requests, |_| {})?;
    Ok(slot)
}

/// A batch of the same position.
fn requests(wanted: &ProfileRequest<'_>, positions: usize, maker: &SlotMaker<'_>) -> Requests {
    let format = maker.network.layers.architecture.input_format;
    let (planes, transform) = encode(wanted.history, format, HistoryFill::FenOnly);
    let side = wanted.history.last().side_to_move();
    let indices: Vec<u16> = wanted.moves.iter().map(|&m| index_of(m, side, transform)).collect();
    let mut requests = Requests::default();
    (0..positions).for_each(|_| requests.push(&planes, indices.iter().copied()));
    requests
}

/// The microseconds of whole passes on the device.
fn whole(laid_out: &LaidOut<'_>, passes: usize, stopwatch: &mut Stopwatch) -> Result<Vec<f64>> {
    let LaidOut { program, stream, lanes, .. } = *laid_out;
    let samples = stopwatch.samples(stream, passes, || program.enqueue(stream, lanes))?;
    Ok(microseconds(&samples, 1))
}

/// The times of whole passes, and those of the steps. The steps of one kind have the same shape, and get equal shares of
/// their time.
fn steps(
    laid_out: &LaidOut<'_>,
    passes: usize,
    stopwatch: &mut Stopwatch,
) -> Result<(Vec<f64>, Vec<StepProfile>)> {
    let LaidOut { program, stream, lanes, .. } = *laid_out;
    let facts = program.facts();
    let kinds: Vec<Kind> = facts.iter().map(|fact| kind(&fact.name)).collect();
    let mut times: Vec<(Kind, Vec<f64>)> = Vec::new();
    for wanted in &kinds {
        if times.iter().any(|(known, _)| known == wanted) {
            continue;
        }
        let count = kinds.iter().filter(|one| *one == wanted).count();
        let rounds = STEPS_OF_A_GRAPH.div_ceil(count);
        let enqueue = || {
            (0..rounds).try_for_each(|_| program.enqueue_some(stream, lanes, |name| kind(name) == *wanted))
        };
        let samples = stopwatch.samples(stream, passes, enqueue)?;
        times.push((wanted.clone(), kept(&microseconds(&samples, rounds))));
    }

    let all: f64 = times.iter().map(|(_, time)| profile::mean(time)).sum();
    let is_large = |time: &[f64]| profile::mean(time) > LARGE_SHARE * all;
    // Without its only kind, a pass would be empty.
    let large: Vec<Kind> = match times.len() {
        1 => Vec::new(),
        _ => times.iter().filter(|(_, time)| is_large(time)).map(|(kind, _)| kind.clone()).collect(),
    };
    let whole = || program.enqueue(stream, lanes);
    let without: Vec<_> = large
        .iter()
        .map(|left_out| move || program.enqueue_some(stream, lanes, |name| kind(name) != *left_out))
        .collect();
    let mut works: Vec<&dyn Fn() -> Result<()>> = vec![&whole];
    works.extend(without.iter().map(|work| work as &dyn Fn() -> Result<()>));
    let samples = stopwatch.samples_in_turn(stream, passes, &works)?;
    let samples: Vec<Vec<f64>> = samples.iter().map(|samples| microseconds(samples, 1)).collect();
    let (wholes, without) = samples.split_first().map_or((&[][..], &[][..]), |(a, b)| (a.as_slice(), b));
    let fast = faster_half(wholes);
    for (kind, shorter) in large.iter().zip(without) {
        if let Some((_, time)) = times.iter_mut().find(|(known, _)| known == kind) {
            *time = fast.iter().map(|&index| (wholes[index] - shorter[index]).max(0.0)).collect();
        }
    }
    let profile = |(fact, kind): (&StepFacts, &Kind)| {
        let count = kinds.iter().filter(|one| *one == kind).count();
        let time = times.iter().find(|(known, _)| known == kind).map(|(_, time)| time.as_slice());
        step(fact, time.unwrap_or_default().iter().map(|time| time / count as f64).collect())
    };
    Ok((fast.iter().map(|&index| wholes[index]).collect(), facts.iter().zip(&kinds).map(profile).collect()))
}

/// The stage and the operation of a step.
type Kind = (&'static str, String);

/// The stage and the operation of a step.
fn kind(name: &str) -> Kind {
    let (stage, _, operation) = place(name);
    (stage, operation)
}

fn step(fact: &StepFacts, microseconds: Vec<f64>) -> StepProfile {
    let (stage, index, operation) = place(&fact.name);
    StepProfile {
        stage: stage.to_owned(),
        index,
        operation,
        kernel: Some(fact.kernel.clone()),
        calls: 1,
        launches: fact.launches,
        microseconds,
        operations: fact.work.operations,
        bytes: fact.work.bytes,
        bytes_of_a_call: fact.work.bytes,
    }
}

/// Milliseconds of graphs with so many steps, as microseconds of one step.
fn microseconds(milliseconds: &[f32], steps: usize) -> Vec<f64> {
    milliseconds.iter().map(|&time| f64::from(time) * 1e3 / steps as f64).collect()
}

/// The faster half of some passes.
fn kept(passes: &[f64]) -> Vec<f64> {
    faster_half(passes).into_iter().map(|index| passes[index]).collect()
}

impl Profiler for RocmProfiler {
    fn subject(&self) -> profile::Subject {
        let gpu = &self.subject.gpu;
        profile::Subject {
            name: format!("rocm ({}, {}, {})", gpu.name, gpu.architecture, self.subject.precision.key()),
            recommended_batch: recommended_batch(gpu.compute_units).min(self.maximum_batch),
            maximum_batch: self.maximum_batch,
            ladder: self.sizes.clone(),
        }
    }

    fn ceilings(&mut self) -> std::result::Result<Ceilings, BackendError> {
        ceilings::measure(&self.subject).map_err(|error| self.failed(&error))
    }

    fn profile(&mut self, wanted: &ProfileRequest<'_>) -> std::result::Result<Profile, BackendError> {
        self.measure(wanted).map_err(|error| self.failed(&error))
    }

    fn passes(
        &mut self,
        wanted: &ProfileRequest<'_>,
        sizes: &[usize],
    ) -> std::result::Result<Vec<Pass>, BackendError> {
        self.whole_passes(wanted, sizes).map_err(|error| self.failed(&error))
    }
}
