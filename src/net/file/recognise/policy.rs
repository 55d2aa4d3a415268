//! Recognises policy heads.

use super::activation;
use super::constant;
use super::embedding::flattened;
use super::encoder::{self, Stack, check_epsilon_of};
use super::graph::{Graph, integer, operator_error, tensor_error, two_inputs};
use super::layers::{Dense, Matrix, is_near};
use super::tower::check_activation;
use crate::architecture::Activation;
use crate::error::Reason;
use crate::file::proto::Weights;
use crate::file::schema::PolicyFormat;
use crate::onnx::proto::Tensor;
use crate::policy_index::{
    ATTENTION_LOGITS, CONVOLUTION_PLANES, POLICY_SIZE, attention_index, convolution_index,
};
use crate::weights::{EMBEDDING_LAYER_NORM_EPSILON, POLICY_LAYER_NORM_EPSILON};

/// What a policy head shares with the rest of the network.
pub(super) struct Trunk<'a> {
    /// The tensor that all heads read.
    pub(super) tensor: &'a str,
    /// Whether it is the result of encoders.
    pub(super) attention: bool,
    pub(super) activation: Activation,
    /// The activation of the feed-forward blocks of the body's encoders.
    pub(super) ffn_activation: Activation,
    /// Smolgen's activation and its shared matrix.
    pub(super) smolgen: Option<(Activation, &'a Tensor)>,
}

/// The policy head with the result `tensor`. Its layers go into `weights`.
pub(super) fn policy<'a>(
    graph: &Graph<'a>,
    tensor: &'a str,
    trunk: &Trunk<'a>,
    weights: &mut Weights,
) -> Result<PolicyFormat, Reason> {
    if !graph.is(tensor, "Gather") {
        return classical(graph, tensor, trunk, weights).map(|()| PolicyFormat::Classical);
    }
    let node = graph.expect(tensor, "Gather")?;
    let (flat, table) = two_inputs(node)?;
    let table = graph.constant(table).ok_or_else(|| operator_error(node, "has no constant table"))?;
    if !matches!(integer(node, "axis", 0), 1 | -1) {
        return Err(operator_error(node, "is not along the logits"));
    }
    let (logits, sizes) = graph.reshaped(flat)?;
    let [outputs] = sizes[..] else {
        return Err(graph.unexpected(flat, "a Reshape to a list of logits"));
    };
    match graph.is(logits, "Concat") {
        true => {
            check_table(table, ATTENTION_LOGITS, attention_index)?;
            attention(graph, logits, trunk, weights).map(|()| PolicyFormat::Attention)
        }
        false => {
            check_table(table, 64 * CONVOLUTION_PLANES, convolution_index)?;
            convolution(graph, logits, outputs, trunk, weights).map(|()| PolicyFormat::Convolution)
        }
    }
}

/// Checks that `table` has, for each move, the one of the `logits` that `move_of` gives it to.
fn check_table(table: &Tensor, logits: usize, move_of: fn(usize) -> Option<u16>) -> Result<(), Reason> {
    let mut expected = vec![0; POLICY_SIZE];
    for logit in 0..logits {
        if let Some(entry) = move_of(logit).and_then(|index| expected.get_mut(usize::from(index))) {
            *entry = logit as i64;
        }
    }
    match constant::integers(table)? == expected {
        true => Ok(()),
        false => Err(tensor_error(table.name(), "is not the table of moves of lc0's networks")),
    }
}

fn classical<'a>(
    graph: &Graph<'a>,
    tensor: &'a str,
    trunk: &Trunk<'a>,
    weights: &mut Weights,
) -> Result<(), Reason> {
    let dense = graph.dense(tensor)?;
    let (activated, sizes) = graph.reshaped(dense.input)?;
    let (activation, result) = activation::recognise(graph, activated)?;
    check_activation(graph, activated, activation, trunk.activation)?;
    let convolution = graph.convolution(result)?;
    if !graph.same(convolution.input, trunk.tensor) || sizes != [64 * convolution.outputs] {
        return Err(graph.unexpected(result, "a convolution of the body's result"));
    }
    weights.policy = convolution.block;
    (weights.ip_pol_w, weights.ip_pol_b) = (dense.weights, dense.biases);
    Ok(())
}

