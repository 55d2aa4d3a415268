//! A network's layers in the device's memory, as the forward pass wants them.
//!
//! Made once, shared by all slots. Q, K and V become one matrix; matrices that read a flattened board read it
//! as `[square][channel]`; 3x3 convolutions are transformed for Winograd's products. Matrices and vectors are
//! of the backend's element type, `[outputs][inputs]`.

use super::error::{Result, RocmError};
use super::ffi::gemm::ElementType;
use super::ffi::hip::{Address, Device, DeviceBuffer};
use super::winograd;
use crate::net::Network;
use crate::net::architecture::{Activation, BodyKind, InputEmbedding};
use crate::net::policy_index::{ATTENTION_LOGITS, POLICY_SIZE, attention_index, convolution_index};
use crate::net::weights as file;
use crate::net::weights::{EMBEDDING_LAYER_NORM_EPSILON, POLICY_LAYER_NORM_EPSILON, positional_value};
use half::{bf16, f16};
use std::sync::Arc;

/// Squares of a board.
pub(super) const SQUARES: usize = 64;

/// A dense layer; also a 1x1 convolution, which is one per square.
#[derive(Clone, Copy)]
pub(super) struct Dense {
    /// `[outputs][inputs]`
    pub(super) weights: Address,
    /// `[outputs]`, repeated [`rows_together`] times; null where the file has none, or zeros.
    pub(super) bias: Address,
    pub(super) inputs: usize,
    pub(super) outputs: usize,
}

/// Scale and shift, `[width]` each.
#[derive(Clone, Copy)]
pub(super) struct LayerNorm {
    pub(super) gammas: Address,
    pub(super) betas: Address,
    pub(super) width: usize,
    pub(super) epsilon: f32,
}

/// A 3x3 convolution as 36 products.
#[derive(Clone, Copy)]
pub(super) struct Convolution {
    /// `[36][outputs][inputs]`
    pub(super) weights: Address,
    /// `[outputs]`
    pub(super) bias: Address,
    pub(super) inputs: usize,
    pub(super) outputs: usize,
}

/// Two dense layers.
#[derive(Clone, Copy)]
pub(super) struct FeedForward {
    pub(super) dense1: Dense,
    pub(super) dense2: Dense,
}

/// Squeeze and excitation.
#[derive(Clone, Copy)]
pub(super) struct SqueezeExcitation {
    /// `[hidden][channels]`
    pub(super) squeeze: Address,
    /// `[hidden]`
    pub(super) squeeze_bias: Address,
    /// `[hidden][2 * channels]`: transposed; scales, then shifts.
    pub(super) excite: Address,
    /// `[2 * channels]`
    pub(super) excite_bias: Address,
    pub(super) channels: usize,
    pub(super) hidden: usize,
}

/// A residual block.
pub(super) struct Block {
    pub(super) conv1: Convolution,
    pub(super) conv2: Convolution,
    pub(super) se: Option<SqueezeExcitation>,
}

/// The body.
pub(super) enum Body {
    Tower { input: Convolution, blocks: Vec<Block> },
    Attention { embedding: Box<Embedding>, stack: EncoderStack },
}

/// What stands before the encoders.
pub(super) struct Embedding {
    /// Constants after each square's planes, `[64][extra]`, and how many.
    pub(super) table: (Address, usize),
    /// PE_DENSE's layer over the newest pieces, and the embedding's part that reads its result.
    pub(super) position: Option<(Dense, Dense)>,
    pub(super) dense: Dense,
    pub(super) ln: Option<LayerNorm>,
    /// Multiplying and adding gate, `[64][embedding]`.
    pub(super) gates: Option<(Address, Address)>,
    pub(super) ffn: Option<(FeedForward, LayerNorm)>,
}

/// Encoders of one stack and what they share.
pub(super) struct EncoderStack {
    pub(super) encoders: Vec<Encoder>,
    pub(super) heads: usize,
    /// Factor on each branch.
    pub(super) alpha: f32,
    pub(super) ffn_activation: Activation,
    pub(super) smolgen_activation: Activation,
}

