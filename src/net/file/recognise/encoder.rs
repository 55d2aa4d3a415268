//! Recognises encoders: attention and a feed-forward block, each followed by a LayerNorm.
//!
//! The branches are added to the residual stream in one of two ways. Since 2024 lc0's converter has written
//! `LN(alpha * branch + x)`, and before that `LN(branch + x / alpha)`. The two differ only in what the epsilon of the
//! LayerNorm means, by less than the epsilon itself.

use super::activation;
use super::constant::{self, dimensions};
use super::graph::{Graph, operator_error, tensor_error, two_inputs};
use super::layers::{Dense, is_near};
use crate::architecture::Activation;
use crate::error::Reason;
use crate::file::proto::{EncoderLayer, Ffn, Layer, Mha, Smolgen};
use crate::onnx::proto::{Node, Tensor};
use crate::weights::EMBEDDING_LAYER_NORM_EPSILON;

/// A stack of encoders, possibly empty.
pub(super) struct Stack<'a> {
    /// The input of the first encoder, or of [`Self::embedding`].
    pub(super) input: &'a str,
    pub(super) layers: Vec<EncoderLayer>,
    /// What the encoders have in common; `None` if there are no encoders.
    pub(super) settings: Option<Settings<'a>>,
    /// The feed-forward block before the first encoder, which a PE_DENSE embedding ends with.
    pub(super) embedding: Option<FeedForward<'a>>,
}

/// What all encoders of a stack have in common, and is no weight.
#[derive(Clone)]
pub(super) struct Settings<'a> {
    pub(super) heads: usize,
    pub(super) ffn_activation: Activation,
    /// Of smolgen: its activation and its shared matrix, `[generated][4096]`.
    pub(super) smolgen: Option<(Activation, &'a Tensor)>,
    /// The factor of the branches.
    pub(super) alpha: f64,
    /// The epsilon of both LayerNorms.
    pub(super) epsilon: f64,
    /// The last operator, for messages.
    pub(super) node: &'a Node,
}

/// A feed-forward block, and the LayerNorm that joins it to the residual stream.
pub(super) struct FeedForward<'a> {
    pub(super) input: &'a str,
    pub(super) layers: Ffn,
    pub(super) norm: Norm,
    pub(super) activation: Activation,
    pub(super) alpha: f64,
    pub(super) node: &'a Node,
}

/// The layers of a LayerNorm.
pub(super) struct Norm {
    pub(super) gammas: Option<Layer>,
    pub(super) betas: Option<Layer>,
    pub(super) epsilon: f64,
}

/// The dense layer at the end of a branch.
struct Branch<'a> {
    last: Dense<'a>,
    /// The residual stream before the branch.
    stream: &'a str,
    alpha: f64,
}

/// The stack of encoders with the result `tensor`.
pub(super) fn stack<'a>(graph: &Graph<'a>, tensor: &'a str) -> Result<Stack<'a>, Reason> {
    let mut stack = Stack { input: tensor, layers: Vec::new(), settings: None, embedding: None };
    while graph.layer_norm(stack.input)?.is_some() {
        let Some(block) = feed_forward(graph, stack.input)? else { break };
        let is_encoder =
            graph.layer_norm(block.input)?.is_some_and(|norm| graph.two_terms(norm.input).is_some());
        if !is_encoder {
            stack.input = block.input;
            stack.embedding = Some(block);
            break;
        }
        let (input, layer, settings) = encoder(graph, block)?;
        match &stack.settings {
            Some(later) => settings.check_same(later)?,
            None => stack.settings = Some(settings),
        }
        stack.layers.push(layer);
        stack.input = input;
    }
    stack.layers.reverse();
    Ok(stack)
}

