//! The profile of a network on a device.
//!
//! The kinds of steps, such as the QKV GEMMs of all encoders, are taken out of the pass one after another, and what
//! remains is timed, as captured graphs and by device events. This is done from the first kind to the last, and in
//! reverse; the time of a kind is the mean of what its removal saves in the two orders. So it includes what a step
//! costs because the one before it ran another kernel and used other memory, and the times of all kinds add up to the
//! pass. Kinds that take less than a hundredth of the pass are taken out together, and get shares of their time by what
//! they take alone.
//!
//! | module | what it does |
//! |---|---|
//! | [`ceilings`] | measures what the device can do at most |
//! | [`place`](mod@place) | finds the part of the network that a step belongs to |

mod ceilings;
mod place;

use crate::doctor::subject::Subject;
use crate::doctor::{Request, Stage};
use crate::options::GivenOptions;
use crate::pass::buckets::{bucket_of, bucket_sizes, recommended_batch};
use crate::pass::slot::{LaidOut, Requests, Slot, SlotMaker};
use crate::runtime::error::{GpuError, Result};
use crate::runtime::ffi::program::{StepFacts, Stopwatch};
use crate::runtime::maker::Maker;
use crate::runtime::precision::GpuPrecision;
use place::place;
use rukh_backend::BackendError;
use rukh_backend::profile::{
    self, Ceilings, Pass, Profile, ProfileRequest, Profiler, StepProfile, faster_half,
};
use rukh_net::input::{HistoryFill, encode};
use rukh_net::policy_index::index_of;

/// A kind of steps with a larger share of a pass than this is taken out by itself.
const LARGE_SHARE: f64 = 0.01;

/// Steps of one kind that run alone are repeated until a graph has so many, because events have a resolution of half a
/// microsecond.
const STEPS_OF_A_GRAPH: usize = 24;

/// Profiles a network on a device.
pub struct GpuProfiler {
    subject: Subject,
    maximum_batch: usize,
    recommended_batch: usize,
    /// The batch sizes that the engine lays passes out for, in ascending order.
    sizes: Vec<usize>,
    notices: Vec<String>,
}