/// One encoder.
pub(super) struct Encoder {
    /// Queries, keys, values.
    pub(super) qkv: Dense,
    pub(super) output: Dense,
    pub(super) smolgen: Option<Smolgen>,
    pub(super) ln1: LayerNorm,
    pub(super) ffn: FeedForward,
    pub(super) ln2: LayerNorm,
}

/// One encoder's smolgen.
pub(super) struct Smolgen {
    pub(super) compress: Dense,
    pub(super) dense1: Dense,
    pub(super) ln1: LayerNorm,
    pub(super) dense2: Dense,
    pub(super) ln2: LayerNorm,
    /// Shared by all encoders.
    pub(super) global: Dense,
}

/// The policy head.
pub(super) enum Policy {
    Classical { input: Dense, dense: Dense },
    Convolution { first: Convolution, last: Convolution },
    Attention(Box<AttentionPolicy>),
}

/// A policy head of queries and keys.
pub(super) struct AttentionPolicy {
    pub(super) embedding: Dense,
    pub(super) embedding_activation: Activation,
    pub(super) stack: EncoderStack,
    /// Queries and keys.
    pub(super) query_key: Dense,
    /// Columns of queries, and of keys.
    pub(super) depth: usize,
    /// `[3][depth]`: what a key adds to a promotion to queen, rook, bishop.
    pub(super) promotions: Address,
}

/// Value or moves-left head.
pub(super) struct ScalarHead {
    pub(super) input: Dense,
    pub(super) hidden: Dense,
    pub(super) output: Dense,
}

/// A network on a device.
pub(super) struct DeviceNetwork {
    pub(super) body: Body,
    pub(super) policy: Policy,
    /// Where each of the 1858 policy indices lies among the policy head's logits, `[1858]` of 16 bits.
    pub(super) places: Address,
    pub(super) value: ScalarHead,
    pub(super) moves_left: Option<ScalarHead>,
    pub(super) wdl: bool,
    /// Wherever a layer has none of its own.
    pub(super) activation: Activation,
    pub(super) element: ElementType,
    /// All of it.
    pub(super) memory: Vec<Arc<DeviceBuffer>>,
}

impl DeviceNetwork {
    /// Bytes of device memory.
    pub(super) fn bytes(&self) -> usize {
        self.memory.iter().map(|buffer| buffer.bytes()).sum()
    }

    /// Converts and uploads.
    ///
    /// # Errors
    /// A layer that the kernels cannot run, by name; a weight beyond the element type; the device's memory.
    pub(super) fn new(device: Device, network: &Network, element: ElementType) -> Result<DeviceNetwork> {
        let mut uploader = Uploader { device, element, chunks: Vec::new(), used: 0 };
        let body = uploader.body(network)?;
        let policy = uploader.policy(network)?;
        let places = uploader.places(&policy)?;
        let value = uploader.scalar_head("value head", &network.value)?;
        let moves_left = match &network.moves_left {
            Some(head) => Some(uploader.scalar_head("moves-left head", head)?),
            None => None,
        };
        Ok(DeviceNetwork {
            body,
            policy,
            places,
            value,
            moves_left,
            wdl: network.architecture.wdl,
            activation: network.architecture.default_activation,
            element,
            memory: uploader.chunks,
        })
    }
}

/// Device memory is taken in pieces of this size, as each has a price.
const CHUNK_BYTES: usize = 8 << 20;

/// Every tensor begins at a multiple of this many bytes.
const ALIGNMENT: usize = 256;

/// Fills device memory, tensor by tensor.
struct Uploader {
    device: Device,
    element: ElementType,
    chunks: Vec<Arc<DeviceBuffer>>,
    /// Bytes of the last chunk.
    used: usize,
}

impl Uploader {
    fn bytes(&mut self, what: &str, bytes: &[u8]) -> Result<Address> {
        let chunk = match self.chunks.last() {
            Some(chunk) if chunk.bytes() - self.used >= bytes.len() => Arc::clone(chunk),
            _ => {
                let size = bytes.len().max(CHUNK_BYTES);
                let chunk = Arc::new(DeviceBuffer::zeroed(self.device, size, "weights")?);
                self.chunks.push(Arc::clone(&chunk));
                self.used = 0;
                chunk
            }
        };
        chunk.upload(self.used, bytes, what)?;
        let address = chunk.address().offset(self.used);
        self.used = (self.used + bytes.len()).next_multiple_of(ALIGNMENT).min(chunk.bytes());
        Ok(address)
    }

