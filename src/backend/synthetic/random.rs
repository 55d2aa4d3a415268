//! `random`: values and priors drawn from a hash of the position, and a simulated device.
//!
//! The same seed and position always give the same evaluation, on every machine (integer hashing, then only
//! multiplications). For tests of search without a network, and as the opponent that nothing may lose to.
//!
//! With `delay` it becomes a model of a graphics card, for tests of how the search keeps one busy: the device
//! has `slots` places, a batch takes the first place that comes free, and leaves it `delay + n *
//! per_position` later. Nothing runs in the meantime: a batch's time of completion is computed when it is
//! submitted, and the ticket sleeps until then. So a simulated device costs no CPU, as a real one would not.

use crate::backend::position_key::mix;
use crate::backend::ticket::{Done, check_batch_size};
use crate::backend::{
    Added, Attributes, Backend, BackendError, Batch, EvalRequest, Evaluations, Ticket, Value,
};
use crate::sync::{Arc, Mutex, PoisonError, thread};
use std::time::{Duration, Instant};

/// What a [`RandomBackend`] should be like.
#[derive(Clone, Debug)]
pub struct RandomOptions {
    /// Other seeds give other evaluations.
    pub seed: u64,
    /// All moves alike, and every position q = 0.
    pub uniform: bool,
    /// What a batch takes at least.
    pub delay: Duration,
    /// What each position of a batch adds.
    pub per_position: Duration,
    /// How many batches can be under way at once; at least 1.
    pub slots: usize,
    /// Batch size worth waiting for.
    pub batch: usize,
}

impl Default for RandomOptions {
    fn default() -> RandomOptions {
        RandomOptions {
            seed: 0,
            uniform: false,
            delay: Duration::ZERO,
            per_position: Duration::ZERO,
            slots: 1,
            batch: 256,
        }
    }
}

/// See the module.
pub struct RandomBackend {
    shared: Arc<Shared>,
}

/// What batches need of their backend.
struct Shared {
    attributes: Attributes,
    options: RandomOptions,
    /// Per slot: when it is free again.
    free_at: Mutex<Vec<Instant>>,
}

impl RandomBackend {
    /// A backend, and its device if there is a delay.
    pub fn new(options: RandomOptions) -> RandomBackend {
        let slots = options.slots.max(1);
        let batch = options.batch.max(1);
        let simulates_device = !(options.delay + options.per_position).is_zero();
        let attributes = Attributes {
            name: "random".to_owned(),
            has_wdl: true,
            has_mlh: false,
            has_value_error: false,
            runs_on_cpu: !simulates_device,
            suggested_threads: if simulates_device { slots } else { 1 },
            recommended_batch_size: batch,
            maximum_batch_size: batch.max(1024),
        };
        let free_at = Mutex::new(vec![Instant::now(); slots]);
        RandomBackend { shared: Arc::new(Shared { attributes, options, free_at }) }
    }
}

impl Shared {
    /// When a batch of `length` that is submitted now will be complete; takes the slot until then.
    fn completion(&self, length: usize) -> Option<Instant> {
        let duration =
            self.options.delay + self.options.per_position * u32::try_from(length).unwrap_or(u32::MAX);
        if duration.is_zero() || length == 0 {
            return None;
        }
        let now = Instant::now();
        // Nothing can panic under this lock; were it poisoned, the times would still be right.
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

/// Draws while it is filled; only the ticket takes time.
struct RandomBatch {
    shared: Arc<Shared>,
    evaluations: Evaluations,
    /// Scratch.
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

/// A move's prior before division by the sum: 1 … 20, most of them small, much as a softmax over uniform
/// logits in 0 … 3 would have it (20 is about exp 3), but with multiplications only.
#[inline]
fn weight(position_hash: u64, move_bits: u16) -> f32 {
    const FOURTH_ROOT_OF_20_MINUS_1: f32 = 1.114_743;
    // The position's hash is well mixed already: one multiplication by an odd number spreads the move over
    // the top.
    let hash = (position_hash ^ u64::from(move_bits)).wrapping_mul(0xd130_2b97_f4a5_8ce7);
    let base = 1.0 + FOURTH_ROOT_OF_20_MINUS_1 * fraction(hash);
    let square = base * base;
    square * square
}

/// The top 24 bits as a number in 0 … 1 (exact in f32).
#[inline]
fn fraction(hash: u64) -> f32 {
    (hash >> 40) as i32 as f32 * (1.0 / (1u64 << 24) as f32)
}
