//! The encoders of an attention body or policy head. [`super::forward`] explains the shapes.
//!
//! Smolgen is a small network in each encoder, invented for Leela Chess Zero. It reads the whole board and computes
//! 64 x 64 logits for each attention head, which are added to Q K^T.

use super::arguments::Pass;
use super::norm::Norm;
use super::scratch::Region;
use super::steps::StepList;
use crate::gemm::chain::Link;
use crate::network::device_network::{Encoder, EncoderStack, FeedForward, Smolgen};
use crate::network::layers::{Dense, LayerNorm, SQUARES};
use crate::runtime::error::Result;
use crate::runtime::ffi::arguments::AttentionArguments;
use crate::runtime::ffi::hip::Address;
use crate::runtime::ffi::program::Lane;

use rukh_net::architecture::Activation;
use rukh_net::prepare::query_scale;

/// The lane on which smolgen runs in parallel to Q, K and V. Neither side needs the result of the other.
const SMOLGEN_LANE: Lane = 1;

/// Applies all encoders of a stack to x `[T][width]`, in place.
pub(crate) fn encoders(
    prefix: &str,
    stack: &EncoderStack,
    pass: &Pass<'_>,
    (x, width): (Address, usize),
    steps: &mut StepList<'_>,
) -> Result<()> {
    for (index, encoder) in stack.encoders.iter().enumerate() {
        let name = format!("{prefix} {index}");
        let rows = steps.rows();
        // Loading has checked that a network with smolgen has the global layer.
        let logits = match (&encoder.smolgen, &pass.network.layers.smolgen_global) {
            (Some(smolgen), Some(global)) => {
                let layers = (smolgen, global);
                steps.branch(SMOLGEN_LANE, |steps| {
                    steps.smolgen(|steps| generate(&name, layers, stack, x, steps))
                })?
            }
            _ => Address::NULL,
        };
        // x = LN(alpha * attention(x) + x)
        let mixed = attention(&name, encoder, stack, logits, x, steps)?;
        let branch = steps.region(Region::Branch, rows * width);
        let norm = Norm::join(&encoder.ln1, branch, encoder.output.bias, stack.alpha, x);
        let norm1_name = format!("{name} LayerNorm 1");
        let norm2 = (&*format!("{name} LayerNorm 2"), &encoder.ln2);
        let output = steps.link(
            &encoder.output,
            rows,
            (mixed, branch),
            Activation::None,
            Some((&norm1_name, &norm)),
        )?;
        let [first, second] = feed_forward_links(&encoder.ffn, norm2, stack, (x, width), steps)?;
        if steps.gemms_in_a_row(&format!("{name} output and FFN"), &[output, first, second]) {
            continue;
        }
        let norm = (&*norm1_name, norm);
        // [T][d_model] -> dense -> [T][width]
        steps.gemm_and_norm((&format!("{name} output"), &encoder.output), rows, mixed, norm)?;
        // x = LN(alpha * ffn(x) + x)
        feed_forward(&name, &encoder.ffn, norm2, stack, (x, width), steps)?;
    }
    Ok(())
}

/// x `[T][width]` -> Q, K, V -> the heads' results, `[T][d_model]`.
fn attention(
    name: &str,
    encoder: &Encoder,
    stack: &EncoderStack,
    logits: Address,
    x: Address,
    steps: &mut StepList<'_>,
) -> Result<Address> {
    let rows = steps.rows();
    let d_model = encoder.qkv.outputs / 3;
    let depth = d_model / stack.heads;
    // [T][width] -> dense -> Q, K, V [T][3 d_model]
    let qkv = steps.region(Region::Wide, rows * 3 * d_model);
    steps.dense(&format!("{name} QKV"), &encoder.qkv, rows, (x, qkv), Activation::None)?;
    if encoder.smolgen.is_some() {
        steps.join(SMOLGEN_LANE);
    }
    // per position and head: softmax(Q K^T / sqrt(depth) + logits) V -> [T][d_model]
    let mixed = steps.region(Region::Narrow, rows * d_model);
    let launch = steps.kernels.attention(steps.attention, steps.positions, stack.heads, depth)?;
    let arguments = AttentionArguments {
        qkv,
        logits,
        output: mixed,
        heads: stack.heads as i32,
        depth: depth as i32,
        stride: 3 * d_model as i32,
        key_offset: d_model as i32,
        value_offset: 2 * d_model as i32,
        output_stride: d_model as i32,
        scale: query_scale(depth),
        reserved: 0,
    };
    steps.kernel(format!("{name} attention"), launch, arguments);
    Ok(mixed)
}