impl GpuProfiler {
    /// Opens the device, loads the network, and tunes its GEMMs as the engine does at its first start. `options` is
    /// the text of `BackendOptions`, and `weights` the name of the network.
    ///
    /// # Errors
    /// An option is invalid, the driver or the device is missing, the network cannot be read, or a call fails.
    pub fn open(
        maker: Maker,
        precision: GpuPrecision,
        options: &str,
        weights: &str,
    ) -> std::result::Result<GpuProfiler, BackendError> {
        GivenOptions::read(maker, options)?;
        let open = || -> Result<GpuProfiler> {
            let subject = Subject::open(&Request {
                stage: Stage::Speed,
                maker,
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
            let usual = recommended_batch(subject.gpu.multiprocessors);
            let recommended_batch = subject.kept_settings()?.settings.batch_or(usual).min(maximum_batch);
            Ok(GpuProfiler { subject, maximum_batch, recommended_batch, sizes, notices })
        };
        open().map_err(|error| BackendError::Create { name: "rocm".to_owned(), reason: error.to_string() })
    }

    /// Messages for the user.
    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    fn failed(&self, error: &GpuError) -> BackendError {
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

fn too_large(positions: usize, most: usize) -> GpuError {
    GpuError::Unsupported(format!("a batch of {positions} positions is too large: at most {most} fit"))
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
    let facts = laid_out.program.facts();
    let kinds: Vec<Kind> = facts.iter().map(|fact| kind(&fact.name)).collect();
    let alone = times_alone(laid_out, &kinds, passes, stopwatch)?;
    let groups = groups(&alone);
    let group_of =
        |kind: &Kind| groups.iter().position(|group| group.iter().any(|&place| alone[place].0 == *kind));
    let (wholes, times) = times_within(laid_out, groups.len(), group_of, passes, stopwatch)?;
    let profile = |(fact, kind): (&StepFacts, &Kind)| {
        let count = kinds.iter().filter(|one| *one == kind).count() as f64;
        let time_alone = |place: &usize| profile::mean(&alone[*place].1);
        let of_group = group_of(kind).map(|group| {
            let all: f64 = groups[group].iter().map(time_alone).sum();
            let own =
                alone.iter().position(|(known, _)| known == kind).map_or(0.0, |place| time_alone(&place));
            let share = if all > 0.0 { own / all } else { 0.0 };
            times[group].iter().map(|time| time * share / count).collect()
        });
        step(fact, of_group.unwrap_or_default())
    };
    let steps = facts.iter().zip(&kinds).map(profile).collect();
    Ok((wholes, steps))
}

/// The microseconds of all steps of each kind, one after another.
fn times_alone(
    laid_out: &LaidOut<'_>,
    kinds: &[Kind],
    passes: usize,
    stopwatch: &mut Stopwatch,
) -> Result<Vec<(Kind, Vec<f64>)>> {
    let LaidOut { program, stream, lanes, .. } = *laid_out;
    let mut times: Vec<(Kind, Vec<f64>)> = Vec::new();
    for wanted in kinds {
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
    Ok(times)
}

/// What is taken out of the pass together: each large kind, and all others. The numbers are places in `alone`.
fn groups(alone: &[(Kind, Vec<f64>)]) -> Vec<Vec<usize>> {
    let all: f64 = alone.iter().map(|(_, time)| profile::mean(time)).sum();
    let is_large = |place: &usize| profile::mean(&alone[*place].1) > LARGE_SHARE * all;
    let (large, small): (Vec<usize>, Vec<usize>) = (0..alone.len()).partition(is_large);
    large.into_iter().map(|place| vec![place]).chain((!small.is_empty()).then_some(small)).collect()
}

/// The microseconds of whole passes, and those of each group of kinds within them, without the slower half of the
/// passes.
fn times_within(
    laid_out: &LaidOut<'_>,
    groups: usize,
    group_of: impl Fn(&Kind) -> Option<usize>,
    passes: usize,
    stopwatch: &mut Stopwatch,
) -> Result<(Vec<f64>, Vec<Vec<f64>>)> {
    let LaidOut { program, stream, lanes, .. } = *laid_out;
    let group_of = &group_of;
    let part = |from: usize, to: usize| {
        move || {
            program.enqueue_some(stream, lanes, |name| {
                group_of(&kind(name)).is_some_and(|group| (from..to).contains(&group))
            })
        }
    };
    // The first groups, ever more of them, up to the whole pass, and then the last groups, ever fewer of them.
    let parts: Vec<_> =
        (1..=groups).map(|end| part(0, end)).chain((1..groups).map(|begin| part(begin, groups))).collect();
    let works: Vec<&dyn Fn() -> Result<()>> = parts.iter().map(|part| part as _).collect();
    let samples = stopwatch.samples_in_turn(stream, passes, &works)?;
    let samples: Vec<Vec<f64>> = samples.iter().map(|samples| microseconds(samples, 1)).collect();
    let Some(wholes) = groups.checked_sub(1).map(|last| &samples[last]) else {
        return Ok(Default::default());
    };
    let first = |count: usize, pass: usize| if count == 0 { 0.0 } else { samples[count - 1][pass] };
    let last = |count: usize, pass: usize| match count {
        0 => 0.0,
        _ if count == groups => wholes[pass],
        _ => samples[2 * groups - 1 - count][pass],
    };
    let fast = faster_half(wholes);
    let time = |group: usize, pass: usize| {
        let forwards = first(group + 1, pass) - first(group, pass);
        let backwards = last(groups - group, pass) - last(groups - group - 1, pass);
        ((forwards + backwards) / 2.0).max(0.0)
    };
    let times = (0..groups).map(|group| fast.iter().map(|&pass| time(group, pass)).collect()).collect();
    Ok((fast.iter().map(|&pass| wholes[pass]).collect(), times))
}

/// The stage and the operation of a step.
type Kind = (&'static str, String);

/// The kind of the step with this name.
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
        byte_operations: fact.work.byte_operations,
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

impl Profiler for GpuProfiler {
    fn subject(&self) -> profile::Subject {
        let gpu = &self.subject.gpu;
        profile::Subject {
            name: format!(
                "{} ({}, {}, {})",
                gpu.maker.family(),
                gpu.name,
                gpu.architecture,
                self.subject.precision.key()
            ),
            recommended_batch: self.recommended_batch,
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
