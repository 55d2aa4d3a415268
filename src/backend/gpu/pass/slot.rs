//! A slot runs one batch at a time: it owns a stream, host and device memory, BLAS handles, and a graph for each
//! bucket.
//!
//! All slots are created together with the backend. A batch launches the captured graph of its bucket: it costs one
//! launch, one copy back and one event, and allocates no device memory. The libraries load code at first use, so a
//! bucket runs step by step once before its capture: in the warm-up of the device's first slot or, without a warm-up,
//! as each slot's first batch of that size. A bucket that cannot be captured keeps running step by step, and without
//! graphs (`graph=false`) all do.

use super::arguments::{InputLayout, MAXIMUM_MOVES, OutputLayout, Pass};
use super::buckets::{bucket_of, bucket_sizes};
use super::forward::forward;
use super::scratch::{Scratch, ScratchSizes};
use super::steps::{BRANCHES, StepList};
use crate::gemm::gemms::Gemms;
use crate::network::device_network::{Body, DeviceNetwork};
use crate::runtime::device::Gpu;
use crate::runtime::error::{GpuError, Result};
use crate::runtime::ffi::exchange::Exchange;
use crate::runtime::ffi::hip::{Address, Device};
use crate::runtime::ffi::program::{Lanes, Program, StepTime};
use crate::runtime::ffi::stream::{Graph, Stream};
use crate::runtime::ffi::wait::Waiting;
use crate::runtime::kernels::{AttentionKernel, Kernels};
use crate::runtime::shared_launches::SharedLaunches;
use rukh_backend::Value;
use rukh_net::input::InputPlanes;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The requests of a batch, encoded for the device.
#[derive(Default)]
pub(crate) struct Requests {
    /// The bitboard of each input plane, `[positions][112]`.
    masks: Vec<u64>,
    /// The value of the rule-50 plane, `[positions]`.
    rule50: Vec<f32>,
    /// The policy indices of the legal moves of all positions, one position after another.
    moves: Vec<u16>,
    /// The end of each position's moves in `moves`, `[positions]`.
    ends: Vec<u32>,
}

impl Requests {
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Removes all requests, but keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.masks.clear();
        self.rule50.clear();
        self.moves.clear();
        self.ends.clear();
    }

    /// Adds a position and the policy indices of its legal moves, at most [`MAXIMUM_MOVES`].
    pub(crate) fn push(&mut self, planes: &InputPlanes, moves: impl IntoIterator<Item = u16>) {
        self.masks.extend_from_slice(&planes.masks);
        self.rule50.push(planes.rule50_value);
        self.moves.extend(moves.into_iter().take(MAXIMUM_MOVES));
        self.ends.push(self.moves.len() as u32);
    }
}

/// The device's result for one position, from the side to move's view.
pub(crate) struct Answer<'a> {
    /// The probability of a win minus that of a loss.
    pub(crate) q: f32,
    /// Draw probability.
    pub(crate) d: f32,
    /// Estimated plies left in the game.
    pub(crate) m: f32,
    /// The value-error head's output before the sigmoid. `None` if that head is not evaluated.
    pub(crate) error_logit: Option<f32>,
    /// The prior of each move, as little-endian bytes of fp32.
    priors: &'a [[u8; 4]],
}

impl Answer<'_> {
    /// The position's evaluation without the priors. Without a value-error head, `e` is 0.
    pub(crate) fn value(&self) -> Value {
        let sigmoid = |x: f32| 1.0 / (1.0 + (-x).exp());
        Value { q: self.q, d: self.d, m: self.m, e: self.error_logit.map_or(0.0, sigmoid) }
    }

    /// The priors of the moves, in the order of the request.
    pub(crate) fn priors(&self) -> impl Iterator<Item = f32> {
        self.priors.iter().map(|bytes| f32::from_le_bytes(*bytes))
    }
}

