//! The [`Backend`] of a CPU network. It turns requests into planes, and logits into priors.
//!
//! A request is encoded when it is added to a batch. The network runs in `wait`, on the thread that waits, and with
//! `threads` above 1 also on the threads of the pool. The parallelism usually comes from the search: each of its
//! threads evaluates its own batch.

use super::network::{CpuNetwork, InstructionSet, Precision};
use super::pool::{Part, Pool};
use super::profile::CpuProfiler;
use super::scratch::Scratch;
use rukh_backend::profile::Profiler;
use rukh_backend::ticket::check_batch_size;
use rukh_backend::{
    Added, Attributes, Backend, BackendError, Batch, BatchSizes, EvalRequest, Evaluations, Ticket, Value,
};
use rukh_net::Network;
use rukh_net::architecture::{BodyKind, InputFormat};
use rukh_net::input::{HistoryFill, InputPlanes, encode};
use rukh_net::network::Body;
use rukh_net::policy_index::index_of;
use std::sync::{Arc, Mutex, PoisonError};

/// The options of a CPU backend.
#[derive(Clone, Debug)]
pub struct CpuOptions {
    /// The number of threads that share a batch, including the thread that waits for it.
    pub threads: usize,
    /// The largest number of positions in a batch.
    pub maximum_batch_size: usize,
    /// The instruction set. `None` means the best that this processor has.
    pub instructions: Option<InstructionSet>,
}

impl Default for CpuOptions {
    fn default() -> CpuOptions {
        CpuOptions { threads: 1, maximum_batch_size: 1024, instructions: None }
    }
}

/// The most threads allowed. A larger number is treated as a typing error.
const MAXIMUM_THREADS: usize = 512;

/// Evaluates a network on the CPU.
pub struct CpuBackend {
    core: Arc<Core>,
}

/// The state that batches and tickets share.
struct Core {
    network: Arc<CpuNetwork>,
    pool: Pool,
    threads: usize,
    attributes: Attributes,
    format: InputFormat,
    history_fill: HistoryFill,
    /// 1 / the temperature of the policy's softmax.
    inverse_temperature: f32,
    /// The memory of finished batches, to be reused.
    memories: Mutex<Vec<Memory>>,
}

/// The memory that a batch needs.
struct Memory {
    scratch: Scratch,
    /// One part for each thread. A batch collects its requests in the first part, and `wait` distributes them.
    parts: Vec<Part>,
    /// The policy indices of the legal moves of all requests.
    indices: Vec<u16>,
    /// The end of each request's indices in the list of policy indices.
    ends: Vec<usize>,
}

impl CpuBackend {
    /// Packs the network. If `network` is the only reference, each layer is freed as soon as it is packed. For 8-bit
    /// products it evaluates some positions in fp32 at the first start with a network, which takes up to a second, or
    /// longer with a large network.
    ///
    /// `policy_softmax_temperature` divides the policy's logits before the softmax.
    ///
    /// # Errors
    /// An option is out of range, or the system cannot start a thread.
    pub fn new(
        network: Arc<Network>,
        precision: Precision,
        options: &CpuOptions,
        policy_softmax_temperature: f32,
        history_fill: HistoryFill,
    ) -> Result<CpuBackend, BackendError> {
        let CpuOptions { threads, maximum_batch_size, .. } = *options;
        check("threads", threads as f32, (1..=MAXIMUM_THREADS).contains(&threads), "1 to 512")?;
        check("batch", maximum_batch_size as f32, maximum_batch_size > 0, "at least 1")?;
        let positive = policy_softmax_temperature > 0.0 && policy_softmax_temperature.is_finite();
        check("policy softmax temperature", policy_softmax_temperature, positive, "more than 0")?;

        let instructions = options.instructions.unwrap_or_else(InstructionSet::best);
        let used = match precision {
            Precision::Bf16 if !instructions.bf16_pays() => Precision::Fp32,
            Precision::Int8 if !int8_convolutions_pay(&network, instructions) => Precision::Int8Dense,
            other => other,
        };
        let attributes = attributes(&network, (precision, used), instructions, options);
        let format = network.architecture.input_format;
        let packed =
            Arc::new(CpuNetwork::with_kept_rounding(Arc::unwrap_or_clone(network), used, instructions));
        let pool = Pool::new(&packed, threads - 1).map_err(|error| BackendError::Create {
            name: attributes.name.clone(),
            reason: format!("cannot start {threads} threads: {error}"),
        })?;
        Ok(CpuBackend {
            core: Arc::new(Core {
                network: packed,
                pool,
                threads,
                attributes,
                format,
                history_fill,
                inverse_temperature: 1.0 / policy_softmax_temperature,
                memories: Mutex::default(),
            }),
        })
    }
}

