//! Recognises the embedding of an attention body: the layers from the planes to the first encoder.

use super::activation;
use super::constant::{self, dimensions};
use super::encoder::{FeedForward, NormalisedDense, normalised_dense};
use super::graph::{Graph, integer, operator_error, tensor_error, two_inputs};
use super::layers::Dense;
use crate::architecture::{Activation, InputEmbedding};
use crate::error::Reason;
use crate::file::proto::Weights;
use crate::input::InputPlanes;
use crate::onnx::proto::{Node, Tensor};
use crate::weights::positional_value;

/// The squares, then the channels: the order in which an attention body reads the planes.
const CHANNELS_LAST: [i64; 4] = [0, 2, 3, 1];

/// The embedding of an attention body. Its layers have been put into the weights.
pub(super) struct Embedding<'a> {
    /// The planes, or the result of a residual tower.
    pub(super) input: &'a str,
    pub(super) kind: InputEmbedding,
    pub(super) activation: Activation,
}

/// The embedding with the result `tensor`, which the feed-forward block `block` may follow. Its layers go into
/// `weights`.
pub(super) fn embedding<'a>(
    graph: &Graph<'a>,
    tensor: &'a str,
    block: Option<FeedForward<'a>>,
    weights: &mut Weights,
) -> Result<Embedding<'a>, Reason> {
    let ungated = gates(graph, tensor, weights)?;
    let (dense, activation) = match graph.layer_norm(ungated)?.is_some() {
        true => {
            let NormalisedDense { dense, activation, norm } = normalised_dense(graph, ungated)?;
            (weights.ip_emb_ln_gammas, weights.ip_emb_ln_betas) = (norm.gammas, norm.betas);
            (dense, activation)
        }
        false => {
            let (activation, sum) = activation::recognise(graph, ungated)?;
            (graph.dense(sum)?, activation)
        }
    };
    let Dense { input, weights: matrix, biases, inputs, .. } = dense;
    (weights.ip_emb_w, weights.ip_emb_b) = (matrix, biases);
    let (input, kind) = features(graph, graph.reshape(input, &[inputs])?, weights)?;
    let is_dense = kind == InputEmbedding::PeDense;
    if is_dense != block.is_some() || is_dense != weights.ip_emb_ln_gammas.is_some() {
        return Err(graph.unexpected(tensor, "either all parts of a PE_DENSE embedding or none"));
    }
    if let Some(FeedForward { layers, norm, .. }) = block {
        weights.ip_emb_ffn = Some(layers);
        (weights.ip_emb_ffn_ln_gammas, weights.ip_emb_ffn_ln_betas) = (norm.gammas, norm.betas);
    }
    Ok(Embedding { input, kind, activation })
}

/// The input of the gates with the result `tensor`, or of the Reshape there is without gates.
fn gates<'a>(graph: &Graph<'a>, tensor: &'a str, weights: &mut Weights) -> Result<&'a str, Reason> {
    let mut rest = match graph.is(tensor, "Reshape") {
        true => graph.reshaped(tensor)?.0,
        false => tensor,
    };
    let mut width = None;
    for (operator, gate) in [("Add", &mut weights.ip_add_gate), ("Mul", &mut weights.ip_mult_gate)] {
        let Some((input, constant)) = gated(graph, rest, operator)? else { continue };
        let columns = dimensions(constant)?.last().copied().unwrap_or(0);
        *gate = Some(constant::transposed_layer(graph, constant, (64, columns))?);
        (width, rest) = (Some(columns), input);
    }
    match width {
        Some(width) => graph.reshape(rest, &[64, width]),
        None => Ok(rest),
    }
}

/// The operands of the gate with the result `tensor`: an operator with a constant for each square and channel.
fn gated<'a>(
    graph: &Graph<'a>,
    tensor: &'a str,
    operator: &str,
) -> Result<Option<(&'a str, &'a Tensor)>, Reason> {
    let Some(producer) = graph.producer(tensor).filter(|_| graph.is(tensor, operator)) else {
        return Ok(None);
    };
    let Some((input, constant)) = graph.with_constant(producer.node) else { return Ok(None) };
    Ok(matches!(dimensions(constant)?[..], [64, _]).then_some((input, constant)))
}

