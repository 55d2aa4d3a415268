//! The network's layers, packed for the kernels.
//!
//! Made once from the checked [`crate::net::Network`]. What can be settled beforehand is: Q, K and V become
//! one matrix, 1/sqrt(depth) is multiplied into the queries, smolgen's last matrix writes its logits
//! transposed (as [`super::kernels::attention`] keeps them), positional tables and biases become one constant
//! per square, and matrices that read a flattened board read it in our order, `[square][channel]`.

use super::kernels::SQUARES;
use super::kernels::matrix::{Format, PackedMatrix};
use super::kernels::planes::{BoardEmbedding, PlaneConvolution, PlaneEmbedding};
use super::kernels::winograd::PackedConvolution;
use super::simd::Isa;
use crate::net::architecture::{Activation, Architecture, BodyKind, InputEmbedding};
use crate::net::input::InputPlanes;
use crate::net::policy_index::{ATTENTION_LOGITS, POLICY_SIZE, attention_index, convolution_index};
use crate::net::weights as file;
use crate::net::weights::{
    EMBEDDING_LAYER_NORM_EPSILON, LayerNorm, POLICY_LAYER_NORM_EPSILON, positional_value,
};

/// What the packed form depends on.
#[derive(Clone, Copy)]
pub(super) struct Packing {
    /// The instruction set that will run it.
    pub(super) isa: Isa,
    /// The format of the large products. Some stay in fp32: 3x3 convolutions (see
    /// [`super::kernels::winograd`]), and squeeze-and-excitation and the scalar heads, which cost nothing and
    /// whose rounding would go straight into the result.
    pub(super) format: Format,
}

impl Packing {
    fn dense(self, layer: &file::Dense) -> PackedMatrix {
        PackedMatrix::new(self.isa, self.format, &layer.weights, &layer.biases, layer.inputs)
    }

    fn dense_fp32(self, layer: &file::Dense) -> PackedMatrix {
        PackedMatrix::new(self.isa, Format::Fp32, &layer.weights, &layer.biases, layer.inputs)
    }

    /// A 1x1 convolution is a dense layer per square.
    fn pointwise(self, layer: &file::Convolution) -> PackedMatrix {
        PackedMatrix::new(self.isa, self.format, &layer.weights, &layer.biases, layer.inputs)
    }

    /// A dense layer whose inputs the file flattens as `[channel][square]`.
    fn dense_over_channels(self, layer: &file::Dense, format: Format) -> PackedMatrix {
        let channels = layer.inputs / SQUARES;
        PackedMatrix::from_fn(
            self.isa,
            format,
            layer.outputs,
            layer.inputs,
            &layer.biases,
            |output, input| {
                let (square, channel) = (input / channels, input % channels);
                layer.weights[output * layer.inputs + channel * SQUARES + square]
            },
        )
    }

    /// Several layers of the same input as one, outputs side by side; each layer's outputs times its factor.
    fn side_by_side(self, layers: &[(&file::Dense, f32)]) -> PackedMatrix {
        let inputs = layers.first().map_or(0, |(layer, _)| layer.inputs);
        let rows: Vec<(&file::Dense, usize, f32)> = layers
            .iter()
            .flat_map(|&(layer, factor)| (0..layer.outputs).map(move |output| (layer, output, factor)))
            .collect();
        let biases: Vec<f32> =
            rows.iter().map(|&(layer, output, factor)| layer.biases[output] * factor).collect();
        PackedMatrix::from_fn(self.isa, self.format, rows.len(), inputs, &biases, |output, input| {
            let (layer, row, factor) = rows[output];
            layer.weights[row * inputs + input] * factor
        })
    }
}

/// The body.
pub(super) enum Body {
    Tower { input: PlaneConvolution, blocks: Vec<Block> },
    Attention { embedding: Box<Embedding>, encoders: EncoderStack },
}

