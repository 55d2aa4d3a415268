//! Old headers, upgraded to what a file of today would say.
//!
//! The format grew field by field, so a file says only what its time knew of. lc0 mends headers on load and
//! describes the mended ones; so do we, by the same rules:
//!
//! | the file says | it means |
//! |---|---|
//! | no network format at all | classical planes, residual tower without SE, classical policy and value |
//! | CLASSICAL, SE | the same body `..._WITH_HEADFORMAT`, classical policy and value |
//! | SE_WITH_HEADFORMAT, but it has encoders | attention body; with smolgen also RELU_2 and SWISH |
//! | the legacy multihead number, 134 | attention body, multihead |
//! | attention body, but it has several policy and value heads | multihead, PE_DENSE |
//! | attention body that does not name its embedding | PE_MAP |

use super::proto::{Format, NetworkFormat};
use super::schema::{
    ActivationFunction, InputEmbeddingFormat, InputFormat, NetworkStructure, PolicyFormat, ValueFormat,
};

/// What the rules above need to know of the weights.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Contents {
    /// Encoders in the body.
    pub(super) encoders: bool,
    /// The matrix that all smolgens share.
    pub(super) smolgen: bool,
    /// Both `policy_heads` and `value_heads`.
    pub(super) multihead: bool,
}

/// Number of OUTPUT_CLASSICAL.
const OUTPUT_CLASSICAL: i32 = 1;

/// Upgrades a header in place; a header of today stays as it is.
pub(super) fn upgrade(format: &mut Format, contents: Contents) {
    let Some(network) = &mut format.network_format else {
        format.network_format = Some(NetworkFormat {
            input: Some(InputFormat::Classical112 as i32),
            output: Some(OUTPUT_CLASSICAL),
            network: Some(NetworkStructure::ClassicalWithHeadformat as i32),
            policy: Some(PolicyFormat::Classical as i32),
            value: Some(ValueFormat::Classical as i32),
            ..NetworkFormat::default()
        });
        return;
    };
    match NetworkStructure::from_number(network.network()) {
        Some(NetworkStructure::Classical) => {
            name_heads(network, NetworkStructure::ClassicalWithHeadformat);
        }
        Some(NetworkStructure::Se) => name_heads(network, NetworkStructure::SeWithHeadformat),
        Some(NetworkStructure::SeWithHeadformat) if contents.encoders => {
            network.network = Some(NetworkStructure::AttentionBody as i32);
            if contents.smolgen {
                network.ffn_activation = Some(ActivationFunction::Relu2 as i32);
                network.smolgen_activation = Some(ActivationFunction::Swish as i32);
            }
        }
        Some(NetworkStructure::AttentionBodyLegacyMultihead) => {
            network.network = Some(NetworkStructure::AttentionBodyMultihead as i32);
        }
        _ => {}
    }
    if network.network() == NetworkStructure::AttentionBody as i32 {
        if contents.multihead {
            network.network = Some(NetworkStructure::AttentionBodyMultihead as i32);
            network.input_embedding = Some(InputEmbeddingFormat::PeDense as i32);
        }
        network
            .input_embedding
            .get_or_insert(InputEmbeddingFormat::PeMap as i32);
    }
}

/// A tower of before head formats has the classical heads.
fn name_heads(network: &mut NetworkFormat, structure: NetworkStructure) {
    network.network = Some(structure as i32);
    network.policy = Some(PolicyFormat::Classical as i32);
    network.value = Some(ValueFormat::Classical as i32);
}
