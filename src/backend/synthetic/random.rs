//! `random`: values and priors from a hash of the position, and a simulated device.
//!
//! The same seed and position give the same evaluation on every machine, because the arithmetic is an integer hash
//! followed by multiplications. The backend is for tests of the search without a network.
//!
//! With `delay` it simulates a graphics card, to test how busy the search keeps a device. The device has `slots` slots,
//! and pads a batch to n positions, a power of two or one and a half times a power of two. The batch takes the slot that
//! is free first and occupies it for `delay + n * per_position`. The time of completion is computed when the batch is
//! submitted, and the ticket sleeps until then, so the simulated device uses no CPU time, like a real one.
//!
//! With `times` it simulates a card that was measured: a batch takes as long as the [`Times`] say, and batches in
//! several slots share the card, so that they take as long together as one after another.

use crate::position_key::mix;
use crate::ticket::{Done, check_batch_size};
use crate::{
    Added, Attributes, Backend, BackendError, Batch, BatchSizes, EvalRequest, Evaluations, Ticket, Value,
};
use rukh_base::sync::{Arc, Mutex, PoisonError, thread};
use std::time::{Duration, Instant};

/// The options of a [`RandomBackend`].
#[derive(Clone, Debug)]
pub struct RandomOptions {
    /// The seed of the hash. Different seeds give different evaluations.
    pub seed: u64,
    /// Gives every position q = 0 and equal priors.
    pub uniform: bool,
    /// The time that every batch takes, whatever its size.
    pub delay: Duration,
    /// The time that each position adds to its batch.
    pub per_position: Duration,
    /// The measured times of batches, in addition to the others; none by default.
    pub times: Times,
    /// The number of batches that the device evaluates at once; at least 1.
    pub slots: usize,
    /// The recommended batch size, in positions.
    pub batch: usize,
}

impl Default for RandomOptions {
    fn default() -> RandomOptions {
        RandomOptions {
            seed: 0,
            uniform: false,
            delay: Duration::ZERO,
            per_position: Duration::ZERO,
            times: Times::default(),
            slots: 1,
            batch: 256,
        }
    }
}

/// How long a card takes for batches of some sizes while several batches are in flight.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Times(Vec<(usize, Duration)>);

impl Times {
    /// Reads `SIZE:MICROSECONDS/SIZE:MICROSECONDS/...`, with ascending sizes.
    pub fn parse(text: &str) -> Option<Times> {
        let entry = |entry: &str| {
            let (size, time) = entry.split_once(':')?;
            let microseconds = time.parse().ok().filter(|time| (0..60_000_000).contains(time))?;
            Some((size.parse().ok().filter(|&size| size > 0)?, Duration::from_micros(microseconds)))
        };
        let times: Vec<_> = text.split('/').map(entry).collect::<Option<_>>()?;
        times.is_sorted_by(|(size, _), (next, _)| size < next).then_some(Times(times))
    }

    /// The time of a batch of `positions`: linear between the measured sizes, that of the smallest one below it, and in
    /// proportion to the positions above the largest one.
    fn of(&self, positions: usize) -> Duration {
        let next = self.0.partition_point(|&(size, _)| size < positions);
        let before = next.checked_sub(1).map(|index| self.0[index]);
        let ratio = |part: usize, whole: usize| part as f64 / whole as f64;
        match (before, self.0.get(next)) {
            (None, None) => Duration::ZERO,
            (None, Some(&(_, time))) => time,
            (Some((size, time)), None) => time.mul_f64(ratio(positions, size)),
            (Some((size, time)), Some(&(next_size, next_time))) => {
                let share = ratio(positions - size, next_size - size);
                time.mul_f64(1.0 - share) + next_time.mul_f64(share)
            }
        }
    }
}

/// The backend of random evaluations.
pub struct RandomBackend {
    shared: Arc<Shared>,
}

/// The part of the backend that its batches use.
struct Shared {
    attributes: Attributes,
    options: RandomOptions,
    /// The time at which each slot is free again, or the card that all slots share.
    free_at: Mutex<Vec<Instant>>,
}

impl RandomBackend {
    /// Makes the backend. It simulates a device if `options` has a delay.
    pub fn new(options: RandomOptions) -> RandomBackend {
        let slots = options.slots.max(1);
        let batch = options.batch.max(1);
        let shares_card = options.times != Times::default();
        let simulates_device = shares_card || !(options.delay + options.per_position).is_zero();
        let attributes = Attributes {
            name: "random".to_owned(),
            has_wdl: true,
            has_mlh: false,
            has_value_error: false,
            runs_on_cpu: !simulates_device,
            suggested_threads: if simulates_device { slots } else { 1 },
            recommended_batch_size: batch,
            maximum_batch_size: batch.max(1024),
            batch_sizes: if simulates_device { BatchSizes::new(SIZES) } else { BatchSizes::default() },
        };
        let free_at = Mutex::new(vec![Instant::now(); if shares_card { 1 } else { slots }]);
        RandomBackend { shared: Arc::new(Shared { attributes, options, free_at }) }
    }
}