/// Makes the slots of a backend, and the programs that they run.
#[derive(Clone, Copy)]
pub(crate) struct SlotMaker<'a> {
    pub(crate) gpu: &'a Gpu,
    pub(crate) network: &'a Arc<DeviceNetwork>,
    pub(crate) kernels: &'a Kernels,
    pub(crate) gemms: &'a Gemms,
    pub(crate) inverse_temperature: f32,
    pub(crate) maximum_batch: usize,
    /// The number of slots that are made, one for each batch in flight.
    pub(crate) streams: usize,
    /// The measured ladder of batch sizes; empty for the usual one.
    pub(crate) ladder: &'a [usize],
    pub(crate) has_graphs: bool,
    /// The largest batch, in positions, whose branches run in parallel.
    pub(crate) fork: usize,
    /// The most rows of a GEMM that our own kernel computes.
    pub(crate) few_rows: usize,
    /// Which GEMMs of our own share a launch with what follows them, where they can.
    pub(crate) fuse: SharedLaunches,
    pub(crate) attention: AttentionKernel,
    pub(crate) waiting: Waiting,
}

/// The streams, handles and memory that a batch runs with. Fields are dropped in this order: the handles on the batch's
/// stream must go before the stream, which `exchange` owns.
pub(crate) struct Workspace {
    pub(crate) lanes: Lanes,
    pub(crate) exchange: Exchange,
    scratch: Scratch,
}

/// A bucket's forward pass.
struct Bucket {
    positions: usize,
    program: Program,
    graph: Option<Graph>,
    /// Whether the pass should be captured. An attempt that failed is not repeated.
    wants_graph: bool,
    /// The duration of the last batch of this bucket.
    last_duration: Option<Duration>,
}

/// A slot. Fields are dropped in this order: programs and graphs must go before the streams and memory that they use.
pub(crate) struct Slot {
    buckets: Vec<Bucket>,
    /// The same sizes laid out in another way; empty without [`SlotMaker::slot_in_two_ways`].
    other_buckets: Vec<Bucket>,
    bucket_sizes: Vec<usize>,
    lanes: Lanes,
    exchange: Exchange,
    network: Arc<DeviceNetwork>,
    /// The number of buckets that could not be captured, and the first error.
    not_captured: Option<(usize, GpuError)>,
    device: Device,
}

/// The program of a bucket, and the streams that it runs on.
pub(crate) struct LaidOut<'a> {
    pub(crate) program: &'a Program,
    pub(crate) stream: &'a Stream,
    pub(crate) lanes: &'a Lanes,
}

