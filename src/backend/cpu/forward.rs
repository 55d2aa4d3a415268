//! The forward pass: one function per stage, every step with its shapes.
//!
//! B is the number of positions, T = 64 B the rows of a matrix of squares. Activations lie as
//! `[position][square][channel]`. The names of the steps are the papers': *Attention is all you need* for the
//! encoder, *Deep residual learning* and *Squeeze-and-excitation networks* for the tower; smolgen is Leela
//! Chess Zero's: a small network that writes each head's 64 x 64 attention logits.
//!
//! All memory is in [`Scratch`], which a thread keeps: once it has seen its largest batch, nothing is allocated.

use super::kernels::SQUARES;
use super::kernels::attention::{Attention, AttentionScratch, QueryKey};
use super::kernels::elementary::ActivateRows;
use super::kernels::matrix::{MatrixProduct, PackedMatrix};
use super::kernels::norm::LayerNorm;
use super::kernels::planes::Gate;
use super::kernels::winograd::{Finish, ScaleAndAdd, WinogradScratch};
use super::layers::{
    AttentionPolicy, Block, Body, EPSILON, Embedding, Encoder, EncoderStack, FeedForward, Policy, ScalarHead,
    Smolgen,
};
use super::network::{CpuNetwork, GROUP};
use super::simd::{AlignedVec, Bf16Pair, Isa};
use crate::net::architecture::Activation;
use crate::net::input::InputPlanes;
use crate::net::policy_index::ATTENTION_LOGITS;
use crate::net::weights;

