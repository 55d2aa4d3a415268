//! Assembles the residual tower or the encoder stack.

use super::encoder::{self, StackConfig};
use super::kinds::Kinds;
use crate::architecture::{BodyKind, InputEmbedding};
use crate::error::Reason;
use crate::file::decode::{
    convolution, convolution_to, dense, dense_to, feed_forward, has, layer_norm, matrix, multiple_of, values,
};
use crate::file::proto::{Residual, SeUnit, Weights};
use crate::input::InputPlanes;
use crate::network::{
    Body, Embedding, EncoderStack, Gates, PositionLayers, ResidualBlock, SqueezeExcitation,
};
use crate::weights::{Dense, EMBEDDING_LAYER_NORM_EPSILON, ENCODER_LAYER_NORM_EPSILON};

/// The width of lc0's fixed positional table.
const POSITION_TABLE_WIDTH: usize = 64;
/// The number of attention logits that smolgen computes for a head.
const ATTENTION_MAP: usize = 64 * 64;

/// A body, and the parts of it that the heads need.
pub(super) struct AssembledBody {
    pub(super) body: Body,
    pub(super) kind: BodyKind,
    /// The number of channels that the heads read for each square.
    pub(super) channels: usize,
    /// Becomes [`crate::Network::smolgen_global`].
    pub(super) smolgen_global: Option<Dense>,
}

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
    let body = Body::Convolution { input, blocks };
    Ok(AssembledBody { body, kind, channels: filters, smolgen_global: None })
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
    let width = embedding.width;
    let smolgen_global = smolgen_global(weights)?;
    let epsilon = match kinds.input_embedding {
        InputEmbedding::PeDense => EMBEDDING_LAYER_NORM_EPSILON,
        InputEmbedding::None | InputEmbedding::PeMap => ENCODER_LAYER_NORM_EPSILON,
    };
    let generated_size = smolgen_global.as_ref().map(|global| global.inputs);
    let config = StackConfig { width, heads, generated_size, epsilon };
    let (encoders, shape) = encoder::stack("encoder", &weights.encoder, config)?;
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
        stack: EncoderStack {
            heads,
            alpha: (2.0 * encoders.len() as f64).powf(-0.25) as f32,
            ffn_activation: kinds.ffn_activation,
            smolgen_activation: kinds.smolgen_activation,
            encoders,
        },
    };
    Ok(AssembledBody { body, kind, channels: width, smolgen_global })
}

/// The matrix `[4096][generated size]` that is the last layer of every encoder's smolgen. (`smolgen_b` is never read.)
fn smolgen_global(weights: &Weights) -> Result<Option<Dense>, Reason> {
    if !has(&weights.smolgen_w) {
        return Ok(None);
    }
    let generated_size = multiple_of("smolgen_w", &weights.smolgen_w, ATTENTION_MAP)?;
    matrix("smolgen_w", &weights.smolgen_w, generated_size, ATTENTION_MAP).map(Some)
}

fn embedding(kinds: &Kinds, weights: &Weights) -> Result<Embedding, Reason> {
    let pe_dense = kinds.input_embedding == InputEmbedding::PeDense;
    let board = pe_dense.then(|| position_layer(weights)).transpose()?;
    let position_width = match (&board, kinds.input_embedding) {
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
    let norm = |gammas, betas| layer_norm(gammas, betas, width, EMBEDDING_LAYER_NORM_EPSILON);
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
    // A file must have both gates or neither. (lc0 ignores a single gate, but no trainer writes one.)
    let gated = has(&weights.ip_mult_gate) || has(&weights.ip_add_gate);
    let gate = |name, layer| gated.then(|| values(name, layer, &[width, 64])).transpose();
    let ln = ln.transpose()?;
    let gates = gate("ip_mult_gate", &weights.ip_mult_gate)?.zip(gate("ip_add_gate", &weights.ip_add_gate)?);
    let (planes, position) = match board {
        Some(board) => {
            let (planes, reader) = split_inputs(&dense, InputPlanes::COUNT);
            (planes, Some(PositionLayers { board, reader }))
        }
        None => (dense, None),
    };
    Ok(Embedding {
        planes,
        position,
        ln,
        gates: gates.map(|(multiply, add)| Gates { multiply, add }),
        ffn: ffn.transpose()?,
        width,
    })
}

/// Splits a layer into two whose results must be added. The first reads the first `inputs` inputs and has the biases.
/// The second reads the other inputs.
fn split_inputs(layer: &Dense, inputs: usize) -> (Dense, Dense) {
    let columns = |from: usize, to: usize, biases: Vec<f32>| Dense {
        weights: layer.weights.chunks_exact(layer.inputs).flat_map(|row| &row[from..to]).copied().collect(),
        biases,
        inputs: to - from,
        outputs: layer.outputs,
    };
    (columns(0, inputs, layer.biases.clone()), columns(inputs, layer.inputs, vec![0.0; layer.outputs]))
}

/// PE_DENSE's layer from the pieces of the newest board, `[64][12]`, to several values for each square.
fn position_layer(weights: &Weights) -> Result<Dense, Reason> {
    let layer = dense(
        ("ip_emb_preproc_w", &weights.ip_emb_preproc_w),
        ("ip_emb_preproc_b", &weights.ip_emb_preproc_b),
        64 * InputPlanes::PIECES,
    )?;
    multiple_of("ip_emb_preproc_b", &weights.ip_emb_preproc_b, 64)?;
    Ok(layer)
}
