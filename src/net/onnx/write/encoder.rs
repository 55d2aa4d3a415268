//! Transformer encoders, of the body or of a policy head.
//!
//! The residual stream is `[batch * 64, channels]`.

use super::builder::Builder;
use super::functions::{activate, layer_norm};
use crate::architecture::Activation;
use crate::network::{Encoder, EncoderStack, FeedForward, Smolgen};
use crate::weights::Dense;

/// The name of smolgen's last layer, which all encoders share.
const SMOLGEN_GLOBAL: &str = "/const/smolgen_w";

/// The factor of the products of queries and keys, in lc0's arithmetic.
pub(super) fn score_scale(depth: usize) -> f32 {
    1.0 / (depth as f32).sqrt()
}

/// Adds the constant that the smolgen parts of all encoders use.
pub(super) fn smolgen_global(builder: &mut Builder<'_>, global: &Dense) {
    builder.transposed(SMOLGEN_GLOBAL, &global.weights, global.inputs, global.outputs);
}

/// The residual stream after a stack of encoders, which are called `{name}0`, `{name}1` and so on.
pub(super) fn encode(builder: &mut Builder<'_>, stack: &EncoderStack, name: &str, mut x: String) -> String {
    for (index, encoder) in stack.encoders.iter().enumerate() {
        x = encode_one(builder, stack, encoder, &format!("{name}{index}"), x);
    }
    x
}

fn encode_one(
    builder: &mut Builder<'_>,
    stack: &EncoderStack,
    encoder: &Encoder,
    name: &str,
    x: String,
) -> String {
    let attention = attention(builder, stack, encoder, name, &x);
    let attention = scaled(builder, &format!("{name}/alpha*input"), attention, stack.alpha);
    let sum = builder.node("Add", &format!("{name}/mha/out/skip"), &[&attention, &x], Vec::new());
    let x = layer_norm(builder, &format!("{name}/ln1"), &sum, &encoder.ln1);
    let sum = feed_forward(builder, &encoder.ffn, name, &x, stack.ffn_activation, stack.alpha);
    layer_norm(builder, &format!("{name}/ln2"), &sum, &encoder.ln2)
}

fn scaled(builder: &mut Builder<'_>, name: &str, x: String, alpha: f32) -> String {
    if alpha == 1.0 { x } else { builder.scale(name, &x, alpha) }
}

/// Multi-head attention up to its output layer.
fn attention(
    builder: &mut Builder<'_>,
    stack: &EncoderStack,
    encoder: &Encoder,
    name: &str,
    x: &str,
) -> String {
    let named = |last: &str| format!("{name}/mha/{last}");
    let [query, key, value] = &encoder.qkv;
    let d_model = query.outputs;
    let (heads, depth) = (stack.heads as i64, d_model / stack.heads);
    let shape = builder.integers(&format!("/const{name}/mha/shape"), &[-1, 64, heads, depth as i64]);
    let mut per_head = |letter: char, layer: &Dense, order: &[i64]| {
        let named = |last: &str| named(&format!("{letter}/{last}"));
        let rows = builder.dense(&named("w"), &named("b"), x, layer);
        let rows = builder.node("Reshape", &named("reshape"), &[&rows, &shape], Vec::new());
        builder.transpose(&named("transpose"), &rows, order)
    };
    let queries = per_head('Q', query, &[0, 2, 1, 3]);
    let keys = per_head('K', key, &[0, 2, 3, 1]);
    let values = per_head('V', value, &[0, 2, 1, 3]);
    let scores = builder.node("MatMul", &named("QK/matmul"), &[&queries, &keys], Vec::new());
    let mut scores = builder.scale(&named("QK/scale"), &scores, score_scale(depth));
    if let Some(layers) = &encoder.smolgen {
        let generated = smolgen(builder, stack, layers, name, x);
        scores = builder.node("Add", &format!("{name}/smolgen_weights"), &[&scores, &generated], Vec::new());
    }
    let shares = builder.softmax(&named("QK/softmax"), &scores, 3);
    let mut mixed = builder.node("MatMul", &named("QKV/matmul"), &[&shares, &values], Vec::new());
    if heads > 1 {
        mixed = builder.transpose(&named("out/transpose"), &mixed, &[0, 2, 1, 3]);
    }
    let shape = format!("/const{name}/mha/out/shape");
    let mixed = builder.reshape(&named("out/reshape"), &mixed, &shape, &[-1, d_model as i64]);
    builder.dense(&named("out/dense/w"), &named("out/dense/b"), &mixed, &encoder.output)
}

/// The logits that smolgen adds to those of attention: `[batch, heads, 64, 64]`.
fn smolgen(builder: &mut Builder<'_>, stack: &EncoderStack, layers: &Smolgen, name: &str, x: &str) -> String {
    let named = |last: &str| format!("{name}/smolgen/{last}");
    let shape = |last: &str| format!("/const{name}/smolgen/{last}/shape");
    let heads = stack.heads as i64;
    let activation = stack.smolgen_activation;
    let x = builder.multiply(&named("compress"), x, &layers.compress);
    let width = 64 * layers.compress.outputs as i64;
    let x = builder.reshape(&named("compress/reshape"), &x, &shape("compress"), &[-1, width]);
    let x = builder.dense(&named("dense1/w"), &named("dense1/b"), &x, &layers.dense1);
    let x = activate(builder, &named("dense1"), x, activation);
    let x = layer_norm(builder, &named("ln1"), &x, &layers.ln1);
    let x = builder.dense(&named("dense2/w"), &named("dense2/b"), &x, &layers.dense2);
    let x = activate(builder, &named("dense2"), x, activation);
    let x = layer_norm(builder, &named("ln2"), &x, &layers.ln2);
    let generated = (layers.dense2.outputs / stack.heads) as i64;
    let x = builder.reshape(&named("gen_from/reshape"), &x, &shape("gen_from"), &[-1, heads, generated]);
    let x = builder.node("MatMul", &named("smol_weight_gen"), &[&x, SMOLGEN_GLOBAL], Vec::new());
    builder.reshape(&named("out/reshape"), &x, &shape("out"), &[-1, heads, 64, 64])
}

/// `x` plus `alpha` times a feed-forward block.
pub(super) fn feed_forward(
    builder: &mut Builder<'_>,
    ffn: &FeedForward,
    name: &str,
    x: &str,
    activation: Activation,
    alpha: f32,
) -> String {
    let named = |last: &str| format!("{name}/ffn/{last}");
    let y = builder.dense(&named("dense1/w"), &named("dense1/b"), x, &ffn.dense1);
    let y = activate(builder, &named("dense1"), y, activation);
    let y = builder.dense(&named("dense2/w"), &named("dense2/b"), &y, &ffn.dense2);
    let y = scaled(builder, &named("alpha"), y, alpha);
    builder.node("Add", &named("skip"), &[&y, x], Vec::new())
}
