//! The structure of a network: its layers and the order in which they are applied.
//!
//! The structure is declared once and is generic over [`Layers`], the types of the layers. [`FileLayers`] are the
//! layers of a file ([`super::weights`]). Each backend has its own types, and [`super::prepare`] makes its layers from
//! the file's. A layer of a backend is called *prepared*. If its layout differs from the file's, the field's
//! documentation gives both layouts.

use super::architecture::{Activation, Architecture};
use super::weights::{Convolution, Dense, HeadInput, LayerNorm};
use std::fmt::Debug;

/// The types of a network's layers.
pub trait Layers {
    /// A dense layer.
    type Dense: Clone + Debug;
    /// A 3x3 convolution.
    type Convolution: Clone + Debug;
    /// A LayerNorm.
    type LayerNorm: Clone + Debug;
    /// One value for each square and channel.
    type Gate: Clone + Debug;
    /// The 3x3 convolution that reads the input planes.
    type InputConvolution: Clone + Debug;
    /// The dense layer that reads the input planes of one square, and a constant table with a row for each square.
    type PlaneEmbedding: Clone + Debug;
    /// The dense layer that reads all pieces of the newest board.
    type BoardEmbedding: Clone + Debug;
    /// Dense layers from the same input to queries, keys and values.
    type QueryKeyValue: Clone + Debug;
    /// Dense layers from the same input to queries and keys.
    type QueryKey: Clone + Debug;
    /// The first layer of a head, which is applied to each square.
    type HeadInput: Clone + Debug;
}

/// Layers in memory as fp32, with the file's layouts.
#[derive(Clone, Copy, Debug)]
pub struct FileLayers;

impl Layers for FileLayers {
    type Dense = Dense;
    type Convolution = Convolution;
    type LayerNorm = LayerNorm;
    type Gate = Vec<f32>;
    type InputConvolution = Convolution;
    type PlaneEmbedding = Dense;
    type BoardEmbedding = Dense;
    type QueryKeyValue = [Dense; 3];
    type QueryKey = [Dense; 2];
    type HeadInput = HeadInput;
}

/// A whole network with the selected heads.
#[derive(Clone, Debug)]
pub struct Network<L: Layers = FileLayers> {
    /// The kinds of the layers, and their sizes.
    pub architecture: Architecture,
    /// The layers from the input planes to the channels of each square.
    pub body: Body<L>,
    /// Smolgen's last layer, which the encoders of the body and of the policy head share. It maps the values of one
    /// head to 4096 attention logits: `[query][key]` in the file, and in the backend's
    /// [`super::prepare::ScoreOrder`] when prepared.
    pub smolgen_global: Option<L::Dense>,
    /// The selected policy head.
    pub policy: PolicyHead<L>,
    /// The selected value head. Its outputs are win, draw and loss before their softmax, or q alone before its tanh.
    pub value: ScalarHead<L>,
    /// The head for the expected error of the value, before a sigmoid. `None` unless the selection asks for it and the
    /// file has it.
    pub value_error: Option<ValueError<L>>,
    /// The moves-left head: plies to the end of the game, before a ReLU.
    pub moves_left: Option<ScalarHead<L>>,
}

/// All layers up to the heads.
#[derive(Clone, Debug)]
pub enum Body<L: Layers = FileLayers> {
    /// A residual tower.
    Convolution {
        /// Maps the 112 planes to the tower's channels.
        input: L::InputConvolution,
        /// The blocks in their order.
        blocks: Vec<ResidualBlock<L>>,
    },
    /// A stack of encoders.
    Attention {
        /// Maps the planes to the residual stream.
        embedding: Box<Embedding<L>>,
        /// The encoders.
        stack: EncoderStack<L>,
    },
}

/// A residual block: `x = act(SE(conv2(act(conv1(x)))) + x)`.
#[derive(Clone, Debug)]
pub struct ResidualBlock<L: Layers = FileLayers> {
    /// Reads the block's input.
    pub conv1: L::Convolution,
    /// Reads the result of `conv1`.
    pub conv2: L::Convolution,
    /// Applied to the result of `conv2`.
    pub se: Option<SqueezeExcitation<L>>,
}

