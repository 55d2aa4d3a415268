//! Assembles the policy, value, value-error and moves-left heads.
//!
//! A file has one head of each kind among its own fields, or several under `policy_heads` and `value_heads`.
//! The first case is rewritten as the second, without copying any bytes, so that one function reads both.

use prost::Message;
use prost::bytes::Bytes;

use super::encoder::{self, StackConfig};
use super::kinds::Kinds;
use super::optimism;
use super::selection::HeadSelection;
use crate::architecture::{Activation, BodyKind};
use crate::error::Reason;
use crate::file::decode::{convolution, convolution_to, dense, dense_to, matrix};
use crate::file::proto::{
    ConvBlock, Layer, PolicyHead as PolicyLayers, PolicyHeads, ValueHead as ValueLayers, Weights,
    decode_bounded,
};
use crate::file::schema::PolicyFormat;
use crate::network::{AttentionPolicy, EncoderStack, PolicyHead, ScalarHead, ValueError};
use crate::policy_index::{CONVOLUTION_PLANES, POLICY_SIZE};
use crate::weights::{Dense, HeadInput, POLICY_LAYER_NORM_EPSILON};

/// lc0's name for the policy head that prefers moves that may turn out better than the value head expects.
const OPTIMISTIC: &str = "optimistic";

/// The policy heads in a file, by lc0's names.
pub(crate) fn policy_head_names(weights: &Weights) -> Result<Vec<&'static str>, Reason> {
    let Some(heads) = policy_heads(weights)? else {
        return Ok(vec!["vanilla"]);
    };
    Ok(by_name(&heads).into_iter().filter(|(_, head)| head.is_some()).map(|(name, _)| name).collect())
}

/// The value heads in a file, by lc0's names.
pub(crate) fn value_head_names(weights: &Weights) -> Vec<&'static str> {
    let Some(heads) = &weights.value_heads else {
        return vec!["winner"];
    };
    [("winner", &heads.winner), ("q", &heads.q), ("st", &heads.st)]
        .into_iter()
        .filter(|(_, head)| head.is_some())
        .map(|(name, _)| name)
        .collect()
}

fn policy_heads(weights: &Weights) -> Result<Option<PolicyHeads>, Reason> {
    Ok(weights.policy_heads.clone().map(PolicyHeads::decode).transpose()?)
}