impl Settings<'_> {
    fn check_same(&self, other: &Self) -> Result<(), Reason> {
        let smolgen_is_same = match (self.smolgen, other.smolgen) {
            (None, None) => true,
            (Some((a, global)), Some((b, other))) => a == b && std::ptr::eq(global, other),
            _ => false,
        };
        let is_same = self.heads == other.heads
            && self.ffn_activation == other.ffn_activation
            && self.epsilon == other.epsilon
            && self.alpha == other.alpha;
        match smolgen_is_same && is_same {
            true => Ok(()),
            false => {
                Err(operator_error(self.node, "ends an encoder that is not like the others of the network"))
            }
        }
    }
}

/// The feed-forward block with the result `tensor`; `None` if `tensor` is not a LayerNorm of a sum.
fn feed_forward<'a>(graph: &Graph<'a>, tensor: &'a str) -> Result<Option<FeedForward<'a>>, Reason> {
    let Some((branch, norm)) = branch(graph, tensor)? else { return Ok(None) };
    let (activation, hidden) = activation::recognise(graph, branch.last.input)?;
    let first = graph.dense(hidden)?;
    let node = last_node(graph, tensor)?;
    if !graph.same(first.input, branch.stream) {
        return Err(operator_error(node, "joins a feed-forward block to another stream than its input"));
    }
    let layers = Ffn {
        dense1_w: first.weights,
        dense1_b: first.biases,
        dense2_w: branch.last.weights,
        dense2_b: branch.last.biases,
    };
    Ok(Some(FeedForward { input: first.input, layers, norm, activation, alpha: branch.alpha, node }))
}

fn last_node<'a>(graph: &Graph<'a>, tensor: &'a str) -> Result<&'a Node, Reason> {
    let producer = graph.producer(tensor).map(|producer| producer.node);
    producer.ok_or_else(|| tensor_error(tensor, "is not computed by an operator"))
}

/// The branch that ends with the LayerNorm `tensor`; `None` if `tensor` is not the LayerNorm of a sum.
fn branch<'a>(graph: &Graph<'a>, tensor: &'a str) -> Result<Option<(Branch<'a>, Norm)>, Reason> {
    let Some(norm) = graph.layer_norm(tensor)? else { return Ok(None) };
    let Some((a, b)) = graph.two_terms(norm.input) else { return Ok(None) };
    let found = [(a, b), (b, a)].into_iter().find_map(|(branch, stream)| {
        let (branch, factor) = graph.unscaled(branch);
        let (stream, divisor) = graph.unscaled(stream);
        graph.is_dense(branch).then_some((branch, stream, factor / divisor))
    });
    let Some((branch, stream, alpha)) = found else {
        // If something is added to biases that is no product, the error names the operator that computes it.
        let biased = [a, b].map(|operand| graph.unscaled(operand).0).into_iter().find(|&operand| {
            graph.producer(operand).is_some_and(|producer| graph.with_constant(producer.node).is_some())
                && graph.is(operand, "Add")
        });
        let named = biased.and_then(|operand| graph.dense(operand).err());
        let unexpected =
            || graph.unexpected(norm.input, "a dense layer that is added to the residual stream");
        return Err(named.unwrap_or_else(unexpected));
    };
    let last = graph.dense(branch)?;
    let (gammas, betas) = graph.layer_norm_layers(&norm, last.outputs)?;
    let norm = Norm { gammas, betas, epsilon: norm.epsilon };
    Ok(Some((Branch { last, stream, alpha }, norm)))
}

/// The encoder that ends with `block`, and its input.
fn encoder<'a>(
    graph: &Graph<'a>,
    block: FeedForward<'a>,
) -> Result<(&'a str, EncoderLayer, Settings<'a>), Reason> {
    let Some((branch, norm)) = branch(graph, block.input)? else {
        return Err(graph.unexpected(block.input, "LayerNormalization"));
    };
    let Branch { last: output, stream, alpha } = branch;
    let (mha, heads, smolgen) = attention(graph, output, stream)?;
    let node = block.node;
    if norm.epsilon != block.norm.epsilon || alpha != block.alpha {
        return Err(operator_error(node, "ends an encoder whose two LayerNorms have different settings"));
    }
    let settings =
        Settings { heads, ffn_activation: block.activation, smolgen, alpha, epsilon: norm.epsilon, node };
    let layer = EncoderLayer {
        mha: Some(mha),
        ln1_gammas: norm.gammas,
        ln1_betas: norm.betas,
        ffn: Some(block.layers),
        ln2_gammas: block.norm.gammas,
        ln2_betas: block.norm.betas,
    };
    Ok((stream, layer, settings))
}

