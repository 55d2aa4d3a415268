//! The steps of the heads. [`super::forward`] explains the shapes.

use super::arguments::Pass;
use super::encoder;
use super::scratch::Region;
use super::steps::StepList;
use super::tower;
use crate::network::device_network::{AttentionPolicy, PolicyHead, ScalarHead, ValueError};
use crate::network::layers::{Dense, SQUARES};
use crate::runtime::error::{GpuError, Result};
use crate::runtime::ffi::arguments::{AttentionPolicyArguments, PolicyArguments, ScalarHeadArguments};
use crate::runtime::ffi::hip::Address;
use crate::runtime::ffi::program::Lane;
use crate::runtime::kernels::{activation_code, grid};
use rukh_net::architecture::Activation;
use rukh_net::prepare::query_scale;

/// `stream [T][channels]` -> one prior per legal move.
fn policy(pass: &Pass<'_>, stream: Address, steps: &mut StepList<'_>) -> Result<()> {
    let (positions, rows) = (steps.positions, steps.rows());
    let activation = pass.network.layers.activation();
    match &pass.network.layers.policy {
        PolicyHead::Classical { input, dense } => {
            // [T][channels] -> dense -> act -> [T][head channels] = [B][64 * head channels] -> [B][1858]
            let flat = steps.region(Region::Narrow, rows * input.outputs);
            steps.dense("policy convolution", input, rows, (stream, flat), activation)?;
            let logits = steps.region(Region::Wide, positions * dense.outputs);
            steps.gemm("policy dense", dense, positions, (flat, logits))?;
            gather(pass, (logits, dense.outputs), (dense.bias, dense.outputs), steps)
        }
        PolicyHead::Convolution { first, last } => {
            // [T][channels] -> conv 3x3 -> act -> [T][channels] -> conv 3x3 -> [T][80] = [B][64 * 80]
            let inner = steps.region(Region::Wide, rows * first.outputs);
            tower::convolve("policy convolution 1", first, (stream, inner), activation, steps)?;
            let logits = steps.region(Region::Narrow, rows * last.outputs);
            tower::convolve("policy convolution 2", last, (inner, logits), Activation::None, steps)?;
            gather(pass, (logits, SQUARES * last.outputs), (Address::NULL, 0), steps)
        }
        PolicyHead::Attention(head) => attention_policy(pass, head, stream, steps),
    }
}

/// `logits [B][width]` -> + bias, a vector of `bias_width` that repeats along each row -> softmax over the legal moves.
fn gather(
    pass: &Pass<'_>,
    (logits, width): (Address, usize),
    (bias, bias_width): (Address, usize),
    steps: &mut StepList<'_>,
) -> Result<()> {
    let launch = (steps.kernels.function("policy", "")?, grid(steps.positions, 1, 512));
    let arguments = PolicyArguments {
        logits,
        bias,
        places: pass.network.policy_places,
        first_moves: pass.input.first_moves,
        moves: pass.input.moves,
        probabilities: pass.output.priors,
        width: width as i32,
        bias_width: bias_width as i32,
        inverse_temperature: pass.inverse_temperature,
        reserved: 0,
    };
    steps.kernel("policy", launch, arguments);
    Ok(())
}

/// `stream [T][channels]` -> queries and keys -> softmax over the legal moves.
fn attention_policy(
    pass: &Pass<'_>,
    head: &AttentionPolicy,
    stream: Address,
    steps: &mut StepList<'_>,
) -> Result<()> {
    let (rows, width) = (steps.rows(), head.embedding.outputs);
    // [T][channels] -> dense -> act -> [T][width], encoders
    let x = steps.region(Region::PolicyStream, rows * width);
    steps.dense("policy embedding", &head.embedding, rows, (stream, x), head.embedding_activation)?;
    encoder::encoders("policy encoder", &head.stack, pass, (x, width), steps)?;
    // [T][width] -> dense -> queries, keys [T][2 depth]
    let queries = steps.region(Region::Wide, rows * 2 * head.depth);
    steps.dense("policy queries and keys", &head.query_key, rows, (x, queries), Activation::None)?;
    // logit of a legal move: query[from] . key[to] / sqrt(depth), plus promotion[piece] . key[to] for a promotion;
    // then a softmax over the logits
    let launch = (steps.kernels.function("attention_policy", "")?, grid(steps.positions, 1, 512));
    let arguments = AttentionPolicyArguments {
        queries,
        keys: queries.offset(head.depth * steps.element.bytes()),
        promotions: head.promotion.weights,
        places: pass.network.policy_places,
        first_moves: pass.input.first_moves,
        moves: pass.input.moves,
        probabilities: pass.output.priors,
        stride: 2 * head.depth as i32,
        depth: head.depth as i32,
        scale: query_scale(head.depth),
        inverse_temperature: pass.inverse_temperature,
    };
    steps.kernel("attention policy", launch, arguments);
    Ok(())
}

// The functions that `scalar_head` applies to a head's outputs, with the codes of kernels.h.
const FINISH_NONE: i32 = 0;
const FINISH_SOFTMAX: i32 = 1;
const FINISH_TANH: i32 = 2;
const FINISH_RELU: i32 = 3;

/// The lane on which the value head and then the value-error head run in parallel to the policy head.
const VALUE_LANE: Lane = 1;
/// The lane on which the moves-left head runs in parallel to the policy head.
const MOVES_LEFT_LANE: Lane = 2;

