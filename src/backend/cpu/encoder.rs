//! The forward pass of an attention body: embedding and encoders. [`super::forward`] explains the shapes.
//!
//! Smolgen is an invention of Leela Chess Zero: a small network in each encoder that reads the whole board and computes
//! 64 x 64 logits for each head, which are added to Q K^T.

use super::kernels::SQUARES;
use super::kernels::attention::Attention;
use super::kernels::matrix::PackedMatrix;
use super::kernels::scale::Gate;
use super::layers::{Embedding, Encoder, EncoderStack, FeedForward, Smolgen};
use super::network::CpuNetwork;
use super::recorder::Work;
use super::scratch::Scratch;
use rukh_net::architecture::Activation;
use rukh_net::input::InputPlanes;
use rukh_net::network::{Gates, PositionLayers};

/// The number of positions that go through an encoder together, after smolgen's small layers. The queries, keys, values
/// and logits of 2 positions fit the second-level cache. (The speeds with 1 to 8 positions differ by 3 %.)
const GROUP: usize = 2;
/// The same number on processors with AMX if the weights of an encoder are larger than [`SMALL_ENCODER`]. These
/// processors multiply faster than the third-level cache delivers weights: the more positions, the more often each weight
/// is used.
const GROUP_WITH_AMX: usize = 8;
/// The size of an encoder's weights, without smolgen's, that stay in a second-level cache, in bytes.
const SMALL_ENCODER: usize = 256 << 10;

impl CpuNetwork {
    /// Planes -> `stream [T][embedding]`.
    pub(super) fn embedding(
        &self,
        embedding: &Embedding,
        stack: &EncoderStack,
        inputs: &[InputPlanes],
        scratch: &mut Scratch,
    ) {
        let width = embedding.width;
        let rows = inputs.len() * SQUARES;
        // This buffer is taken out, because the feed-forward borrows the rest of the scratch memory.
        let mut stream = std::mem::take(&mut scratch.stream);
        stream.grow_to(rows * width);
        let x = &mut stream[..rows * width];
        // planes [B][112][64] -> dense over each square's planes -> [T][embedding]
        for (planes, to) in inputs.iter().zip(x.chunks_exact_mut((SQUARES * width).max(1))) {
            embedding.planes.run(planes, to);
        }
        let Scratch { steps, wide, .. } = &mut *scratch;
        steps.recorder.enter("embedding", None);
        steps.recorder.lap("planes", || Work::moving(rows * width));
        if let Some(PositionLayers { board, reader }) = &embedding.position {
            // pieces of the newest position [B][64 * 12] -> dense -> [B][64 * pe] = [T][pe] -> dense, added to
            // [T][embedding]
            let outputs = board.outputs();
            wide.grow_to(inputs.len() * outputs);
            for (planes, to) in inputs.iter().zip(wide.chunks_exact_mut(outputs.max(1))) {
                board.run(planes, to);
            }
            steps.recorder.lap("positional layer", || Work::moving(inputs.len() * outputs));
            steps.dense_added("positional embedding", reader, rows, wide, x);
        }
        steps.activate("activation", self.layers.activation(), x);
        if let Some(ln) = &embedding.ln {
            steps.normalise("LayerNorm", ln, x);
        }
        if let Some(Gates { multiply, add }) = &embedding.gates {
            let data = &mut *x;
            steps.isa.run(Gate { data, multiply, add });
            steps.recorder.lap("gates", || Work::moving(2 * x.len()));
        }
        if let Some((ffn, ln)) = &embedding.ffn {
            feed_forward(ffn, stack.ffn_activation, rows, x, scratch);
            scratch.steps.join("LayerNorm 2", ln, x, &scratch.branch, stack.alpha);
        }
        scratch.stream = stream;
    }

    /// Applies all encoders of a stack to x `[T][width]`, in place. `stage` is their name for the recorder.
    pub(super) fn encoders(
        &self,
        stage: &'static str,
        stack: &EncoderStack,
        positions: usize,
        x: &mut [f32],
        scratch: &mut Scratch,
    ) {
        let group_size = self.group_size(stack);
        let group = (group_size * x.len()).checked_div(positions).unwrap_or(0).max(1);
        for (index, encoder) in stack.encoders.iter().enumerate() {
            scratch.steps.recorder.enter(stage, Some(index));
            if let Some(smolgen) = &encoder.smolgen {
                generate(smolgen, stack, positions, x, scratch);
            }
            // All other layers run for a few positions at a time, so that the results of a step are still in the
            // second-level cache when the next step reads them.
            for (i, x) in x.chunks_mut(group).enumerate() {
                self.attention(encoder, stack, i * group_size, x, scratch);
                let rows = x.len() / encoder.output.outputs().max(1);
                // x = LN(alpha * ffn(x) + x)
                feed_forward(&encoder.ffn, stack.ffn_activation, rows, x, scratch);
                let Scratch { steps, branch, .. } = &mut *scratch;
                steps.join("LayerNorm 2", &encoder.ln2, x, branch, stack.alpha);
            }
        }
    }

