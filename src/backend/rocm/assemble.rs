//! The parts of a network, put together from its file's layers on the device. Q, K and V become one matrix.

use super::error::{Result, RocmError};
use super::ffi::hip::Address;
use super::uploader::{Uploader, check_width, squares_first};
use super::weights::{
    AttentionPolicy, Block, Body, Dense, Embedding, Encoder, EncoderStack, Policy, SQUARES, ScalarHead,
    Smolgen, SqueezeExcitation,
};
use crate::net::Network;
use crate::net::architecture::{BodyKind, InputEmbedding};
use crate::net::policy_index::{ATTENTION_LOGITS, POLICY_SIZE, attention_index, convolution_index};
use crate::net::weights as file;
use crate::net::weights::{EMBEDDING_LAYER_NORM_EPSILON, POLICY_LAYER_NORM_EPSILON, positional_value};

/// The widest head that the attention kernels take.
const LARGEST_HEAD: usize = 128;

/// What the squeeze-and-excitation kernel has room for.
const LARGEST_SE_CHANNELS: usize = 1024;
const LARGEST_SE_HIDDEN: usize = 512;

impl Uploader {
    /// What stands before the heads.
    pub(super) fn body(&mut self, network: &Network) -> Result<Body> {
        match &network.body {
            file::Body::Convolution { input, blocks } => Ok(Body::Tower {
                input: self.convolution("input convolution", input)?,
                blocks: blocks
                    .iter()
                    .enumerate()
                    .map(|(index, block)| self.block(&format!("block {index}"), block))
                    .collect::<Result<_>>()?,
            }),
            file::Body::Attention {
                embedding,
                encoders,
                heads,
                smolgen_global,
                ffn_activation,
                smolgen_activation,
            } => {
                let global = match smolgen_global {
                    Some(global) => Some(self.dense("smolgen global", global)?),
                    None => None,
                };
                let embedding = Box::new(self.embedding(network, embedding)?);
                let epsilon = network.layer_norm_epsilon;
                let encoders = self.encoders("encoder", encoders, *heads, epsilon, global)?;
                Ok(Body::Attention {
                    embedding,
                    stack: EncoderStack {
                        encoders,
                        heads: *heads,
                        alpha: network.residual_alpha(),
                        ffn_activation: *ffn_activation,
                        smolgen_activation: *smolgen_activation,
                    },
                })
            }
        }
    }

    fn block(&mut self, what: &str, block: &file::ResidualBlock) -> Result<Block> {
        Ok(Block {
            conv1: self.convolution(&format!("{what} conv1"), &block.conv1)?,
            conv2: self.convolution(&format!("{what} conv2"), &block.conv2)?,
            se: match &block.se {
                Some(se) => Some(self.squeeze_excitation(&format!("{what} SE"), se)?),
                None => None,
            },
        })
    }

    fn squeeze_excitation(&mut self, what: &str, se: &file::SqueezeExcitation) -> Result<SqueezeExcitation> {
        let (channels, hidden) = (se.squeeze.inputs, se.squeeze.outputs);
        if channels > LARGEST_SE_CHANNELS || hidden > LARGEST_SE_HIDDEN {
            return Err(RocmError::Unsupported(format!(
                "{what}: {channels} channels and {hidden} in between, at most {LARGEST_SE_CHANNELS} and \
                 {LARGEST_SE_HIDDEN}"
            )));
        }
        let excite: Vec<f32> = (0..hidden * 2 * channels)
            .map(|i| se.excite.weights[i % (2 * channels) * hidden + i / (2 * channels)])
            .collect();
        Ok(SqueezeExcitation {
            squeeze: self.tensor(what, &se.squeeze.weights)?,
            squeeze_bias: self.tensor(what, &se.squeeze.biases)?,
            excite: self.tensor(what, &excite)?,
            excite_bias: self.tensor(what, &se.excite.biases)?,
            channels,
            hidden,
        })
    }