/// Squeeze and excitation: computes a factor and an offset for each channel from the means of all channels over the
/// squares.
#[derive(Clone, Debug)]
pub struct SqueezeExcitation<L: Layers = FileLayers> {
    /// Maps the channels' means to the hidden units.
    pub squeeze: L::Dense,
    /// Has `2 * channels` outputs. After a sigmoid the first half are factors; the second half are offsets.
    pub excite: L::Dense,
}

/// The layers from the input planes to the residual stream of an attention body.
#[derive(Clone, Debug)]
pub struct Embedding<L: Layers = FileLayers> {
    /// Reads the 112 planes of a square. With PE_MAP the file's layer has 64 more inputs, which are a row of the table
    /// of [`super::weights::positional_value`].
    pub planes: L::PlaneEmbedding,
    /// PE_DENSE's layers. Their result is added to the result of `planes` before the activation.
    pub position: Option<PositionLayers<L>>,
    /// PE_DENSE's LayerNorm after the activation.
    pub ln: Option<L::LayerNorm>,
    /// Applied after `ln`.
    pub gates: Option<Gates<L>>,
    /// PE_DENSE's feed-forward and the LayerNorm that joins it to the residual stream.
    pub ffn: Option<(FeedForward<L>, L::LayerNorm)>,
    /// Channels of the residual stream.
    pub width: usize,
}

/// PE_DENSE's positional encoding.
#[derive(Clone, Debug)]
pub struct PositionLayers<L: Layers = FileLayers> {
    /// Maps the newest board's pieces, `[64][12]`, to several values for each square, `[64][values]`.
    pub board: L::BoardEmbedding,
    /// Maps a square's values to the residual stream. In the file these are the columns of the embedding that follow
    /// the columns of the planes.
    pub reader: L::Dense,
}

/// `y = x * multiply + add`, each `[channel][square]` in the file and `[square][channel]` when prepared.
#[derive(Clone, Debug)]
pub struct Gates<L: Layers = FileLayers> {
    /// The factor of each channel on each square.
    pub multiply: L::Gate,
    /// The offset of each channel on each square.
    pub add: L::Gate,
}

/// A stack of encoders, and the settings that they share.
#[derive(Clone, Debug)]
pub struct EncoderStack<L: Layers = FileLayers> {
    /// The encoders in their order.
    pub encoders: Vec<Encoder<L>>,
    /// The number of attention heads in each encoder, at least 1.
    pub heads: usize,
    /// The factor of every branch when it is added to the residual stream: `y = LN(alpha * branch + x)`. In a body it
    /// is `(2 * encoders)^(-1/4)`, also for the feed-forward of a PE_DENSE embedding. In a policy head it is 1.
    pub alpha: f32,
    /// The activation between the two layers of a feed-forward block.
    pub ffn_activation: Activation,
    /// The activation after each of smolgen's two dense layers with biases.
    pub smolgen_activation: Activation,
}

/// One transformer encoder.
#[derive(Clone, Debug)]
pub struct Encoder<L: Layers = FileLayers> {
    /// Queries, keys and values, each `[heads * depth]` wide. A prepared layer has the three side by side.
    pub qkv: L::QueryKeyValue,
    /// Maps the concatenated results of the heads to the residual stream.
    pub output: L::Dense,
    /// Computes logits that are added to the products of queries and keys.
    pub smolgen: Option<Smolgen<L>>,
    /// The LayerNorm after the attention branch is added to the residual stream.
    pub ln1: L::LayerNorm,
    /// Maps the residual stream to a hidden layer and back.
    pub ffn: FeedForward<L>,
    /// The LayerNorm after the feed-forward branch is added to the residual stream.
    pub ln2: L::LayerNorm,
}

