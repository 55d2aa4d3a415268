//! Recognises a network in an ONNX graph: the layers that a native file of the same network would contain.
//!
//! A graph is read from its outputs back to the planes. What it computes decides, and not the names of its nodes or
//! constants: each operator must be one that lc0's converter (`src/neural/onnx/converter.cc` in lc0) writes at this
//! place, in any of its versions, and each constant that is not a weight must have the value that lc0 gives it. So a
//! recognised network evaluates to what the graph computes. The result still goes through [`super::assemble`], which
//! checks the sizes of the layers against each other, like those of any other file.
//!
//! | module | what it recognises |
//! |---|---|
//! | `policy` | policy heads |
//! | `embedding` | the layers from the planes to the first encoder |
//! | `encoder` | encoders |
//! | `heads` | the value head and the moves-left head |
//! | `tower` | residual towers |
//! | `layers` | single layers, and operators that only rearrange a tensor |
//! | `activation` | activation functions |
//! | `constant` | the values of constants |
//! | `graph` | the graph itself: which node computes a tensor |

mod activation;
mod constant;
mod embedding;
mod encoder;
mod graph;
mod heads;
mod layers;
mod policy;
mod tower;

use prost::bytes::Bytes;

use super::proto::{NetworkFormat, OnnxModel, Weights};
use super::schema::{
    ActivationFunction, DefaultActivation, InputEmbeddingFormat, MovesLeftFormat, NetworkStructure,
    ValueFormat,
};
use crate::architecture::{Activation, InputEmbedding};
use crate::error::Reason;
use crate::onnx::decode::decode_model;
use crate::onnx::proto;
use crate::weights::{EMBEDDING_LAYER_NORM_EPSILON, ENCODER_LAYER_NORM_EPSILON};
use encoder::Stack;
use graph::{Graph, operator_error};
use heads::{FirstLayer, ScalarHead};
use policy::Trunk;

/// The kinds of layers and the layers of the network in `onnx`, a part of a file whose header is `format`.
///
/// # Errors
/// The model is damaged, or its graph is not a network of lc0. The error names the operator.
pub(super) fn recognise(
    onnx: &OnnxModel,
    format: &NetworkFormat,
) -> Result<(NetworkFormat, Weights), Reason> {
    let model_bytes = onnx.model.as_ref().ok_or(Reason::NoWeights)?;
    let (_, graph) = decode_model(model_bytes)?;

    let text = |field: &Option<Bytes>| field.as_ref().map(|name| String::from_utf8_lossy(name).into_owned());
    let planes = text(&onnx.input_planes);
    let (policy, wdl) = (text(&onnx.output_policy), text(&onnx.output_wdl));
    let (value, moves_left) = (text(&onnx.output_value), text(&onnx.output_mlh));
    let names = Names {
        planes: planes.as_deref().ok_or_else(|| missing("an input of planes"))?,
        policy: policy.as_deref().ok_or_else(|| missing("a policy output"))?,
        value: wdl.as_deref().or(value.as_deref()).ok_or_else(|| missing("a value output"))?,
        wdl: wdl.is_some(),
        moves_left: moves_left.as_deref(),
    };
    // The values of 16-bit floats may be stored as varints of one byte.
    let budget = model_bytes.len().saturating_mul(2);
    let mut outputs = vec![names.policy, names.value];
    outputs.extend(names.moves_left);
    let graph = Graph::new(&graph, &outputs, budget)?;
    network(&graph, &names, format)
}

fn missing(what: &str) -> Reason {
    Reason::Unsupported(format!("contains an ONNX model, and its header does not name {what}"))
}

/// The names of the graph's input and outputs.
struct Names<'a> {
    planes: &'a str,
    policy: &'a str,
    value: &'a str,
    /// Whether `value` is win, draw and loss.
    wdl: bool,
    moves_left: Option<&'a str>,
}

