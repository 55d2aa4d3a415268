//! The forward pass of the heads. [`super::forward`] explains the shapes.

use super::kernels::SQUARES;
use super::kernels::attention::QueryKey;
use super::kernels::convolution::Finish;
use super::layers::{AttentionPolicy, PolicyHead, ScalarHead, ValueError};
use super::network::CpuNetwork;
use super::recorder::Work;
use super::scratch::Scratch;
use rukh_net::architecture::Activation;
use rukh_net::policy_index::ATTENTION_LOGITS;

impl CpuNetwork {
    /// `stream [T][channels]` -> `output`, which is `[B][3]` with the logits of win, draw and loss, or `[B][1]` with q
    /// before its tanh.
    pub(super) fn value_head(
        &self,
        positions: usize,
        channels: usize,
        scratch: &mut Scratch,
        output: &mut [f32],
    ) {
        scratch.steps.recorder.enter("value", None);
        self.scalar_head(&self.layers.value, Activation::None, positions, channels, scratch, output);
    }

    /// `stream [T][channels]` -> `output [B]`, the error of the value. Call it right after [`CpuNetwork::value_head`],
    /// whose hidden layer it may read.
    pub(super) fn value_error_head(
        &self,
        head: &ValueError,
        positions: usize,
        channels: usize,
        scratch: &mut Scratch,
        output: &mut [f32],
    ) {
        scratch.steps.recorder.enter("value error", None);
        match head {
            ValueError::ValueHead { output: layer } => {
                let Scratch { steps, hidden, .. } = scratch;
                // [B][hidden] -> dense -> sigmoid -> [B]
                steps.dense_into("output", layer, positions, hidden, output, Activation::Sigmoid);
            }
            ValueError::Own(head) => {
                self.scalar_head(head, Activation::Sigmoid, positions, channels, scratch, output);
            }
        }
    }

    /// `stream [T][channels]` -> `output [B]`, plies.
    pub(super) fn moves_left_head(
        &self,
        head: &ScalarHead,
        positions: usize,
        channels: usize,
        scratch: &mut Scratch,
        output: &mut [f32],
    ) {
        scratch.steps.recorder.enter("moves left", None);
        self.scalar_head(head, Activation::Relu, positions, channels, scratch, output);
    }

    /// `stream [T][channels]` -> one row of `output` per position, through the activation `last`.
    fn scalar_head(
        &self,
        head: &ScalarHead,
        last: Activation,
        positions: usize,
        channels: usize,
        scratch: &mut Scratch,
        output: &mut [f32],
    ) {
        let Scratch { steps, stream, narrow, hidden, .. } = scratch;
        let rows = positions * SQUARES;
        // [T][channels] -> dense -> act -> [T][head channels] = [B][64 * head channels]
        let activation = self.layers.activation();
        steps.dense("embedding", &head.input, rows, &stream[..rows * channels], narrow, activation);
        // -> dense -> act -> [B][hidden] -> dense -> [B][outputs]
        steps.dense("hidden layer", &head.hidden, positions, narrow, hidden, activation);
        steps.dense_into("output", &head.output, positions, hidden, output, last);
    }

    /// `stream [T][channels]` -> `output [B][policy_width]`.
    pub(super) fn policy_head(
        &self,
        positions: usize,
        channels: usize,
        scratch: &mut Scratch,
        output: &mut [f32],
    ) {
        let rows = positions * SQUARES;
        let Scratch { steps, stream, narrow, .. } = &mut *scratch;
        steps.recorder.enter("policy", None);
        match &self.layers.policy {
            PolicyHead::Classical { input, dense } => {
                // [T][channels] -> dense -> act -> [T][head channels] = [B][64 * head channels] -> [B][1858]
                steps.dense("convolution", input, rows, stream, narrow, self.layers.activation());
                steps.dense_into("dense", dense, positions, narrow, output, Activation::None);
            }
            PolicyHead::Convolution { first, last } => {
                // [T][channels] -> conv 3x3 -> act -> [T][channels] -> conv 3x3 -> [T][80] = [B][64 * 80]
                narrow.grow_to(rows * channels);
                let finish = Finish::Activate(self.layers.activation());
                steps.convolve("convolution 1", first, positions, stream, narrow, finish);
                let finish = Finish::Activate(Activation::None);
                steps.convolve("convolution 2", last, positions, narrow, output, finish);
            }
            PolicyHead::Attention(head) => self.attention_policy(head, positions, scratch, output),
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
        let rows = positions * SQUARES;
        // This buffer is taken out, because the encoders borrow the rest of the scratch memory.
        let mut stream = std::mem::take(&mut scratch.policy_stream);
        // [T][channels] -> dense -> act -> [T][width], encoders
        let Scratch { steps, stream: body, .. } = &mut *scratch;
        steps.dense("embedding", &head.embedding, rows, body, &mut stream, head.embedding_activation);
        let x = &mut stream[..rows * head.embedding.outputs()];
        self.encoders("policy encoder", &head.stack, positions, x, scratch);
        // [T][width] -> dense -> queries, keys [T][2 depth]
        let Scratch { steps, wide, attention, .. } = &mut *scratch;
        let stride = 2 * head.depth;
        steps.recorder.enter("policy", None);
        steps.dense("queries and keys", &head.query_key, rows, x, wide, Activation::None);
        for (position, logits) in output.chunks_exact_mut(ATTENTION_LOGITS).enumerate() {
            let board = &wide[position * SQUARES * stride..][..SQUARES * stride];
            let (scores, promotions) = logits.split_at_mut(SQUARES * SQUARES);
            // queries [64][depth] x keys [64][depth] -> [to][from]
            steps.isa.run(QueryKey {
                queries: board,
                keys: &board[head.depth..],
                stride,
                depth: head.depth,
                scores: &mut *scores,
                accumulate: false,
                scratch: attention,
            });
            steps.recorder.lap("logits", || {
                let numbers = SQUARES * stride + SQUARES * SQUARES;
                Work::multiplying(SQUARES * SQUARES * head.depth, 0, numbers)
            });
            // keys of the last rank [8][depth] -> dense -> [to file][queen, rook, bishop]
            let mut offsets = [0.0; 8 * 3];
            let keys = (&board[56 * stride + head.depth..], stride);
            steps.dense_strided("promotions", &head.promotion, 8, keys, &mut offsets);
            // promotion [from file][to file][piece] = score of the plain move + its piece's offset
            for (i, promotion) in promotions.iter_mut().enumerate() {
                let (from_file, to_file, piece) = (i / 24, i / 3 % 8, i % 3);
                let plain = scores[(56 + to_file) * SQUARES + 48 + from_file];
                *promotion = plain + offsets[to_file * 3 + piece];
            }
        }
        scratch.policy_stream = stream;
    }
}