/// One encoder's part of smolgen. Its result goes through [`Network::smolgen_global`], which all encoders share.
#[derive(Clone, Debug)]
pub struct Smolgen<L: Layers = FileLayers> {
    /// Maps the residual stream of one square to a few channels.
    pub compress: L::Dense,
    /// Reads the compressed channels of all squares, `[square][channel]`.
    pub dense1: L::Dense,
    /// Applied after the activation of `dense1`.
    pub ln1: L::LayerNorm,
    /// Outputs `[heads][generated]`.
    pub dense2: L::Dense,
    /// Applied after the activation of `dense2`, over all its outputs together.
    pub ln2: L::LayerNorm,
}

/// Two dense layers with an activation between them.
#[derive(Clone, Debug)]
pub struct FeedForward<L: Layers = FileLayers> {
    /// Maps the input to the hidden layer.
    pub dense1: L::Dense,
    /// Maps the hidden layer to the output.
    pub dense2: L::Dense,
}

/// The selected policy head.
#[derive(Clone, Debug)]
pub enum PolicyHead<L: Layers = FileLayers> {
    /// A 1x1 convolution, then a dense layer to 1858 logits.
    Classical {
        /// Applied to each square.
        input: L::HeadInput,
        /// Reads the flattened board: in the order of [`HeadInput`] in the file, `[square][channel]` when prepared.
        dense: L::Dense,
    },
    /// Two 3x3 convolutions. The second writes 80 planes, of which 73 are used.
    Convolution {
        /// Keeps the number of channels.
        first: L::Convolution,
        /// Writes the 80 planes of logits.
        last: L::Convolution,
    },
    /// The logits are products of queries and keys.
    Attention(Box<AttentionPolicy<L>>),
}

/// A policy head whose logit for a move is the query of its from-square times the key of its to-square.
#[derive(Clone, Debug)]
pub struct AttentionPolicy<L: Layers = FileLayers> {
    /// Applied to each square.
    pub embedding: L::Dense,
    /// The activation after `embedding`.
    pub embedding_activation: Activation,
    /// The head's own encoders. Most networks have none.
    pub stack: EncoderStack<L>,
    /// Queries and keys, each [`AttentionPolicy::depth`] wide. A prepared layer has the two side by side.
    pub query_key: L::QueryKey,
    /// The width of a query and of a key.
    pub depth: usize,
    /// Maps the key of the to-square to the offsets of the promotions' logits. The file has `[4][depth]`: queen, rook,
    /// bishop, and a row that is added to each of these three. The prepared layer is `[3][depth]` with that row added.
    pub promotion: L::Dense,
}

/// A value, value-error or moves-left head.
#[derive(Clone, Debug)]
pub struct ScalarHead<L: Layers = FileLayers> {
    /// Applied to each square.
    pub input: L::HeadInput,
    /// Reads the flattened board: in the order of [`HeadInput`] in the file, `[square][channel]` when prepared.
    pub hidden: L::Dense,
    /// The output layer, with one or three outputs.
    pub output: L::Dense,
}

/// The head that computes the error of the value.
#[derive(Clone, Debug)]
pub enum ValueError<L: Layers = FileLayers> {
    /// The value head has a second output layer, on the same hidden layer.
    ValueHead {
        /// The output layer, with one output.
        output: L::Dense,
    },
    /// The error has its own head.
    Own(ScalarHead<L>),
}

impl ValueError {
    /// Makes the error head from `head`. If `head` has the same layers as `value` up to the output layer, only its
    /// output layer is kept.
    pub fn of_head(head: ScalarHead, value: &ScalarHead) -> ValueError {
        match head.input == value.input && head.hidden == value.hidden {
            true => ValueError::ValueHead { output: head.output },
            false => ValueError::Own(head),
        }
    }

    /// The output layer of the error.
    pub fn output_mut(&mut self) -> &mut Dense {
        match self {
            ValueError::ValueHead { output } => output,
            ValueError::Own(head) => &mut head.output,
        }
    }
}

impl<L: Layers> Network<L> {
    /// The activation of all layers that do not have their own.
    pub fn activation(&self) -> Activation {
        self.architecture.default_activation
    }
}