    fn embedding(&mut self, network: &Network, layers: &file::Embedding) -> Result<Embedding> {
        let file::Dense { weights, biases, inputs, outputs } = &layers.dense;
        check_width("embedding", *outputs)?;
        let has_map = matches!(
            network.architecture.body,
            BodyKind::Attention { input_embedding: InputEmbedding::PeMap, .. }
        );
        let planes = crate::net::input::InputPlanes::COUNT;
        let columns = |from: usize, to: usize| -> Vec<f32> {
            weights.chunks_exact((*inputs).max(1)).flat_map(|row| &row[from..to]).copied().collect()
        };
        let (table, position, dense) = if let Some(preprocess) = &layers.preprocess {
            // The embedding's columns after the planes read what the layer over the pieces writes.
            let first = self.dense("positional layer", preprocess)?;
            let reader =
                self.matrix("positional embedding", &columns(planes, *inputs), &[], inputs - planes)?;
            let dense = self.matrix("embedding", &columns(0, planes), biases, planes)?;
            ((Address::NULL, 0), Some((first, reader)), dense)
        } else if has_map {
            let values: Vec<f32> =
                (0..SQUARES * SQUARES).map(|i| positional_value(i / SQUARES, i % SQUARES)).collect();
            let table = self.tensor("positional table", &values)?;
            ((table, SQUARES), None, self.dense("embedding", &layers.dense)?)
        } else {
            ((Address::NULL, 0), None, self.dense("embedding", &layers.dense)?)
        };
        let gates = match (&layers.multiply_gate, &layers.add_gate) {
            (Some(multiply), Some(add)) => {
                let multiply = squares_first(multiply, multiply.len());
                let add = squares_first(add, add.len());
                Some((self.tensor("multiplying gate", &multiply)?, self.tensor("adding gate", &add)?))
            }
            _ => None,
        };
        Ok(Embedding {
            table,
            position,
            dense,
            ln: match &layers.ln {
                Some(ln) => Some(self.layer_norm("embedding", ln, EMBEDDING_LAYER_NORM_EPSILON)?),
                None => None,
            },
            gates,
            ffn: match &layers.ffn {
                Some((ffn, ln)) => Some((
                    self.feed_forward("embedding feed-forward", ffn)?,
                    self.layer_norm("embedding feed-forward", ln, EMBEDDING_LAYER_NORM_EPSILON)?,
                )),
                None => None,
            },
        })
    }

    fn encoders(
        &mut self,
        what: &str,
        encoders: &[file::Encoder],
        heads: usize,
        epsilon: f32,
        global: Option<Dense>,
    ) -> Result<Vec<Encoder>> {
        encoders
            .iter()
            .enumerate()
            .map(|(index, encoder)| self.encoder(&format!("{what} {index}"), encoder, heads, epsilon, global))
            .collect()
    }

    fn encoder(
        &mut self,
        what: &str,
        layers: &file::Encoder,
        heads: usize,
        epsilon: f32,
        global: Option<Dense>,
    ) -> Result<Encoder> {
        check_width(&format!("{what} heads together"), layers.q.outputs)?;
        if layers.q.outputs / heads.max(1) > LARGEST_HEAD {
            let text =
                format!("{what}: heads of {} channels, at most {LARGEST_HEAD}", layers.q.outputs / heads);
            return Err(RocmError::Unsupported(text));
        }
        Ok(Encoder {
            qkv: self.side_by_side(&format!("{what} QKV"), &[&layers.q, &layers.k, &layers.v])?,
            output: self.dense(&format!("{what} output"), &layers.output)?,
            smolgen: match (&layers.smolgen, global) {
                (Some(smolgen), Some(global)) => {
                    Some(self.smolgen(&format!("{what} smolgen"), smolgen, global)?)
                }
                _ => None,
            },
            ln1: self.layer_norm(&format!("{what} LayerNorm 1"), &layers.ln1, epsilon)?,
            ffn: self.feed_forward(&format!("{what} feed-forward"), &layers.ffn)?,
            ln2: self.layer_norm(&format!("{what} LayerNorm 2"), &layers.ln2, epsilon)?,
        })
    }

    fn smolgen(&mut self, what: &str, layers: &file::Smolgen, global: Dense) -> Result<Smolgen> {
        check_width(what, layers.dense1.outputs)?;
        check_width(what, layers.dense2.outputs)?;
        Ok(Smolgen {
            compress: self.dense(&format!("{what} compress"), &layers.compress)?,
            dense1: self.dense(&format!("{what} dense1"), &layers.dense1)?,
            ln1: self.layer_norm(
                &format!("{what} LayerNorm 1"),
                &layers.ln1,
                EMBEDDING_LAYER_NORM_EPSILON,
            )?,
            dense2: self.dense(&format!("{what} dense2"), &layers.dense2)?,
            ln2: self.layer_norm(
                &format!("{what} LayerNorm 2"),
                &layers.ln2,
                EMBEDDING_LAYER_NORM_EPSILON,
            )?,
            global,
        })
    }