fn network<'a>(
    graph: &Graph<'a>,
    names: &Names<'a>,
    format: &NetworkFormat,
) -> Result<(NetworkFormat, Weights), Reason> {
    let mut weights = Weights::default();
    let value = heads::value(graph, names.value, names.wdl)?;
    let (trunk, activation) = (value.input, value.activation);
    let default_activation = match activation {
        Activation::Relu => DefaultActivation::Relu,
        Activation::Mish => DefaultActivation::Mish,
        other => return Err(Reason::Unsupported(format!("has the default activation {other:?}"))),
    };
    put_value(value, &mut weights);
    if let Some(name) = names.moves_left {
        let head = heads::moves_left(graph, name)?;
        if !graph.same(head.input, trunk) || head.activation != activation {
            return Err(graph.unexpected(name, "a moves-left head on the body's result"));
        }
        put_moves_left(head, &mut weights);
    }

    let body = body(graph, trunk, activation, &mut weights)?;
    if graph.source(body.planes) != names.planes {
        return Err(graph.unexpected(body.planes, "the input planes"));
    }
    let trunk = Trunk {
        tensor: trunk,
        attention: body.attention.is_some(),
        activation,
        ffn_activation: body.attention.as_ref().map_or(activation, |facts| facts.ffn_activation),
        smolgen: body.attention.as_ref().and_then(|facts| facts.smolgen),
    };
    let policy = policy::policy(graph, names.policy, &trunk, &mut weights)?;

    let explicit = |own: Activation| match own == activation {
        true => ActivationFunction::Default as i32,
        false => number(own) as i32,
    };
    let structure = match &body.attention {
        Some(_) => NetworkStructure::AttentionBody,
        None if weights.residual.iter().any(|block| block.se.is_some()) => NetworkStructure::SeWithHeadformat,
        None => NetworkStructure::ClassicalWithHeadformat,
    };
    let recognised = NetworkFormat {
        input: format.input,
        output: Some(if names.wdl { 2 } else { 1 }),
        network: Some(structure as i32),
        policy: Some(policy as i32),
        value: Some(if names.wdl { ValueFormat::Wdl } else { ValueFormat::Classical } as i32),
        moves_left: Some(match names.moves_left {
            Some(_) => MovesLeftFormat::V1,
            None => MovesLeftFormat::None,
        } as i32),
        default_activation: Some(default_activation as i32),
        smolgen_activation: body.attention.as_ref().and_then(|facts| Some(explicit(facts.smolgen?.0))),
        ffn_activation: body.attention.as_ref().map(|facts| explicit(facts.ffn_activation)),
        input_embedding: body.attention.as_ref().map(|facts| facts.input_embedding as i32),
    };
    Ok((recognised, weights))
}

/// A body whose layers have been put into the weights.
struct Body<'a> {
    planes: &'a str,
    /// `None` for a residual tower.
    attention: Option<AttentionFacts<'a>>,
}

/// The settings of an attention body.
struct AttentionFacts<'a> {
    input_embedding: InputEmbeddingFormat,
    ffn_activation: Activation,
    smolgen: Option<(Activation, &'a proto::Tensor)>,
}