fn convolution<'a>(
    graph: &Graph<'a>,
    tensor: &'a str,
    outputs: usize,
    trunk: &Trunk<'a>,
    weights: &mut Weights,
) -> Result<(), Reason> {
    let last = graph.convolution(tensor)?;
    let (activation, result) = activation::recognise(graph, last.input)?;
    check_activation(graph, last.input, activation, trunk.activation)?;
    let first = graph.convolution(result)?;
    if !graph.same(first.input, trunk.tensor)
        || outputs != 64 * last.outputs
        || (first.size, last.size) != (3, 3)
    {
        return Err(graph.unexpected(tensor, "two 3x3 convolutions of the body's result"));
    }
    (weights.policy1, weights.policy) = (first.block, last.block);
    Ok(())
}

fn attention<'a>(
    graph: &Graph<'a>,
    tensor: &'a str,
    trunk: &Trunk<'a>,
    weights: &mut Weights,
) -> Result<(), Reason> {
    let node = graph.expect(tensor, "Concat")?;
    let (logits, promotions) = two_inputs(node)?;
    if integer(node, "axis", 0) != 1 || node.input.len() != 2 {
        return Err(operator_error(node, "does not append the promotions to the other moves"));
    }
    let (product, factor) = graph.unscaled(logits);
    let (queries, keys) = two_inputs(graph.expect(product, "MatMul")?)?;
    let keys = graph.transpose(keys, &[0, 2, 1])?;
    let (queries, keys_of_squares) = (projection(graph, queries)?, projection(graph, keys)?);
    let depth = queries.outputs;
    if !graph.same(queries.input, keys_of_squares.input) || keys_of_squares.outputs != depth {
        return Err(graph.unexpected(product, "queries and keys of the same tensor"));
    }
    if !is_near(factor, 1.0 / (depth as f64).sqrt()) {
        return Err(graph.unexpected(logits, &format!("a division by the root of {depth}")));
    }
    let offsets = promotion_offsets(graph, promotions, logits, keys, depth)?;
    weights.ip4_pol_w = Some(offsets.weights);
    (weights.ip2_pol_w, weights.ip2_pol_b) = (queries.weights, queries.biases);
    (weights.ip3_pol_w, weights.ip3_pol_b) = (keys_of_squares.weights, keys_of_squares.biases);
    embedding(graph, queries.input, trunk, weights)
}

/// The dense layer to the queries or the keys of the 64 squares, `tensor`.
fn projection<'a>(graph: &Graph<'a>, tensor: &'a str) -> Result<Dense<'a>, Reason> {
    let (flat, sizes) = graph.reshaped(tensor)?;
    let dense = graph.dense(flat)?;
    match sizes == [64, dense.outputs] {
        true => Ok(dense),
        false => Err(graph.unexpected(tensor, "the queries or keys of 64 squares")),
    }
}

