//! The forward pass: one function per stage, every step with its shapes.
//!
//! Here are the frame and the residual tower; the encoder stack is in [`super::encoder`], the heads are in
//! [`super::heads`]. B is the number of positions, T = 64 B the rows of a matrix of squares. Activations lie
//! as `[position][square][channel]`. The names of the steps are the papers': *Attention is all you need* for
//! the encoder, *Deep residual learning* and *Squeeze-and-excitation networks* for the tower.
//!
//! All memory is in [`Scratch`], which a thread keeps: once it has seen its largest batch, nothing is
//! allocated.

use super::kernels::SQUARES;
use super::kernels::attention::AttentionScratch;
use super::kernels::planes::PlaneConvolution;
use super::kernels::scale::ScaleAndAdd;
use super::kernels::winograd::{Finish, WinogradScratch};
use super::layers::{Block, Body};
use super::network::CpuNetwork;
use super::simd::{AlignedVec, Isa};
use super::steps::Steps;
use crate::net::architecture::Activation;
use crate::net::input::InputPlanes;

/// A thread's memory for the forward pass. Each buffer grows to what a step needs.
pub(super) struct Scratch {
    pub(super) steps: Steps,
    /// The residual stream, `[T][channels]`.
    pub(super) stream: AlignedVec<f32>,
    /// The policy head's residual stream.
    pub(super) policy_stream: AlignedVec<f32>,
    /// Q, K and V; a feed-forward's hidden layer; a convolution's result.
    pub(super) wide: AlignedVec<f32>,
    /// The result of the heads' attention; the first layer of a head.
    pub(super) narrow: AlignedVec<f32>,
    /// What is added to the residual stream.
    pub(super) branch: AlignedVec<f32>,
    /// Attention logits, `[B][head][key][query]`.
    pub(super) logits: AlignedVec<f32>,
    /// Smolgen's generated vectors, `[B * heads][generated]`; squeeze-and-excitation's means and factors.
    pub(super) generated: AlignedVec<f32>,
    /// Hidden layers of smolgen, squeeze-and-excitation and the scalar heads.
    pub(super) hidden: AlignedVec<f32>,
    pub(super) attention: AttentionScratch,
    pub(super) winograd: WinogradScratch,
}

impl Scratch {
    /// Empty, for a network of this instruction set.
    pub(super) fn new(isa: Isa) -> Scratch {
        Scratch {
            steps: Steps::new(isa),
            stream: AlignedVec::default(),
            policy_stream: AlignedVec::default(),
            wide: AlignedVec::default(),
            narrow: AlignedVec::default(),
            branch: AlignedVec::default(),
            logits: AlignedVec::default(),
            generated: AlignedVec::default(),
            hidden: AlignedVec::default(),
            attention: AttentionScratch::default(),
            winograd: WinogradScratch::default(),
        }
    }
}

/// What the network says of B positions, before any softmax.
#[derive(Default)]
pub(super) struct Outputs {
    /// `[B][Policy::width]`
    pub(super) policy: AlignedVec<f32>,
    /// `[B][3]`: logits of win, draw, loss; or `[B][1]`, before the tanh.
    pub(super) value: AlignedVec<f32>,
    /// `[B]`; zeros without a moves-left head.
    pub(super) moves_left: AlignedVec<f32>,
    /// `[B]`; empty without a head for the value's error.
    pub(super) value_error: AlignedVec<f32>,
}

