//! Batches in several slots at once, as the engine has them in a search: how many positions per second that gives.

use super::error::{Result, RocmError};
use super::precision::MOVES_LEFT;
use super::slot::{Requests, Slot, SlotMaker};
use crate::backend::Value;
use crate::chess::{PackedMove, Position, PositionHistory};
use crate::net::input::{HistoryFill, encode};
use crate::net::policy_index::index_of;
use std::sync::Barrier;
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

/// What is measured: batches of one size in [`SlotMaker::streams`] slots.
#[derive(Clone, Copy)]
pub(super) struct Load<'a> {
    pub(super) maker: SlotMaker<'a>,
    /// The time of a measurement after the warm-up, and the fewest batches of each slot.
    pub(super) time: Duration,
    pub(super) batches: usize,
}

impl Load<'_> {
    /// Evaluates batches of `size` positions in all slots at once, as `backendbench` does with as many threads.
    ///
    /// # Errors
    /// The memory for the slots is missing, or a pass fails.
    pub(super) fn positions_per_second(&self, size: usize) -> Result<f64> {
        let maker = SlotMaker { maximum_batch: size, ..self.maker };
        let slots = (0..maker.streams).map(|_| maker.slot()).collect::<Result<Vec<Slot>>>()?;
        let requests = start_positions(size, &maker);
        let start = Barrier::new(slots.len());
        let (start, requests, fewest, time) = (&start, &requests, self.batches, self.time);
        let evaluated: Vec<Result<(Instant, usize)>> = std::thread::scope(|scope| {
            let threads: Vec<_> = slots
                .into_iter()
                .map(|mut slot| {
                    scope.spawn(move || {
                        // The first batch runs step by step, and the second one captures the graph. A thread that fails
                        // must arrive at the barrier, too.
                        let warm = slot
                            .make_current()
                            .and_then(|()| (0..2).try_for_each(|_| slot.evaluate(requests, |_| {})));
                        start.wait();
                        warm?;
                        let begin = Instant::now();
                        let mut count = 0;
                        while count < fewest || begin.elapsed() < time {
                            slot.evaluate(requests, |_| {})?;
                            count += 1;
                        }
                        Ok((begin, count))
                    })
                })
                .collect();
            threads.into_iter().map(joined).collect()
        });
        let end = Instant::now();
        let evaluated = evaluated.into_iter().collect::<Result<Vec<_>>>()?;
        let batches: usize = evaluated.iter().map(|(_, count)| count).sum();
        let begin = evaluated.iter().map(|(begin, _)| *begin).min().unwrap_or(end);
        Ok((batches * size) as f64 / (end - begin).as_secs_f64())
    }

    /// The figures of a batch of `size` positions: for each position q, the draw, the value error, the moves left in
    /// hundreds of plies, and the priors.
    ///
    /// # Errors
    /// The memory for the slot is missing, or a pass fails.
    pub(super) fn figures(&self, size: usize) -> Result<Vec<f32>> {
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

/// The result of a thread of a measurement.
pub(super) fn joined<T>(thread: ScopedJoinHandle<'_, Result<T>>) -> Result<T> {
    let panicked = |_| RocmError::Unsupported("a thread of the measurement panicked".to_owned());
    thread.join().map_err(panicked)?
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
