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
        network.input_embedding.get_or_insert(InputEmbeddingFormat::PeMap as i32);
    }
}

/// A tower of before head formats has the classical heads.
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
        format.network_format.expect("it stays there")
    }

    fn structure(structure: NetworkStructure) -> NetworkFormat {
        NetworkFormat { network: Some(structure as i32), ..NetworkFormat::default() }
    }

    #[test]
    fn no_format_is_the_first_format() {
        let mut format = Format::default();
        upgrade(&mut format, Contents::default());
        let network = format.network_format.expect("it is made");
        assert_eq!(network.input(), InputFormat::Classical112 as i32);
        assert_eq!(network.network(), NetworkStructure::ClassicalWithHeadformat as i32);
        assert_eq!(network.policy(), PolicyFormat::Classical as i32);
        assert_eq!(network.value(), ValueFormat::Classical as i32);
        assert_eq!(network.moves_left, None);
    }

    #[test]
    fn towers_of_before_head_formats_have_classical_heads() {
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
    fn several_heads_make_a_multihead_network() {
        let contents = Contents { encoders: true, multihead: true, ..Contents::default() };
        let network = upgraded(structure(NetworkStructure::AttentionBody), contents);
        assert_eq!(network.network(), NetworkStructure::AttentionBodyMultihead as i32);
        assert_eq!(network.input_embedding, Some(InputEmbeddingFormat::PeDense as i32));
        let legacy = upgraded(structure(NetworkStructure::AttentionBodyLegacyMultihead), contents);
        assert_eq!(legacy.network(), NetworkStructure::AttentionBodyMultihead as i32);
    }

    #[test]
    fn a_header_of_today_stays_as_it_is() {
        let contents = Contents { encoders: true, smolgen: true, multihead: true };
        let today = NetworkFormat {
            input_embedding: Some(InputEmbeddingFormat::PeMap as i32),
            ..structure(NetworkStructure::AttentionBodyMultihead)
        };
        assert_eq!(upgraded(today, contents), today);
        let tower = structure(NetworkStructure::SeWithHeadformat);
        assert_eq!(upgraded(tower, Contents::default()), tower);
    }
}