impl SlotMaker<'_> {
    /// The sizes of the buffers for intermediate results, for batches of at most `positions`. Calls no BLAS library.
    pub(crate) fn scratch_sizes(&self, positions: usize) -> Result<ScratchSizes> {
        // The pass is only measured and never run, so its addresses may be null.
        let base = Address::NULL;
        let pass = self.pass(positions, base, base);
        let mut steps = StepList::new(positions, self.network.element, self.kernels, self.gemms, None);
        self.gemms.survey(|| forward(&pass, &mut steps))?;
        Ok(steps.finish().1)
    }

    fn pass(&self, positions: usize, input: Address, output: Address) -> Pass<'_> {
        Pass {
            network: self.network,
            input: InputLayout::new(positions).at(input),
            output: output_layout(self.network, positions).at(output),
            inverse_temperature: self.inverse_temperature,
        }
    }

    /// The kernel that computes the attention of the network's body; `None` for a body without attention.
    pub(crate) fn attention_kernel(&self) -> Option<String> {
        let Body::Attention { stack, .. } = &self.network.layers.body else { return None };
        let depth = stack.encoders.first()?.qkv.outputs / 3 / stack.heads;
        let (function, _) = self.kernels.attention(self.attention, 1, stack.heads, depth).ok()?;
        Some(function.name().to_owned())
    }

    /// Which GEMMs of the network share launches: as `fuse` says, but none instead of smolgen's if there is no smolgen or no
    /// kernel for chains.
    pub(crate) fn shared_launches(&self) -> SharedLaunches {
        let has_smolgen = self.network.layers.smolgen_global.is_some();
        match self.fuse {
            SharedLaunches::Smolgen if !has_smolgen || !self.gemms.has_chains(self.network.element) => {
                SharedLaunches::None
            }
            other => other,
        }
    }

    /// The batch sizes that programs are laid out for, in ascending order.
    pub(crate) fn bucket_sizes(&self) -> Vec<usize> {
        bucket_sizes(self.ladder, self.maximum_batch)
    }

    /// Allocates streams, handles and memory for the largest batch.
    pub(crate) fn workspace(&self) -> Result<Workspace> {
        let device = self.gpu.device;
        let most = self.maximum_batch;
        let moves = most * MAXIMUM_MOVES;
        let input = InputLayout::new(most).bytes(moves);
        let output = output_layout(self.network, most).bytes(moves);
        let exchange = Exchange::new(device, input, output, self.waiting)?;
        let sides = if self.fork > 0 { BRANCHES } else { 0 };
        let lanes = Lanes::new(device, exchange.stream(), sides, self.gemms.libraries(self.gpu))?;
        let scratch = Scratch::new(device, &self.scratch_sizes(most)?)?;
        Ok(Workspace { lanes, exchange, scratch })
    }

    /// The forward pass for `positions`, in the memory of `workspace`.
    pub(crate) fn program(&self, workspace: &Workspace, positions: usize) -> Result<Program> {
        let Workspace { exchange, scratch, .. } = workspace;
        let pass = self.pass(positions, exchange.input_address(), exchange.output_address());
        let element = self.network.element;
        let mut steps = StepList::new(positions, element, self.kernels, self.gemms, Some(scratch))
            .forking(positions <= self.fork)
            .with_few_rows(self.few_rows)
            .with_attention(self.attention)
            .sharing(self.shared_launches());
        forward(&pass, &mut steps)?;
        let memory = std::iter::once(scratch.buffer()).chain(self.gemms.memory()).collect();
        Ok(Program::new(steps.finish().0, memory))
    }

    /// Makes a slot, with a program for every bucket.
    pub(crate) fn slot(&self) -> Result<Slot> {
        self.slot_with(|_| {}, None)
    }

    /// Makes a slot with two programs for every bucket, between which [`Slot::change_ways`] changes. Before the programs
    /// for so many positions are laid out, `first` and `second` say how.
    pub(crate) fn slot_in_two_ways(&self, first: impl Fn(usize), second: impl Fn(usize)) -> Result<Slot> {
        self.slot_with(first, Some(&second))
    }

    fn slot_with(&self, first: impl Fn(usize), second: Option<&dyn Fn(usize)>) -> Result<Slot> {
        let device = self.gpu.device;
        let workspace = self.workspace()?;
        let bucket_sizes = self.bucket_sizes();
        let bucket = |positions: usize| {
            let program = self.program(&workspace, positions)?;
            let wants_graph = self.has_graphs;
            Ok(Bucket { positions, program, graph: None, wants_graph, last_duration: None })
        };
        let buckets = |lay_out: &dyn Fn(usize)| {
            let laid_out = bucket_sizes.iter().map(|&positions| {
                lay_out(positions);
                bucket(positions)
            });
            laid_out.collect::<Result<Vec<Bucket>>>()
        };
        let other_buckets = second.map(buckets).transpose()?.unwrap_or_default();
        let buckets = buckets(&first)?;
        let Workspace { lanes, exchange, .. } = workspace;
        let network = Arc::clone(self.network);
        let not_captured = None;
        Ok(Slot { buckets, other_buckets, bucket_sizes, lanes, exchange, network, not_captured, device })
    }
}

impl Slot {
    /// Changes to the programs of the other way ([`SlotMaker::slot_in_two_ways`]).
    pub(crate) fn change_ways(&mut self) {
        std::mem::swap(&mut self.buckets, &mut self.other_buckets);
    }

    /// Makes the slot's device current. A thread calls this before it uses the slot for the first time.
    pub(crate) fn make_current(&self) -> Result<()> {
        self.device.make_current()
    }

    /// Captures a graph for every bucket. Before that, the device's first slot runs each bucket on empty boards, so
    /// that the libraries load their code, which all slots use. That slot also drops a size that twice takes longer than
    /// `longest`, and every larger one. The smallest stays in any case.
    pub(crate) fn warm_up(&mut self, is_first: bool, longest: Duration) -> Result<()> {
        let planes = InputPlanes { masks: [0; InputPlanes::COUNT], rule50_value: 0.0 };
        let mut requests = Requests::default();
        for index in 0..self.buckets.len() {
            if is_first {
                (requests.len()..self.bucket_sizes[index]).for_each(|_| requests.push(&planes, [0]));
                self.run(&requests)?;
                // The first batch of a size may load code.
                if index > 0 && self.takes_longer(index, longest) {
                    self.run(&requests)?;
                    if self.takes_longer(index, longest) {
                        self.limit_to(index);
                        return Ok(());
                    }
                }
            }
            self.capture(index);
        }
        Ok(())
    }

