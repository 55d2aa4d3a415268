//! Counts the floating-point operations (FLOPs) of evaluating one position.
//!
//! The count includes the multiply-adds of convolutions, dense layers and attention, each as two operations. It
//! omits biases, activations, LayerNorm, softmax and gates, which add a percent or two. A convolution counts as
//! a direct convolution, although the backends compute it with Winograd's algorithm.

use super::network::{
    Body, Embedding, EncoderStack, FeedForward, Network, PolicyHead, ResidualBlock, ScalarHead, ValueError,
};
use super::weights::{Convolution, Dense, HeadInput};

const SQUARES: u64 = 64;

/// The floating-point operations of evaluating one position, by part of the network.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flops {
    /// The input layer and the residual tower or the encoders.
    pub body: u64,
    /// The selected policy head.
    pub policy: u64,
    /// The selected value head and its error head.
    pub value: u64,
    /// The moves-left head; 0 if the network has none.
    pub moves_left: u64,
}

impl Flops {
    /// The sum over all parts.
    pub fn total(self) -> u64 {
        self.body + self.policy + self.value + self.moves_left
    }
}

impl Network {
    /// Counts the floating-point operations of evaluating one position.
    pub fn flops(&self) -> Flops {
        let body = match &self.body {
            Body::Convolution { input, blocks } => {
                let block = |block: &ResidualBlock| {
                    let se = block.se.as_ref().map_or(0, |se| once(&se.squeeze) + once(&se.excite));
                    convolution(&block.conv1) + convolution(&block.conv2) + se
                };
                convolution(input) + blocks.iter().map(block).sum::<u64>()
            }
            Body::Attention { embedding, stack } => {
                input_embedding(embedding) + encoders(stack, self.smolgen_global.as_ref())
            }
        };
        let value_error = match &self.value_error {
            Some(ValueError::ValueHead { output }) => once(output),
            Some(ValueError::Own(head)) => scalar_head(head),
            None => 0,
        };
        Flops {
            body: 2 * body,
            policy: 2 * self.policy_macs(),
            value: 2 * (scalar_head(&self.value) + value_error),
            moves_left: 2 * self.moves_left.as_ref().map_or(0, scalar_head),
        }
    }

    fn policy_macs(&self) -> u64 {
        match &self.policy {
            PolicyHead::Classical { input, dense } => head_input(input) + once(dense),
            PolicyHead::Convolution { first, last } => convolution(first) + convolution(last),
            PolicyHead::Attention(head) => {
                let encoders = encoders(&head.stack, self.smolgen_global.as_ref());
                let logits = SQUARES * SQUARES * head.depth as u64;
                // The promotion offsets are computed for the keys of the eight squares of the last rank.
                let promotions = 8 * once(&head.promotion);
                let [query, key] = head.query_key.each_ref().map(per_square);
                per_square(&head.embedding) + encoders + query + key + logits + promotions
            }
        }
    }
}

/// The multiply-adds of a dense layer that is applied once.
fn once(layer: &Dense) -> u64 {
    layer.inputs as u64 * layer.outputs as u64
}

/// The multiply-adds of a dense layer that is applied to every square.
fn per_square(layer: &Dense) -> u64 {
    SQUARES * once(layer)
}

fn convolution(layer: &Convolution) -> u64 {
    SQUARES * layer.weights.len() as u64
}

fn feed_forward(ffn: &FeedForward) -> u64 {
    per_square(&ffn.dense1) + per_square(&ffn.dense2)
}

fn input_embedding(embedding: &Embedding) -> u64 {
    let position = embedding.position.as_ref().map_or(0, |p| once(&p.board) + per_square(&p.reader));
    let ffn = embedding.ffn.as_ref().map_or(0, |(ffn, _)| feed_forward(ffn));
    position + per_square(&embedding.planes) + ffn
}

fn encoders(stack: &EncoderStack, smolgen_global: Option<&Dense>) -> u64 {
    let generate = smolgen_global.map_or(0, |global| stack.heads as u64 * once(global));
    let macs = stack.encoders.iter().map(|layer| {
        let [query, key, value] = layer.qkv.each_ref().map(per_square);
        let projections = query + key + value + per_square(&layer.output);
        // All heads together: Q K^T, and the attention weights times V.
        let attention = 2 * SQUARES * SQUARES * layer.qkv[0].outputs as u64;
        let smolgen = layer.smolgen.as_ref().map_or(0, |smolgen| {
            per_square(&smolgen.compress) + once(&smolgen.dense1) + once(&smolgen.dense2) + generate
        });
        projections + attention + smolgen + feed_forward(&layer.ffn)
    });
    macs.sum()
}

fn scalar_head(head: &ScalarHead) -> u64 {
    head_input(&head.input) + once(&head.hidden) + once(&head.output)
}

fn head_input(layer: &HeadInput) -> u64 {
    match layer {
        HeadInput::Convolution(layer) => convolution(layer),
        HeadInput::Dense(layer) => per_square(layer),
    }
}
