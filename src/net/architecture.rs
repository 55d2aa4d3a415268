//! What a network is made of, as checked plain data.

/// The input planes' format, by lc0's number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum InputFormat {
    /// The first: castling rights as whole planes.
    Classical112 = 1,
    /// Castling rights as rook squares.
    CastlingPlane = 2,
    /// Board transformed to a canonical orientation.
    Canonical = 3,
    /// Canonical, with the rule-50 counter in hundredths.
    CanonicalHectoplies = 4,
    /// Canonical hectoplies with an armageddon plane.
    CanonicalHectopliesArmageddon = 132,
    /// Only repeated positions in the history.
    CanonicalV2 = 5,
    /// Version 2 with an armageddon plane.
    CanonicalV2Armageddon = 133,
}

/// Elementwise functions (softmax: over the row).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Activation {
    None,
    Relu,
    Relu2,
    Tanh,
    Sigmoid,
    Selu,
    Mish,
    Swish,
    Softmax,
}

/// How an attention body's input is embedded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InputEmbedding {
    /// Planes only.
    None,
    /// Planes and lc0's fixed 64 x 64 positional table.
    PeMap,
    /// Planes and a dense layer over the newest board's 12 piece planes.
    PeDense,
}

/// Sizes and kinds of everything in the network: all that a reader, a FLOP count or a kernel choice needs.
#[derive(Clone, PartialEq, Debug)]
pub struct Architecture {
    /// The input planes' format.
    pub input_format: InputFormat,
    /// The activation wherever none is given.
    pub default_activation: Activation,
    /// Body.
    pub body: BodyKind,
    /// Whether the value head gives win, draw, loss (else one tanh).
    pub wdl: bool,
    /// Whether there is a moves-left head.
    pub moves_left: bool,
}

/// The two kinds of body.
#[derive(Clone, PartialEq, Debug)]
pub enum BodyKind {
    /// A residual tower of 3x3 convolutions.
    Convolution {
        /// Channels.
        filters: usize,
        /// Residual blocks.
        blocks: usize,
        /// Squeeze-and-excitation hidden size, the largest of all blocks; `None`: no SE.
        se_channels: Option<usize>,
    },
    /// A transformer encoder stack over the 64 squares.
    Attention {
        /// Width of the residual stream.
        embedding: usize,
        /// Encoders.
        encoders: usize,
        /// Heads.
        heads: usize,
        /// Width of q, k, v all heads together.
        d_model: usize,
        /// Feed-forward hidden width.
        ffn: usize,
        /// How the input is embedded.
        input_embedding: InputEmbedding,
        /// The sizes of smolgen's layers; `None`: no smolgen.
        smolgen: Option<SmolgenShape>,
        /// FFN activation.
        ffn_activation: Activation,
        /// Smolgen activation.
        smolgen_activation: Activation,
    },
}

/// Sizes of smolgen's layers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SmolgenShape {
    /// Channels a square after compression.
    pub hidden_channels: usize,
    /// Width of the first dense layer.
    pub hidden_size: usize,
    /// Width per head of the second dense layer.
    pub generated_size: usize,
}