    /// The policy head.
    pub(super) fn policy(&mut self, network: &Network) -> Result<Policy> {
        match &network.policy {
            file::PolicyHead::Classical { convolution, dense } => Ok(Policy::Classical {
                input: self.pointwise("policy convolution", convolution)?,
                dense: self.dense_over_channels("policy dense", dense)?,
            }),
            file::PolicyHead::Convolution { convolution, output } => Ok(Policy::Convolution {
                first: self.convolution("policy convolution 1", convolution)?,
                last: self.convolution("policy convolution 2", output)?,
            }),
            file::PolicyHead::Attention {
                embedding,
                embedding_activation,
                encoders,
                heads,
                ffn_activation,
                query,
                key,
                promotion,
            } => {
                check_width("policy embedding", embedding.outputs)?;
                check_width("policy queries", query.outputs)?;
                let (smolgen_activation, global) = network.smolgen();
                // Encoders of a policy head that have smolgen share the body's last matrix.
                let global = match global.filter(|_| encoders.iter().any(|encoder| encoder.smolgen.is_some()))
                {
                    Some(global) => Some(self.dense("smolgen global", global)?),
                    None => None,
                };
                let depth = query.outputs;
                let promotions: Vec<f32> = (0..3 * depth)
                    .map(|i| promotion.weights[i] + promotion.weights[3 * depth + i % depth])
                    .collect();
                let epsilon = POLICY_LAYER_NORM_EPSILON;
                Ok(Policy::Attention(Box::new(AttentionPolicy {
                    embedding: self.dense("policy embedding", embedding)?,
                    embedding_activation: *embedding_activation,
                    stack: EncoderStack {
                        encoders: self.encoders("policy encoder", encoders, *heads, epsilon, global)?,
                        heads: *heads,
                        alpha: 1.0,
                        ffn_activation: *ffn_activation,
                        smolgen_activation,
                    },
                    query_key: self.side_by_side("policy queries and keys", &[query, key])?,
                    depth,
                    promotions: self.tensor("promotions", &promotions)?,
                })))
            }
        }
    }

    /// See [`DeviceNetwork::places`].
    pub(super) fn places(&mut self, policy: &Policy) -> Result<Address> {
        let mut places: Vec<u16> = (0..POLICY_SIZE as u16).collect();
        let mut set = |index: Option<u16>, place: usize| {
            if let Some(index) = index {
                places[usize::from(index)] = place as u16;
            }
        };
        match policy {
            Policy::Classical { .. } => {}
            Policy::Convolution { last, .. } => {
                // The file's order is [plane][square].
                for plane in 0..last.outputs {
                    for square in 0..SQUARES {
                        set(convolution_index(plane * SQUARES + square), square * last.outputs + plane);
                    }
                }
            }
            Policy::Attention(_) => {
                (0..ATTENTION_LOGITS).for_each(|logit| set(attention_index(logit), logit))
            }
        }
        let bytes: Vec<u8> = places.iter().flat_map(|place| place.to_le_bytes()).collect();
        self.bytes("policy places", &bytes)
    }

    /// Value, value-error or moves-left head.
    pub(super) fn scalar_head(&mut self, what: &str, head: &file::ScalarHead) -> Result<ScalarHead> {
        let (input, hidden) = match &head.input {
            file::HeadInput::Convolution(convolution) => (
                self.pointwise(&format!("{what} convolution"), convolution)?,
                self.dense_over_channels(&format!("{what} hidden layer"), &head.hidden)?,
            ),
            file::HeadInput::Dense(dense) => (
                self.dense(&format!("{what} embedding"), dense)?,
                self.dense(&format!("{what} hidden layer"), &head.hidden)?,
            ),
        };
        check_width(&format!("{what} hidden layer"), hidden.outputs)?;
        let output = self.head_output(what, &head.output)?;
        Ok(ScalarHead { input, hidden, output })
    }

    /// Of a scalar head; its bias is added in fp32.
    pub(super) fn head_output(&mut self, what: &str, layer: &file::Dense) -> Result<Dense> {
        let output = self.matrix(&format!("{what} output"), &layer.weights, &[], layer.inputs)?;
        let bias = self.fp32(&format!("{what} output bias"), &layer.biases)?;
        Ok(Dense { bias, ..output })
    }
}