/// A residual block.
pub(super) struct Block {
    pub(super) conv1: PackedConvolution,
    pub(super) conv2: PackedConvolution,
    /// Squeeze and excite.
    pub(super) se: Option<(PackedMatrix, PackedMatrix)>,
}

/// What stands before the encoders.
pub(super) struct Embedding {
    /// PE_DENSE's positional values, `[64][width]` per position, and the part of the embedding that reads
    /// them.
    pub(super) position: Option<(BoardEmbedding, PackedMatrix)>,
    pub(super) planes: PlaneEmbedding,
    pub(super) ln: Option<LayerNorm>,
    /// Multiplying and adding gate, `[64][embedding]`.
    pub(super) gates: Option<(Vec<f32>, Vec<f32>)>,
    pub(super) ffn: Option<(FeedForward, LayerNorm)>,
    pub(super) width: usize,
}

/// Two dense layers.
pub(super) struct FeedForward {
    pub(super) dense1: PackedMatrix,
    pub(super) dense2: PackedMatrix,
}

/// Encoders of one stack and what they share.
pub(super) struct EncoderStack {
    pub(super) encoders: Vec<Encoder>,
    pub(super) heads: usize,
    /// Factor on each branch.
    pub(super) alpha: f32,
    /// Of the encoders' LayerNorms.
    pub(super) epsilon: f32,
    pub(super) ffn_activation: Activation,
    pub(super) smolgen_activation: Activation,
}

/// One encoder.
pub(super) struct Encoder {
    /// Queries (scaled), keys, values.
    pub(super) qkv: PackedMatrix,
    pub(super) output: PackedMatrix,
    pub(super) smolgen: Option<Smolgen>,
    pub(super) ln1: LayerNorm,
    pub(super) ffn: FeedForward,
    pub(super) ln2: LayerNorm,
}

/// One encoder's part of smolgen.
pub(super) struct Smolgen {
    pub(super) compress: PackedMatrix,
    pub(super) dense1: PackedMatrix,
    pub(super) ln1: LayerNorm,
    pub(super) dense2: PackedMatrix,
    pub(super) ln2: LayerNorm,
}

/// The policy head.
pub(super) enum Policy {
    Classical { input: PackedMatrix, dense: PackedMatrix },
    Convolution { first: PackedConvolution, last: PackedConvolution },
    Attention(Box<AttentionPolicy>),
}

/// A policy head of queries and keys.
pub(super) struct AttentionPolicy {
    pub(super) embedding: PackedMatrix,
    pub(super) embedding_activation: Activation,
    pub(super) stack: EncoderStack,
    /// Queries (scaled) and keys.
    pub(super) query_key: PackedMatrix,
    /// Columns of queries, and of keys.
    pub(super) depth: usize,
    /// From a key to what a promotion to queen, rook or bishop adds: the piece's row plus the shared row.
    pub(super) promotion: PackedMatrix,
}

/// Value or moves-left head.
pub(super) struct ScalarHead {
    pub(super) input: PackedMatrix,
    pub(super) hidden: PackedMatrix,
    pub(super) output: PackedMatrix,
}

impl Packing {
    /// Takes blocks and encoders out of the network as it packs them: they are nearly all of it, and a large
    /// network would else be in memory twice.
    pub(super) fn body(self, network: &mut file::Network) -> Body {
        let alpha = network.residual_alpha();
        match &mut network.body {
            file::Body::Convolution { input, blocks } => Body::Tower {
                input: PlaneConvolution::new(self.isa, input),
                blocks: blocks.drain(..).map(|block| self.block(&block)).collect(),
            },
            file::Body::Attention {
                embedding, encoders, heads, ffn_activation, smolgen_activation, ..
            } => Body::Attention {
                embedding: Box::new(self.embedding(embedding, &network.architecture)),
                encoders: EncoderStack {
                    encoders: encoders.drain(..).map(|encoder| self.encoder(&encoder, *heads)).collect(),
                    heads: *heads,
                    alpha,
                    epsilon: network.layer_norm_epsilon,
                    ffn_activation: *ffn_activation,
                    smolgen_activation: *smolgen_activation,
                },
            },
        }
    }

