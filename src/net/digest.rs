//! A number by which networks are told apart.
//!
//! It is computed from the layers and not from a file's bytes, because it stands for what is evaluated: the heads that
//! were chosen, perhaps two of them blended, in a network that a program may have changed since it was read. A file in
//! lc0's format and one with an ONNX model have the same number if their layers are the same.

use super::architecture::Architecture;
use super::network::{
    AttentionPolicy, Body, Embedding, Encoder, EncoderStack, FeedForward, Gates, Network, PolicyHead,
    PositionLayers, ResidualBlock, ScalarHead, Smolgen, SqueezeExcitation, ValueError,
};
use super::weights::{Convolution, Dense, HeadInput, LayerNorm};

/// A number that depends on every weight and on the kinds of the layers.
pub fn digest(network: &Network) -> u64 {
    let Network { architecture, body, smolgen_global, policy, value, value_error, moves_left } = network;
    let mut digest = Digest::new(architecture);
    match body {
        Body::Convolution { input, blocks } => {
            digest.convolution(input);
            blocks.iter().for_each(|block| digest.block(block));
        }
        Body::Attention { embedding, stack } => {
            digest.embedding(embedding);
            digest.stack(stack);
        }
    }
    smolgen_global.iter().for_each(|layer| digest.dense(layer));
    digest.policy(policy);
    digest.scalar_head(value);
    value_error.iter().for_each(|error| digest.value_error(error));
    moves_left.iter().for_each(|head| digest.scalar_head(head));
    digest.number()
}

/// A digest of some of the layers. It is the same on every machine, so that it can be stored. The names of the
/// layers' kinds in the source are a part of it. It is no protection against somebody who looks for two networks with
/// the same number.
pub struct Digest(u64);

/// The independent parts of a sequence of numbers: enough for the widest vectors, twice.
const LANES: usize = 32;

impl Digest {
    /// Begins with the kinds of the layers.
    pub fn new(architecture: &Architecture) -> Digest {
        let mut digest = Digest(0);
        digest.text(&format!("{architecture:?}"));
        digest
    }

    /// The digest of all that was added.
    pub fn number(&self) -> u64 {
        self.0
    }

    fn text(&mut self, text: &str) {
        text.bytes().for_each(|byte| self.add(u32::from(byte)));
    }

    /// One step of the hash FxHash.
    fn add(&mut self, word: u32) {
        self.0 = (self.0.rotate_left(5) ^ u64::from(word)).wrapping_mul(0x517c_c1b7_2722_0a95);
    }

    /// Adds numbers, of which a large network has hundreds of millions: in [`LANES`] parts that do not wait for each
    /// other's products. Each part changes whenever one of its numbers does, because every step can be undone.
    fn numbers(&mut self, numbers: &[f32]) {
        // The length keeps two layers apart whose numbers follow each other.
        self.add(numbers.len() as u32);
        let mut lanes = [0_u32; LANES];
        let (whole, rest) = numbers.as_chunks::<LANES>();
        for chunk in whole {
            for (lane, number) in lanes.iter_mut().zip(chunk) {
                *lane = (lane.rotate_left(5) ^ number.to_bits()).wrapping_mul(0x9e37_79b1);
            }
        }
        lanes.into_iter().chain(rest.iter().map(|number| number.to_bits())).for_each(|word| self.add(word));
    }

    fn dense(&mut self, layer: &Dense) {
        let Dense { weights, biases, inputs: _, outputs: _ } = layer;
        self.numbers(weights);
        self.numbers(biases);
    }

    fn convolution(&mut self, layer: &Convolution) {
        let Convolution { weights, biases, inputs: _, outputs: _, size: _ } = layer;
        self.numbers(weights);
        self.numbers(biases);
    }

    fn layer_norm(&mut self, layer: &LayerNorm) {
        let LayerNorm { gammas, betas, epsilon } = layer;
        self.numbers(gammas);
        self.numbers(betas);
        self.numbers(&[*epsilon]);
    }

    fn head_input(&mut self, layer: &HeadInput) {
        match layer {
            HeadInput::Convolution(layer) => self.convolution(layer),
            HeadInput::Dense(layer) => self.dense(layer),
        }
    }

    fn block(&mut self, block: &ResidualBlock) {
        let ResidualBlock { conv1, conv2, se } = block;
        self.convolution(conv1);
        self.convolution(conv2);
        if let Some(SqueezeExcitation { squeeze, excite }) = se {
            self.dense(squeeze);
            self.dense(excite);
        }
    }