/// A thread's memory for the forward pass.
#[derive(Default)]
pub(super) struct Scratch {
    /// The residual stream, `[T][channels]`.
    stream: AlignedVec<f32>,
    /// The policy head's residual stream.
    policy_stream: AlignedVec<f32>,
    /// Q, K and V; a feed-forward's hidden layer; a convolution's result.
    wide: AlignedVec<f32>,
    /// The result of the heads' attention; the first layer of a head.
    narrow: AlignedVec<f32>,
    /// What is added to the residual stream.
    branch: AlignedVec<f32>,
    /// Attention logits, `[B][head][key][query]`.
    logits: AlignedVec<f32>,
    /// Small layers: smolgen's, squeeze-and-excitation's, the scalar heads'.
    small: [AlignedVec<f32>; 2],
    attention: AttentionScratch,
    winograd: WinogradScratch,
    rounded: AlignedVec<Bf16Pair>,
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
            self.policy_head(count, channels, scratch, policy);
        }
    }

    /// Planes -> `stream [T][channels]`; returns the channels.
    fn body(&self, inputs: &[InputPlanes], scratch: &mut Scratch) -> usize {
        match &self.body {
            Body::Tower { input, blocks } => {
                // planes [B][112][64] -> conv 3x3 -> act -> [T][filters]
                let filters = input.outputs();
                let board = SQUARES * filters;
                scratch.stream.grow_to(inputs.len() * board);
                for (planes, to) in inputs.iter().zip(scratch.stream.chunks_exact_mut(board.max(1))) {
                    input.run(planes, to, &mut scratch.small[0]);
                }
                self.activate(self.activation, &mut scratch.stream[..inputs.len() * board]);
                for block in blocks {
                    self.block(block, inputs.len(), filters, scratch);
                }
                filters
            }
            Body::Attention { embedding, encoders } => {
                self.embedding(embedding, encoders, inputs, scratch);
                let mut stream = std::mem::take(&mut scratch.stream);
                for encoder in &encoders.encoders {
                    self.encoder(
                        encoder,
                        encoders,
                        inputs.len(),
                        embedding.width,
                        &mut stream,
                        scratch,
                    );
                }
                scratch.stream = stream;
                embedding.width
            }
        }
    }

    /// A residual block: `x = act(SE(conv2(act(conv1 x))) + x)`, x `[T][filters]`.
    fn block(&self, block: &Block, positions: usize, filters: usize, scratch: &mut Scratch) {
        let isa = self.isa;
        let Scratch {
            stream,
            wide,
            branch,
            small,
            winograd,
            rounded,
            ..
        } = scratch;
        let size = positions * SQUARES * filters;
        let x = &mut stream[..size];
        wide.grow_to(size);
        // [T][filters] -> conv 3x3 -> act -> [T][filters]
        block.conv1.run(
            isa,
            positions,
            x,
            wide,
            Finish::Activate(self.activation),
            winograd,
        );
        let Some((squeeze, excite)) = &block.se else {
            // -> conv 3x3 -> + x -> act
            block.conv2.run(
                isa,
                positions,
                wide,
                x,
                Finish::AddToOutput(self.activation),
                winograd,
            );
            return;
        };
        // -> conv 3x3 -> [T][filters], and its means over the squares -> [B][filters]
        branch.grow_to(size);
        let [pooled, hidden] = small;
        pooled.grow_to(positions * 2 * filters);
        hidden.grow_to(positions * squeeze.outputs());
        block
            .conv2
            .run(isa, positions, wide, branch, Finish::Pool(pooled), winograd);
        // [B][filters] -> squeeze -> act -> [B][se] -> excite -> [B][2 filters]
        Step {
            isa,
            weights: squeeze,
            rows: positions,
            rounded,
        }
        .run(pooled, hidden, self.activation);
        Step {
            isa,
            weights: excite,
            rows: positions,
            rounded,
        }
        .run(hidden, pooled, Activation::None);
        // x = act(sigmoid(first half) * branch + second half + x)
        isa.run(ScaleAndAdd {
            y: &branch[..size],
            excitation: &mut pooled[..positions * 2 * filters],
            residual: x,
            channels: filters,
            activation: self.activation,
        });
    }

    /// Planes -> `stream [T][embedding]`.
    fn embedding(
        &self,
        embedding: &Embedding,
        stack: &EncoderStack,
        inputs: &[InputPlanes],
        scratch: &mut Scratch,
    ) {
        let isa = self.isa;
        let width = embedding.width;
        let (rows, board) = (inputs.len() * SQUARES, SQUARES * width);
        let Scratch {
            stream,
            wide,
            rounded,
            ..
        } = &mut *scratch;
        stream.grow_to(rows * width);
        let x = &mut stream[..rows * width];
        // planes [B][112][64] -> dense over each square's planes -> [T][embedding]
        for (planes, to) in inputs.iter().zip(x.chunks_exact_mut(board.max(1))) {
            embedding.planes.run(planes, to);
        }
        if let Some((position, reader)) = &embedding.position {
            // newest pieces [B][64 * 12] -> dense -> [B][64 * pe] = [T][pe] -> dense -> added to [T][embedding]
            let outputs = position.outputs();
            wide.grow_to(inputs.len() * outputs);
            for (planes, to) in inputs.iter().zip(wide.chunks_exact_mut(outputs.max(1))) {
                position.run(planes, to);
            }
            Step {
                isa,
                weights: reader,
                rows,
                rounded,
            }
            .add(wide, x);
        }
        self.activate(self.activation, x);
        if let Some(ln) = &embedding.ln {
            normalise(isa, ln, EPSILON, None, x);
        }
        if let Some((multiply, add)) = &embedding.gates {
            isa.run(Gate {
                data: x,
                multiply,
                add,
            });
        }
        if let Some((ffn, ln)) = &embedding.ffn {
            let mut stream = std::mem::take(stream);
            self.feed_forward(ffn, stack.ffn_activation, rows, &stream, scratch);
            let branch = Some((&scratch.branch[..rows * width], stack.alpha));
            normalise(isa, ln, EPSILON, branch, &mut stream[..rows * width]);
            scratch.stream = stream;
        }
    }

    /// One encoder: `x = LN(alpha * attention(x) + x)`, `x = LN(alpha * ffn(x) + x)`, x `[T][width]`.
    fn encoder(
        &self,
        encoder: &Encoder,
        stack: &EncoderStack,
        positions: usize,
        width: usize,
        stream: &mut [f32],
        scratch: &mut Scratch,
    ) {
        let x = &mut stream[..positions * SQUARES * width];
        if let Some(smolgen) = &encoder.smolgen {
            self.generate(smolgen, stack, positions, x, scratch);
        }
        // The rest is done for a few positions at a time, from their queries to their last LayerNorm, so that
        // what passes from step to step stays in the second-level cache.
        for (i, x) in x.chunks_mut((GROUP * SQUARES * width).max(1)).enumerate() {
            self.encoder_group(encoder, stack, i * GROUP, width, x, scratch);
        }
    }

    /// The part of [`CpuNetwork::encoder`] after smolgen's small layers, for the positions of x, the first of
    /// which is the batch's `first`. T: their squares.
    fn encoder_group(
        &self,
        encoder: &Encoder,
        stack: &EncoderStack,
        first: usize,
        width: usize,
        x: &mut [f32],
        scratch: &mut Scratch,
    ) {
        let isa = self.isa;
        let Scratch {
            wide,
            narrow,
            branch,
            logits,
            small,
            attention,
            rounded,
            ..
        } = &mut *scratch;
        let rows = x.len() / width.max(1);
        let positions = rows / SQUARES;
        let d_model = encoder.qkv.outputs() / 3;
        let head_logits = stack.heads * SQUARES * SQUARES;
        // Networks with smolgen have the global matrix: it was checked on loading.
        let generated = encoder.smolgen.as_ref().zip(self.smolgen_global.as_ref());
        if let Some((_, global)) = generated {
            // [B * heads][generated] -> dense -> [B * heads][64 * 64]
            logits.grow_to(positions * head_logits);
            let x = &small[1][first * stack.heads * global.inputs()..];
            let rows = positions * stack.heads;
            Step {
                isa,
                weights: global,
                rows,
                rounded,
            }
            .run(x, logits, Activation::None);
        }
        // [T][width] -> dense -> Q, K, V [T][3 d_model]
        wide.grow_to(rows * 3 * d_model);
        Step {
            isa,
            weights: &encoder.qkv,
            rows,
            rounded,
        }
        .run(x, wide, Activation::None);
        // per position and head: softmax(Q K^T + smolgen) V -> [T][d_model]
        narrow.grow_to(rows * d_model);
        for position in 0..positions {
            isa.run(Attention {
                qkv: &wide[position * SQUARES * 3 * d_model..],
                stride: 3 * d_model,
                keys_at: d_model,
                values_at: 2 * d_model,
                heads: stack.heads,
                depth: d_model / stack.heads,
                logits: match generated {
                    Some(_) => Some(&mut logits[position * head_logits..][..head_logits]),
                    None => None,
                },
                output: &mut narrow[position * SQUARES * d_model..],
                scratch: attention,
            });
        }
        // [T][d_model] -> dense -> [T][width], added, LayerNorm
        branch.grow_to(rows * width);
        Step {
            isa,
            weights: &encoder.output,
            rows,
            rounded,
        }
        .run(narrow, branch, Activation::None);
        normalise(
            isa,
            &encoder.ln1,
            stack.epsilon,
            Some((&branch[..rows * width], stack.alpha)),
            x,
        );
        // feed-forward, added, LayerNorm
        self.feed_forward(&encoder.ffn, stack.ffn_activation, rows, x, scratch);
        let branch = Some((&scratch.branch[..rows * width], stack.alpha));
        normalise(isa, &encoder.ln2, stack.epsilon, branch, x);
    }

    /// x `[T][width]` -> dense -> act -> `[T][ffn]` -> dense -> `branch [T][width]`.
    fn feed_forward(
        &self,
        ffn: &FeedForward,
        activation: Activation,
        rows: usize,
        x: &[f32],
        scratch: &mut Scratch,
    ) {
        let isa = self.isa;
        let Scratch {
            wide,
            branch,
            rounded,
            ..
        } = scratch;
        wide.grow_to(rows * ffn.dense1.outputs());
        branch.grow_to(rows * ffn.dense2.outputs());
        Step {
            isa,
            weights: &ffn.dense1,
            rows,
            rounded,
        }
        .run(x, wide, activation);
        Step {
            isa,
            weights: &ffn.dense2,
            rows,
            rounded,
        }
        .run(wide, branch, Activation::None);
    }

    /// Smolgen's small layers, for the whole batch: x `[T][width]` -> `small[1] [B * heads][generated]`.
    fn generate(
        &self,
        smolgen: &Smolgen,
        stack: &EncoderStack,
        positions: usize,
        x: &[f32],
        scratch: &mut Scratch,
    ) {
        let isa = self.isa;
        let Scratch {
            wide, small, rounded, ..
        } = scratch;
        let [hidden, generated] = small;
        let rows = positions * SQUARES;
        let activation = stack.smolgen_activation;
        wide.grow_to(rows * smolgen.compress.outputs());
        hidden.grow_to(positions * smolgen.dense1.outputs());
        generated.grow_to(positions * smolgen.dense2.outputs());
        // [T][width] -> dense -> [T][channels] = [B][64 channels]
        Step {
            isa,
            weights: &smolgen.compress,
            rows,
            rounded,
        }
        .run(x, wide, Activation::None);
        // [B][64 channels] -> dense -> act -> LayerNorm -> [B][hidden]
        Step {
            isa,
            weights: &smolgen.dense1,
            rows: positions,
            rounded,
        }
        .run(wide, hidden, activation);
        let size = positions * smolgen.dense1.outputs();
        normalise(isa, &smolgen.ln1, EPSILON, None, &mut hidden[..size]);
        // [B][hidden] -> dense -> act -> LayerNorm -> [B][heads * generated]
        Step {
            isa,
            weights: &smolgen.dense2,
            rows: positions,
            rounded,
        }
        .run(hidden, generated, activation);
        let size = positions * smolgen.dense2.outputs();
        normalise(isa, &smolgen.ln2, EPSILON, None, &mut generated[..size]);
    }

    /// `stream [T][channels]` -> one row of `output` per position.
    fn scalar_head(
        &self,
        head: &ScalarHead,
        last: Activation,
        positions: usize,
        channels: usize,
        scratch: &mut Scratch,
        output: &mut [f32],
    ) {
        let isa = self.isa;
        let Scratch {
            stream,
            narrow,
            small,
            rounded,
            ..
        } = scratch;
        let rows = positions * SQUARES;
        narrow.grow_to(rows * head.input.outputs());
        small[0].grow_to(positions * head.hidden.outputs());
        // [T][channels] -> dense -> act -> [T][head channels] = [B][64 * head channels]
        let x = &stream[..rows * channels];
        Step {
            isa,
            weights: &head.input,
            rows,
            rounded,
        }
        .run(x, narrow, self.activation);
        // -> dense -> act -> [B][hidden] -> dense -> [B][outputs]
        Step {
            isa,
            weights: &head.hidden,
            rows: positions,
            rounded,
        }
        .run(narrow, &mut small[0], self.activation);
        Step {
            isa,
            weights: &head.output,
            rows: positions,
            rounded,
        }
        .run(&small[0], output, last);
    }

    /// `stream [T][channels]` -> `output [B][Policy::width]`.
    fn policy_head(&self, positions: usize, channels: usize, scratch: &mut Scratch, output: &mut [f32]) {
        let isa = self.isa;
        let rows = positions * SQUARES;
        let Scratch {
            stream,
            narrow,
            winograd,
            rounded,
            ..
        } = &mut *scratch;
        match &self.policy {
            Policy::Classical { input, dense } => {
                // [T][channels] -> dense -> act -> [T][head channels] = [B][64 * head channels] -> dense -> [B][1858]
                narrow.grow_to(rows * input.outputs());
                Step {
                    isa,
                    weights: input,
                    rows,
                    rounded,
                }
                .run(stream, narrow, self.activation);
                Step {
                    isa,
                    weights: dense,
                    rows: positions,
                    rounded,
                }
                .run(narrow, output, Activation::None);
            }
            Policy::Convolution {
                convolution,
                output: last,
            } => {
                // [T][channels] -> conv 3x3 -> act -> [T][channels] -> conv 3x3 -> [T][80] = [B][64 * 80]
                narrow.grow_to(rows * channels);
                convolution.run(
                    isa,
                    positions,
                    stream,
                    narrow,
                    Finish::Activate(self.activation),
                    winograd,
                );
                last.run(
                    isa,
                    positions,
                    narrow,
                    output,
                    Finish::Activate(Activation::None),
                    winograd,
                );
            }
            Policy::Attention(head) => self.attention_policy(head, positions, scratch, output),
        }
    }

    /// `stream [T][channels]` -> `output [B][to][from]` and 192 promotions.
    fn attention_policy(
        &self,
        head: &AttentionPolicy,
        positions: usize,
        scratch: &mut Scratch,
        output: &mut [f32],
    ) {
        let isa = self.isa;
        let rows = positions * SQUARES;
        let width = head.embedding.outputs();
        let mut x = std::mem::take(&mut scratch.policy_stream);
        x.grow_to(rows * width);
        // [T][channels] -> dense -> act -> [T][width], encoders
        Step {
            isa,
            weights: &head.embedding,
            rows,
            rounded: &mut scratch.rounded,
        }
        .run(&scratch.stream, &mut x, head.embedding_activation);
        for encoder in &head.stack.encoders {
            self.encoder(encoder, &head.stack, positions, width, &mut x, scratch);
        }
        // [T][width] -> dense -> queries, keys [T][2 depth]
        let Scratch {
            wide,
            attention,
            rounded,
            ..
        } = &mut *scratch;
        let stride = 2 * head.depth;
        wide.grow_to(rows * stride);
        Step {
            isa,
            weights: &head.query_key,
            rows,
            rounded,
        }
        .run(&x, wide, Activation::None);
        for (position, logits) in output.chunks_exact_mut(ATTENTION_LOGITS).enumerate() {
            let board = &wide[position * SQUARES * stride..][..SQUARES * stride];
            let (scores, promotions) = logits.split_at_mut(SQUARES * SQUARES);
            // [64][depth] x [64][depth] -> [to][from]
            isa.run(QueryKey {
                queries: board,
                keys: &board[head.depth..],
                stride,
                depth: head.depth,
                scores,
                accumulate: false,
                scratch: attention,
            });
            // keys of the last rank [8][depth] -> dense -> [to file][queen, rook, bishop]
            let mut offsets = [0.0; 8 * 3];
            MatrixProduct {
                weights: &head.promotion,
                which: 0,
                x: &board[56 * stride + head.depth..],
                x_stride: stride,
                y: &mut offsets,
                y_stride: 3,
                rows: 8,
                activation: Activation::None,
                accumulate: false,
                rounded,
            }
            .run(isa);
            // promotion = score of the plain move + its piece's offset
            for (i, promotion) in promotions.iter_mut().enumerate() {
                let (from_file, to_file, piece) = (i / 24, i / 3 % 8, i % 3);
                let plain = scores[(56 + to_file) * SQUARES + 48 + from_file];
                *promotion = plain + offsets[to_file * 3 + piece];
            }
        }
        scratch.policy_stream = x;
    }

    fn activate(&self, activation: Activation, data: &mut [f32]) {
        let width = data.len();
        self.isa.run(ActivateRows {
            data,
            width,
            stride: width,
            activation,
        });
    }
}