    /// The number of positions that go through an encoder together.
    fn group_size(&self, stack: &EncoderStack) -> usize {
        let bytes = stack.encoders.first().map_or(0, |Encoder { qkv, output, ffn, .. }| {
            [qkv, output, &ffn.dense1, &ffn.dense2].map(PackedMatrix::matrix_bytes).iter().sum()
        });
        if self.isa.has_amx() && bytes > SMALL_ENCODER { GROUP_WITH_AMX } else { GROUP }
    }

    /// `x = LN(alpha * attention(x) + x)` for a group of positions, the first of which has the index `first` in the
    /// slice. Here B and T count the positions and squares of the group.
    fn attention(
        &self,
        encoder: &Encoder,
        stack: &EncoderStack,
        first: usize,
        x: &mut [f32],
        scratch: &mut Scratch,
    ) {
        let Scratch { steps, wide, narrow, branch, logits, generated, attention, .. } = scratch;
        let rows = x.len() / encoder.output.outputs().max(1);
        let positions = rows / SQUARES;
        let d_model = encoder.qkv.outputs() / 3;
        let head_logits = stack.heads * SQUARES * SQUARES;
        // The loader has checked that a network with smolgen has smolgen's global layer.
        let has_logits = match (&encoder.smolgen, &self.layers.smolgen_global) {
            (Some(_), Some(global)) => {
                // [B * heads][generated] -> dense -> [B * heads][64 * 64]
                let from = &generated[first * stack.heads * global.inputs()..];
                steps.dense(
                    "smolgen logits",
                    global,
                    positions * stack.heads,
                    from,
                    logits,
                    Activation::None,
                );
                true
            }
            _ => false,
        };
        // [T][width] -> dense -> Q, K, V [T][3 d_model]
        steps.dense("QKV", &encoder.qkv, rows, x, wide, Activation::None);
        // per position and head: softmax(Q K^T + logits) V -> [T][d_model]
        narrow.grow_to(rows * d_model);
        for position in 0..positions {
            let logits = &mut logits[..];
            let attention = Attention {
                qkv: &wide[position * SQUARES * 3 * d_model..],
                stride: 3 * d_model,
                keys_at: d_model,
                values_at: 2 * d_model,
                heads: stack.heads,
                depth: d_model / stack.heads,
                logits: has_logits.then(|| &mut logits[position * head_logits..][..head_logits]),
                output: &mut narrow[position * SQUARES * d_model..],
                scratch: attention,
            };
            attention.compute(steps.isa, self.attention_in_bf16);
        }
        steps.recorder.lap("attention", || {
            let scores = positions * head_logits;
            // Q, K and V are read, and the results are written.
            let numbers = 4 * rows * d_model + if has_logits { scores } else { 0 };
            Work::multiplying(2 * rows * SQUARES * d_model, 0, numbers)
        });
        // [T][d_model] -> dense -> [T][width], added, LayerNorm
        steps.dense("output", &encoder.output, rows, narrow, branch, Activation::None);
        steps.join("LayerNorm 1", &encoder.ln1, x, branch, stack.alpha);
    }
}

/// x `[T][width]` -> dense -> act -> `[T][ffn]` -> dense -> `branch [T][width]`.
fn feed_forward(ffn: &FeedForward, activation: Activation, rows: usize, x: &[f32], scratch: &mut Scratch) {
    let Scratch { steps, wide, branch, .. } = scratch;
    steps.dense("FFN 1", &ffn.dense1, rows, x, wide, activation);
    steps.dense("FFN 2", &ffn.dense2, rows, wide, branch, Activation::None);
}

/// Smolgen's small layers for the whole slice: x `[T][width]` -> `generated [B * heads][generated]`.
fn generate(smolgen: &Smolgen, stack: &EncoderStack, positions: usize, x: &[f32], scratch: &mut Scratch) {
    let Scratch { steps, wide, hidden, generated, .. } = scratch;
    let activation = stack.smolgen_activation;
    // [T][width] -> dense -> [T][channels] = [B][64 channels]
    steps.dense("smolgen compress", &smolgen.compress, positions * SQUARES, x, wide, Activation::None);
    // [B][64 channels] -> dense -> act -> LayerNorm -> [B][hidden]
    steps.dense("smolgen dense1", &smolgen.dense1, positions, wide, hidden, activation);
    let size = positions * smolgen.dense1.outputs();
    steps.normalise("smolgen LayerNorm 1", &smolgen.ln1, &mut hidden[..size]);
    // [B][hidden] -> dense -> act -> LayerNorm -> [B][heads * generated] = [B * heads][generated]
    steps.dense("smolgen dense2", &smolgen.dense2, positions, hidden, generated, activation);
    let size = positions * smolgen.dense2.outputs();
    steps.normalise("smolgen LayerNorm 2", &smolgen.ln2, &mut generated[..size]);
}
