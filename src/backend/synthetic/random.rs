//! `random`: values and priors from a hash of the position, or of its planes.
//!
//! The same seed and position give the same evaluation on every machine, because the arithmetic is an integer hash
//! followed by multiplications. The planes of a position have another evaluation than the position itself. The backend is
//! for tests of the search without a network.

use crate::position_key::mix;
use crate::ticket::{Done, check_batch_size};
use crate::{Added, Attributes, Backend, Batch, BatchSizes, EvalRequest, Evaluations, Ticket, Value};
use rukh_base::sync::Arc;
use rukh_net::InputPlanes;

/// The options of a [`RandomBackend`].
#[derive(Clone, Copy, Debug, Default)]
pub struct RandomOptions {
    /// The seed of the hash. Different seeds give different evaluations.
    pub seed: u64,
    /// Gives every position q = 0 and equal priors.
    pub uniform: bool,
}

/// The backend of random evaluations.
pub struct RandomBackend {
    attributes: Arc<Attributes>,
    options: RandomOptions,
}

impl RandomBackend {
    /// A backend whose evaluations `options` determine.
    pub fn new(options: RandomOptions) -> RandomBackend {
        let attributes = Attributes {
            name: "random".to_owned(),
            has_wdl: true,
            has_mlh: false,
            has_value_error: false,
            runs_on_cpu: true,
            suggested_threads: 1,
            recommended_batch_size: 256,
            maximum_batch_size: 1024,
            batch_sizes: BatchSizes::default(),
        };
        RandomBackend { attributes: Arc::new(attributes), options }
    }
}

impl Default for RandomBackend {
    fn default() -> RandomBackend {
        RandomBackend::new(RandomOptions::default())
    }
}

impl Backend for RandomBackend {
    fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    fn new_batch(&self) -> Box<dyn Batch> {
        Box::new(RandomBatch {
            attributes: Arc::clone(&self.attributes),
            options: self.options,
            evaluations: Evaluations::with_capacity(self.attributes.recommended_batch_size),
            weights: Vec::new(),
        })
    }
}

/// Evaluates each request when it is added.
struct RandomBatch {
    attributes: Arc<Attributes>,
    options: RandomOptions,
    evaluations: Evaluations,
    /// The unnormalised priors of one position; scratch memory of `add`.
    weights: Vec<f32>,
}

impl Batch for RandomBatch {
    fn len(&self) -> usize {
        self.evaluations.len()
    }

    fn add(&mut self, request: EvalRequest<'_>) -> Added {
        let position = request.history.last();
        self.push(
            || position.key() ^ u64::from(position.repetitions()),
            request.moves.iter().map(|chess_move| chess_move.bits()),
        );
        Added::Queued
    }

    fn add_planes(&mut self, planes: &InputPlanes, indices: &[u16]) -> bool {
        self.push(|| planes.masks.iter().fold(0, |key, mask| mix(key ^ mask)), indices.iter().copied());
        true
    }

    fn submit(self: Box<Self>) -> Box<dyn Ticket> {
        let outcome = check_batch_size(&self.attributes, self.evaluations.len());
        Done::boxed(outcome.map(|()| self.evaluations))
    }
}

impl RandomBatch {
    /// Adds the evaluation of the position with this key and these numbers of moves.
    fn push(&mut self, key: impl FnOnce() -> u64, moves: impl ExactSizeIterator<Item = u16>) {
        let RandomOptions { seed, uniform } = self.options;
        if uniform {
            let prior = 1.0 / moves.len() as f32;
            return self.evaluations.push(Value::default(), moves.map(|_| prior));
        }
        let hash = mix(mix(seed) ^ key());
        let q = 2.0 * fraction(hash) - 1.0;
        let value = Value { q, d: fraction(mix(hash)) * (1.0 - q.abs()), ..Value::default() };
        self.weights.clear();
        self.weights.extend(moves.map(|number| weight(hash, number)));
        let scale = 1.0 / self.weights.iter().sum::<f32>();
        self.evaluations.push(value, self.weights.iter().map(|&weight| weight * scale));
    }
}

/// A move's prior before normalisation, 1 … 20. The distribution is close to that of a softmax over uniform logits in
/// 0 … 3 (20 is about exp 3), but the function needs only multiplications.
#[inline]
fn weight(position_hash: u64, move_number: u16) -> f32 {
    const FOURTH_ROOT_OF_20_MINUS_1: f32 = 1.114_743;
    // The position's hash is well mixed, so one multiplication by an odd number is enough to spread the move's bits
    // over the top bits.
    let hash = (position_hash ^ u64::from(move_number)).wrapping_mul(0xd130_2b97_f4a5_8ce7);
    let base = 1.0 + FOURTH_ROOT_OF_20_MINUS_1 * fraction(hash);
    let square = base * base;
    square * square
}

/// The top 24 bits as a number in 0 … 1, exact in f32.
#[inline]
fn fraction(hash: u64) -> f32 {
    (hash >> 40) as i32 as f32 * (1.0 / (1u64 << 24) as f32)
}