/// The layer from the keys of the last rank to the logits of promotions, which are `tensor`. To these are added the
/// logits of the moves from the seventh rank to the eighth.
fn promotion_offsets<'a>(
    graph: &Graph<'a>,
    tensor: &'a str,
    logits: &'a str,
    keys: &'a str,
    depth: usize,
) -> Result<Matrix<'a>, Reason> {
    let sum = graph.reshape(tensor, &[3, 64])?;
    let (a, b) = graph.two_terms(sum).ok_or_else(|| graph.unexpected(sum, "Add"))?;
    let is_offsets = |tensor| graph.reshaped(tensor).is_ok_and(|(_, sizes)| sizes == [1, 24]);
    let (offsets, moves) = if is_offsets(a) { (a, b) } else { (b, a) };

    // Each move is there three times, once for each piece.
    let repeated = graph.reshape(moves, &[8, 24])?;
    let node = graph.expect(repeated, "Concat")?;
    let [first, others @ ..] = &node.input[..] else { return Err(operator_error(node, "has no inputs")) };
    let is_threefold = others.len() == 2 && others.iter().all(|other| graph.same(first, other));
    if !is_threefold || !matches!(integer(node, "axis", 0), 2 | -1) {
        return Err(operator_error(node, "does not repeat each move for three pieces"));
    }
    let read = graph.sliced(graph.reshape(first, &[64, 1])?, &[(48, 56), (56, 64)])?;
    if !graph.same(read, logits) {
        return Err(operator_error(node, "repeats other logits than those of the moves"));
    }

    let pieces = graph.transpose(graph.reshape(offsets, &[1, 24])?, &[0, 2, 1])?;
    let (a, b) = graph.two_terms(pieces).ok_or_else(|| graph.unexpected(pieces, "Add"))?;
    let is_first = graph.producer(a).is_some_and(|producer| producer.output == 0);
    let (own, common) = if is_first { (a, b) } else { (b, a) };
    let (split, rows) = graph.split(own, 0, &[3, 1])?;
    if !std::ptr::eq(split, graph.split(common, 1, &[3, 1])?.0) {
        return Err(operator_error(split, "is not the split that the common row comes from"));
    }
    let layer = graph.matrix(graph.transpose(rows, &[0, 2, 1])?)?;
    let read = graph.sliced(layer.input, &[(56, 64), (0, depth as i64)])?;
    match graph.same(read, keys) && layer.outputs == 4 {
        true => Ok(layer),
        false => Err(operator_error(split, "does not split the offsets of promotions")),
    }
}

/// The embedding of an attention policy and its own encoders, whose result is `tensor`.
fn embedding<'a>(
    graph: &Graph<'a>,
    tensor: &'a str,
    trunk: &Trunk<'a>,
    weights: &mut Weights,
) -> Result<(), Reason> {
    let Stack { input, layers, settings, embedding } = encoder::stack(graph, tensor)?;
    // An attention policy on a residual tower is older than activations in the header. It always uses SELU.
    let (activation, ffn_activation) = match trunk.attention {
        true => (trunk.activation, trunk.ffn_activation),
        false => (Activation::Selu, Activation::Selu),
    };
    if let Some(settings) = settings {
        let is_known = settings.ffn_activation == ffn_activation
            && is_near(settings.alpha, 1.0)
            && settings.smolgen.is_none_or(|(activation, global)| {
                trunk.smolgen.is_some_and(|(body, other)| activation == body && std::ptr::eq(global, other))
            });
        if !is_known {
            return Err(operator_error(settings.node, "ends an encoder that no policy head of lc0 has"));
        }
        // lc0's CPU backend uses the first epsilon. Its converter writes that of the body, which may be the second.
        let known = [POLICY_LAYER_NORM_EPSILON, EMBEDDING_LAYER_NORM_EPSILON];
        check_epsilon_of(settings.node, settings.epsilon, &known)?;
        weights.pol_headcount = u32::try_from(settings.heads).ok();
    }
    if let Some(block) = embedding {
        return Err(operator_error(
            block.node,
            "ends a feed-forward block without attention in a policy head",
        ));
    }
    weights.pol_encoder = layers;
    let (found, sum) = activation::recognise(graph, input)?;
    check_activation(graph, input, found, activation)?;
    let dense = graph.dense(sum)?;
    let read = match trunk.attention {
        true => dense.input,
        false => flattened(graph, dense.input, dense.inputs)?,
    };
    if !graph.same(read, trunk.tensor) {
        return Err(graph.unexpected(sum, "a dense layer on the body's result"));
    }
    (weights.ip_pol_w, weights.ip_pol_b) = (dense.weights, dense.biases);
    Ok(())
}