    /// Smolgen's last matrix, with its outputs `[key][query]` where the file has `[query][key]`.
    pub(super) fn smolgen_global(self, body: &file::Body) -> Option<PackedMatrix> {
        let file::Body::Attention { smolgen_global: Some(global), .. } = body else {
            return None;
        };
        let from_file = |output: usize| output % SQUARES * SQUARES + output / SQUARES;
        let biases: Vec<f32> =
            (0..global.biases.len()).map(|output| global.biases[from_file(output)]).collect();
        Some(PackedMatrix::from_fn(
            self.isa,
            self.format,
            global.outputs,
            global.inputs,
            &biases,
            |output, input| global.weights[from_file(output) * global.inputs + input],
        ))
    }

    fn block(self, block: &file::ResidualBlock) -> Block {
        Block {
            conv1: PackedConvolution::new(self.isa, &block.conv1),
            conv2: PackedConvolution::new(self.isa, &block.conv2),
            se: block.se.as_ref().map(|se| (self.dense_fp32(&se.squeeze), self.dense_fp32(&se.excite))),
        }
    }

    fn embedding(self, layers: &file::Embedding, architecture: &Architecture) -> Embedding {
        let file::Dense { weights, biases, inputs, outputs } = &layers.dense;
        let weight = |output: usize, input: usize| weights[output * inputs + input];
        let has_map =
            matches!(architecture.body, BodyKind::Attention { input_embedding: InputEmbedding::PeMap, .. });
        let constant = |square: usize, output: usize| {
            let table: f32 = (0..SQUARES)
                .filter(|_| has_map)
                .map(|other| positional_value(square, other) * weight(output, InputPlanes::COUNT + other))
                .sum();
            biases[output] + table
        };
        let transposed = |gate: &[f32]| -> Vec<f32> {
            (0..SQUARES * outputs).map(|i| gate[i % outputs * SQUARES + i / outputs]).collect()
        };
        Embedding {
            position: layers.preprocess.as_ref().map(|preprocess| {
                let reader = PackedMatrix::from_fn(
                    self.isa,
                    self.format,
                    *outputs,
                    inputs - InputPlanes::COUNT,
                    &[],
                    |output, input| weight(output, InputPlanes::COUNT + input),
                );
                (BoardEmbedding::new(self.isa, preprocess), reader)
            }),
            planes: PlaneEmbedding::new(self.isa, *outputs, weight, constant),
            ln: layers.ln.clone(),
            gates: match (&layers.multiply_gate, &layers.add_gate) {
                (Some(multiply), Some(add)) => Some((transposed(multiply), transposed(add))),
                _ => None,
            },
            ffn: layers.ffn.as_ref().map(|(ffn, ln)| (self.feed_forward(ffn), ln.clone())),
            width: *outputs,
        }
    }

    fn feed_forward(self, ffn: &file::FeedForward) -> FeedForward {
        FeedForward { dense1: self.dense(&ffn.dense1), dense2: self.dense(&ffn.dense2) }
    }

    fn encoder(self, encoder: &file::Encoder, heads: usize) -> Encoder {
        let depth = encoder.q.outputs / heads;
        Encoder {
            qkv: self.side_by_side(&[(&encoder.q, query_scale(depth)), (&encoder.k, 1.0), (&encoder.v, 1.0)]),
            output: self.dense(&encoder.output),
            smolgen: encoder.smolgen.as_ref().map(|smolgen| Smolgen {
                compress: self.dense(&smolgen.compress),
                dense1: self.dense(&smolgen.dense1),
                ln1: smolgen.ln1.clone(),
                dense2: self.dense(&smolgen.dense2),
                ln2: smolgen.ln2.clone(),
            }),
            ln1: encoder.ln1.clone(),
            ffn: self.feed_forward(&encoder.ffn),
            ln2: encoder.ln2.clone(),
        }
    }