/// The number of channels of a residual tower's convolutions; `None` for an attention body.
fn tower_channels(network: &Network) -> Option<usize> {
    match &network.body {
        Body::Convolution { input, .. } => Some(input.outputs),
        Body::Attention { .. } => None,
    }
}

/// Whether the network has a residual tower whose convolutions are faster in 8-bit integers.
pub(super) fn int8_convolutions_pay(network: &Network, instructions: InstructionSet) -> bool {
    tower_channels(network).is_some_and(|channels| instructions.int8_convolutions_pay(channels))
}

fn check(option: &str, value: f32, is_valid: bool, expected: &str) -> Result<(), BackendError> {
    if is_valid {
        return Ok(());
    }
    Err(BackendError::Option { option: format!("{option}={value}"), reason: format!("expected {expected}") })
}

/// The attributes of a backend that was asked for the first precision and uses the second.
fn attributes(
    network: &Network,
    (precision, used): (Precision, Precision),
    instructions: InstructionSet,
    options: &CpuOptions,
) -> Attributes {
    let in_fp32 = |instructions: InstructionSet| format!("{}, fp32", instructions.name_for(Precision::Fp32));
    let instructions = match (precision, used) {
        (Precision::Bf16, Precision::Fp32) => {
            format!("{}, which is faster on this processor", in_fp32(instructions))
        }
        (Precision::Fp32, _) => in_fp32(instructions),
        (Precision::Int8, Precision::Int8Dense) if tower_channels(network).is_some() => {
            let name = instructions.name_for(Precision::Int8);
            format!("{name}, convolutions in fp32, which is faster on this processor")
        }
        (other, _) => instructions.name_for(other).to_owned(),
    };
    let name = format!("{} ({instructions})", precision.name());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let recommended = match network.architecture.body {
        BodyKind::Convolution { .. } => RECOMMENDED_BATCH_CONVOLUTION,
        BodyKind::Attention { .. } => RECOMMENDED_BATCH_ATTENTION,
    };
    Attributes {
        name,
        has_wdl: network.architecture.wdl,
        has_mlh: network.moves_left.is_some(),
        has_value_error: network.value_error.is_some(),
        runs_on_cpu: true,
        suggested_threads: (cores / options.threads).max(1),
        recommended_batch_size: (recommended * options.threads).min(options.maximum_batch_size),
        maximum_batch_size: options.maximum_batch_size,
        batch_sizes: BatchSizes::default(),
    }
}

/// The number of positions per thread above which a larger batch gains little on a residual tower. Weights are read
/// once per batch, and four boards fill the tiles of the matrix products.
const RECOMMENDED_BATCH_CONVOLUTION: usize = 16;
/// The same number for an attention body. Here one position fills the tiles of most products with its 64 rows. A batch
/// helps smolgen's layers, which have only one row per position and read megabytes of weights.
const RECOMMENDED_BATCH_ATTENTION: usize = 8;

impl Core {
    /// Memory for a batch. The memory of a finished batch is reused if there is any.
    fn memory(&self) -> Memory {
        let mut memories = self.memories.lock().unwrap_or_else(PoisonError::into_inner);
        let finished = memories.pop();
        drop(memories);
        let mut memory = finished.unwrap_or_else(|| Memory {
            scratch: Scratch::new(self.network.isa),
            parts: Vec::new(),
            indices: Vec::new(),
            ends: Vec::new(),
        });
        memory.parts.resize_with(self.threads, Part::default);
        for part in &mut memory.parts {
            part.inputs.clear();
        }
        memory.indices.clear();
        memory.ends.clear();
        memory
    }

    fn keep(&self, memory: Memory) {
        self.memories.lock().unwrap_or_else(PoisonError::into_inner).push(memory);
    }

    fn failed(&self, reason: String) -> BackendError {
        BackendError::Evaluate { name: self.attributes.name.clone(), reason }
    }

