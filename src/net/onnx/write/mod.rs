//! Converts a network to an ONNX graph.
//!
//! | module | what it holds |
//! |---|---|
//! | `heads` | the policy, value and moves-left heads |
//! | `embedding` | the layers from the input planes to the residual stream of an attention body |
//! | `encoder` | transformer encoders and their smolgen |
//! | `tower` | convolutions and residual blocks |
//! | `functions` | activations and LayerNorms |
//! | `builder` | nodes and constants |
//! | [`model`] | the result, and its bytes |
//! | [`settings`] | the names, types and versions that the user selects |
//! | [`error`] | why a network cannot be converted, and the limits of the settings |
//! | [`data_type`] | the type of the weights and its bytes |
//!
//! The outputs of the graph are the policy's logits; win, draw and loss after the softmax (or q after its tanh); and
//! the moves left after a ReLU. Within the graph, an attention body has one row for each square,
//! `[batch * 64, channels]`, and a residual tower has `[batch, channels, 8, 8]`.
//!
//! The graph differs from that of lc0's converter where lc0's would be wrong or cannot be made:
//!
//! - The LayerNorms of a policy head's encoders have the epsilon of lc0's CPU backend
//!   ([`crate::weights::POLICY_LAYER_NORM_EPSILON`]).
//! - With an opset before 17, which has no LayerNormalization, LayerNorms are written as elementary operators.
//! - Layers of every size and activation are converted.

mod builder;
pub mod data_type;
mod embedding;
mod encoder;
pub mod error;
mod functions;
mod heads;
pub mod model;
pub mod settings;
mod tower;

pub use data_type::DataType;
pub use error::{SettingsError, WriteError};
pub use model::Converted;
pub use settings::{Names, Settings};

use crate::network::{Body, Network};
use builder::Builder;

/// Converts a network with its selected heads.
///
/// # Errors
/// The settings do not allow it, or a weight cannot be represented.
pub fn convert(network: &Network, settings: &Settings) -> Result<Converted, WriteError> {
    settings.check()?;
    let mut builder = Builder::new(settings);
    let planes = builder.input_planes();
    let body = match &network.body {
        Body::Convolution { input, blocks } => tower::tower(&mut builder, network, input, blocks, planes),
        Body::Attention { embedding, stack } => {
            let rows = embedding::embed(&mut builder, network, embedding, stack, planes);
            encoder::encode(&mut builder, stack, "/encoder", rows)
        }
    };
    heads::policy(&mut builder, network, &body);
    heads::value(&mut builder, network, &body);
    heads::moves_left(&mut builder, network, &body);
    Ok(model::Converted::new(builder.finish()?, settings, network.architecture.input_format))
}
