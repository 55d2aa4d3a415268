//! How much arithmetic one evaluation takes.
//!
//! Counted are the multiply-adds of convolutions, dense layers and attention, as two operations each, for one
//! position; what is done once per value (biases, activations, LayerNorm, softmax, gates) is a percent or two
//! more and not counted. Convolutions count as defined, not as Winograd computes them.

use super::network::{
    Body, Embedding, EncoderStack, FeedForward, Network, PolicyHead, ResidualBlock, ScalarHead, ValueError,
};
use super::weights::{Convolution, Dense, HeadInput};

/// Squares.
const SQUARES: u64 = 64;

/// Floating point operations for one position.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flops {
    /// Input, and residual tower or encoders.
    pub body: u64,
    /// The selected policy head.
    pub policy: u64,
    /// The selected value head.
    pub value: u64,
    /// The moves-left head, or 0.
    pub moves_left: u64,
}

impl Flops {
    /// All of them.
    pub fn total(self) -> u64 {
        self.body + self.policy + self.value + self.moves_left
    }
}

impl Network {
    /// Floating point operations for one position, two per multiply-add.
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
                // Promotion offsets come from the eight squares of the last rank.
                let promotions = 8 * once(&head.promotion);
                let [query, key] = head.query_key.each_ref().map(per_square);
                per_square(&head.embedding) + encoders + query + key + logits + promotions
            }
        }
    }
}

/// A dense layer applied once.
fn once(layer: &Dense) -> u64 {
    layer.inputs as u64 * layer.outputs as u64
}

/// A dense layer applied to every square.
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
        // Query times key, and attention times value, all heads together.
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
