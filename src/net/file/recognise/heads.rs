//! Recognises the value head and the moves-left head.

use super::activation;
use super::graph::{Graph, only_input};
use super::layers::Dense;
use super::tower::check_activation;
use crate::architecture::Activation;
use crate::error::Reason;
use crate::file::proto::{ConvBlock, Layer};

/// A head with one or three outputs.
pub(super) struct ScalarHead<'a> {
    /// The tensor that the head reads.
    pub(super) input: &'a str,
    pub(super) first: FirstLayer,
    pub(super) hidden: (Option<Layer>, Option<Layer>),
    pub(super) output: (Option<Layer>, Option<Layer>),
    /// The activation of the first two layers.
    pub(super) activation: Activation,
}

/// The first layer of a head.
pub(super) enum FirstLayer {
    /// On a residual tower.
    Convolution(Option<Box<ConvBlock>>),
    /// On an attention body: weights and biases.
    Dense(Option<Layer>, Option<Layer>),
}

/// The value head with the result `tensor`: probabilities if `wdl` is set, and otherwise one value.
pub(super) fn value<'a>(graph: &Graph<'a>, tensor: &'a str, wdl: bool) -> Result<ScalarHead<'a>, Reason> {
    let output = match wdl {
        true => graph.softmax(tensor, 2)?,
        false => only_input(graph.expect(tensor, "Tanh")?)?,
    };
    scalar_head(graph, graph.dense(output)?)
}

/// The moves-left head with the result `tensor`. Rukh and lc0's other backends end it with ReLU, and so has lc0's
/// converter since 2025; before, it wrote the activation of the network, which differs only close to 0.
pub(super) fn moves_left<'a>(graph: &Graph<'a>, tensor: &'a str) -> Result<ScalarHead<'a>, Reason> {
    let (activation, sum) = activation::recognise(graph, tensor)?;
    let head = scalar_head(graph, graph.dense(sum)?)?;
    match activation {
        Activation::Relu => Ok(head),
        _ => check_activation(graph, tensor, activation, head.activation).map(|()| head),
    }
}

/// The head whose last layer is `output`.
fn scalar_head<'a>(graph: &Graph<'a>, output: Dense<'a>) -> Result<ScalarHead<'a>, Reason> {
    let (activation, sum) = activation::recognise(graph, output.input)?;
    let hidden = graph.dense(sum)?;
    let (flat, sizes) = graph.reshaped(hidden.input)?;
    let (first_activation, result) = activation::recognise(graph, flat)?;
    check_activation(graph, flat, first_activation, activation)?;
    let (input, first, outputs) = match graph.is(result, "Conv") {
        true => {
            let first = graph.convolution(result)?;
            (first.input, FirstLayer::Convolution(first.block.map(Box::new)), first.outputs)
        }
        false => {
            let first = graph.dense(result)?;
            (first.input, FirstLayer::Dense(first.weights, first.biases), first.outputs)
        }
    };
    if sizes != [64 * outputs] {
        return Err(graph.unexpected(hidden.input, &format!("a Reshape to 64 x {outputs} values")));
    }
    Ok(ScalarHead {
        input,
        first,
        hidden: (hidden.weights, hidden.biases),
        output: (output.weights, output.biases),
        activation,
    })
}