    fn takes_longer(&self, index: usize, longest: Duration) -> bool {
        self.buckets[index].last_duration.is_some_and(|duration| duration > longest)
    }

    /// Keeps only the `count` smallest batch sizes.
    pub(crate) fn limit_to(&mut self, count: usize) {
        self.buckets.truncate(count);
        self.other_buckets.truncate(count);
        self.bucket_sizes.truncate(count);
    }

    /// The batch sizes, in positions, in ascending order.
    pub(crate) fn bucket_sizes(&self) -> &[usize] {
        &self.bucket_sizes
    }

    /// Captures the graph of the bucket at `index`, unless that was tried before.
    fn capture(&mut self, index: usize) {
        let (stream, lanes, bucket) = (self.exchange.stream(), &self.lanes, &mut self.buckets[index]);
        if !std::mem::take(&mut bucket.wants_graph) {
            return;
        }
        match stream.capture(|| bucket.program.enqueue(stream, lanes)) {
            Ok(graph) => bucket.graph = Some(graph),
            Err(error) => self.not_captured.get_or_insert((0, error)).0 += 1,
        }
    }

    /// A notice for the user about the buckets that could not be captured, if there are any.
    pub(crate) fn notice(&self) -> Option<String> {
        let (count, error) = self.not_captured.as_ref()?;
        let all = self.buckets.len();
        Some(format!(
            "graphs: {count} of {all} batch sizes run step by step, because they cannot be captured: {error}"
        ))
    }

    /// Whether batches of `positions` run as a graph from now on.
    pub(crate) fn has_graph(&self, positions: usize) -> bool {
        let index = bucket_of(&self.bucket_sizes, positions);
        index.is_some_and(|index| self.buckets[index].graph.is_some())
    }

    /// Evaluates a batch and calls `each` with the result of each position, in order.
    pub(crate) fn evaluate(&mut self, requests: &Requests, mut each: impl FnMut(Answer<'_>)) -> Result<()> {
        if requests.len() == 0 {
            return Ok(());
        }
        let bucket = self.run(requests)?;
        let layout = output_layout(&self.network, bucket);
        let output = self.exchange.output()?;
        let floats = |start: usize| output[start..].as_chunks::<4>().0;
        let (value, moves_left, priors) =
            (floats(layout.value), floats(layout.moves_left), floats(layout.priors));
        let value = |index: usize| f32::from_le_bytes(value[index]);
        let has_moves_left = self.network.layers.moves_left.is_some();
        let error_logits = self.network.layers.value_error.as_ref().map(|_| floats(layout.value_error));
        let mut start = 0;
        for (index, &end) in requests.ends.iter().enumerate() {
            let end = end as usize;
            let (q, d) = if self.network.layers.architecture.wdl {
                (value(3 * index) - value(3 * index + 2), value(3 * index + 1))
            } else {
                (value(index), 0.0)
            };
            let m = if has_moves_left { f32::from_le_bytes(moves_left[index]) } else { 0.0 };
            let error_logit = error_logits.map(|logits| f32::from_le_bytes(logits[index]));
            each(Answer { q, d, m, error_logit, priors: &priors[start..end] });
            start = end;
        }
        Ok(())
    }

    /// Runs a batch and waits for it. Returns the size of its bucket, in positions.
    fn run(&mut self, requests: &Requests) -> Result<usize> {
        let count = requests.len();
        let Some(index) = bucket_of(&self.bucket_sizes, count) else {
            let most = self.bucket_sizes.last().copied().unwrap_or(0);
            let text = format!("a batch of {count} positions is too large: at most {most} fit");
            return Err(GpuError::Unsupported(text));
        };
        if self.buckets[index].last_duration.is_some() {
            self.capture(index);
        }
        let bucket = &mut self.buckets[index];
        let (positions, moves) = (bucket.positions, requests.moves.len());
        fill(self.exchange.input()?, requests, positions);
        let (program, graph, lanes) = (&bucket.program, &bucket.graph, &self.lanes);
        let output_bytes = output_layout(&self.network, positions).bytes(moves);
        let begin = Instant::now();
        self.exchange.start(output_bytes, |stream| match graph {
            Some(graph) => graph.launch(stream),
            None => program.enqueue(stream, lanes),
        })?;
        self.exchange.wait(bucket.last_duration)?;
        bucket.last_duration = Some(begin.elapsed());
        Ok(positions)
    }

    /// What a batch of `positions` runs, and where; `None` if it is too large.
    pub(crate) fn laid_out(&self, positions: usize) -> Option<LaidOut<'_>> {
        let Bucket { program, .. } = self.buckets.get(bucket_of(&self.bucket_sizes, positions)?)?;
        Some(LaidOut { program, stream: self.exchange.stream(), lanes: &self.lanes })
    }

