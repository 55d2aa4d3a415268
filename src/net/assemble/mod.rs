//! From a decoded file to a checked [`Network`].
//!
//! The header says which parts there are, the layers' own lengths say how large they are, and each layer must
//! fit the one before it; what does not is refused by name. [`body`] makes the tower or the encoders, [`heads`]
//! the selected policy head, the selected value head and moves-left, [`optimism`] makes one policy head of two.

mod body;
mod encoder;
mod heads;
mod optimism;

use super::architecture::{Activation, Architecture, BodyKind, InputEmbedding, InputFormat};
use super::error::Reason;
use super::proto::{NetworkFormat, Weights};
use super::schema;
use super::weights::{Body, EMBEDDING_LAYER_NORM_EPSILON, ENCODER_LAYER_NORM_EPSILON, Network};

pub(super) use heads::{policy_head_names, policy_layers, value_head_names};

/// The heads to use, by their names in lc0's backend options `policy_head` and `value_head`.
#[derive(Clone, PartialEq, Debug)]
pub struct HeadSelection {
    /// `vanilla`, `optimistic`, `soft` or `opponent`; a file with one head calls it `vanilla`.
    pub policy: String,
    /// `winner`, `q` or `st`; a file with one head calls it `winner`.
    pub value: String,
    /// Share of the `optimistic` policy head's logits in the policy, 0 … 1.
    pub policy_optimism: f32,
    /// Whether the head that tells the value's error is wanted, where there is one.
    pub value_error: bool,
}

impl Default for HeadSelection {
    fn default() -> Self {
        Self {
            policy: "vanilla".to_owned(),
            value: "winner".to_owned(),
            policy_optimism: 0.0,
            value_error: false,
        }
    }
}

/// A header's numbers as what they mean, or the first that we do not know.
#[derive(Clone, Copy, Debug)]
struct Kinds {
    input_format: InputFormat,
    attention_body: bool,
    policy: schema::PolicyFormat,
    wdl: bool,
    moves_left: bool,
    default_activation: Activation,
    smolgen_activation: Activation,
    ffn_activation: Activation,
    input_embedding: InputEmbedding,
}

/// Builds the network of an upgraded header and its weights.
pub(super) fn assemble(
    format: &NetworkFormat,
    weights: &Weights,
    selection: &HeadSelection,
) -> Result<Network, Reason> {
    let kinds = Kinds::of(format)?;
    let (body, body_kind, channels) = body::assemble(&kinds, weights)?;
    let policy = heads::policy(&kinds, weights, selection, &body_kind, channels)?;
    let value = heads::value(&kinds, weights, &selection.value, channels)?;
    let value_error = match selection.value_error {
        true => heads::value_error(&kinds, weights, &selection.value, channels)?,
        false => None,
    };
    let moves_left = kinds.moves_left.then(|| heads::moves_left(&kinds, weights, channels)).transpose()?;
    let pe_dense = kinds.attention_body && kinds.input_embedding == InputEmbedding::PeDense;
    Ok(Network {
        architecture: Architecture {
            input_format: kinds.input_format,
            default_activation: kinds.default_activation,
            body: body_kind,
            wdl: kinds.wdl,
            moves_left: kinds.moves_left,
        },
        body,
        policy,
        value,
        moves_left,
        value_error,
        layer_norm_epsilon: if pe_dense { EMBEDDING_LAYER_NORM_EPSILON } else { ENCODER_LAYER_NORM_EPSILON },
    })
}

/// A body, its description, and the channels a square that heads take from it.
type AssembledBody = (Body, BodyKind, usize);

impl Kinds {
    fn of(format: &NetworkFormat) -> Result<Self, Reason> {
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
    Reason::Unsupported(format!("has the unknown or unsupported {what} {number}"))
}

fn input_format(number: i32) -> Result<InputFormat, Reason> {
    use schema::InputFormat as Schema;
    Ok(match Schema::from_number(number) {
        Some(Schema::Classical112) => InputFormat::Classical112,
        Some(Schema::CastlingPlane) => InputFormat::CastlingPlane,
        Some(Schema::Canonical) => InputFormat::Canonical,
        Some(Schema::CanonicalHectoplies) => InputFormat::CanonicalHectoplies,
        Some(Schema::CanonicalHectopliesArmageddon) => InputFormat::CanonicalHectopliesArmageddon,
        Some(Schema::CanonicalV2) => InputFormat::CanonicalV2,
        Some(Schema::CanonicalV2Armageddon) => InputFormat::CanonicalV2Armageddon,
        Some(Schema::Unknown) | None => return Err(unknown("input format", number)),
    })
}

/// Whether the body is an encoder stack; after [`super::legacy::upgrade`] only four structures are left.
fn attention_body(number: i32) -> Result<bool, Reason> {
    use schema::NetworkStructure as Schema;
    match Schema::from_number(number) {
        Some(Schema::ClassicalWithHeadformat | Schema::SeWithHeadformat) => Ok(false),
        Some(Schema::AttentionBody | Schema::AttentionBodyMultihead) => Ok(true),
        Some(Schema::Onnx) => Err(Reason::Onnx),
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
