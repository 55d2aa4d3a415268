//! A file's layers as fp32, in lc0's layouts.
//!
//! [`super::network`] says which layers a network has. The sizes of its layers have been checked against each other.

/// Added to the variance in the LayerNorms of a policy head's encoders, whatever the body's encoders use. (lc0's ONNX
/// path uses the body's epsilon here, while its CPU backend uses this value. The two differ for a PE_DENSE network with
/// policy encoders. Rukh follows the CPU backend, which computed the golden values of the tests.)
pub const POLICY_LAYER_NORM_EPSILON: f32 = 1e-6;

/// Added to the variance in the LayerNorms of a body's encoders, except in a PE_DENSE network, which uses
/// [`EMBEDDING_LAYER_NORM_EPSILON`].
pub const ENCODER_LAYER_NORM_EPSILON: f32 = 1e-6;

/// Added to the variance in smolgen's two LayerNorms and in the two LayerNorms of a PE_DENSE embedding.
pub const EMBEDDING_LAYER_NORM_EPSILON: f32 = 1e-3;

/// A dense layer: `y = x W^T + b`.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Dense {
    /// Row major `[outputs][inputs]`.
    pub weights: Vec<f32>,
    /// `[outputs]`. Zeros if the file has no biases (smolgen's compression and last layer, the promotion offsets).
    pub biases: Vec<f32>,
    /// The number of inputs, which are the columns of `weights`.
    pub inputs: usize,
    /// The number of outputs, which are the rows of `weights`.
    pub outputs: usize,
}

/// A convolution with stride 1, and with zero padding that keeps the board's size. Its batch normalisation has been
/// folded in.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Convolution {
    /// `[outputs][inputs][size][size]`.
    pub weights: Vec<f32>,
    /// `[outputs]`.
    pub biases: Vec<f32>,
    /// The number of input channels.
    pub inputs: usize,
    /// The number of output channels.
    pub outputs: usize,
    /// The width and the height of the kernel: 1 or 3.
    pub size: usize,
}

/// A LayerNorm: `y = (x - mean) / sqrt(variance + epsilon) * gamma + beta`, over one row of x.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct LayerNorm {
    /// Factors, `[width]`.
    pub gammas: Vec<f32>,
    /// Offsets, `[width]`.
    pub betas: Vec<f32>,
    /// One of the constants of this module, because files do not contain the epsilon.
    pub epsilon: f32,
}

/// The first layer of a head: a 1x1 convolution on a residual tower, or a dense layer per square on an attention
/// body. Both do the same arithmetic, but the next layer reads the flattened result in different orders.
#[derive(Clone, PartialEq, Debug)]
pub enum HeadInput {
    /// The result is flattened as `[channel][square]`.
    Convolution(Convolution),
    /// The result is flattened as `[square][channel]`.
    Dense(Dense),
}

/// An entry of PE_MAP's fixed table: -1 if `other` is `square` itself, 1 if a queen or a knight on `square` could reach
/// `other` on an empty board, and 0 otherwise.
pub fn positional_value(square: usize, other: usize) -> f32 {
    let ranks = (square / 8).abs_diff(other / 8);
    let files = (square % 8).abs_diff(other % 8);
    match (ranks, files) {
        (0, 0) => -1.0,
        (0, _) | (_, 0) | (1, 2) | (2, 1) => 1.0,
        (ranks, files) if ranks == files => 1.0,
        _ => 0.0,
    }
}