impl CpuNetwork {
    /// Evaluates all inputs into `outputs`.
    pub(super) fn forward(&self, inputs: &[InputPlanes], scratch: &mut Scratch, outputs: &mut Outputs) {
        let (policy_width, value_width) = (self.policy.width(), self.value.output.outputs());
        outputs.policy.grow_to(inputs.len() * policy_width);
        outputs.value.grow_to(inputs.len() * value_width);
        outputs.moves_left.grow_to(inputs.len());
        // A large batch goes through in slices, whose activations stay in the caches.
        for (i, slice) in inputs.chunks(self.slice).enumerate() {
            let (first, count) = (i * self.slice, slice.len());
            let policy = &mut outputs.policy[first * policy_width..][..count * policy_width];
            let value = &mut outputs.value[first * value_width..][..count * value_width];
            let moves_left = &mut outputs.moves_left[first..][..count];

            let channels = self.body(slice, scratch);
            self.scalar_head(&self.value, Activation::None, count, channels, scratch, value);
            if let Some(head) = &self.moves_left {
                self.scalar_head(head, Activation::Relu, count, channels, scratch, moves_left);
            }
            if let Some(head) = &self.value_error {
                outputs.value_error.grow_to(inputs.len());
                let value_error = &mut outputs.value_error[first..][..count];
                self.scalar_head(head, Activation::Sigmoid, count, channels, scratch, value_error);
            }
            self.policy_head(count, channels, scratch, policy);
        }
    }

    /// Planes -> `stream [T][channels]`; returns the channels.
    fn body(&self, inputs: &[InputPlanes], scratch: &mut Scratch) -> usize {
        match &self.body {
            Body::Tower { input, blocks } => {
                self.input_convolution(input, inputs, scratch);
                for block in blocks {
                    self.block(block, inputs.len(), input.outputs(), scratch);
                }
                input.outputs()
            }
            Body::Attention { embedding, encoders } => {
                self.embedding(embedding, encoders, inputs, scratch);
                // Taken out, as the encoders borrow the rest of the scratch memory beside it.
                let mut stream = std::mem::take(&mut scratch.stream);
                let x = &mut stream[..inputs.len() * SQUARES * embedding.width];
                self.encoders(encoders, inputs.len(), x, scratch);
                scratch.stream = stream;
                embedding.width
            }
        }
    }

    /// Planes `[B][112][64]` -> conv 3x3 -> act -> `stream [T][filters]`.
    fn input_convolution(&self, input: &PlaneConvolution, inputs: &[InputPlanes], scratch: &mut Scratch) {
        let board = SQUARES * input.outputs();
        scratch.stream.grow_to(inputs.len() * board);
        let x = &mut scratch.stream[..inputs.len() * board];
        for (planes, to) in inputs.iter().zip(x.chunks_exact_mut(board.max(1))) {
            input.run(planes, to, &mut scratch.hidden);
        }
        scratch.steps.activate(self.activation, x);
    }

    /// A residual block: `x = act(SE(conv2(act(conv1 x))) + x)`, x `[T][filters]`.
    fn block(&self, block: &Block, positions: usize, filters: usize, scratch: &mut Scratch) {
        let Scratch { steps, stream, wide, branch, generated: pooled, hidden, winograd, .. } = scratch;
        let (isa, activation) = (steps.isa, self.activation);
        let size = positions * SQUARES * filters;
        let x = &mut stream[..size];
        wide.grow_to(size);
        // [T][filters] -> conv 3x3 -> act -> [T][filters]
        let finish = Finish::Activate(activation);
        block.conv1.run(isa, positions, x, wide, finish, winograd);
        let Some((squeeze, excite)) = &block.se else {
            // -> conv 3x3 -> + x -> act
            let finish = Finish::AddToOutput(activation);
            block.conv2.run(isa, positions, wide, x, finish, winograd);
            return;
        };
        // -> conv 3x3 -> [T][filters], and its means over the squares -> [B][filters]
        branch.grow_to(size);
        pooled.grow_to(positions * filters);
        let finish = Finish::Pool(pooled);
        block.conv2.run(isa, positions, wide, branch, finish, winograd);
        // [B][filters] -> squeeze -> act -> [B][se] -> excite -> [B][2 filters]
        steps.dense(squeeze, positions, pooled, hidden, activation);
        steps.dense(excite, positions, hidden, pooled, Activation::None);
        // x = act(sigmoid(first half) * branch + second half + x)
        isa.run(ScaleAndAdd {
            y: &branch[..size],
            excitation: &mut pooled[..positions * 2 * filters],
            residual: x,
            channels: filters,
            activation,
        });
    }
}
