//! The steps from the planes to the residual stream of an attention body. [`super::forward`] explains the shapes.

use super::arguments::Pass;
use super::encoder;
use super::norm::Norm;
use super::planes::{expand, planes};
use super::scratch::Region;
use super::steps::StepList;
use crate::network::device_network::{Embedding, EncoderStack};
use crate::network::layers::SquareTable;
use crate::runtime::error::Result;
use crate::runtime::ffi::gemm::GateOperands;
use crate::runtime::ffi::hip::Address;
use rukh_net::architecture::Activation;
use rukh_net::input::InputPlanes;
use rukh_net::network::{Gates, PositionLayers};

/// Planes -> `stream [T][embedding]`.
pub(crate) fn embed(
    pass: &Pass<'_>,
    embedding: &Embedding,
    stack: &EncoderStack,
    steps: &mut StepList<'_>,
) -> Result<Address> {
    let (rows, width) = (steps.rows(), embedding.width);
    let x = steps.region(Region::Stream, rows * width);
    // planes [T][112, or 176 with PE_MAP's table] -> dense -> [T][embedding]
    let planes = planes(&pass.input, embedding.planes.table, steps)?;
    let layer = &embedding.planes.dense;
    // act(x + b), LayerNorm, gates
    let activation = pass.network.layers.activation();
    let norm = embedding.ln.as_ref().map(|ln| {
        let norm = Norm::in_place(ln, x, layer.bias, activation);
        ("embedding LayerNorm", Norm { gates: gates_of(embedding), ..norm })
    });
    match (&embedding.position, norm) {
        (Some(PositionLayers { board, reader }), norm) => {
            steps.gemm("embedding", layer, rows, (planes, x))?;
            // pieces of the newest board [B][64 * 12] -> dense -> [B][64 * pe] = [T][pe] -> dense, added to [T][embedding]
            let pieces = steps.region(Region::Narrow, steps.positions * board.inputs);
            expand(&pass.input, SquareTable::EMPTY, InputPlanes::PIECES, pieces, steps)?;
            let position = steps.region(Region::Wide, steps.positions * board.outputs);
            steps.dense("positional layer", board, steps.positions, (pieces, position), Activation::None)?;
            let reader = ("positional embedding", reader);
            match norm {
                Some(norm) => steps.gemm_added_and_norm(reader, rows, position, norm)?,
                None => {
                    steps.gemm_added(reader.0, reader.1, rows, (position, x))?;
                    let operands = (x, layer.bias, gates_of(embedding));
                    steps.activate("embedding activation", operands, (rows, width), activation)?;
                }
            }
        }
        (None, Some(norm)) => steps.gemm_and_norm(("embedding", layer), rows, planes, norm)?,
        (None, None) => {
            let epilogue = (activation, gates_of(embedding));
            steps.gated_dense("embedding", layer, rows, (planes, x), epilogue)?;
        }
    }
    if let Some((ffn, ln)) = &embedding.ffn {
        // x = LN(alpha * ffn(x) + x)
        let norm = ("embedding feed-forward LayerNorm", ln);
        encoder::feed_forward("embedding", ffn, norm, stack, (x, width), steps)?;
    }
    Ok(x)
}

/// The addresses of the gates' factors and offsets.
fn gates_of(embedding: &Embedding) -> Option<GateOperands> {
    embedding.gates.as_ref().map(|&Gates { multiply, add }| GateOperands { multiply, add })
}
