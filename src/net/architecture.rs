//! The kind and the sizes of a network, as plain data that has been checked against its layers.

/// The format of the input planes, with the numbers of `net.proto`. [`super::input`] describes them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum InputFormat {
    /// The first format: one plane for each castling right.
    Classical112 = 1,
    /// Castling rights as the squares of the rooks, for Chess960.
    CastlingPlane = 2,
    /// The board is transformed to a canonical orientation.
    Canonical = 3,
    /// [`Self::Canonical`] with the rule-50 counter divided by 100.
    CanonicalHectoplies = 4,
    /// [`Self::CanonicalHectoplies`] with a plane that is set if Black is to move, for armageddon games.
    CanonicalHectopliesArmageddon = 132,
    /// [`Self::CanonicalHectoplies`] with a history of only those positions that are repetitions.
    CanonicalV2 = 5,
    /// [`Self::CanonicalV2`] with a plane that is set if Black is to move, for armageddon games.
    CanonicalV2Armageddon = 133,
}

impl InputFormat {
    /// All formats.
    pub const ALL: [InputFormat; 7] = [
        InputFormat::Classical112,
        InputFormat::CastlingPlane,
        InputFormat::Canonical,
        InputFormat::CanonicalHectoplies,
        InputFormat::CanonicalHectopliesArmageddon,
        InputFormat::CanonicalV2,
        InputFormat::CanonicalV2Armageddon,
    ];

    /// The format with this number in lc0's network files.
    pub fn from_number(number: u32) -> Option<InputFormat> {
        Self::ALL.into_iter().find(|&format| format as u32 == number)
    }
}

/// An activation function. All are elementwise, except that softmax applies to a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "these are the usual names of the functions")]
pub enum Activation {
    /// The identity.
    None,
    Relu,
    /// `max(x, 0)^2`
    Relu2,
    Tanh,
    Sigmoid,
    Selu,
    Mish,
    /// `x sigmoid(x)`, also called SiLU.
    Swish,
    Softmax,
}

impl Activation {
    /// Every activation function.
    pub const ALL: [Activation; 9] = [
        Activation::None,
        Activation::Relu,
        Activation::Relu2,
        Activation::Tanh,
        Activation::Sigmoid,
        Activation::Selu,
        Activation::Mish,
        Activation::Swish,
        Activation::Softmax,
    ];
}

/// The input features of each square in an attention body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InputEmbedding {
    /// The 112 planes.
    None,
    /// The 112 planes and the square's row of a fixed table of 64 x 64 values.
    PeMap,
    /// The 112 planes and the square's share of a dense layer over the 12 piece planes of the newest board.
    PeDense,
}

/// The kind and the sizes of a network without its weights.
#[derive(Clone, PartialEq, Debug)]
pub struct Architecture {
    /// The format of the 112 input planes.
    pub input_format: InputFormat,
    /// The activation of all layers for which the header names no other.
    pub default_activation: Activation,
    /// The body, between the input planes and the heads.
    pub body: BodyKind,
    /// Whether the value head has three outputs (win, draw, loss); otherwise it has one, with tanh.
    pub wdl: bool,
    /// Whether the network has a moves-left head.
    pub moves_left: bool,
}

/// The kind of body and its sizes.
#[derive(Clone, PartialEq, Debug)]
pub enum BodyKind {
    /// A residual tower of 3x3 convolutions.
    Convolution {
        /// The channels of each convolution.
        filters: usize,
        /// The number of residual blocks.
        blocks: usize,
        /// The largest hidden size of the blocks' squeeze-and-excitation units; `None` if no block has one.
        se_channels: Option<usize>,
    },
    /// A transformer encoder stack over the 64 squares.
    Attention {
        /// The width of the residual stream.
        embedding: usize,
        /// The number of encoders.
        encoders: usize,
        /// The number of attention heads in each encoder.
        heads: usize,
        /// The width of the queries (and of the keys, and of the values) of all heads together.
        d_model: usize,
        /// The hidden width of the feed-forward layers.
        ffn: usize,
        /// The input features of each square.
        input_embedding: InputEmbedding,
        /// The sizes of smolgen's layers; `None` if the encoders have no smolgen.
        smolgen: Option<SmolgenShape>,
        /// The activation of the feed-forward layers.
        ffn_activation: Activation,
        /// The activation of smolgen's dense layers.
        smolgen_activation: Activation,
    },
}

/// The sizes of smolgen's layers, which generate attention logits from the whole position.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SmolgenShape {
    /// The channels of each square after compression.
    pub hidden_channels: usize,
    /// The outputs of the first dense layer.
    pub hidden_size: usize,
    /// The outputs of the second dense layer for each head.
    pub generated_size: usize,
}
