//! Counts the floating-point operations (FLOPs) of evaluating one position.
//!
//! The count includes the multiply-adds of convolutions, dense layers and attention, each as two operations. It
//! omits biases, activations, LayerNorm, softmax and gates, which add a percent or two. A convolution counts as
//! a direct convolution, although the backends compute it with Winograd's algorithm.

use super::weights::{
    Body, Convolution, Dense, Embedding, Encoder, FeedForward, HeadInput, Network, PolicyHead, ScalarHead,
};

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
                let block_macs = |block: &super::weights::ResidualBlock| {
                    let se = block.se.as_ref().map_or(0, |se| once(&se.squeeze) + once(&se.excite));
                    convolution(&block.conv1) + convolution(&block.conv2) + se
                };
                convolution(input) + blocks.iter().map(block_macs).sum::<u64>()
            }
            Body::Attention { embedding, encoders, heads, smolgen_global, .. } => {
                let encoder = |layer| encoder(layer, *heads, smolgen_global.as_ref());
                input_embedding(embedding) + encoders.iter().map(encoder).sum::<u64>()
            }
        };
        Flops {
            body: 2 * body,
            policy: 2 * self.policy_macs(),
            value: 2 * (scalar_head(&self.value) + self.value_error.as_ref().map_or(0, scalar_head)),
            moves_left: 2 * self.moves_left.as_ref().map_or(0, scalar_head),
        }
    }

    fn policy_macs(&self) -> u64 {
        match &self.policy {
            PolicyHead::Classical { convolution: first, dense } => convolution(first) + once(dense),
            PolicyHead::Convolution { convolution: first, output } => {
                convolution(first) + convolution(output)
            }
            PolicyHead::Attention { embedding, encoders, heads, query, key, promotion, .. } => {
                let smolgen_global = match &self.body {
                    Body::Attention { smolgen_global, .. } => smolgen_global.as_ref(),
                    Body::Convolution { .. } => None,
                };
                let encoders: u64 = encoders.iter().map(|layer| encoder(layer, *heads, smolgen_global)).sum();
                let logits = SQUARES * SQUARES * query.outputs as u64;
                // The promotion offsets are computed for the keys of the eight squares of the last rank.
                let promotions = 8 * once(promotion);
                per_square(embedding) + encoders + per_square(query) + per_square(key) + logits + promotions
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
    let preprocess = embedding.preprocess.as_ref().map_or(0, once);
    let ffn = embedding.ffn.as_ref().map_or(0, |(ffn, _)| feed_forward(ffn));
    preprocess + per_square(&embedding.dense) + ffn
}

fn encoder(layer: &Encoder, heads: usize, smolgen_global: Option<&Dense>) -> u64 {
    let projections = [&layer.q, &layer.k, &layer.v, &layer.output].into_iter().map(per_square).sum::<u64>();
    // All heads together: Q K^T, and the attention weights times V.
    let attention = 2 * SQUARES * SQUARES * layer.q.outputs as u64;
    let smolgen = layer.smolgen.as_ref().map_or(0, |smolgen| {
        let generate = smolgen_global.map_or(0, |global| heads as u64 * once(global));
        per_square(&smolgen.compress) + once(&smolgen.dense1) + once(&smolgen.dense2) + generate
    });
    projections + attention + smolgen + feed_forward(&layer.ffn)
}

fn scalar_head(head: &ScalarHead) -> u64 {
    let input = match &head.input {
        HeadInput::Convolution(layer) => convolution(layer),
        HeadInput::Dense(layer) => per_square(layer),
    };
    input + once(&head.hidden) + once(&head.output)
}
