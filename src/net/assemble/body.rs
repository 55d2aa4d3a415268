//! The residual tower or the encoder stack.

use super::encoder::{self, Surroundings};
use super::{AssembledBody, Kinds};
use crate::net::architecture::{BodyKind, InputEmbedding};
use crate::net::decode::{
    convolution, convolution_to, dense, dense_to, feed_forward, has, layer_norm, matrix, multiple_of, values,
};
use crate::net::error::Reason;
use crate::net::input::InputPlanes;
use crate::net::proto::{Residual, SeUnit, Weights};
use crate::net::weights::{Body, Dense, Embedding, ResidualBlock, SqueezeExcitation};

/// Width of lc0's fixed positional table.
const POSITION_TABLE_WIDTH: usize = 64;
/// Values of an attention map, which smolgen generates.
const ATTENTION_MAP: usize = 64 * 64;

pub(super) fn assemble(kinds: &Kinds, weights: &Weights) -> Result<AssembledBody, Reason> {
    let has_tower = !weights.residual.is_empty();
    let has_encoders = !weights.encoder.is_empty();
    match (kinds.attention_body, has_tower, has_encoders) {
        (true, true, _) | (false, _, true) => Err(Reason::Unsupported(
            "has both a residual tower and an attention body, which is not supported".into(),
        )),
        (true, false, true) => attention(kinds, weights),
        (true, false, false) => Err(Reason::MissingLayer { layer: "encoder[0]".into() }),
        (false, _, false) => tower(weights),
    }
}

fn tower(weights: &Weights) -> Result<AssembledBody, Reason> {
    let input = convolution("input", &weights.input, InputPlanes::COUNT, 3)?;
    let filters = input.outputs;
    let mut blocks = Vec::new();
    for (index, block) in weights.residual.iter().enumerate() {
        blocks.push(residual(&format!("residual[{index}]"), block, filters)?);
    }
    let se_channels = blocks
        .iter()
        .filter_map(|block: &ResidualBlock| block.se.as_ref())
        .map(|se| se.squeeze.outputs)
        .max();
    let kind = BodyKind::Convolution { filters, blocks: blocks.len(), se_channels };
    Ok((Body::Convolution { input, blocks }, kind, filters))
}

fn residual(name: &str, block: &Residual, filters: usize) -> Result<ResidualBlock, Reason> {
    let same = |field: &str, block| convolution_to(&format!("{name}.{field}"), block, filters, filters, 3);
    Ok(ResidualBlock {
        conv1: same("conv1", &block.conv1)?,
        conv2: same("conv2", &block.conv2)?,
        se: block.se.as_ref().map(|se| squeeze_excitation(&format!("{name}.se"), se, filters)).transpose()?,
    })
}

fn squeeze_excitation(name: &str, se: &SeUnit, filters: usize) -> Result<SqueezeExcitation, Reason> {
    let named = |field: &str| format!("{name}.{field}");
    let squeeze = dense((&named("w1"), &se.w1), (&named("b1"), &se.b1), filters)?;
    let excite = dense_to((&named("w2"), &se.w2), (&named("b2"), &se.b2), squeeze.outputs, 2 * filters)?;
    Ok(SqueezeExcitation { squeeze, excite })
}

fn attention(kinds: &Kinds, weights: &Weights) -> Result<AssembledBody, Reason> {
    let heads = encoder::heads("headcount", weights.headcount)?;
    let embedding = embedding(kinds, weights)?;
    let width = embedding.dense.outputs;
    let smolgen_global = smolgen_global(weights)?;
    let around =
        Surroundings { width, heads, generated_size: smolgen_global.as_ref().map(|global| global.inputs) };
    let (encoders, shape) = encoder::stack("encoder", &weights.encoder, around)?;
    let Some(shape) = shape else {
        return Err(Reason::MissingLayer { layer: "encoder[0]".into() });
    };
    let kind = BodyKind::Attention {
        embedding: width,
        encoders: encoders.len(),
        heads,
        d_model: shape.d_model,
        ffn: shape.ffn,
        input_embedding: kinds.input_embedding,
        smolgen: shape.smolgen,
        ffn_activation: kinds.ffn_activation,
        smolgen_activation: kinds.smolgen_activation,
    };
    let body = Body::Attention {
        embedding: Box::new(embedding),
        encoders,
        heads,
        smolgen_global,
        ffn_activation: kinds.ffn_activation,
        smolgen_activation: kinds.smolgen_activation,
    };
    Ok((body, kind, width))
}

/// The matrix `[4096][generated size]` that every encoder's smolgen ends in. (A `smolgen_b` is never read.)
fn smolgen_global(weights: &Weights) -> Result<Option<Dense>, Reason> {
    if !has(&weights.smolgen_w) {
        return Ok(None);
    }
    let generated_size = multiple_of("smolgen_w", &weights.smolgen_w, ATTENTION_MAP)?;
    matrix("smolgen_w", &weights.smolgen_w, generated_size, ATTENTION_MAP).map(Some)
}

fn embedding(kinds: &Kinds, weights: &Weights) -> Result<Embedding, Reason> {
    let pe_dense = kinds.input_embedding == InputEmbedding::PeDense;
    let preprocess = pe_dense.then(|| position_layer(weights)).transpose()?;
    let position_width = match (&preprocess, kinds.input_embedding) {
        (Some(layer), _) => layer.outputs / 64,
        (None, InputEmbedding::None) => 0,
        (None, _) => POSITION_TABLE_WIDTH,
    };
    let dense = dense(
        ("ip_emb_w", &weights.ip_emb_w),
        ("ip_emb_b", &weights.ip_emb_b),
        InputPlanes::COUNT + position_width,
    )?;
    let width = dense.outputs;
    let norm = |gammas, betas| layer_norm(gammas, betas, width);
    let ln = pe_dense.then(|| {
        norm(("ip_emb_ln_gammas", &weights.ip_emb_ln_gammas), ("ip_emb_ln_betas", &weights.ip_emb_ln_betas))
    });
    let ffn = pe_dense.then(|| {
        let ffn = feed_forward("ip_emb_ffn", &weights.ip_emb_ffn, width)?;
        let ln = norm(
            ("ip_emb_ffn_ln_gammas", &weights.ip_emb_ffn_ln_gammas),
            ("ip_emb_ffn_ln_betas", &weights.ip_emb_ffn_ln_betas),
        )?;
        Ok::<_, Reason>((ffn, ln))
    });
    // A network is gated by both gates or by none; lc0 ignores one alone, which no trainer writes.
    let gated = has(&weights.ip_mult_gate) || has(&weights.ip_add_gate);
    let gate = |name, layer| gated.then(|| values(name, layer, &[width, 64])).transpose();
    Ok(Embedding {
        preprocess,
        dense,
        ln: ln.transpose()?,
        multiply_gate: gate("ip_mult_gate", &weights.ip_mult_gate)?,
        add_gate: gate("ip_add_gate", &weights.ip_add_gate)?,
        ffn: ffn.transpose()?,
    })
}

/// PE_DENSE's layer from the newest board's pieces, `[64][12]`, to some values for each square.
fn position_layer(weights: &Weights) -> Result<Dense, Reason> {
    let layer = dense(
        ("ip_emb_preproc_w", &weights.ip_emb_preproc_w),
        ("ip_emb_preproc_b", &weights.ip_emb_preproc_b),
        64 * InputPlanes::PIECES,
    )?;
    multiple_of("ip_emb_preproc_b", &weights.ip_emb_preproc_b, 64)?;
    Ok(layer)
}