/// The attention that ends with the dense layer `output` and reads `stream`: its layers, the number of its heads, and
/// the facts about smolgen.
#[allow(clippy::type_complexity, reason = "the only caller takes the three apart")]
fn attention<'a>(
    graph: &Graph<'a>,
    output: Dense<'a>,
    stream: &'a str,
) -> Result<(Mha, usize, Option<(Activation, &'a Tensor)>), Reason> {
    let merged = graph.reshape(output.input, &[output.inputs])?;
    let is_transposed = graph.is(merged, "Transpose");
    let weighted = if is_transposed { graph.transpose(merged, &[0, 2, 1, 3])? } else { merged };
    let node = graph.expect(weighted, "MatMul")?;
    let (shares, values) = two_inputs(node)?;
    let logits = graph.softmax(shares, 4)?;
    let (scores, generated) = match graph.two_terms(logits) {
        None => (logits, None),
        Some((a, b)) if graph.is(a, "Reshape") => (b, Some(a)),
        Some((a, b)) => (a, Some(b)),
    };
    let values = projection(graph, values, &[0, 2, 1, 3], stream)?;
    let Projection { heads, depth, .. } = values;
    let product = graph.scaled(scores, 1.0 / (depth as f64).sqrt())?;
    let (queries, keys) = two_inputs(graph.expect(product, "MatMul")?)?;
    let queries = projection(graph, queries, &[0, 2, 1, 3], stream)?;
    let keys = projection(graph, keys, &[0, 2, 3, 1], stream)?;
    let is_same = |other: &Projection<'_>| (other.heads, other.depth) == (heads, depth);
    if !is_same(&queries) || !is_same(&keys) || heads > 1 && !is_transposed {
        return Err(operator_error(node, "multiplies heads of different sizes"));
    }
    let (smolgen, facts) = match generated {
        None => (None, None),
        Some(tensor) => {
            let (layers, activation, global) = smolgen(graph, tensor, heads, stream)?;
            (Some(layers), Some((activation, global)))
        }
    };
    let mha = Mha {
        q_w: queries.dense.weights,
        q_b: queries.dense.biases,
        k_w: keys.dense.weights,
        k_b: keys.dense.biases,
        v_w: values.dense.weights,
        v_b: values.dense.biases,
        dense_w: output.weights,
        dense_b: output.biases,
        smolgen,
        ..Mha::default()
    };
    Ok((mha, heads, facts))
}

/// A dense layer to the queries, keys or values of all heads.
struct Projection<'a> {
    dense: Dense<'a>,
    heads: usize,
    depth: usize,
}

/// The projection of `stream` with the result `tensor`, whose dimensions are in the order `order`.
fn projection<'a>(
    graph: &Graph<'a>,
    tensor: &'a str,
    order: &[i64],
    stream: &'a str,
) -> Result<Projection<'a>, Reason> {
    let split = graph.transpose(tensor, order)?;
    let (flat, sizes) = graph.reshaped(split)?;
    let dense = graph.dense(flat)?;
    let node = graph.expect(split, "Reshape")?;
    if !graph.same(dense.input, stream) {
        return Err(operator_error(node, "reads another tensor than the encoder"));
    }
    match sizes[..] {
        [64, heads, depth] if heads.checked_mul(depth) == Some(dense.outputs) => {
            Ok(Projection { dense, heads, depth })
        }
        _ => Err(operator_error(
            node,
            &format!("makes the shape {sizes:?} instead of squares, heads and channels"),
        )),
    }
}