    fn tensor(&mut self, what: &str, values: &[f32]) -> Result<Address> {
        let bytes = to_bytes(self.element, values)
            .map_err(|value| RocmError::Unsupported(format!("{what}: {value} does not fit fp16")))?;
        self.bytes(what, &bytes)
    }

    fn fp32(&mut self, what: &str, values: &[f32]) -> Result<Address> {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.bytes(what, &bytes)
    }

    /// Biases that are all zero are none.
    fn bias(&mut self, what: &str, values: &[f32]) -> Result<Address> {
        if values.iter().all(|&value| value == 0.0) {
            return Ok(Address::NULL);
        }
        self.tensor(&format!("{what} bias"), &values.repeat(rows_together(values.len())))
    }

    fn matrix(&mut self, what: &str, weights: &[f32], biases: &[f32], inputs: usize) -> Result<Dense> {
        let outputs = weights.len() / inputs.max(1);
        Ok(Dense { weights: self.tensor(what, weights)?, bias: self.bias(what, biases)?, inputs, outputs })
    }

    fn dense(&mut self, what: &str, layer: &file::Dense) -> Result<Dense> {
        self.matrix(what, &layer.weights, &layer.biases, layer.inputs)
    }

    /// A 1x1 convolution is a dense layer per square.
    fn pointwise(&mut self, what: &str, layer: &file::Convolution) -> Result<Dense> {
        self.matrix(what, &layer.weights, &layer.biases, layer.inputs)
    }

    /// A dense layer whose inputs the file flattens as `[channel][square]`.
    fn dense_over_channels(&mut self, what: &str, layer: &file::Dense) -> Result<Dense> {
        let weights = squares_first(&layer.weights, layer.inputs);
        self.matrix(what, &weights, &layer.biases, layer.inputs)
    }

    /// Layers of the same input as one, outputs side by side.
    fn side_by_side(&mut self, what: &str, layers: &[&file::Dense]) -> Result<Dense> {
        let concatenated = |part: fn(&file::Dense) -> &[f32]| -> Vec<f32> {
            layers.iter().flat_map(|layer| part(layer)).copied().collect()
        };
        let inputs = layers.first().map_or(0, |layer| layer.inputs);
        let (weights, biases) = (concatenated(|layer| &layer.weights), concatenated(|layer| &layer.biases));
        self.matrix(what, &weights, &biases, inputs)
    }

    fn layer_norm(&mut self, what: &str, layer: &file::LayerNorm, epsilon: f32) -> Result<LayerNorm> {
        Ok(LayerNorm {
            gammas: self.tensor(&format!("{what} gammas"), &layer.gammas)?,
            betas: self.tensor(&format!("{what} betas"), &layer.betas)?,
            width: layer.gammas.len(),
            epsilon,
        })
    }

    fn convolution(&mut self, what: &str, layer: &file::Convolution) -> Result<Convolution> {
        check_width(what, layer.inputs)?;
        check_width(what, layer.outputs)?;
        let components = winograd::transform_weights(layer);
        let bytes = to_bytes(component_type(self.element), &components)
            .map_err(|value| RocmError::Unsupported(format!("{what}: {value} does not fit fp16")))?;
        Ok(Convolution {
            weights: self.bytes(what, &bytes)?,
            bias: self.tensor(&format!("{what} bias"), &layer.biases)?,
            inputs: layer.inputs,
            outputs: layer.outputs,
        })
    }

    fn feed_forward(&mut self, what: &str, layers: &file::FeedForward) -> Result<FeedForward> {
        check_width(&format!("{what} hidden layer"), layers.dense1.outputs)?;
        Ok(FeedForward {
            dense1: self.dense(&format!("{what} dense1"), &layers.dense1)?,
            dense2: self.dense(&format!("{what} dense2"), &layers.dense2)?,
        })
    }