fn by_name(heads: &PolicyHeads) -> [(&'static str, &Option<Bytes>); 4] {
    [
        ("vanilla", &heads.vanilla),
        (OPTIMISTIC, &heads.optimistic_st),
        ("soft", &heads.soft),
        ("opponent", &heads.opponent),
    ]
}

fn unknown_head(kind: &'static str, name: &str, available: &[&str]) -> Reason {
    let available = if available.is_empty() { "none".to_owned() } else { available.join(", ") };
    Reason::UnknownHead { kind, name: name.to_owned(), available }
}

/// The layers of the policy head called `name`, and the prefix of their names.
pub(crate) fn policy_layers(weights: &Weights, name: &str) -> Result<(String, PolicyLayers), Reason> {
    let unknown = || Ok::<_, Reason>(unknown_head("policy", name, &policy_head_names(weights)?));
    let Some(heads) = policy_heads(weights)? else {
        if name != "vanilla" {
            return Err(unknown()?);
        }
        return Ok((String::new(), single_policy(weights)));
    };
    let Some((_, Some(bytes))) = by_name(&heads).into_iter().find(|(known, _)| *known == name) else {
        return Err(unknown()?);
    };
    let mut layers: PolicyLayers = decode_bounded(bytes)?;
    // A head without its own embedding uses the one that the heads share, or else the file's.
    let shared = |own: Option<Layer>, heads: &Option<Layer>, file: &Option<Layer>| {
        let own = own.filter(|layer| !layer.params.is_empty());
        own.or_else(|| heads.clone()).or_else(|| file.clone())
    };
    layers.ip_pol_w = shared(layers.ip_pol_w, &heads.ip_pol_w, &weights.ip_pol_w);
    layers.ip_pol_b = shared(layers.ip_pol_b, &heads.ip_pol_b, &weights.ip_pol_b);
    Ok((format!("policy_heads.{name}."), layers))
}

fn single_policy(weights: &Weights) -> PolicyLayers {
    PolicyLayers {
        ip_pol_w: weights.ip_pol_w.clone(),
        ip_pol_b: weights.ip_pol_b.clone(),
        ip2_pol_w: weights.ip2_pol_w.clone(),
        ip2_pol_b: weights.ip2_pol_b.clone(),
        ip3_pol_w: weights.ip3_pol_w.clone(),
        ip3_pol_b: weights.ip3_pol_b.clone(),
        ip4_pol_w: weights.ip4_pol_w.clone(),
        pol_encoder: weights.pol_encoder.clone(),
        pol_headcount: weights.pol_headcount,
        policy1: weights.policy1.clone(),
        policy: weights.policy.clone(),
    }
}

/// The layers of the value head called `name`, and the prefix of their names.
fn value_layers(weights: &Weights, name: &str) -> Result<(String, ValueLayers), Reason> {
    let head = match &weights.value_heads {
        None if name == "winner" => return Ok((String::new(), single_value(weights))),
        None => None,
        Some(heads) => match name {
            "winner" => heads.winner.clone(),
            "q" => heads.q.clone(),
            "st" => heads.st.clone(),
            _ => None,
        },
    };
    let layers = head.ok_or_else(|| unknown_head("value", name, &value_head_names(weights)))?;
    Ok((format!("value_heads.{name}."), layers))
}

fn single_value(weights: &Weights) -> ValueLayers {
    ValueLayers {
        ip_val_w: weights.ip_val_w.clone(),
        ip_val_b: weights.ip_val_b.clone(),
        ip1_val_w: weights.ip1_val_w.clone(),
        ip1_val_b: weights.ip1_val_b.clone(),
        ip2_val_w: weights.ip2_val_w.clone(),
        ip2_val_b: weights.ip2_val_b.clone(),
        ip_val_err_w: None,
        ip_val_err_b: None,
        value: weights.value.clone(),
    }
}

/// The selected policy head. It reads `channels` channels of each square.
pub(super) fn policy(
    kinds: &Kinds,
    weights: &Weights,
    selection: &HeadSelection,
    body: &BodyKind,
    channels: usize,
) -> Result<PolicyHead, Reason> {
    let named = |name: &str| named_policy(kinds, weights, name, body, channels);
    match (selection.policy.as_str(), selection.policy_optimism) {
        (OPTIMISTIC, _) => named(OPTIMISTIC),
        (name, 0.0) => named(name),
        (_, 1.0) => named(OPTIMISTIC),
        (name, share) => optimism::blend(named(name)?, named(OPTIMISTIC)?, share),
    }
}

/// The policy head called `name`. It reads `channels` channels of each square.
fn named_policy(
    kinds: &Kinds,
    weights: &Weights,
    name: &str,
    body: &BodyKind,
    channels: usize,
) -> Result<PolicyHead, Reason> {
    let (prefix, layers) = policy_layers(weights, name)?;
    match kinds.policy {
        PolicyFormat::Attention => attention_policy(kinds, &prefix, &layers, body, channels),
        _ if kinds.attention_body => Err(Reason::Unsupported(format!(
            "has {} on an attention body; only POLICY_ATTENTION is supported there",
            kinds.policy.name()
        ))),
        PolicyFormat::Convolution => convolution_policy(&prefix, &layers, channels),
        PolicyFormat::Classical | PolicyFormat::Unknown => classical_policy(&prefix, &layers, channels),
    }
}

fn classical_policy(prefix: &str, layers: &PolicyLayers, channels: usize) -> Result<PolicyHead, Reason> {
    let named = |field: &str| format!("{prefix}{field}");
    let convolution = convolution(&named("policy"), &layers.policy, channels, 1)?;
    let dense = dense_to(
        (&named("ip_pol_w"), &layers.ip_pol_w),
        (&named("ip_pol_b"), &layers.ip_pol_b),
        64 * convolution.outputs,
        POLICY_SIZE,
    )?;
    Ok(PolicyHead::Classical { input: HeadInput::Convolution(convolution), dense })
}

fn convolution_policy(prefix: &str, layers: &PolicyLayers, channels: usize) -> Result<PolicyHead, Reason> {
    let named = |field: &str| format!("{prefix}{field}");
    let first = convolution_to(&named("policy1"), &layers.policy1, channels, channels, 3)?;
    let last = convolution(&named("policy"), &layers.policy, first.outputs, 3)?;
    if last.outputs < CONVOLUTION_PLANES {
        return Err(Reason::LayerSize {
            layer: named("policy.biases"),
            expected: format!("at least {CONVOLUTION_PLANES}"),
            found: last.outputs,
        });
    }
    Ok(PolicyHead::Convolution { first, last })
}

fn attention_policy(
    kinds: &Kinds,
    prefix: &str,
    layers: &PolicyLayers,
    body: &BodyKind,
    channels: usize,
) -> Result<PolicyHead, Reason> {
    let named = |field: &str| format!("{prefix}{field}");
    let embedding =
        dense((&named("ip_pol_w"), &layers.ip_pol_w), (&named("ip_pol_b"), &layers.ip_pol_b), channels)?;
    let width = embedding.outputs;
    let heads = match layers.pol_encoder.len() {
        0 => 1,
        _ => encoder::heads(&named("pol_headcount"), layers.pol_headcount)?,
    };
    let generated_size = match body {
        BodyKind::Attention { smolgen, .. } => smolgen.map(|shape| shape.generated_size),
        BodyKind::Convolution { .. } => None,
    };
    let config = StackConfig { width, heads, generated_size, epsilon: POLICY_LAYER_NORM_EPSILON };
    let (encoders, _) = encoder::stack(&named("pol_encoder"), &layers.pol_encoder, config)?;

    let query =
        dense((&named("ip2_pol_w"), &layers.ip2_pol_w), (&named("ip2_pol_b"), &layers.ip2_pol_b), width)?;
    let key = dense_to(
        (&named("ip3_pol_w"), &layers.ip3_pol_w),
        (&named("ip3_pol_b"), &layers.ip3_pol_b),
        width,
        query.outputs,
    )?;
    let promotion = matrix(&named("ip4_pol_w"), &layers.ip4_pol_w, query.outputs, 4)?;
    // An attention policy on a residual tower is older than activations in the header. It always uses SELU.
    let (embedding_activation, ffn_activation) = match kinds.attention_body {
        true => (kinds.default_activation, kinds.ffn_activation),
        false => (Activation::Selu, Activation::Selu),
    };
    Ok(PolicyHead::Attention(Box::new(AttentionPolicy {
        embedding,
        embedding_activation,
        stack: EncoderStack {
            encoders,
            heads,
            alpha: 1.0,
            ffn_activation,
            smolgen_activation: kinds.smolgen_activation,
        },
        depth: query.outputs,
        query_key: [query, key],
        promotion,
    })))
}

/// The first layer of a scalar head: a convolution on a tower, a dense layer per square on encoders.
struct FirstLayer<'a> {
    convolution: (&'a str, &'a Option<ConvBlock>),
    weights: (&'a str, &'a Option<Layer>),
    biases: (&'a str, &'a Option<Layer>),
}

