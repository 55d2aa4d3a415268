//! Assembles transformer encoders, of the body or of a policy head.

use crate::architecture::SmolgenShape;
use crate::error::Reason;
use crate::file::decode::{count_present, dense, dense_to, feed_forward, layer_norm, matrix, multiple_of};
use crate::file::proto::{EncoderLayer, Mha, Smolgen as SmolgenLayers};
use crate::network::{Encoder, Smolgen};
use crate::weights::EMBEDDING_LAYER_NORM_EPSILON;

/// The sizes that every encoder of a stack must have, and the epsilon of its LayerNorms.
#[derive(Clone, Copy, Debug)]
pub(super) struct StackConfig {
    /// The width of the residual stream.
    pub(super) width: usize,
    /// The number of heads, at least 1.
    pub(super) heads: usize,
    /// The inputs of the shared smolgen matrix. `None` means that the network has no such matrix.
    pub(super) generated_size: Option<usize>,
    /// The epsilon of the encoders' two LayerNorms. Smolgen's LayerNorms have another epsilon.
    pub(super) epsilon: f32,
}

/// The sizes that all encoders of a stack share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct EncoderShape {
    pub(super) d_model: usize,
    pub(super) ffn: usize,
    pub(super) smolgen: Option<SmolgenShape>,
}

/// Assembles a stack of encoders of equal shape. An empty stack has no shape.
pub(super) fn stack(
    name: &str,
    layers: &[EncoderLayer],
    config: StackConfig,
) -> Result<(Vec<Encoder>, Option<EncoderShape>), Reason> {
    let mut encoders = Vec::new();
    let mut stack_shape: Option<EncoderShape> = None;
    for (index, layer) in layers.iter().enumerate() {
        let name = format!("{name}[{index}]");
        let (encoder, shape) = encoder(&name, layer, config)?;
        match stack_shape {
            Some(first) if first != shape => {
                return Err(Reason::Unsupported(format!(
                    "has encoders of different sizes: {name} is {shape}, the first is {first}"
                )));
            }
            _ => stack_shape = Some(shape),
        }
        encoders.push(encoder);
    }
    Ok((encoders, stack_shape))
}

impl std::fmt::Display for EncoderShape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "d_model {}, FFN {}", self.d_model, self.ffn)?;
        match self.smolgen {
            None => write!(f, ", no smolgen"),
            Some(SmolgenShape { hidden_channels, hidden_size, generated_size }) => {
                write!(f, ", smolgen {hidden_channels}/{hidden_size}/{generated_size}")
            }
        }
    }
}

fn encoder(name: &str, layer: &EncoderLayer, config: StackConfig) -> Result<(Encoder, EncoderShape), Reason> {
    let named = |field: &str| format!("{name}.{field}");
    let missing = |field: &str| Reason::MissingLayer { layer: named(field) };
    let mha = layer.mha.as_ref().ok_or_else(|| missing("mha"))?;
    refuse_relative_positions(mha)?;

    let width = config.width;
    let d_model = count_present(&named("mha.q_b"), &mha.q_b)?;
    if d_model % config.heads != 0 {
        return Err(Reason::Unsupported(format!(
            "has an attention width of {d_model} in {name}, which is not divisible by its {} heads",
            config.heads
        )));
    }
    let projection = |field: char, weights, biases| {
        let (w, b) = (named(&format!("mha.{field}_w")), named(&format!("mha.{field}_b")));
        dense_to((&w, weights), (&b, biases), width, d_model)
    };
    let smolgen =
        mha.smolgen.as_ref().map(|layers| smolgen(&named("mha.smolgen"), layers, config)).transpose()?;
    let (smolgen, smolgen_shape) = smolgen.unzip();
    let ffn = feed_forward(&named("ffn"), &layer.ffn, width)?;
    let shape = EncoderShape { d_model, ffn: ffn.dense1.outputs, smolgen: smolgen_shape };
    let encoder = Encoder {
        qkv: [
            projection('q', &mha.q_w, &mha.q_b)?,
            projection('k', &mha.k_w, &mha.k_b)?,
            projection('v', &mha.v_w, &mha.v_b)?,
        ],
        output: dense_to(
            (&named("mha.dense_w"), &mha.dense_w),
            (&named("mha.dense_b"), &mha.dense_b),
            d_model,
            width,
        )?,
        smolgen,
        ln1: layer_norm(
            (&named("ln1_gammas"), &layer.ln1_gammas),
            (&named("ln1_betas"), &layer.ln1_betas),
            width,
            config.epsilon,
        )?,
        ffn,
        ln2: layer_norm(
            (&named("ln2_gammas"), &layer.ln2_gammas),
            (&named("ln2_betas"), &layer.ln2_betas),
            width,
            config.epsilon,
        )?,
    };
    Ok((encoder, shape))
}

fn refuse_relative_positions(mha: &Mha) -> Result<(), Reason> {
    if [&mha.rpe_q, &mha.rpe_k, &mha.rpe_v].into_iter().any(Option::is_some) {
        return Err(Reason::Unsupported(
            "has relative position encoding (RPE), which is not supported".into(),
        ));
    }
    Ok(())
}

fn smolgen(
    name: &str,
    layers: &SmolgenLayers,
    config: StackConfig,
) -> Result<(Smolgen, SmolgenShape), Reason> {
    let named = |field: &str| format!("{name}.{field}");
    let Some(generated_size) = config.generated_size else {
        return Err(Reason::MissingLayer { layer: "smolgen_w".to_owned() });
    };
    let hidden_channels = multiple_of(&named("compress"), &layers.compress, config.width)?;
    let compress = matrix(&named("compress"), &layers.compress, config.width, hidden_channels)?;
    let dense1 = dense(
        (&named("dense1_w"), &layers.dense1_w),
        (&named("dense1_b"), &layers.dense1_b),
        64 * compress.outputs,
    )?;
    let ln1 = layer_norm(
        (&named("ln1_gammas"), &layers.ln1_gammas),
        (&named("ln1_betas"), &layers.ln1_betas),
        dense1.outputs,
        EMBEDDING_LAYER_NORM_EPSILON,
    )?;
    let dense2 = dense_to(
        (&named("dense2_w"), &layers.dense2_w),
        (&named("dense2_b"), &layers.dense2_b),
        dense1.outputs,
        generated_size.saturating_mul(config.heads),
    )?;
    let ln2 = layer_norm(
        (&named("ln2_gammas"), &layers.ln2_gammas),
        (&named("ln2_betas"), &layers.ln2_betas),
        dense2.outputs,
        EMBEDDING_LAYER_NORM_EPSILON,
    )?;
    let shape = SmolgenShape { hidden_channels, hidden_size: dense1.outputs, generated_size };
    Ok((Smolgen { compress, dense1, ln1, dense2, ln2 }, shape))
}

/// The number of heads of a stack that has encoders. The file can contain 0, which is refused.
pub(super) fn heads(name: &str, number: Option<u32>) -> Result<usize, Reason> {
    match number.unwrap_or(0) {
        0 => Err(Reason::Unsupported(format!("does not say how many attention heads it has ({name})"))),
        heads => Ok(heads as usize),
    }
}
