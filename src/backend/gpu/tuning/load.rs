//! Batches in several slots at once, as the engine has them in a search: how many positions per second that gives.

use crate::pass::slot::{Requests, Slot, SlotMaker};
use crate::runtime::error::{GpuError, Result};
use crate::runtime::precision::MOVES_LEFT;
use rukh_backend::Value;
use rukh_chess::{PackedMove, Position, PositionHistory};
use rukh_net::input::{HistoryFill, encode};
use rukh_net::policy_index::index_of;
use std::sync::Barrier;
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

/// The first batch of a slot runs step by step, and the second one captures the graph.
const WARM_UP_BATCHES: usize = 2;

/// What is measured: batches of one size in [`SlotMaker::streams`] slots.
#[derive(Clone, Copy)]
pub(crate) struct Load<'a> {
    pub(crate) maker: SlotMaker<'a>,
    /// The time of a measurement after the warm-up, and the fewest batches of each slot.
    pub(crate) time: Duration,
    pub(crate) batches: usize,
}

impl Load<'_> {
    /// Evaluates batches of `size` positions in all slots at once, as `backendbench` does with as many threads.
    ///
    /// # Errors
    /// The memory for the slots is missing, or a pass fails.
    pub(crate) fn positions_per_second(&self, size: usize) -> Result<f64> {
        let maker = SlotMaker { maximum_batch: size, ..self.maker };
        let mut slots = (0..maker.streams).map(|_| maker.slot()).collect::<Result<Vec<Slot>>>()?;
        let requests = start_positions(size, &maker);
        let runs = run_together(&mut slots, &requests, WARM_UP_BATCHES, (self.batches, self.time))?;
        let end = Instant::now();
        let batches: usize = runs.iter().map(|run| run.batches).sum();
        let begin = runs.iter().map(|run| run.begin).min().unwrap_or(end);
        Ok((batches * size) as f64 / (end - begin).as_secs_f64())
    }

    /// The figures of a batch of `size` positions: for each position q, the draw, the value error, the moves left in
    /// hundreds of plies, and the priors.
    ///
    /// # Errors
    /// The memory for the slot is missing, or a pass fails.
    pub(crate) fn figures(&self, size: usize) -> Result<Vec<f32>> {
        let mut slot = SlotMaker { maximum_batch: size, streams: 1, ..self.maker }.slot()?;
        let requests = start_positions(size, &self.maker);
        // The second batch runs as a graph.
        slot.evaluate(&requests, |_| {})?;
        let mut figures = Vec::new();
        slot.evaluate(&requests, |answer| {
            let Value { q, d, m, e } = answer.value();
            figures.extend([q, d, e, m / MOVES_LEFT]);
            figures.extend(answer.priors());
        })?;
        Ok(figures)
    }
}

/// What a slot has evaluated beside the others.
pub(crate) struct Run {
    begin: Instant,
    elapsed: Duration,
    batches: usize,
}

impl Run {
    /// Batches per second, up to the slot's own end.
    pub(crate) fn batches_per_second(&self) -> f32 {
        self.batches as f32 / self.elapsed.as_secs_f32()
    }
}

/// Evaluates `requests` again and again in all slots at once, each in a thread of its own: `warm_up` batches before the
/// slots begin together, and then at least so many batches, for at least so much time.
///
/// # Errors
/// A pass fails.
pub(crate) fn run_together(
    slots: &mut [Slot],
    requests: &Requests,
    warm_up: usize,
    (fewest, time): (usize, Duration),
) -> Result<Vec<Run>> {
    let start = &Barrier::new(slots.len());
    std::thread::scope(|scope| {
        let threads: Vec<_> = slots
            .iter_mut()
            .map(|slot| {
                scope.spawn(move || {
                    // A thread that fails must arrive at the barrier, too.
                    let warm = slot
                        .make_current()
                        .and_then(|()| (0..warm_up).try_for_each(|_| slot.evaluate(requests, |_| {})));
                    start.wait();
                    warm?;
                    let begin = Instant::now();
                    let mut batches = 0;
                    while batches < fewest || begin.elapsed() < time {
                        slot.evaluate(requests, |_| {})?;
                        batches += 1;
                    }
                    Ok(Run { begin, elapsed: begin.elapsed(), batches })
                })
            })
            .collect();
        // Every thread is joined, also after one that failed.
        let runs: Vec<Result<Run>> = threads.into_iter().map(joined).collect();
        runs.into_iter().collect()
    })
}

/// The result of a thread of a measurement.
fn joined<T>(thread: ScopedJoinHandle<'_, Result<T>>) -> Result<T> {
    let panicked = |_| GpuError::Unsupported("a thread of the measurement panicked".to_owned());
    thread.join().map_err(panicked)?
}

/// A batch of `size` start positions.
pub(crate) fn start_positions(size: usize, maker: &SlotMaker<'_>) -> Requests {
    let position = Position::startpos();
    let (side, moves) = (position.side_to_move(), position.legal_moves());
    let format = maker.network.layers.architecture.input_format;
    let (planes, transform) = encode(&PositionHistory::new(position), format, HistoryFill::FenOnly);
    let indices: Vec<u16> = moves.iter().map(|&m| index_of(PackedMove::new(m), side, transform)).collect();
    let mut requests = Requests::default();
    (0..size).for_each(|_| requests.push(&planes, indices.iter().copied()));
    requests
}