fn head_input(kinds: &Kinds, first: FirstLayer<'_>, channels: usize) -> Result<(HeadInput, usize), Reason> {
    if kinds.attention_body {
        let layer = dense(first.weights, first.biases, channels)?;
        let outputs = layer.outputs;
        Ok((HeadInput::Dense(layer), outputs))
    } else {
        let layer = convolution(first.convolution.0, first.convolution.1, channels, 1)?;
        let outputs = layer.outputs;
        Ok((HeadInput::Convolution(layer), outputs))
    }
}

/// The value head called `name`. It reads `channels` channels of each square.
pub(super) fn value(
    kinds: &Kinds,
    weights: &Weights,
    name: &str,
    channels: usize,
) -> Result<ScalarHead, Reason> {
    let (prefix, layers) = value_layers(weights, name)?;
    let named = |field: &str| format!("{prefix}{field}");
    let (input, hidden) = value_beginning(kinds, &prefix, &layers, channels)?;
    let output = dense_to(
        (&named("ip2_val_w"), &layers.ip2_val_w),
        (&named("ip2_val_b"), &layers.ip2_val_b),
        hidden.outputs,
        if kinds.wdl { 3 } else { 1 },
    )?;
    Ok(ScalarHead { input, hidden, output })
}

/// The value-error head. After a sigmoid, its output estimates the error of the value, in (0, 1). Some value heads have
/// it as a second output layer. lc0's trainer adds it to the short-term head `st`, so the layer of that head is used if
/// it exists, and otherwise the layer of the value head called `name`. `value` is the assembled head `name`. An error
/// head that has the same layers up to the output layer shares them with `value`.
pub(super) fn value_error(
    kinds: &Kinds,
    weights: &Weights,
    name: &str,
    channels: usize,
    value: &ScalarHead,
) -> Result<Option<ValueError>, Reason> {
    let mut candidates = ["st", name].into_iter().filter_map(|name| value_layers(weights, name).ok());
    let Some((prefix, layers)) = candidates.find(|(_, layers)| layers.ip_val_err_w.is_some()) else {
        return Ok(None);
    };
    let named = |field: &str| format!("{prefix}{field}");
    let (input, hidden) = value_beginning(kinds, &prefix, &layers, channels)?;
    let output = dense_to(
        (&named("ip_val_err_w"), &layers.ip_val_err_w),
        (&named("ip_val_err_b"), &layers.ip_val_err_b),
        hidden.outputs,
        1,
    )?;
    Ok(Some(ValueError::of_head(ScalarHead { input, hidden, output }, value)))
}