/// The sizes to which the simulated device pads batches, in ascending order.
const SIZES: [usize; 20] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024];

/// The time that the simulated device takes for a batch that is padded to so many positions.
fn time_of(options: &RandomOptions, padded: usize) -> Duration {
    options.delay
        + options.per_position * u32::try_from(padded).unwrap_or(u32::MAX)
        + options.times.of(padded)
}

impl Shared {
    /// The time at which a batch of `length` positions, submitted now, will be complete. Occupies a slot until then.
    /// Returns `None` if the batch takes no time.
    fn completion(&self, length: usize) -> Option<Instant> {
        let duration = time_of(&self.options, self.attributes.batch_sizes.padded(length));
        if duration.is_zero() || length == 0 {
            return None;
        }
        let now = Instant::now();
        // The times are valid even if the lock is poisoned.
        let mut free_at = self.free_at.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = free_at.iter_mut().min()?;
        *slot = (*slot).max(now) + duration;
        Some(*slot)
    }
}

impl Backend for RandomBackend {
    fn attributes(&self) -> &Attributes {
        &self.shared.attributes
    }

    fn new_batch(&self) -> Box<dyn Batch> {
        Box::new(RandomBatch {
            shared: Arc::clone(&self.shared),
            evaluations: Evaluations::with_capacity(self.shared.attributes.recommended_batch_size),
            weights: Vec::new(),
        })
    }
}

/// Evaluates each request when it is added. Only the ticket takes time.
struct RandomBatch {
    shared: Arc<Shared>,
    evaluations: Evaluations,
    /// The unnormalised priors of one position; scratch memory of `add`.
    weights: Vec<f32>,
}

impl Batch for RandomBatch {
    fn len(&self) -> usize {
        self.evaluations.len()
    }

    fn add(&mut self, request: EvalRequest<'_>) -> Added {
        let RandomOptions { seed, uniform, .. } = self.shared.options;
        let moves = request.moves;
        if uniform {
            let prior = 1.0 / moves.len() as f32;
            self.evaluations.push(Value::default(), moves.iter().map(|_| prior));
            return Added::Queued;
        }
        let position = request.history.last();
        let hash = mix(mix(seed) ^ position.key() ^ u64::from(position.repetitions()));
        let q = 2.0 * fraction(hash) - 1.0;
        let value = Value { q, d: fraction(mix(hash)) * (1.0 - q.abs()), ..Value::default() };
        self.weights.clear();
        self.weights.extend(moves.iter().map(|chess_move| weight(hash, chess_move.bits())));
        let scale = 1.0 / self.weights.iter().sum::<f32>();
        self.evaluations.push(value, self.weights.iter().map(|&weight| weight * scale));
        Added::Queued
    }

    fn submit(self: Box<Self>) -> Box<dyn Ticket> {
        if let Err(error) = check_batch_size(&self.shared.attributes, self.evaluations.len()) {
            return Done::boxed(Err(error));
        }
        match self.shared.completion(self.evaluations.len()) {
            None => Done::boxed(Ok(self.evaluations)),
            Some(ready_at) => Box::new(RandomTicket { ready_at, evaluations: self.evaluations }),
        }
    }
}

struct RandomTicket {
    ready_at: Instant,
    evaluations: Evaluations,
}

impl Ticket for RandomTicket {
    fn wait(self: Box<Self>) -> Result<Evaluations, BackendError> {
        thread::sleep(self.ready_at.saturating_duration_since(Instant::now()));
        Ok(self.evaluations)
    }
}

/// A move's prior before normalisation, 1 … 20. The distribution is close to that of a softmax over uniform logits in
/// 0 … 3 (20 is about exp 3), but the function needs only multiplications.
#[inline]
fn weight(position_hash: u64, move_bits: u16) -> f32 {
    const FOURTH_ROOT_OF_20_MINUS_1: f32 = 1.114_743;
    // The position's hash is well mixed, so one multiplication by an odd number is enough to spread the move's bits
    // over the top bits.
    let hash = (position_hash ^ u64::from(move_bits)).wrapping_mul(0xd130_2b97_f4a5_8ce7);
    let base = 1.0 + FOURTH_ROOT_OF_20_MINUS_1 * fraction(hash);
    let square = base * base;
    square * square
}

/// The top 24 bits as a number in 0 … 1, exact in f32.
#[inline]
fn fraction(hash: u64) -> f32 {
    (hash >> 40) as i32 as f32 * (1.0 / (1u64 << 24) as f32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_linear_between_the_measured_sizes() {
        let times = Times::parse("16:1000/64:2200/512:16000").unwrap();
        let microseconds = |positions| times.of(positions).as_micros();
        assert_eq!([1, 16, 40, 64, 512, 1024].map(microseconds), [1000, 1000, 1600, 2200, 16_000, 32_000]);
        assert_eq!(Times::default().of(7), Duration::ZERO);
        for wrong in ["", "16", "16:", "0:1", "16:-1", "16:1/16:2", "64:1/16:2", "16:99999999"] {
            assert_eq!(Times::parse(wrong), None, "{wrong}");
        }
    }
}