/// `x = LN(alpha * ffn(x) + x)`, x `[T][width]`, where ffn is dense -> act -> `[T][ffn]` -> dense.
pub(crate) fn feed_forward(
    name: &str,
    ffn: &FeedForward,
    (norm_name, ln): (&str, &LayerNorm),
    stack: &EncoderStack,
    (x, width): (Address, usize),
    steps: &mut StepList<'_>,
) -> Result<()> {
    let links = feed_forward_links(ffn, (norm_name, ln), stack, (x, width), steps)?;
    if steps.gemms_in_a_row(&format!("{name} FFN"), &links) {
        return Ok(());
    }
    let rows = steps.rows();
    let hidden = steps.region(Region::Wide, rows * ffn.dense1.outputs);
    steps.dense(&format!("{name} FFN 1"), &ffn.dense1, rows, (x, hidden), stack.ffn_activation)?;
    let branch = steps.region(Region::Branch, rows * width);
    let norm = (norm_name, Norm::join(ln, branch, ffn.dense2.bias, stack.alpha, x));
    steps.gemm_and_norm((&format!("{name} FFN 2"), &ffn.dense2), rows, hidden, norm)
}

/// The two GEMMs of [`feed_forward`], with the LayerNorm, as links of a chain.
fn feed_forward_links(
    ffn: &FeedForward,
    (norm_name, ln): (&str, &LayerNorm),
    stack: &EncoderStack,
    (x, width): (Address, usize),
    steps: &mut StepList<'_>,
) -> Result<[Option<Link>; 2]> {
    let rows = steps.rows();
    let hidden = steps.region(Region::Wide, rows * ffn.dense1.outputs);
    let branch = steps.region(Region::Branch, rows * width);
    let norm = Norm::join(ln, branch, ffn.dense2.bias, stack.alpha, x);
    Ok([
        steps.link(&ffn.dense1, rows, (x, hidden), stack.ffn_activation, None)?,
        steps.link(&ffn.dense2, rows, (hidden, branch), Activation::None, Some((norm_name, &norm)))?,
    ])
}

/// Smolgen: x `[T][width]` -> `logits [B][heads][64][64]`.
fn generate(
    name: &str,
    (smolgen, global): (&Smolgen, &Dense),
    stack: &EncoderStack,
    x: Address,
    steps: &mut StepList<'_>,
) -> Result<Address> {
    let (positions, rows) = (steps.positions, steps.rows());
    let activation = stack.smolgen_activation;
    // [T][width] -> dense -> [T][channels] = [B][64 channels]
    let compressed = steps.region(Region::Compressed, rows * smolgen.compress.outputs);
    // [B][64 channels] -> dense -> act -> LayerNorm -> [B][hidden]
    // -> dense -> act -> LayerNorm -> [B][heads * generated] = [B * heads][generated]
    let hidden = steps.region(Region::Hidden, positions * smolgen.dense1.outputs);
    let norm1 = Norm::in_place(&smolgen.ln1, hidden, smolgen.dense1.bias, activation);
    let generated = steps.region(Region::Generated, positions * smolgen.dense2.outputs);
    let norm2 = Norm::in_place(&smolgen.ln2, generated, smolgen.dense2.bias, activation);
    let [norm1_name, norm2_name] = [1, 2].map(|number| format!("{name} smolgen LayerNorm {number}"));
    let none = Activation::None;
    let links = [
        steps.link(&smolgen.compress, rows, (x, compressed), none, None)?,
        steps.link(&smolgen.dense1, positions, (compressed, hidden), none, Some((&norm1_name, &norm1)))?,
        steps.link(&smolgen.dense2, positions, (hidden, generated), none, Some((&norm2_name, &norm2)))?,
    ];
    if !steps.gemms_in_a_row(&format!("{name} smolgen hidden layers"), &links) {
        let compress = format!("{name} smolgen compress");
        steps.dense(&compress, &smolgen.compress, rows, (x, compressed), Activation::None)?;
        steps.gemm_norm_gemm(
            (&format!("{name} smolgen dense1"), &smolgen.dense1),
            (&norm1_name, norm1),
            (&format!("{name} smolgen dense2"), &smolgen.dense2),
            positions,
            (compressed, generated),
        )?;
        steps.layer_norm(&norm2_name, norm2, positions)?;
    }
    // [B * heads][generated] -> dense -> [B][heads][64 queries][64 keys]
    let heads = positions * stack.heads;
    let logits = steps.region(Region::Logits, heads * SQUARES * SQUARES);
    steps.dense(&format!("{name} smolgen logits"), global, heads, (generated, logits), Activation::None)?;
    Ok(logits)
}
