//! A network's weights as fp32, in lc0's layouts, every size checked against the architecture.

use super::architecture::{Activation, Architecture, BodyKind};

/// Added to the variance in a policy head's encoders, whatever the body's encoders use. (lc0's ONNX path uses
/// the body's epsilon here, its own CPU backend this one; they differ for a PE_DENSE network with policy
/// encoders, and we follow the CPU backend, which made our golden figures.)
pub const POLICY_LAYER_NORM_EPSILON: f32 = 1e-6;

/// Added to the variance in the LayerNorms of a body's encoders, but for PE_DENSE, where it is
/// [`EMBEDDING_LAYER_NORM_EPSILON`].
pub const ENCODER_LAYER_NORM_EPSILON: f32 = 1e-6;

/// Added to the variance in smolgen's two LayerNorms and in the two of a PE_DENSE embedding.
pub const EMBEDDING_LAYER_NORM_EPSILON: f32 = 1e-3;

/// A dense layer: `y = x W^T + b`.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Dense {
    /// Row major `[outputs][inputs]`.
    pub weights: Vec<f32>,
    /// `[outputs]`; zeros where the file has none (compress, ppo, smolgen_w).
    pub biases: Vec<f32>,
    /// Columns of `weights`.
    pub inputs: usize,
    /// Rows of `weights`.
    pub outputs: usize,
}

/// A convolution with stride 1 and same padding, batch normalisation already folded in.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Convolution {
    /// `[out][in][size][size]`.
    pub weights: Vec<f32>,
    /// `[out]`.
    pub biases: Vec<f32>,
    /// Input channels.
    pub inputs: usize,
    /// Output channels.
    pub outputs: usize,
    /// 1 or 3.
    pub size: usize,
}

/// Scale and shift of a LayerNorm.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs, reason = "the names say it")]
pub struct LayerNorm {
    pub gammas: Vec<f32>,
    pub betas: Vec<f32>,
}

/// Squeeze and excitation.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs, reason = "the names say it")]
pub struct SqueezeExcitation {
    pub squeeze: Dense,
    /// Outputs `2 * filters`: first half through a sigmoid scales, second half is added.
    pub excite: Dense,
}

/// One residual block.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs, reason = "the names say it")]
pub struct ResidualBlock {
    pub conv1: Convolution,
    pub conv2: Convolution,
    pub se: Option<SqueezeExcitation>,
}

/// One encoder's smolgen.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Smolgen {
    pub compress: Dense,
    pub dense1: Dense,
    pub ln1: LayerNorm,
    pub dense2: Dense,
    pub ln2: LayerNorm,
}

/// Two dense layers.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs, reason = "the names say it")]
pub struct FeedForward {
    pub dense1: Dense,
    pub dense2: Dense,
}

/// One transformer encoder.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Encoder {
    pub q: Dense,
    pub k: Dense,
    pub v: Dense,
    pub output: Dense,
    pub smolgen: Option<Smolgen>,
    pub ln1: LayerNorm,
    pub ffn: FeedForward,
    pub ln2: LayerNorm,
}

/// What stands before the encoders.
#[derive(Clone, Debug, Default)]
pub struct Embedding {
    /// PE_DENSE's layer over 12 x 64 inputs.
    pub preprocess: Option<Dense>,
    /// The embedding itself.
    pub dense: Dense,
    /// PE_DENSE's LayerNorm.
    pub ln: Option<LayerNorm>,
    /// Multiplying gate, `[embedding][64]` in the file's layout.
    pub multiply_gate: Option<Vec<f32>>,
    /// Adding gate, `[embedding][64]`.
    pub add_gate: Option<Vec<f32>>,
    /// PE_DENSE's feed-forward and LayerNorm.
    pub ffn: Option<(FeedForward, LayerNorm)>,
}

/// The body.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Body {
    Convolution {
        input: Convolution,
        blocks: Vec<ResidualBlock>,
    },
    Attention {
        embedding: Box<Embedding>,
        encoders: Vec<Encoder>,
        heads: usize,
        /// `[4096][generated_size]`, shared by all encoders.
        smolgen_global: Option<Dense>,
        ffn_activation: Activation,
        smolgen_activation: Activation,
    },
}

/// The selected policy head.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub enum PolicyHead {
    /// 1x1 convolution, then dense to 1858.
    Classical { convolution: Convolution, dense: Dense },
    /// 3x3 convolution, then 3x3 to 73 used planes (of 80), mapped to 1858.
    Convolution { convolution: Convolution, output: Convolution },
    /// Query x key over squares, with promotion offsets.
    Attention {
        embedding: Dense,
        embedding_activation: Activation,
        encoders: Vec<Encoder>,
        heads: usize,
        ffn_activation: Activation,
        query: Dense,
        key: Dense,
        /// `[4][d]`: queen, rook, bishop, shared.
        promotion: Dense,
    },
}

/// The first layer of value and moves-left heads: a 1x1 convolution (convolution body) or a dense layer per
/// square (attention body); same arithmetic, different layout of the flattened result.
#[derive(Clone, PartialEq, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub enum HeadInput {
    /// Flattened as `[channel][square]`.
    Convolution(Convolution),
    /// Flattened as `[square][channel]`.
    Dense(Dense),
}

/// Value, value-error or moves-left head.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct ScalarHead {
    pub input: HeadInput,
    pub hidden: Dense,
    pub output: Dense,
}

impl ScalarHead {
    /// Whether the two are outputs of the same hidden layer.
    pub fn shares_hidden_layer(&self, other: &ScalarHead) -> bool {
        self.input == other.input && self.hidden == other.hidden
    }
}

/// A whole network, ready for a backend.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Network {
    pub architecture: Architecture,
    pub body: Body,
    pub policy: PolicyHead,
    pub value: ScalarHead,
    pub moves_left: Option<ScalarHead>,
    /// How far the value may be off, after a sigmoid; where it is wanted, and the file has it.
    pub value_error: Option<ScalarHead>,
    /// Of the body's encoder LayerNorms: [`ENCODER_LAYER_NORM_EPSILON`], or with PE_DENSE
    /// [`EMBEDDING_LAYER_NORM_EPSILON`].
    pub layer_norm_epsilon: f32,
}

impl Network {
    /// The factor on every branch of the body before it joins the residual stream:
    /// `y = LN(alpha * branch + x)` with `alpha = (2 * encoders)^(-1/4)`, in the encoders as in a PE_DENSE
    /// embedding's feed-forward. Policy encoders have 1. Meaningless (1) for a residual tower.
    pub fn residual_alpha(&self) -> f32 {
        match self.architecture.body {
            BodyKind::Attention { encoders, .. } => (2.0 * encoders as f64).powf(-0.25) as f32,
            BodyKind::Convolution { .. } => 1.0,
        }
    }

    /// Smolgen's activation and its last matrix, which the encoders of the body and of the policy head share.
    pub fn smolgen(&self) -> (Activation, Option<&Dense>) {
        match &self.body {
            Body::Attention { smolgen_activation, smolgen_global, .. } => {
                (*smolgen_activation, smolgen_global.as_ref())
            }
            Body::Convolution { .. } => (Activation::None, None),
        }
    }
}

/// PE_MAP's fixed table: -1 on the square itself, 1 where a queen or a knight on `square` could go on an
/// empty board, else 0.
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