    fn body(&mut self, network: &Network) -> Result<Body> {
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

    fn policy(&mut self, network: &Network) -> Result<Policy> {
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
    fn places(&mut self, policy: &Policy) -> Result<Address> {
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

    /// The last layer's bias is added in fp32.
    fn scalar_head(&mut self, what: &str, head: &file::ScalarHead) -> Result<ScalarHead> {
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
        let mut output = self.matrix(&format!("{what} output"), &head.output.weights, &[], hidden.outputs)?;
        output.bias = self.fp32(&format!("{what} output bias"), &head.output.biases)?;
        Ok(ScalarHead { input, hidden, output })
    }
}

/// The type of Winograd's components and their weights: in bf16 they would cost four times the error of a
/// direct convolution.
pub(super) fn component_type(element: ElementType) -> ElementType {
    match element {
        ElementType::Fp32 => ElementType::Fp32,
        ElementType::Fp16 | ElementType::Bf16 => ElementType::Fp16,
    }
}

/// The widest head that the attention kernels take.
const LARGEST_HEAD: usize = 128;

/// What the squeeze-and-excitation kernel has room for.
const LARGEST_SE_CHANNELS: usize = 1024;
const LARGEST_SE_HIDDEN: usize = 512;

/// How many rows of this width an elementwise kernel takes as one, so that it reads 8 elements at a time.
pub(super) fn rows_together(width: usize) -> usize {
    1 << 3_u32.saturating_sub(width.trailing_zeros())
}

/// Kernels read 8 elements at a time.
fn check_width(what: &str, width: usize) -> Result<()> {
    if width.is_multiple_of(8) && width > 0 {
        return Ok(());
    }
    Err(RocmError::Unsupported(format!("{what}: {width} channels, but the kernels need a multiple of 8")))
}

/// Rows of `[channel][square]` as `[square][channel]`.
fn squares_first(values: &[f32], row: usize) -> Vec<f32> {
    let channels = row / SQUARES;
    let from = |i: usize| {
        let (start, within) = (i / row * row, i % row);
        start + within % channels * SQUARES + within / channels
    };
    (0..values.len()).map(|i| values[from(i)]).collect()
}

/// Rounds to the element type, nearest even; the error is a value that is beyond it.
fn to_bytes(element: ElementType, values: &[f32]) -> std::result::Result<Vec<u8>, f32> {
    let mut bytes = Vec::with_capacity(values.len() * element.bytes());
    for &value in values {
        match element {
            ElementType::Fp32 => bytes.extend(value.to_le_bytes()),
            ElementType::Bf16 => bytes.extend(bf16::from_f32(value).to_le_bytes()),
            ElementType::Fp16 => {
                let rounded = f16::from_f32(value);
                if !rounded.is_finite() {
                    return Err(value);
                }
                bytes.extend(rounded.to_le_bytes());
            }
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flattened_boards_are_read_square_by_square() {
        // Two rows of two channels: the file's [channel][square] is counted through.
        let row = 2 * SQUARES;
        let values: Vec<f32> = (0..2 * row).map(|i| i as f32).collect();
        let turned = squares_first(&values, row);
        assert_eq!(turned[..4], [0.0, 64.0, 1.0, 65.0]);
        assert_eq!(turned[row..row + 4], [128.0, 192.0, 129.0, 193.0]);
    }

    #[test]
    fn elements_are_rounded_to_nearest_and_never_to_infinity() {
        assert_eq!(to_bytes(ElementType::Bf16, &[1.0 + 1.0 / 256.0]).unwrap(), [0x80, 0x3f]);
        assert_eq!(to_bytes(ElementType::Fp16, &[65504.0]).unwrap(), [0xff, 0x7b]);
        assert_eq!(to_bytes(ElementType::Fp16, &[1e5]), Err(1e5));
        assert_eq!(to_bytes(ElementType::Fp32, &[1e5]).unwrap().len(), 4);
    }

    #[test]
    fn narrow_rows_are_taken_together() {
        for (width, rows) in [(8, 1), (768, 1), (4, 2), (12, 2), (6, 4), (1, 8), (3, 8)] {
            assert_eq!(rows_together(width), rows, "{width}");
            assert!((width * rows).is_multiple_of(8));
        }
    }

    #[test]
    fn widths_that_the_kernels_cannot_read_are_named() {
        assert!(check_width("embedding", 768).is_ok());
        let error = check_width("embedding", 20).unwrap_err().to_string();
        assert_eq!(error, "embedding: 20 channels, but the kernels need a multiple of 8");
    }
}