/// The features of each square, `tensor`: the planes alone, or with a positional encoding.
fn features<'a>(
    graph: &Graph<'a>,
    tensor: &'a str,
    weights: &mut Weights,
) -> Result<(&'a str, InputEmbedding), Reason> {
    if !graph.is(tensor, "Concat") {
        return Ok((channels_last(graph, tensor)?, InputEmbedding::None));
    }
    let node = graph.expect(tensor, "Concat")?;
    let (planes, encoding) = two_inputs(node)?;
    if !matches!(integer(node, "axis", 0), 2 | -1) || node.input.len() != 2 {
        return Err(operator_error(node, "does not join two tensors along their channels"));
    }
    let input = channels_last(graph, planes)?;
    let is_layer = graph.is(encoding, "Reshape") && graph.is_dense(graph.reshaped(encoding)?.0);
    match is_layer {
        true => board_layer(graph, encoding, planes, weights).map(|()| (input, InputEmbedding::PeDense)),
        false => table(graph, encoding).map(|()| (input, InputEmbedding::PeMap)),
    }
}

/// The planes of which `tensor` has the channels of each square.
pub(super) fn channels_last<'a>(graph: &Graph<'a>, tensor: &'a str) -> Result<&'a str, Reason> {
    let squares = match graph.is(tensor, "Reshape") {
        true => graph.reshape(tensor, &[64, InputPlanes::COUNT])?,
        false => tensor,
    };
    graph.transpose(squares, &CHANNELS_LAST)
}

/// Reads PE_DENSE's layer with the result `tensor`, which reads the pieces of the newest board from `planes`.
fn board_layer<'a>(
    graph: &Graph<'a>,
    tensor: &'a str,
    planes: &'a str,
    weights: &mut Weights,
) -> Result<(), Reason> {
    let (flat, sizes) = graph.reshaped(tensor)?;
    let Dense { input, weights: matrix, biases, outputs, .. } = graph.dense(flat)?;
    let is_whole = matches!(sizes[..], [64, values] if values.checked_mul(64) == Some(outputs));
    if !is_whole {
        return Err(graph.unexpected(tensor, "the values of 64 squares"));
    }
    let board = graph.reshape(input, &[64 * InputPlanes::PIECES])?;
    let read = graph.sliced(board, &[(0, 64), (0, InputPlanes::PIECES as i64)])?;
    if !graph.same(read, planes) {
        return Err(graph.unexpected(board, "the pieces of the newest board"));
    }
    (weights.ip_emb_preproc_w, weights.ip_emb_preproc_b) = (matrix, biases);
    Ok(())
}

/// Checks that `tensor` is PE_MAP's table, once for each position.
fn table<'a>(graph: &Graph<'a>, tensor: &'a str) -> Result<(), Reason> {
    let constant = match graph.producer(tensor).map(|producer| producer.node) {
        None => graph.constant(tensor),
        Some(node) if node.op_type() == "Expand" => graph.constant(two_inputs(node)?.0),
        Some(node) => repeated(graph, node)?,
    };
    let Some(constant) = constant else {
        return Err(graph.unexpected(tensor, "a constant positional encoding"));
    };
    let expected = || (0..64 * 64).map(|index| positional_value(index / 64, index % 64));
    let has_size = dimensions(constant)?.into_iter().fold(1, usize::saturating_mul) == 64 * 64;
    match has_size && constant::values(constant)?.into_iter().eq(expected()) {
        true => Ok(()),
        false => Err(tensor_error(constant.name(), "is not the positional encoding of lc0's networks")),
    }
}

/// The table that is multiplied by a column of ones to repeat it, which is how operator sets before 8 do it. `node` is
/// the last operator.
fn repeated<'a>(graph: &Graph<'a>, node: &'a Node) -> Result<Option<&'a Tensor>, Reason> {
    let error = || operator_error(node, "does not repeat a positional encoding");
    let result = node.output.first().ok_or_else(error)?;
    let (ones, table) = two_inputs(graph.expect(graph.reshape(result, &[64, 64])?, "MatMul")?)?;
    let (zeros, one) = graph.with_constant(graph.expect(ones, "Add")?).ok_or_else(error)?;
    let difference = graph.expect(zeros, "Sub")?;
    let (a, b) = two_inputs(difference)?;
    // The difference has one value for each position, because a Slice took the first of its planes on one square.
    let first = graph.slice(graph.reshape(a, &[1])?)?;
    let is_column =
        graph.same(a, b) && constant::scalar(one) == Some(1.0) && first.ends.get(1..) == Some(&[1, 1]);
    match is_column {
        true => Ok(graph.constant(table)),
        false => Err(error()),
    }
}

/// The result of a tower whose `width` channels `tensor` has for each square of each position.
pub(super) fn flattened<'a>(graph: &Graph<'a>, tensor: &'a str, width: usize) -> Result<&'a str, Reason> {
    graph.transpose(graph.reshape(tensor, &[width])?, &CHANNELS_LAST)
}
