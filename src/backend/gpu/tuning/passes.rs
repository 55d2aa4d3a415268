//! The time of whole forward passes by batch size, and the ladder of batch sizes that follows from it.
//!
//! The ladder of a network on a device is kept in the cache folder, with the versions that it was measured with.

use super::load::{Run, run_together, start_positions};
use crate::measure::measurer::median;
use crate::pass::buckets::{ladder, padding, without_slow_sizes};
use crate::pass::slot::{Requests, Slot, SlotMaker};
use crate::runtime::error::Result;
use crate::runtime::precision::GpuPrecision;
use rukh_base::cache_folder;
use rukh_base::quote::quoted;
use rukh_net::architecture::Architecture;
use std::io;
use std::time::{Duration, Instant};

/// The first part of the names of the files that keep a ladder.
const NAME: &str = "ladder";

/// How often each batch size is timed, unless the time is over before.
const ROUNDS: usize = 9;

/// How often a first start times each size.
const FIRST_ROUNDS: usize = 2;

/// A first start measures only a few times, so that only a difference of this factor counts.
pub(crate) const WORTH_AT_FIRST: f64 = 1.13;

/// The batches and the time of a measurement in each slot, at least.
const LEAST_BATCHES: usize = 2;
const LEAST_TIME: Duration = Duration::from_millis(12);

/// The time in which the device evaluates a batch of a size while all slots are busy, with the copies of its input and
/// output. A pass alone takes longer where several run at once.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PassTime {
    /// The number of positions.
    pub positions: usize,
    /// The median time.
    pub milliseconds: f32,
}

/// The key under which the ladder of a network is kept. The speed depends on its layers and not on their weights.
pub(crate) fn key(versions: &str, precision: GpuPrecision, architecture: &Architecture) -> String {
    let architecture = format!("{architecture:?}").replace(['\n', '\r'], " ");
    format!("{versions},{},{architecture}", precision.key())
}

/// The ladder that was kept under `key`; empty if there is none.
///
/// # Errors
/// A message about a damaged file.
pub(crate) fn kept(key: &str) -> std::result::Result<Vec<usize>, String> {
    let Some(line) = cache_folder::kept_line(NAME, key) else { return Ok(Vec::new()) };
    let sizes: Option<Vec<usize>> = line.split(' ').map(|size| size.parse().ok()).collect();
    let is_ladder = |sizes: &Vec<usize>| sizes[0] > 0 && sizes.is_sorted_by(|a, b| a < b);
    sizes.filter(is_ladder).ok_or_else(|| format!("the kept batch sizes {} are ignored", quoted(&line)))
}

/// Keeps a ladder for the next start.
///
/// # Errors
/// There is no cache folder, or it cannot be written.
pub(crate) fn keep(key: &str, sizes: &[usize]) -> io::Result<()> {
    let sizes: Vec<String> = sizes.iter().map(ToString::to_string).collect();
    cache_folder::keep_line(NAME, key, &sizes.join(" "))
}

/// The ladder that follows from these times, which are in ascending order of the sizes.
pub(crate) fn ladder_of(times: &[PassTime]) -> Vec<usize> {
    ladder(&pairs(times))
}

/// The ladder of a first start, which has timed the usual sizes only, and those not often: it leaves out the sizes that are
/// much slower than a larger one.
pub(crate) fn first_ladder_of(times: &[PassTime]) -> Vec<usize> {
    without_slow_sizes(&pairs(times), WORTH_AT_FIRST as f32)
}

/// [`padding`] of a ladder with these times.
pub(crate) fn padding_of(times: &[PassTime], ladder: &[usize]) -> f32 {
    padding(&pairs(times), ladder)
}

fn pairs(times: &[PassTime]) -> Vec<(usize, f32)> {
    times.iter().map(|time| (time.positions, time.milliseconds)).collect()
}

/// Times batches of each of the maker's sizes while all slots evaluate, as in a search, all sizes in turn, so that all of
/// them meet the same changes of the device's clock. `tell` gets the number of rounds that are done, and of all. If it
/// returns false before the first round is done, there are no times.
///
/// # Errors
/// The memory for the slots is missing, or a pass fails.
pub(crate) fn times(
    maker: &SlotMaker<'_>,
    tell: &mut dyn FnMut(usize, usize) -> bool,
) -> Result<Vec<PassTime>> {
    let mut slots = (0..maker.streams.max(1)).map(|_| maker.slot()).collect::<Result<Vec<Slot>>>()?;
    let sizes = maker.bucket_sizes();
    let batches: Vec<Requests> = sizes.iter().map(|&size| start_positions(size, maker)).collect();
    let mut found: Vec<Vec<f32>> = vec![Vec::new(); sizes.len()];
    // The first batch of a size runs step by step, and the second one captures the graph.
    for round in 0..=ROUNDS {
        for (times, batch) in found.iter_mut().zip(&batches) {
            if !tell(round.saturating_sub(1), ROUNDS) {
                let is_whole = round > 1;
                return Ok(if is_whole { medians(&sizes, found) } else { Vec::new() });
            }
            let time = time_of_a_batch(&mut slots, batch, 0)?;
            if round > 0 {
                times.push(time);
            }
        }
    }
    Ok(medians(&sizes, found))
}

/// The times of a first start, which has time for a few rounds; `None` if it had none. `goes_on` gets the time that the next
/// size may take.
///
/// # Errors
/// As [`times`].
pub(crate) fn first_times(
    maker: &SlotMaker<'_>,
    goes_on: impl Fn(Duration) -> bool,
) -> Result<Option<Vec<PassTime>>> {
    let mut begin = Instant::now();
    let mut tell = |round, _| {
        // A size is at most twice as large as the one before.
        let expected = 2 * begin.elapsed();
        begin = Instant::now();
        round < FIRST_ROUNDS && goes_on(expected)
    };
    let found = times(maker, &mut tell)?;
    Ok((!found.is_empty()).then_some(found))
}

/// The milliseconds of the host's clock in which all slots together evaluate a batch, while each of them evaluates one
/// after another, after `warm_up` batches that are not timed. The launches, the waits and the copies count, as in a
/// search. The speeds of the slots are added up, because one that has ended waits for the others.
pub(crate) fn time_of_a_batch(slots: &mut [Slot], batch: &Requests, warm_up: usize) -> Result<f32> {
    let runs = run_together(slots, batch, warm_up, (LEAST_BATCHES, LEAST_TIME))?;
    let batches_per_second: f32 = runs.iter().map(Run::batches_per_second).sum();
    Ok(1e3 / batches_per_second.max(f32::MIN_POSITIVE))
}

fn medians(sizes: &[usize], found: Vec<Vec<f32>>) -> Vec<PassTime> {
    let times = sizes
        .iter()
        .zip(found)
        .filter_map(|(&positions, times)| Some(PassTime { positions, milliseconds: median(times)? }));
    times.collect()
}
