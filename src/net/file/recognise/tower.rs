//! Recognises residual towers of 3x3 convolutions.

use super::activation;
use super::graph::{Graph, integer, only_input, operator_error, two_inputs};
use super::layers::Convolution;
use crate::architecture::Activation;
use crate::error::Reason;
use crate::file::proto::{ConvBlock, Residual, SeUnit};

/// A residual tower.
pub(super) struct Tower<'a> {
    /// The planes.
    pub(super) input: &'a str,
    pub(super) first: Option<ConvBlock>,
    pub(super) blocks: Vec<Residual>,
    pub(super) activation: Activation,
}

/// The tower with the result `tensor`.
pub(super) fn tower<'a>(graph: &Graph<'a>, tensor: &'a str) -> Result<Tower<'a>, Reason> {
    let mut blocks = Vec::new();
    let (activation, mut sum) = activation::recognise(graph, tensor)?;
    loop {
        let Some((a, b)) = graph.two_terms(sum) else {
            let first = graph.convolution(sum)?;
            blocks.reverse();
            return Ok(Tower { input: first.input, first: first.block, blocks, activation });
        };
        // The residual stream is the result of an activation, and the branch is a convolution or a sum.
        let is_branch = |tensor: &'a str| graph.is(tensor, "Conv") || graph.is(tensor, "Add");
        let (branch, stream) = if is_branch(a) { (a, b) } else { (b, a) };
        blocks.push(block(graph, branch, stream, activation)?);
        let (own, before) = activation::recognise(graph, stream)?;
        check_activation(graph, stream, own, activation)?;
        sum = before;
    }
}

/// The residual block with the branch `branch`, which reads `stream`.
fn block<'a>(
    graph: &Graph<'a>,
    branch: &'a str,
    stream: &'a str,
    activation: Activation,
) -> Result<Residual, Reason> {
    let (result, se) = match graph.is(branch, "Add") {
        false => (branch, None),
        true => {
            let (result, se) = squeeze_excitation(graph, branch, activation)?;
            (result, Some(se))
        }
    };
    let second = graph.convolution(result)?;
    let (own, before) = activation::recognise(graph, second.input)?;
    check_activation(graph, second.input, own, activation)?;
    let first = graph.convolution(before)?;
    let Convolution { input, block, .. } = first;
    if !graph.same(input, stream) {
        return Err(graph.unexpected(before, "the first convolution of a residual block"));
    }
    Ok(Residual { conv1: block, conv2: second.block, se })
}

/// Checks that the activation with the result `tensor` is that of the whole network.
pub(super) fn check_activation<'a>(
    graph: &Graph<'a>,
    tensor: &'a str,
    found: Activation,
    expected: Activation,
) -> Result<(), Reason> {
    match found == expected {
        true => Ok(()),
        false => Err(graph.unexpected(tensor, &format!("the activation {expected:?} and not {found:?}"))),
    }
}

/// The squeeze-and-excitation unit with the result `tensor`, and the tensor that it is applied to.
fn squeeze_excitation<'a>(
    graph: &Graph<'a>,
    tensor: &'a str,
    activation: Activation,
) -> Result<(&'a str, SeUnit), Reason> {
    let (a, b) = two_inputs(graph.expect(tensor, "Add")?)?;
    let (product, offset) = if graph.is(a, "Mul") { (a, b) } else { (b, a) };
    let (a, b) = two_inputs(graph.expect(product, "Mul")?)?;
    let (factor, result) = if graph.is(a, "Sigmoid") { (a, b) } else { (b, a) };
    let factor = only_input(graph.expect(factor, "Sigmoid")?)?;
    let split = graph.expect(factor, "Split")?;
    let (_, sizes) =
        graph.reshaped(split.input.first().ok_or_else(|| operator_error(split, "has no input"))?)?;
    let channels = sizes.first().copied().unwrap_or(0);
    let half = i64::try_from(channels / 2).unwrap_or(0);
    let (first, values) = graph.split(factor, 0, &[half, half])?;
    let (second, _) = graph.split(offset, 1, &[half, half])?;
    if !std::ptr::eq(first, second) {
        return Err(operator_error(second, "gives the offsets of another unit than the factors"));
    }
    let excite = graph.dense(graph.reshape(values, &[channels, 1, 1])?)?;
    let (own, hidden) = activation::recognise(graph, excite.input)?;
    check_activation(graph, excite.input, own, activation)?;
    let squeeze = graph.dense(hidden)?;
    let pooled = means(graph, squeeze.input)?;
    if !graph.same(pooled, result) || excite.outputs != channels {
        return Err(graph.unexpected(tensor, "squeeze and excitation of one tensor"));
    }
    let se = SeUnit { w1: squeeze.weights, b1: squeeze.biases, w2: excite.weights, b2: excite.biases };
    Ok((result, se))
}

/// The tensor of whose channels `tensor` contains the means: ReduceMean, or GlobalAveragePool and Squeeze.
fn means<'a>(graph: &Graph<'a>, tensor: &'a str) -> Result<&'a str, Reason> {
    if !graph.is(tensor, "Squeeze") {
        let node = graph.expect(tensor, "ReduceMean")?;
        return match integer(node, "keepdims", 1) {
            0 => graph.mean(tensor, &[2, 3]),
            _ => Err(operator_error(node, "keeps the dimensions of the squares")),
        };
    }
    let (pooled, axes) = graph.axes(graph.expect(tensor, "Squeeze")?)?;
    match axes[..] {
        [] | [2, 3] | [-2, -1] => only_input(graph.expect(pooled, "GlobalAveragePool")?),
        _ => Err(graph.unexpected(tensor, "Squeeze of the squares")),
    }
}
