//! The interface between the traversal of a network's layers and a backend.

use super::super::network::Layers;
use super::super::weights::{Convolution, Dense, LayerNorm};

/// The role of a dense layer. A backend may hold layers of different roles in different formats.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DenseRole {
    /// Queries, keys and values, the output of attention, or a layer of a feed-forward network: nearly all of the
    /// arithmetic of an attention body.
    Encoder,
    /// A layer of smolgen, which generates the logits of attention.
    Smolgen,
    /// Any other product of the body or the policy head.
    Product,
    /// The layer from the channels' means to the hidden units of squeeze-and-excitation.
    Squeeze,
    /// The layer from these hidden units to factors and offsets.
    Excite,
    /// The first or the hidden layer of a value, value-error or moves-left head.
    ScalarHead,
    /// The output layer of a value, value-error or moves-left head.
    ScalarOutput,
    /// The layer from a key to the offsets of promotions to queen, rook and bishop, `[3][depth]`. It has no bias.
    Promotion,
}

/// The order of the 64 x 64 scores of queries and keys in a backend. Smolgen's logits and the logits of an attention
/// policy have the same order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScoreOrder {
    /// `[query][key]`, as in the file. In a policy head: `[from][to]`.
    QueryFirst,
    /// `[key][query]`. In a policy head: `[to][from]`.
    KeyFirst,
}

/// Takes the layers of a network and holds them in a backend's types: packed for a processor, or in a device's memory.
///
/// The names of layers are for error messages.
pub trait LayerStore:
    Layers<
        QueryKeyValue = <Self as Layers>::Dense,
        QueryKey = <Self as Layers>::Dense,
        HeadInput = <Self as Layers>::Dense,
    >
{
    /// The reason why the backend cannot hold a layer.
    type Error;

    /// The order of the backend's attention scores.
    const SCORE_ORDER: ScoreOrder;

    /// Whether the weights of the queries are multiplied by `1/sqrt(depth)` beforehand. If not, the backend's kernels
    /// multiply the scores by this factor.
    const SCALES_QUERIES: bool;

    /// Checks that the backend's kernels can read this number of channels.
    ///
    /// # Errors
    /// The kernels need other sizes. The error gives the layer's name and these sizes.
    fn check_width(&self, name: &str, channels: usize) -> Result<(), Self::Error>;

    /// Checks that the backend's kernels support attention with `heads` heads that have `width` channels in all.
    ///
    /// # Errors
    /// The kernels need other sizes. The error gives the layer's name and these sizes.
    fn check_attention(&self, name: &str, width: usize, heads: usize) -> Result<(), Self::Error>;

    /// Takes a dense layer.
    ///
    /// # Errors
    /// The backend cannot hold the layer. The error gives the layer's name and the reason.
    fn dense(&mut self, name: &str, role: DenseRole, layer: Dense) -> Result<Self::Dense, Self::Error>;

    /// Takes a 3x3 convolution.
    ///
    /// # Errors
    /// The backend cannot hold the layer. The error gives the layer's name and the reason.
    fn convolution(&mut self, name: &str, layer: Convolution) -> Result<Self::Convolution, Self::Error>;

    /// Takes the 3x3 convolution that reads the input planes.
    ///
    /// # Errors
    /// The backend cannot hold the layer. The error gives the layer's name and the reason.
    fn input_convolution(
        &mut self,
        name: &str,
        layer: Convolution,
    ) -> Result<Self::InputConvolution, Self::Error>;

    /// Takes the dense layer that reads a square's 112 planes and, after them, the square's row of `table`,
    /// `[64][64]`, if there is a table.
    ///
    /// # Errors
    /// The backend cannot hold the layer. The error gives the layer's name and the reason.
    fn plane_embedding(
        &mut self,
        name: &str,
        layer: Dense,
        table: Option<Vec<f32>>,
    ) -> Result<Self::PlaneEmbedding, Self::Error>;

    /// Takes the dense layer that reads all pieces of the newest board, `[64][12]`.
    ///
    /// # Errors
    /// The backend cannot hold the layer. The error gives the layer's name and the reason.
    fn board_embedding(&mut self, name: &str, layer: Dense) -> Result<Self::BoardEmbedding, Self::Error>;

    /// Takes a LayerNorm.
    ///
    /// # Errors
    /// The backend cannot hold the layer. The error gives the layer's name and the reason.
    fn layer_norm(&mut self, name: &str, layer: LayerNorm) -> Result<Self::LayerNorm, Self::Error>;

    /// Takes a gate's values, `[square][channel]`.
    ///
    /// # Errors
    /// The backend cannot hold the values. The error gives the layer's name and the reason.
    fn gate(&mut self, name: &str, values: Vec<f32>) -> Result<Self::Gate, Self::Error>;
}
