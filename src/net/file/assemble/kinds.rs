//! Translates the numbers in a network file's header into types.

use crate::architecture::{Activation, InputEmbedding, InputFormat};
use crate::error::Reason;
use crate::file::proto::NetworkFormat;
use crate::file::schema;

/// The kinds of layers that a header asks for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kinds {
    pub(super) input_format: InputFormat,
    pub(super) attention_body: bool,
    pub(super) policy: schema::PolicyFormat,
    pub(super) wdl: bool,
    pub(super) moves_left: bool,
    pub(super) default_activation: Activation,
    pub(super) smolgen_activation: Activation,
    pub(super) ffn_activation: Activation,
    pub(super) input_embedding: InputEmbedding,
}

impl Kinds {
    /// Reads an upgraded header.
    ///
    /// # Errors
    /// A number is unknown or unsupported. The error names the first one.
    pub(super) fn of(format: &NetworkFormat) -> Result<Self, Reason> {
        use schema::{DefaultActivation, InputEmbeddingFormat, MovesLeftFormat, PolicyFormat, ValueFormat};

        let default_activation = match DefaultActivation::from_number(format.default_activation()) {
            Some(DefaultActivation::Relu) => Activation::Relu,
            Some(DefaultActivation::Mish) => Activation::Mish,
            None => return Err(unknown("default activation", format.default_activation())),
        };
        let policy = match PolicyFormat::from_number(format.policy()) {
            Some(known) if known != PolicyFormat::Unknown => known,
            _ => return Err(unknown("policy format", format.policy())),
        };
        let wdl = match ValueFormat::from_number(format.value()) {
            Some(ValueFormat::Classical) => false,
            Some(ValueFormat::Wdl) => true,
            _ => return Err(unknown("value format", format.value())),
        };
        let moves_left = match MovesLeftFormat::from_number(format.moves_left()) {
            Some(MovesLeftFormat::None) => false,
            Some(MovesLeftFormat::V1) => true,
            None => return Err(unknown("moves-left format", format.moves_left())),
        };
        let input_embedding = match InputEmbeddingFormat::from_number(format.input_embedding()) {
            Some(InputEmbeddingFormat::None) => InputEmbedding::None,
            Some(InputEmbeddingFormat::PeMap) => InputEmbedding::PeMap,
            Some(InputEmbeddingFormat::PeDense) => InputEmbedding::PeDense,
            None => return Err(unknown("input embedding", format.input_embedding())),
        };
        Ok(Self {
            input_format: input_format(format.input())?,
            attention_body: attention_body(format.network())?,
            policy,
            wdl,
            moves_left,
            default_activation,
            smolgen_activation: activation(
                "smolgen activation",
                format.smolgen_activation(),
                default_activation,
            )?,
            ffn_activation: activation("FFN activation", format.ffn_activation(), default_activation)?,
            input_embedding,
        })
    }
}

fn unknown(what: &str, number: i32) -> Reason {
    Reason::Unsupported(format!("has an unknown or unsupported {what}: {number}"))
}

fn input_format(number: i32) -> Result<InputFormat, Reason> {
    let found = u32::try_from(number).ok().and_then(InputFormat::from_number);
    found.ok_or_else(|| unknown("input format", number))
}

/// Whether the body is an encoder stack. [`crate::file::legacy::upgrade`] has replaced the older structures, so
/// these four are the only ones with layers.
fn attention_body(number: i32) -> Result<bool, Reason> {
    use schema::NetworkStructure as Schema;
    match Schema::from_number(number) {
        Some(Schema::ClassicalWithHeadformat | Schema::SeWithHeadformat) => Ok(false),
        Some(Schema::AttentionBody | Schema::AttentionBodyMultihead) => Ok(true),
        _ => Err(unknown("network structure", number)),
    }
}

fn activation(what: &str, number: i32, default: Activation) -> Result<Activation, Reason> {
    use schema::ActivationFunction as Schema;
    Ok(match Schema::from_number(number) {
        Some(Schema::Default) => default,
        Some(Schema::Mish) => Activation::Mish,
        Some(Schema::Relu) => Activation::Relu,
        Some(Schema::None) => Activation::None,
        Some(Schema::Tanh) => Activation::Tanh,
        Some(Schema::Sigmoid) => Activation::Sigmoid,
        Some(Schema::Selu) => Activation::Selu,
        Some(Schema::Swish) => Activation::Swish,
        Some(Schema::Relu2) => Activation::Relu2,
        Some(Schema::Softmax) => Activation::Softmax,
        None => return Err(unknown(what, number)),
    })
}