    pub(super) fn policy(self, network: &file::Network) -> Policy {
        match &network.policy {
            file::PolicyHead::Classical { convolution, dense } => Policy::Classical {
                input: self.pointwise(convolution),
                dense: self.dense_over_channels(dense, self.format),
            },
            file::PolicyHead::Convolution { convolution, output } => Policy::Convolution {
                first: PackedConvolution::new(self.isa, convolution),
                last: PackedConvolution::new(self.isa, output),
            },
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
                let depth = query.outputs;
                let row = |row: usize, input: usize| promotion.weights[row * depth + input];
                let (smolgen_activation, _) = network.smolgen();
                Policy::Attention(Box::new(AttentionPolicy {
                    embedding: self.dense(embedding),
                    embedding_activation: *embedding_activation,
                    stack: EncoderStack {
                        encoders: encoders.iter().map(|encoder| self.encoder(encoder, *heads)).collect(),
                        heads: *heads,
                        alpha: 1.0,
                        epsilon: POLICY_LAYER_NORM_EPSILON,
                        ffn_activation: *ffn_activation,
                        smolgen_activation,
                    },
                    query_key: self.side_by_side(&[(query, query_scale(depth)), (key, 1.0)]),
                    depth,
                    promotion: PackedMatrix::from_fn(
                        self.isa,
                        Format::Fp32,
                        3,
                        depth,
                        &[],
                        |piece, input| row(piece, input) + row(3, input),
                    ),
                }))
            }
        }
    }

    pub(super) fn scalar_head(self, head: &file::ScalarHead) -> ScalarHead {
        let fp32 = Packing { format: Format::Fp32, ..self };
        match &head.input {
            file::HeadInput::Convolution(convolution) => ScalarHead {
                input: fp32.pointwise(convolution),
                hidden: fp32.dense_over_channels(&head.hidden, Format::Fp32),
                output: fp32.dense(&head.output),
            },
            file::HeadInput::Dense(dense) => ScalarHead {
                input: fp32.dense(dense),
                hidden: fp32.dense(&head.hidden),
                output: fp32.dense(&head.output),
            },
        }
    }
}

/// 1/sqrt(depth), which a score is multiplied by.
pub(super) fn query_scale(depth: usize) -> f32 {
    (1.0 / (depth as f64).sqrt()) as f32
}

impl Policy {
    /// Numbers that the head makes for a position.
    pub(super) fn width(&self) -> usize {
        match self {
            Policy::Classical { dense, .. } => dense.outputs(),
            Policy::Convolution { last, .. } => SQUARES * last.outputs(),
            Policy::Attention(_) => ATTENTION_LOGITS,
        }
    }

    /// Where among them each of the 1858 policy logits lies.
    pub(super) fn places(&self) -> Vec<u32> {
        let mut places: Vec<u32> = (0..POLICY_SIZE as u32).collect();
        let mut set = |index: Option<u16>, place: usize| {
            if let Some(index) = index {
                places[usize::from(index)] = place as u32;
            }
        };
        match self {
            Policy::Classical { .. } => {}
            Policy::Convolution { last, .. } => {
                // The file's order is [plane][square].
                for plane in 0..last.outputs() {
                    for square in 0..SQUARES {
                        set(convolution_index(plane * SQUARES + square), square * last.outputs() + plane);
                    }
                }
            }
            Policy::Attention(_) => {
                for logit in 0..ATTENTION_LOGITS {
                    let (from, to) = (logit / SQUARES, logit % SQUARES);
                    let is_promotion = logit >= SQUARES * SQUARES;
                    // Scores are kept [to][from], promotions follow in the file's order.
                    set(attention_index(logit), if is_promotion { logit } else { to * SQUARES + from });
                }
            }
        }
        places
    }
}

/// Of smolgen's and a PE_DENSE embedding's LayerNorms.
pub(super) const EPSILON: f32 = EMBEDDING_LAYER_NORM_EPSILON;