/// One dense layer of the pass, rows without gaps.
struct Step<'a> {
    isa: Isa,
    weights: &'a PackedMatrix,
    rows: usize,
    rounded: &'a mut AlignedVec<Bf16Pair>,
}

impl Step<'_> {
    /// `y [rows][outputs] = act(x [rows][inputs] W^T + b)`
    fn run(self, x: &[f32], y: &mut [f32], activation: Activation) {
        self.product(x, y, activation, false);
    }

    /// `y += x W^T`
    fn add(self, x: &[f32], y: &mut [f32]) {
        self.product(x, y, Activation::None, true);
    }

    fn product(self, x: &[f32], y: &mut [f32], activation: Activation, accumulate: bool) {
        let Step {
            isa,
            weights,
            rows,
            rounded,
        } = self;
        MatrixProduct {
            weights,
            which: 0,
            x,
            x_stride: weights.inputs(),
            y,
            y_stride: weights.outputs(),
            rows,
            activation,
            accumulate,
            rounded,
        }
        .run(isa);
    }
}

/// `x = LN(factor * branch + x)`
fn normalise(isa: Isa, ln: &weights::LayerNorm, epsilon: f32, branch: Option<(&[f32], f32)>, x: &mut [f32]) {
    isa.run(LayerNorm {
        data: x,
        branch: branch.map(|(branch, _)| branch),
        alpha: branch.map_or(1.0, |(_, alpha)| alpha),
        gammas: &ln.gammas,
        betas: &ln.betas,
        epsilon,
    });
}
