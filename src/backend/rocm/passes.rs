//! The time of whole forward passes by batch size, and the ladder of batch sizes that follows from it.
//!
//! The ladder of a network on a device is kept in the cache folder, with the versions that it was measured with.

use super::buckets::{ladder, padding};
use super::error::Result;
use super::measure::median;
use super::precision::RocmPrecision;
use super::slot::{Requests, SlotMaker};
use crate::cache_folder;
use crate::chess::{PackedMove, Position, PositionHistory};
use crate::net::architecture::Architecture;
use crate::net::input::{HistoryFill, encode};
use crate::net::policy_index::index_of;
use crate::quote::quoted;
use std::io;
use std::time::Instant;

/// The first part of the names of the files that keep a ladder.
const NAME: &str = "ladder";

/// How often each batch size is timed, unless the time is over before.
const ROUNDS: usize = 15;

/// The time of a forward pass of a batch size, with the copies of its input and output.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PassTime {
    /// The number of positions.
    pub positions: usize,
    /// The median time.
    pub milliseconds: f32,
}

/// The key under which the ladder of a network is kept. The speed depends on its layers and not on their weights.
pub(super) fn key(versions: &str, precision: RocmPrecision, architecture: &Architecture) -> String {
    let architecture = format!("{architecture:?}").replace(['\n', '\r'], " ");
    format!("{versions},{},{architecture}", precision.key())
}

/// The ladder that was kept under `key`; empty if there is none.
///
/// # Errors
/// A message about a damaged file.
pub(super) fn kept(key: &str) -> std::result::Result<Vec<usize>, String> {
    let Some(line) = cache_folder::kept_line(NAME, key) else { return Ok(Vec::new()) };
    let sizes: Option<Vec<usize>> = line.split(' ').map(|size| size.parse().ok()).collect();
    let is_ladder = |sizes: &Vec<usize>| sizes[0] > 0 && sizes.is_sorted_by(|a, b| a < b);
    sizes.filter(is_ladder).ok_or_else(|| format!("the kept batch sizes {} are ignored", quoted(&line)))
}

/// Keeps a ladder for the next start.
///
/// # Errors
/// There is no cache folder, or it cannot be written.
pub(super) fn keep(key: &str, sizes: &[usize]) -> io::Result<()> {
    let sizes: Vec<String> = sizes.iter().map(ToString::to_string).collect();
    cache_folder::keep_line(NAME, key, &sizes.join(" "))
}

/// The ladder that follows from these times, which are in ascending order of the sizes.
pub(super) fn ladder_of(times: &[PassTime]) -> Vec<usize> {
    ladder(&pairs(times))
}

/// [`padding`] of a ladder with these times.
pub(super) fn padding_of(times: &[PassTime], ladder: &[usize]) -> f32 {
    padding(&pairs(times), ladder)
}

fn pairs(times: &[PassTime]) -> Vec<(usize, f32)> {
    times.iter().map(|time| (time.positions, time.milliseconds)).collect()
}

/// Times a forward pass of each of the maker's batch sizes, all in turn, so that all of them meet the same changes of the
/// device's clock. `tell` gets the number of rounds that are done, and of all. If it returns false before the first
/// round is done, there are no times.
///
/// # Errors
/// The memory for a slot is missing, or a pass fails.
pub(super) fn times(
    maker: &SlotMaker<'_>,
    tell: &mut dyn FnMut(usize, usize) -> bool,
) -> Result<Vec<PassTime>> {
    let mut slot = maker.slot()?;
    slot.make_current()?;
    let sizes = maker.bucket_sizes();
    let batches: Vec<Requests> = sizes.iter().map(|&size| start_positions(size, maker)).collect();
    let mut found: Vec<Vec<f32>> = vec![Vec::new(); sizes.len()];
    // The first batch of a size runs step by step, and captures the graph of the second one.
    for round in 0..ROUNDS + 2 {
        for (times, batch) in found.iter_mut().zip(&batches) {
            if !tell(round.saturating_sub(2), ROUNDS) {
                let is_whole = round > 2;
                return Ok(if is_whole { medians(&sizes, found) } else { Vec::new() });
            }
            let begin = Instant::now();
            slot.evaluate(batch, |_| {})?;
            if round >= 2 {
                times.push(begin.elapsed().as_secs_f32() * 1e3);
            }
        }
    }
    Ok(medians(&sizes, found))
}

fn medians(sizes: &[usize], found: Vec<Vec<f32>>) -> Vec<PassTime> {
    let times = sizes
        .iter()
        .zip(found)
        .filter_map(|(&positions, times)| Some(PassTime { positions, milliseconds: median(times)? }));
    times.collect()
}

/// A batch of `size` start positions.
pub(super) fn start_positions(size: usize, maker: &SlotMaker<'_>) -> Requests {
    let position = Position::startpos();
    let (side, moves) = (position.side_to_move(), position.legal_moves());
    let format = maker.network.layers.architecture.input_format;
    let (planes, transform) = encode(&PositionHistory::new(position), format, HistoryFill::FenOnly);
    let indices: Vec<u16> = moves.iter().map(|&m| index_of(PackedMove::new(m), side, transform)).collect();
    let mut requests = Requests::default();
    (0..size).for_each(|_| requests.push(&planes, indices.iter().copied()));
    requests
}
