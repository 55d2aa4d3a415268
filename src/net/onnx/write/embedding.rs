//! The layers from the input planes to the residual stream of an attention body.

use super::builder::{Builder, TO_END};
use super::encoder::{feed_forward, smolgen_global};
use super::functions::{activate, layer_norm};
use crate::architecture::{BodyKind, InputEmbedding};
use crate::input::InputPlanes;
use crate::network::{Embedding, EncoderStack, Network, PositionLayers};
use crate::weights::{Dense, positional_value};

/// The residual stream before the first encoder, `[batch * 64, channels]`.
pub(super) fn embed(
    builder: &mut Builder<'_>,
    network: &Network,
    embedding: &Embedding,
    stack: &EncoderStack,
    planes: String,
) -> String {
    if let Some(global) = &network.smolgen_global {
        smolgen_global(builder, global);
    }
    let squares = builder.transpose("/attn_body/transpose", &planes, &[0, 2, 3, 1]);
    let has_map = matches!(
        network.architecture.body,
        BodyKind::Attention { input_embedding: InputEmbedding::PeMap, .. }
    );
    let width = embedding.width as i64;
    let x = match &embedding.position {
        Some(position) => {
            let x = with_dense_positions(builder, position, &squares);
            let layer = joined_inputs(&embedding.planes, &position.reader);
            builder.dense("/attn_body/matmul", "/attn_body/add", &x, &layer)
        }
        None => {
            let x = match has_map {
                true => with_position_map(builder, &squares),
                false => {
                    let dimensions = [-1, InputPlanes::COUNT as i64];
                    builder.reshape("/attn_body/reshape", &squares, "/const/att_body_shape", &dimensions)
                }
            };
            builder.dense("/attn_body/matmul", "/attn_body/add", &x, &embedding.planes)
        }
    };
    let mut x = activate(builder, "/attn_body", x, network.activation());
    if let Some(ln) = &embedding.ln {
        x = layer_norm(builder, "/attn_body/ln", &x, ln);
    }
    // lc0's converter misspells the names of these two nodes.
    if let Some(gates) = &embedding.gates {
        let dimensions = [-1, 64, width];
        x = builder.reshape("/attn_body/ma_gating/rehape", &x, "/const/ma_gating/shape1", &dimensions);
        for (operator, name, gate) in
            [("Mul", "/ip_mul_gate", &gates.multiply), ("Add", "/ip_add_gate", &gates.add)]
        {
            let values = builder.transposed(&format!("{name}/w"), gate, 64, embedding.width);
            x = builder.node(operator, name, &[&x, &values], Vec::new());
        }
    }
    x = builder.reshape("/attn_body/rehape", &x, "/const/ma_gating/shape2", &[-1, width]);
    if let Some((ffn, ln)) = &embedding.ffn {
        let sum = feed_forward(builder, ffn, "/attn_body", &x, stack.ffn_activation, stack.alpha);
        x = layer_norm(builder, "/attn_body/ln2", &sum, ln);
    }
    x
}

/// The layer that reads the inputs of `first` and then those of `second`, and adds their results.
fn joined_inputs(first: &Dense, second: &Dense) -> Dense {
    let rows = first.weights.chunks_exact(first.inputs).zip(second.weights.chunks_exact(second.inputs));
    Dense {
        weights: rows.flat_map(|(first, second)| first.iter().chain(second)).copied().collect(),
        biases: first.biases.clone(),
        inputs: first.inputs + second.inputs,
        outputs: first.outputs,
    }
}

/// The planes of each square, and after them the row of PE_MAP's table for the square.
fn with_position_map(builder: &mut Builder<'_>, squares: &str) -> String {
    let planes = InputPlanes::COUNT as i64;
    let x = builder.reshape("/attn_body/reshape", squares, "/const/att_body_shape", &[-1, 64, planes]);
    let table: Vec<f32> =
        (0..64).flat_map(|square| (0..64).map(move |other| positional_value(square, other))).collect();
    let map = match builder.settings.batch_size {
        _ if builder.settings.opset < 8 => map_without_expand(builder, &x, &table),
        Some(positions) => {
            let shape = builder.integers("/const/pos_encoding_shape", &[positions as i64, 64, 64]);
            let table = builder.weights("/const/pos_encoding", &table, &[1, 64, 64]);
            builder.node("Expand", "/attn_body/expand", &[&table, &shape], Vec::new())
        }
        None => {
            let shape = builder.node("Shape", "/attn_body/shape", &[&x], Vec::new());
            let batch = builder.slice("/attn_body/batch", &shape, &[0], &[1]);
            let rows = builder.integers("/const/pos_encoding_shape", &[64, 64]);
            let shape = builder.concatenate("/attn_body/pos_encoding_shape", &[&batch, &rows], 0);
            let table = builder.weights("/const/pos_encoding", &table, &[1, 64, 64]);
            builder.node("Expand", "/attn_body/expand", &[&table, &shape], Vec::new())
        }
    };
    let x = builder.concatenate("/attn_body/padded_input", &[&x, &map], 2);
    builder.reshape("/attn_body/reshape2", &x, "/const/att_body_shape2", &[-1, planes + 64])
}

/// PE_MAP's table for each position of the batch, in an opset that has no Expand: a column of ones, as long as the
/// batch, times the table.
fn map_without_expand(builder: &mut Builder<'_>, x: &str, table: &[f32]) -> String {
    let first = builder.slice("/attn_body/pad/slice", x, &[0, 0, 0], &[TO_END, 1, 1]);
    let first = builder.reshape("/attn_body/pad/reshape_in", &first, "/const/pad_in_shape", &[-1, 1]);
    let zeros = builder.node("Sub", "/attn_body/pad/zeros_vec", &[&first, &first], Vec::new());
    let one = builder.weights("/attn_body/pad/one_vec/w", &[1.0], &[1]);
    let ones = builder.node("Add", "/attn_body/pad/one_vec", &[&zeros, &one], Vec::new());
    let table = builder.weights("/const/pos_encoding", table, &[1, 64 * 64]);
    let rows = builder.node("MatMul", "/attn_body/pad/expand", &[&ones, &table], Vec::new());
    builder.reshape("/attn_body/pad/reshape_out", &rows, "/const/pad_out_shape", &[-1, 64, 64])
}

/// The planes of each square, and after them the values that PE_DENSE computes for the square.
fn with_dense_positions(builder: &mut Builder<'_>, position: &PositionLayers, squares: &str) -> String {
    let (planes, pieces) = (InputPlanes::COUNT as i64, InputPlanes::PIECES);
    let values = position.reader.inputs as i64;
    let named = |last: &str| format!("/attn_body/embedding/{last}");
    let x = builder.reshape("/attn_body/reshape", squares, "/const/att_body_shape", &[-1, 64, planes]);
    let board = builder.slice(&named("slice"), &x, &[0, 0, 0], &[TO_END, 64, pieces as i32]);
    let board =
        builder.reshape(&named("reshape"), &board, "/const/pos_info_shape", &[-1, 64 * pieces as i64]);
    let board = builder.dense(&named("preprocess/matmul"), &named("preprocess/add"), &board, &position.board);
    let shape = "/const/pos_info_processed_shape";
    let board = builder.reshape(&named("preprocess/reshape"), &board, shape, &[-1, 64, values]);
    let x = builder.concatenate(&named("concat"), &[&x, &board], 2);
    builder.reshape(&named("out/reshape"), &x, "/const/embedding/out_shape", &[-1, planes + values])
}