    /// Times each step of the bucket for `positions`. Returns the bucket's size and the times.
    pub(crate) fn step_times(
        &mut self,
        positions: usize,
        repetitions: usize,
    ) -> Result<(usize, Vec<StepTime>)> {
        let index = bucket_of(&self.bucket_sizes, positions).unwrap_or(self.bucket_sizes.len() - 1);
        let bucket = &self.buckets[index];
        let times = bucket.program.time(self.device, self.exchange.stream(), &self.lanes, repetitions)?;
        Ok((bucket.positions, times))
    }
}

/// The layout of the output for a bucket of `positions`.
fn output_layout(network: &DeviceNetwork, positions: usize) -> OutputLayout {
    OutputLayout::new(positions, network.layers.value_error.is_some())
}

/// Writes a batch to `input` in [`InputLayout`], padded to the bucket with empty boards without moves.
fn fill(input: &mut [u8], requests: &Requests, bucket: usize) {
    let layout = InputLayout::new(bucket);
    let count = requests.len();
    let rule50 = requests.rule50.iter().copied().chain(std::iter::repeat(0.0)).take(bucket);
    write(&mut input[layout.rule50..], rule50.map(f32::to_le_bytes));
    let last = requests.ends.last().copied().unwrap_or(0);
    let padding = std::iter::repeat_n(last, bucket - count);
    let first_moves = std::iter::once(0).chain(requests.ends.iter().copied()).chain(padding);
    write(&mut input[layout.first_moves..], first_moves.map(u32::to_le_bytes));
    write(&mut input[layout.masks..], requests.masks.iter().map(|mask| mask.to_le_bytes()));
    let empty = layout.masks + requests.masks.len() * 8..layout.masks + bucket * InputPlanes::COUNT * 8;
    input[empty].fill(0);
    write(&mut input[layout.moves..], requests.moves.iter().map(|index| index.to_le_bytes()));
}

fn write<const N: usize>(to: &mut [u8], values: impl Iterator<Item = [u8; N]>) {
    for (to, value) in to.as_chunks_mut::<N>().0.iter_mut().zip(values) {
        *to = value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_padded_with_empty_boards_without_moves() {
        let mut requests = Requests::default();
        let planes = InputPlanes { masks: [7; InputPlanes::COUNT], rule50_value: 0.5 };
        requests.push(&planes, [3, 5]);
        requests.push(&planes, []);
        requests.push(&planes, [9]);
        let layout = InputLayout::new(4);
        let mut input = vec![0xff; layout.bytes(4 * MAXIMUM_MOVES)];
        fill(&mut input, &requests, 4);
        let ends: Vec<u32> = input[layout.first_moves..].as_chunks::<4>().0[..5]
            .iter()
            .map(|bytes| u32::from_le_bytes(*bytes))
            .collect();
        assert_eq!(ends, [0, 2, 2, 3, 3]);
        let masks = &input[layout.masks..];
        assert_eq!(masks[..8], 7_u64.to_le_bytes());
        assert_eq!(masks[3 * 112 * 8 - 8..][..8], 7_u64.to_le_bytes());
        assert!(masks[3 * 112 * 8..4 * 112 * 8].iter().all(|&byte| byte == 0));
        assert_eq!(input[layout.moves..][..6], [3, 0, 5, 0, 9, 0]);
        assert_eq!(input[layout.rule50 + 12..][..4], 0.0_f32.to_le_bytes());
    }
}