/// All heads: `stream [T][channels]` -> priors, value, the value's error, moves left. The heads do not depend on each
/// other, except that the error may be a second output of the value head.
pub(crate) fn heads(pass: &Pass<'_>, stream: Address, steps: &mut StepList<'_>) -> Result<()> {
    let network = &pass.network.layers;
    steps.branch(VALUE_LANE, |steps| value_and_error(pass, stream, steps))?;
    if let Some(head) = &network.moves_left {
        let moves_left = Scalar {
            name: "moves left",
            regions: (Region::MovesLeftSquares, Region::MovesLeftHidden),
            output: pass.output.moves_left,
            finish: FINISH_RELU,
        };
        steps.branch(MOVES_LEFT_LANE, |steps| {
            let hidden = hidden_layer(&moves_left, head, pass, stream, steps)?;
            scalar(&moves_left, (&head.hidden, &head.output), pass, hidden, steps)
        })?;
    }
    policy(pass, stream, steps)?;
    steps.join(VALUE_LANE);
    if network.moves_left.is_some() {
        steps.join(MOVES_LEFT_LANE);
    }
    Ok(())
}

/// `stream [T][channels]` -> value, and the value's error if the network has a head for the error.
fn value_and_error(pass: &Pass<'_>, stream: Address, steps: &mut StepList<'_>) -> Result<()> {
    let network = &pass.network.layers;
    let value = Scalar {
        name: "value",
        regions: (Region::ValueSquares, Region::ValueHidden),
        output: pass.output.value,
        finish: if network.architecture.wdl { FINISH_SOFTMAX } else { FINISH_TANH },
    };
    let hidden = hidden_layer(&value, &network.value, pass, stream, steps)?;
    let layers = &network.value;
    scalar(&value, (&layers.hidden, &layers.output), pass, hidden, steps)?;
    let Some(head) = &network.value_error else { return Ok(()) };
    // The host applies the sigmoid, because the kernel does not have it. The error head may use the value head's
    // regions, because both heads run on one lane, one after the other.
    let (output, finish) = (pass.output.value_error, FINISH_NONE);
    let error = Scalar { name: "value error", output, finish, ..value };
    match head {
        ValueError::ValueHead { output } => scalar(&error, (&layers.hidden, output), pass, hidden, steps),
        ValueError::Own(head) => {
            let hidden = hidden_layer(&error, head, pass, stream, steps)?;
            scalar(&error, (&head.hidden, &head.output), pass, hidden, steps)
        }
    }
}

/// The differences between the scalar heads.
struct Scalar {
    name: &'static str,
    /// The regions of the first layer and of the hidden layer.
    regions: (Region, Region),
    output: Address,
    /// The function that is applied to the outputs.
    finish: i32,
}

/// `stream [T][channels]` -> hidden layer `[B][hidden]`, without its bias and activation.
fn hidden_layer(
    kind: &Scalar,
    head: &ScalarHead,
    pass: &Pass<'_>,
    stream: Address,
    steps: &mut StepList<'_>,
) -> Result<Address> {
    let &Scalar { name, regions, .. } = kind;
    let (positions, rows) = (steps.positions, steps.rows());
    // [T][channels] -> dense -> act -> [T][head channels] = [B][64 * head channels]
    let flat = steps.region(regions.0, rows * head.input.outputs);
    let activation = pass.network.layers.activation();
    // -> dense -> [B][hidden]
    let hidden = steps.region(regions.1, positions * head.hidden.outputs);
    let without_bias = Dense { bias: Address::NULL, ..head.hidden };
    let links = [
        steps.link(&head.input, rows, (stream, flat), activation, None)?,
        steps.link(&without_bias, positions, (flat, hidden), Activation::None, None)?,
    ];
    if !steps.gemms_in_a_row(&format!("{name} embedding and hidden layer"), &links) {
        steps.dense(&format!("{name} embedding"), &head.input, rows, (stream, flat), activation)?;
        steps.gemm(&format!("{name} hidden layer"), &head.hidden, positions, (flat, hidden))?;
    }
    Ok(hidden)
}

/// Hidden layer `[B][hidden]` -> the head's outputs: win, draw and loss; or q; or the error's logit; or moves left.
fn scalar(
    kind: &Scalar,
    (layer, last): (&Dense, &Dense),
    pass: &Pass<'_>,
    hidden: Address,
    steps: &mut StepList<'_>,
) -> Result<()> {
    let &Scalar { name, output, finish, .. } = kind;
    let positions = steps.positions;
    let code = activation_code(pass.network.layers.activation()).ok_or_else(|| {
        GpuError::Unsupported(format!("{name} head: a softmax as activation is not supported"))
    })?;
    // -> + bias -> act -> dense -> [B][outputs] -> softmax, tanh or relu
    let launch = (steps.kernels.function("scalar_head", "")?, grid(positions.div_ceil(8), 1, 256));
    let arguments = ScalarHeadArguments {
        input: hidden,
        hidden_bias: layer.bias,
        weights: last.weights,
        bias: last.bias,
        output,
        positions: positions as i32,
        hidden: layer.outputs as i32,
        outputs: last.outputs as i32,
        activation: code,
        finish,
        reserved: 0,
    };
    steps.kernel(format!("{name} output"), launch, arguments);
    Ok(())
}