/// Smolgen with the result `tensor`: its layers, its activation, and the matrix that all encoders share.
fn smolgen<'a>(
    graph: &Graph<'a>,
    tensor: &'a str,
    heads: usize,
    stream: &'a str,
) -> Result<(Smolgen, Activation, &'a Tensor), Reason> {
    let product = graph.reshape(tensor, &[heads, 64, 64])?;
    let node = graph.expect(product, "MatMul")?;
    let (generated, global) = two_inputs(node)?;
    let global = graph.constant(global).ok_or_else(|| operator_error(node, "has no constant matrix"))?;
    let [generated_size, 4096] = dimensions(global)?[..] else {
        return Err(tensor_error(global.name(), "is not smolgen's matrix, which has 4096 columns"));
    };
    let second = normalised_dense(graph, graph.reshape(generated, &[heads, generated_size])?)?;
    let first = normalised_dense(graph, second.dense.input)?;
    let channels = first.dense.inputs / 64;
    let compressed = graph.reshape(first.dense.input, &[64 * channels])?;
    let compress = graph.matrix(compressed)?;
    if first.activation != second.activation
        || compress.outputs != channels
        || !graph.same(compress.input, stream)
    {
        return Err(operator_error(node, "ends a smolgen that is not like those of lc0"));
    }
    let layers = Smolgen {
        compress: Some(compress.weights),
        dense1_w: first.dense.weights,
        dense1_b: first.dense.biases,
        ln1_gammas: first.norm.gammas,
        ln1_betas: first.norm.betas,
        dense2_w: second.dense.weights,
        dense2_b: second.dense.biases,
        ln2_gammas: second.norm.gammas,
        ln2_betas: second.norm.betas,
    };
    Ok((layers, first.activation, global))
}

/// A dense layer, its activation, and a LayerNorm with [`EMBEDDING_LAYER_NORM_EPSILON`].
pub(super) struct NormalisedDense<'a> {
    pub(super) dense: Dense<'a>,
    pub(super) activation: Activation,
    pub(super) norm: Norm,
}

/// The dense layer, activation and LayerNorm with the result `tensor`.
pub(super) fn normalised_dense<'a>(
    graph: &Graph<'a>,
    tensor: &'a str,
) -> Result<NormalisedDense<'a>, Reason> {
    let Some(norm) = graph.layer_norm(tensor)? else {
        return Err(graph.unexpected(tensor, "LayerNormalization"));
    };
    check_epsilon(graph, tensor, norm.epsilon, &[EMBEDDING_LAYER_NORM_EPSILON])?;
    let (activation, input) = activation::recognise(graph, norm.input)?;
    let dense = graph.dense(input)?;
    let (gammas, betas) = graph.layer_norm_layers(&norm, dense.outputs)?;
    Ok(NormalisedDense { dense, activation, norm: Norm { gammas, betas, epsilon: norm.epsilon } })
}

/// Checks that the epsilon of the LayerNorm `tensor` is one of `known`.
fn check_epsilon<'a>(graph: &Graph<'a>, tensor: &'a str, epsilon: f64, known: &[f32]) -> Result<(), Reason> {
    let node = last_node(graph, tensor)?;
    check_epsilon_of(node, epsilon, known)
}

/// Checks that `epsilon`, of a LayerNorm that `node` belongs to, is one of `known`.
pub(super) fn check_epsilon_of(node: &Node, epsilon: f64, known: &[f32]) -> Result<(), Reason> {
    match known.iter().any(|&known| is_near(epsilon, f64::from(known))) {
        true => Ok(()),
        false => Err(operator_error(
            node,
            &format!("has a LayerNorm with epsilon {epsilon} instead of {}", known[0]),
        )),
    }
}

/// The layer of smolgen's shared matrix.
pub(super) fn smolgen_matrix(graph: &Graph<'_>, global: &Tensor) -> Result<Layer, Reason> {
    let [rows, columns] = dimensions(global)?[..] else {
        return Err(tensor_error(global.name(), "is not a matrix"));
    };
    constant::transposed_layer(graph, global, (rows, columns))
}
