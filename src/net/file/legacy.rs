//! Upgrades the headers of old files to what a current file of the same network would contain.
//!
//! The fields of the format were added over the years, so an old file lacks those that are newer than itself.
//! lc0 fills them in when it loads a file, and its `describenet` prints the upgraded header. This module
//! follows the same rules:
//!
//! | header of the file | upgraded header |
//! |---|---|
//! | no network format | classical input planes, residual tower without SE, classical policy and value |
//! | CLASSICAL or SE | the same body `..._WITH_HEADFORMAT`, classical policy and value |
//! | SE_WITH_HEADFORMAT, and the weights have encoders | attention body; with smolgen also RELU_2 and SWISH |
//! | the legacy number of multihead bodies, 134 | attention body, multihead |
//! | attention body, and the weights have `policy_heads` and `value_heads` | multihead, PE_DENSE |
//! | attention body without an input embedding | PE_MAP |

use super::proto::{Format, NetworkFormat};
use super::schema::{
    ActivationFunction, InputEmbeddingFormat, InputFormat, NetworkStructure, PolicyFormat, ValueFormat,
};

/// The facts about the weights that the rules depend on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Contents {
    /// Whether the body has encoders.
    pub(super) encoders: bool,
    /// Whether there is a global smolgen matrix (`smolgen_w`).
    pub(super) smolgen: bool,
    /// Whether there are both `policy_heads` and `value_heads`.
    pub(super) multihead: bool,
}

/// The number of OUTPUT_CLASSICAL in `net.proto`.
const OUTPUT_CLASSICAL: i32 = 1;

/// Upgrades a header in place. The header of a current file does not change.
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
        network.input_embedding.get_or_insert(InputEmbeddingFormat::PeMap as i32);
    }
}

/// Sets the body of a tower that is older than the fields for heads, and the classical heads that it has.
fn name_heads(network: &mut NetworkFormat, structure: NetworkStructure) {
    network.network = Some(structure as i32);
    network.policy = Some(PolicyFormat::Classical as i32);
    network.value = Some(ValueFormat::Classical as i32);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn upgraded(network: NetworkFormat, contents: Contents) -> NetworkFormat {
        let mut format = Format { weights_encoding: Some(1), network_format: Some(network) };
        upgrade(&mut format, contents);
        format.network_format.expect("upgrading keeps the format")
    }

    fn structure(structure: NetworkStructure) -> NetworkFormat {
        NetworkFormat { network: Some(structure as i32), ..NetworkFormat::default() }
    }

    #[test]
    fn a_file_without_a_format_gets_the_first_format() {
        let mut format = Format::default();
        upgrade(&mut format, Contents::default());
        let network = format.network_format.expect("upgrading adds a format");
        assert_eq!(network.input(), InputFormat::Classical112 as i32);
        assert_eq!(network.network(), NetworkStructure::ClassicalWithHeadformat as i32);
        assert_eq!(network.policy(), PolicyFormat::Classical as i32);
        assert_eq!(network.value(), ValueFormat::Classical as i32);
        assert_eq!(network.moves_left, None);
    }

    #[test]
    fn towers_older_than_the_head_formats_get_classical_heads() {
        for (old, new) in [
            (NetworkStructure::Classical, NetworkStructure::ClassicalWithHeadformat),
            (NetworkStructure::Se, NetworkStructure::SeWithHeadformat),
        ] {
            let network = upgraded(structure(old), Contents::default());
            assert_eq!(network.network(), new as i32);
            assert_eq!(network.policy(), PolicyFormat::Classical as i32);
            assert_eq!(network.value(), ValueFormat::Classical as i32);
        }
    }

    #[test]
    fn a_tower_with_encoders_is_an_attention_body() {
        let contents = Contents { encoders: true, ..Contents::default() };
        let network = upgraded(structure(NetworkStructure::SeWithHeadformat), contents);
        assert_eq!(network.network(), NetworkStructure::AttentionBody as i32);
        assert_eq!(network.input_embedding, Some(InputEmbeddingFormat::PeMap as i32));
        assert_eq!((network.ffn_activation, network.smolgen_activation), (None, None));

        let contents = Contents { smolgen: true, ..contents };
        let network = upgraded(structure(NetworkStructure::SeWithHeadformat), contents);
        assert_eq!(network.ffn_activation, Some(ActivationFunction::Relu2 as i32));
        assert_eq!(network.smolgen_activation, Some(ActivationFunction::Swish as i32));
    }

    #[test]
    fn an_attention_body_with_several_heads_becomes_multihead() {
        let contents = Contents { encoders: true, multihead: true, ..Contents::default() };
        let network = upgraded(structure(NetworkStructure::AttentionBody), contents);
        assert_eq!(network.network(), NetworkStructure::AttentionBodyMultihead as i32);
        assert_eq!(network.input_embedding, Some(InputEmbeddingFormat::PeDense as i32));
        let legacy = upgraded(structure(NetworkStructure::AttentionBodyLegacyMultihead), contents);
        assert_eq!(legacy.network(), NetworkStructure::AttentionBodyMultihead as i32);
    }

    #[test]
    fn a_current_header_does_not_change() {
        let contents = Contents { encoders: true, smolgen: true, multihead: true };
        let current = NetworkFormat {
            input_embedding: Some(InputEmbeddingFormat::PeMap as i32),
            ..structure(NetworkStructure::AttentionBodyMultihead)
        };
        assert_eq!(upgraded(current, contents), current);
        let tower = structure(NetworkStructure::SeWithHeadformat);
        assert_eq!(upgraded(tower, Contents::default()), tower);
    }
}