    fn embedding(&mut self, embedding: &Embedding) {
        let Embedding { planes, position, ln, gates, ffn, width: _ } = embedding;
        self.dense(planes);
        if let Some(PositionLayers { board, reader }) = position {
            self.dense(board);
            self.dense(reader);
        }
        ln.iter().for_each(|ln| self.layer_norm(ln));
        if let Some(Gates { multiply, add }) = gates {
            self.numbers(multiply);
            self.numbers(add);
        }
        if let Some((ffn, ln)) = ffn {
            self.feed_forward(ffn);
            self.layer_norm(ln);
        }
    }

    fn stack(&mut self, stack: &EncoderStack) {
        let EncoderStack { encoders, heads, alpha, ffn_activation, smolgen_activation } = stack;
        self.add(*heads as u32);
        self.numbers(&[*alpha]);
        self.text(&format!("{ffn_activation:?} {smolgen_activation:?}"));
        for Encoder { qkv, output, smolgen, ln1, ffn, ln2 } in encoders {
            qkv.iter().for_each(|layer| self.dense(layer));
            self.dense(output);
            if let Some(Smolgen { compress, dense1, ln1, dense2, ln2 }) = smolgen {
                [compress, dense1, dense2].into_iter().for_each(|layer| self.dense(layer));
                [ln1, ln2].into_iter().for_each(|ln| self.layer_norm(ln));
            }
            self.layer_norm(ln1);
            self.feed_forward(ffn);
            self.layer_norm(ln2);
        }
    }

    fn feed_forward(&mut self, ffn: &FeedForward) {
        let FeedForward { dense1, dense2 } = ffn;
        self.dense(dense1);
        self.dense(dense2);
    }

    fn policy(&mut self, policy: &PolicyHead) {
        match policy {
            PolicyHead::Classical { input, dense } => {
                self.head_input(input);
                self.dense(dense);
            }
            PolicyHead::Convolution { first, last } => {
                self.convolution(first);
                self.convolution(last);
            }
            PolicyHead::Attention(head) => {
                let AttentionPolicy {
                    embedding,
                    embedding_activation,
                    stack,
                    query_key,
                    depth: _,
                    promotion,
                } = &**head;
                self.dense(embedding);
                self.text(&format!("{embedding_activation:?}"));
                self.stack(stack);
                query_key.iter().for_each(|layer| self.dense(layer));
                self.dense(promotion);
            }
        }
    }

    /// Adds a head for the error of the value.
    pub fn value_error(&mut self, error: &ValueError) {
        match error {
            ValueError::ValueHead { output } => self.dense(output),
            ValueError::Own(head) => self.scalar_head(head),
        }
    }

    /// Adds a head with one output.
    pub fn scalar_head(&mut self, head: &ScalarHead) {
        let ScalarHead { input, hidden, output } = head;
        self.head_input(input);
        self.dense(hidden);
        self.dense(output);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discover::{OWN_NETWORK, find_network};
    use crate::file::HeadSelection;

    #[test]
    fn a_change_of_one_bit_changes_the_number() {
        let file = find_network(OWN_NETWORK, |_| {}).expect("the embedded network opens");
        let network = file.network(&HeadSelection::default()).expect("the embedded network is valid");
        let right = digest(&network);
        assert_eq!(digest(&network.clone()), right);
        let changes: [fn(&mut Network) -> &mut f32; 4] = [
            |network| &mut network.value.output.biases[0],
            |network| &mut network.smolgen_global.as_mut().expect("it has smolgen").weights[77],
            |network| match &mut network.body {
                Body::Attention { stack, .. } => &mut stack.encoders[3].qkv[1].weights[5],
                Body::Convolution { .. } => panic!("it is an attention network"),
            },
            |network| match &mut network.body {
                Body::Attention { stack, .. } => &mut stack.encoders[5].ln2.betas[0],
                Body::Convolution { .. } => panic!("it is an attention network"),
            },
        ];
        for (which, change) in changes.into_iter().enumerate() {
            let mut other = network.clone();
            let number = change(&mut other);
            *number = f32::from_bits(number.to_bits() ^ 1);
            assert_ne!(digest(&other), right, "change {which}");
        }
    }
}
