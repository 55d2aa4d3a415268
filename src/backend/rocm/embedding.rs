//! The steps from the planes to the residual stream of an attention body. [`super::forward`] explains the shapes.

use super::encoder;
use super::error::Result;
use super::ffi::arguments::ActivationArguments;
use super::ffi::hip::Address;
use super::kernels::{activation_code, grid};
use super::layers::SquareTable;
use super::network::{Embedding, EncoderStack};
use super::pass::Pass;
use super::planes::{expand, planes};
use super::steps::{Norm, Region, StepList};
use crate::net::architecture::Activation;
use crate::net::input::InputPlanes;
use crate::net::network::{Gates, PositionLayers};

/// Planes -> `stream [T][embedding]`.
pub(super) fn embed(
    pass: &Pass<'_>,
    embedding: &Embedding,
    stack: &EncoderStack,
    steps: &mut StepList<'_>,
) -> Result<Address> {
    let (rows, width) = (steps.rows(), embedding.width);
    let x = steps.region(Region::Stream, rows * width);
    // planes [T][112, or 176 with PE_MAP's table] -> dense -> [T][embedding]
    let planes = planes(&pass.input, embedding.planes.table, steps)?;
    steps.product("embedding", &embedding.planes.dense, rows, (planes, x))?;
    if let Some(PositionLayers { board, reader }) = &embedding.position {
        // pieces of the newest board [B][64 * 12] -> dense -> [B][64 * pe] = [T][pe] -> dense, added to [T][embedding]
        let pieces = steps.region(Region::Narrow, steps.positions * board.inputs);
        expand(&pass.input, SquareTable::EMPTY, InputPlanes::PIECES, pieces, steps)?;
        let position = steps.region(Region::Wide, steps.positions * board.outputs);
        steps.dense("positional layer", board, steps.positions, (pieces, position), Activation::None)?;
        steps.product_added("positional embedding", reader, rows, (position, x))?;
    }
    // act(x + b), LayerNorm, gates
    let activation = pass.network.layers.activation();
    match &embedding.ln {
        Some(ln) => {
            let norm = Norm::in_place(ln, x, embedding.planes.dense.bias, activation);
            steps.layer_norm("embedding LayerNorm", Norm { gates: gates_of(embedding), ..norm }, rows)?;
        }
        None => gate(x, embedding, activation, steps)?,
    }
    if let Some((ffn, ln)) = &embedding.ffn {
        // x = LN(alpha * ffn(x) + x)
        encoder::feed_forward("embedding", ffn, stack, x, width, steps)?;
        let branch = steps.region(Region::Branch, rows * width);
        let norm = Norm::join(ln, branch, ffn.dense2.bias, stack.alpha, x);
        steps.layer_norm("embedding feed-forward LayerNorm", norm, rows)?;
    }
    Ok(x)
}

/// `x = act(x + b) * multiply + add`, x `[T][embedding]`, gates `[64][embedding]`.
fn gate(x: Address, embedding: &Embedding, activation: Activation, steps: &mut StepList<'_>) -> Result<()> {
    let (rows, width) = (steps.rows(), embedding.width);
    let (Some(code), Some((multiply, add))) = (activation_code(activation), gates_of(embedding)) else {
        return steps.activate(
            "embedding activation",
            x,
            embedding.planes.dense.bias,
            (rows, width),
            activation,
        );
    };
    let blocks = (rows * width).div_ceil(2048);
    let launch = (steps.kernels.function("activation", "")?, grid(blocks, 1, 256));
    let arguments = ActivationArguments {
        input: x,
        bias: embedding.planes.dense.bias,
        multiply,
        add,
        output: x,
        rows: rows as i32,
        width: width as i32,
        bias_rows: 1,
        activation: code,
    };
    steps.kernel("embedding activation and gates", launch, arguments);
    Ok(())
}

/// The addresses of the gates' factors and offsets.
fn gates_of(embedding: &Embedding) -> Option<(Address, Address)> {
    embedding.gates.as_ref().map(|&Gates { multiply, add }| (multiply, add))
}