/// The body with the result `trunk`.
fn body<'a>(
    graph: &Graph<'a>,
    trunk: &'a str,
    activation: Activation,
    weights: &mut Weights,
) -> Result<Body<'a>, Reason> {
    let Stack { input, layers, settings, embedding: block } = encoder::stack(graph, trunk)?;
    let Some(settings) = settings else {
        if let Some(block) = block {
            return Err(operator_error(block.node, "ends a body without attention"));
        }
        let planes = tower(graph, trunk, activation, weights)?;
        return Ok(Body { planes, attention: None });
    };
    // The factor of the branches, (2n)^(-1/4) for n encoders, is part of the architecture.
    let alpha = (2.0 * layers.len() as f64).powf(-0.25);
    if let Some(block) = &block {
        encoder::check_epsilon_of(block.node, block.norm.epsilon, &[EMBEDDING_LAYER_NORM_EPSILON])?;
    }
    let is_same_block = block.as_ref().is_none_or(|block| {
        layers::is_near(block.alpha, alpha) && block.activation == settings.ffn_activation
    });
    if !layers::is_near(settings.alpha, alpha) || !is_same_block {
        let problem = format!(
            "ends an encoder whose branches do not have the factor {alpha:.4} of {} encoders",
            layers.len()
        );
        return Err(operator_error(settings.node, &problem));
    }
    weights.encoder = layers;
    weights.headcount = u32::try_from(settings.heads).ok();
    let embedding = embedding::embedding(graph, input, block, weights)?;
    tower::check_activation(graph, input, embedding.activation, activation)?;
    let (input_embedding, epsilon) = match embedding.kind {
        InputEmbedding::None => (InputEmbeddingFormat::None, ENCODER_LAYER_NORM_EPSILON),
        InputEmbedding::PeMap => (InputEmbeddingFormat::PeMap, ENCODER_LAYER_NORM_EPSILON),
        InputEmbedding::PeDense => (InputEmbeddingFormat::PeDense, EMBEDDING_LAYER_NORM_EPSILON),
    };
    encoder::check_epsilon_of(settings.node, settings.epsilon, &[epsilon])?;
    if let Some((_, global)) = settings.smolgen {
        weights.smolgen_w = Some(encoder::smolgen_matrix(graph, global)?);
    }
    // An attention body may follow a residual tower. `assemble` refuses such a network.
    let planes = match graph.producer(embedding.input) {
        None => embedding.input,
        Some(_) => tower(graph, embedding.input, activation, weights)?,
    };
    let facts = AttentionFacts {
        input_embedding,
        ffn_activation: settings.ffn_activation,
        smolgen: settings.smolgen,
    };
    Ok(Body { planes, attention: Some(facts) })
}

/// Reads a residual tower with the result `tensor`, and returns its input.
fn tower<'a>(
    graph: &Graph<'a>,
    tensor: &'a str,
    activation: Activation,
    weights: &mut Weights,
) -> Result<&'a str, Reason> {
    let tower = tower::tower(graph, tensor)?;
    tower::check_activation(graph, tensor, tower.activation, activation)?;
    (weights.input, weights.residual) = (tower.first, tower.blocks);
    Ok(tower.input)
}

fn put_value(head: ScalarHead<'_>, weights: &mut Weights) {
    match head.first {
        FirstLayer::Convolution(block) => weights.value = block.map(|block| *block),
        FirstLayer::Dense(matrix, biases) => (weights.ip_val_w, weights.ip_val_b) = (matrix, biases),
    }
    (weights.ip1_val_w, weights.ip1_val_b) = head.hidden;
    (weights.ip2_val_w, weights.ip2_val_b) = head.output;
}

fn put_moves_left(head: ScalarHead<'_>, weights: &mut Weights) {
    match head.first {
        FirstLayer::Convolution(block) => weights.moves_left = block.map(|block| *block),
        FirstLayer::Dense(matrix, biases) => (weights.ip_mov_w, weights.ip_mov_b) = (matrix, biases),
    }
    (weights.ip1_mov_w, weights.ip1_mov_b) = head.hidden;
    (weights.ip2_mov_w, weights.ip2_mov_b) = head.output;
}

/// The number of an activation in `net.proto`.
fn number(activation: Activation) -> ActivationFunction {
    match activation {
        Activation::None => ActivationFunction::None,
        Activation::Relu => ActivationFunction::Relu,
        Activation::Relu2 => ActivationFunction::Relu2,
        Activation::Tanh => ActivationFunction::Tanh,
        Activation::Sigmoid => ActivationFunction::Sigmoid,
        Activation::Selu => ActivationFunction::Selu,
        Activation::Mish => ActivationFunction::Mish,
        Activation::Swish => ActivationFunction::Swish,
        Activation::Softmax => ActivationFunction::Softmax,
    }
}