/// The first two layers of a value head.
fn value_beginning(
    kinds: &Kinds,
    prefix: &str,
    layers: &ValueLayers,
    channels: usize,
) -> Result<(HeadInput, Dense), Reason> {
    let named = |field: &str| format!("{prefix}{field}");
    let first = FirstLayer {
        convolution: (&named("value"), &layers.value),
        weights: (&named("ip_val_w"), &layers.ip_val_w),
        biases: (&named("ip_val_b"), &layers.ip_val_b),
    };
    let (input, width) = head_input(kinds, first, channels)?;
    let hidden = dense(
        (&named("ip1_val_w"), &layers.ip1_val_w),
        (&named("ip1_val_b"), &layers.ip1_val_b),
        64 * width,
    )?;
    Ok((input, hidden))
}

/// The moves-left head. It reads `channels` channels of each square.
pub(super) fn moves_left(kinds: &Kinds, weights: &Weights, channels: usize) -> Result<ScalarHead, Reason> {
    let first = FirstLayer {
        convolution: ("moves_left", &weights.moves_left),
        weights: ("ip_mov_w", &weights.ip_mov_w),
        biases: ("ip_mov_b", &weights.ip_mov_b),
    };
    let (input, width) = head_input(kinds, first, channels)?;
    let hidden = dense(("ip1_mov_w", &weights.ip1_mov_w), ("ip1_mov_b", &weights.ip1_mov_b), 64 * width)?;
    let output =
        dense_to(("ip2_mov_w", &weights.ip2_mov_w), ("ip2_mov_b", &weights.ip2_mov_b), hidden.outputs, 1)?;
    Ok(ScalarHead { input, hidden, output })
}