    /// Evaluates a filled batch.
    fn evaluate(&self, memory: &mut Memory) -> Result<Evaluations, BackendError> {
        let count = memory.ends.len();
        check_batch_size(&self.attributes, count)?;
        self.run(memory)?;
        let mut evaluations = Evaluations::with_capacity(count);
        let mut start = 0;
        let mut index = 0;
        for part in &memory.parts {
            for i in 0..part.inputs.len() {
                let end = memory.ends[index];
                let moves = &memory.indices[start..end];
                let value = self.network.value(&part.outputs, i);
                let logits = self.network.logits(&part.outputs, i);
                let total = self.push(&mut evaluations, value, logits, moves);
                if !(total + value.q + value.d + value.m + value.e).is_finite() {
                    return Err(self.failed(format!(
                        "the network's output for position {index} is not a finite number"
                    )));
                }
                start = end;
                index += 1;
            }
        }
        Ok(evaluations)
    }

    /// Distributes the batch over the threads and runs the network.
    fn run(&self, memory: &mut Memory) -> Result<(), BackendError> {
        let count = memory.ends.len();
        let used = self.threads.min(count).max(1);
        for index in (1..used).rev() {
            let start = count * index / used;
            let (first, others) = memory.parts.split_at_mut(1);
            others[index - 1].inputs.extend(first[0].inputs.drain(start..));
        }
        let answers = self.pool.send(memory.parts[1..used].iter_mut().map(std::mem::take));
        memory.parts[0].evaluate(&self.network, &mut memory.scratch).map_err(|reason| self.failed(reason))?;
        for _ in 1..used {
            let (index, answer) =
                answers.recv().map_err(|_| self.failed("a worker thread has died".to_owned()))?;
            memory.parts[1 + index] = answer.map_err(|reason| self.failed(reason))?;
        }
        Ok(())
    }

    /// Appends an evaluation whose priors are the softmax over the legal moves. Returns the divisor of the softmax,
    /// which is not finite if a prior is not finite.
    fn push(&self, evaluations: &mut Evaluations, value: Value, logits: &[f32], moves: &[u16]) -> f32 {
        let logit = |index: &u16| logits[usize::from(self.network.policy_places[usize::from(*index)])];
        let largest = moves.iter().map(logit).fold(f32::NEG_INFINITY, f32::max);
        let power = |index: &u16| ((logit(index) - largest) * self.inverse_temperature).exp();
        let total: f32 = moves.iter().map(power).sum();
        evaluations.push(value, moves.iter().map(|index| power(index) / total));
        total
    }
}

impl Backend for CpuBackend {
    fn attributes(&self) -> &Attributes {
        &self.core.attributes
    }

    fn new_batch(&self) -> Box<dyn Batch> {
        Box::new(CpuBatch { memory: Some(self.core.memory()), core: Arc::clone(&self.core) })
    }

    fn profiler(&self) -> Option<Box<dyn Profiler + '_>> {
        Some(Box::new(CpuProfiler {
            network: Arc::clone(&self.core.network),
            attributes: self.core.attributes.clone(),
            encoding: (self.core.format, self.core.history_fill),
        }))
    }
}

/// A batch, which is also its own ticket.
struct CpuBatch {
    core: Arc<Core>,
    /// `None` only during the drop.
    memory: Option<Memory>,
}

impl Batch for CpuBatch {
    fn len(&self) -> usize {
        self.memory.as_ref().map_or(0, |memory| memory.ends.len())
    }

    fn add(&mut self, request: EvalRequest<'_>) -> Added {
        if let Some(memory) = &mut self.memory {
            let (planes, transform) = encode(request.history, self.core.format, self.core.history_fill);
            let side = request.history.last().side_to_move();
            memory.parts[0].inputs.push(planes);
            memory.indices.extend(request.moves.iter().map(|&m| index_of(m, side, transform)));
            memory.ends.push(memory.indices.len());
        }
        Added::Queued
    }

    fn add_planes(&mut self, planes: &InputPlanes, indices: &[u16]) -> bool {
        if let Some(memory) = &mut self.memory {
            memory.parts[0].inputs.push(planes.clone());
            memory.indices.extend_from_slice(indices);
            memory.ends.push(memory.indices.len());
        }
        true
    }

    fn submit(self: Box<Self>) -> Box<dyn Ticket> {
        self
    }
}

impl Ticket for CpuBatch {
    fn wait(mut self: Box<Self>) -> Result<Evaluations, BackendError> {
        match &mut self.memory {
            Some(memory) => self.core.evaluate(memory),
            None => Ok(Evaluations::default()),
        }
    }
}

impl Drop for CpuBatch {
    fn drop(&mut self) {
        if let Some(memory) = self.memory.take() {
            self.core.keep(memory);
        }
    }
}
