//! The forward pass as a list of steps: one function per stage, every step with its shapes.
//!
//! Here are the frame and an attention body's embedding; the encoders are in [`super::encoder`], a residual
//! tower in [`super::tower`], the heads in [`super::heads`]. B is the number of positions, T = 64 B the rows of a
//! matrix of squares. Activations lie as `[position][square][channel]`. The steps have the names of the papers:
//! *Attention is all you need*, *Deep residual learning*, *Squeeze-and-excitation networks*.
//!
//! Nothing runs here: the steps are laid out once per slot and bucket, then enqueued or captured as they are.

use super::encoder;
use super::error::Result;
use super::ffi::arguments::{ActivationArguments, PlanesArguments};
use super::ffi::hip::Address;
use super::heads;
use super::kernels::{activation_code, grid};
use super::steps::{Norm, Region, StepList};
use super::tower;
use super::weights::{Body, DeviceNetwork, Embedding, EncoderStack, SQUARES};
use crate::net::architecture::Activation;
use crate::net::input::InputPlanes;

/// Where a batch's input lies on the device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Input {
    /// One bit a square, `[B][112]` of 64 bits.
    pub(super) masks: Address,
    /// Of the rule-50 plane, `[B]` of fp32.
    pub(super) rule50: Address,
    /// `[B + 1]` of 32 bits: where each position's moves begin.
    pub(super) first_moves: Address,
    /// Policy indices of all positions' legal moves, 16 bits each.
    pub(super) moves: Address,
}

/// Where a batch's output goes on the device, all of it fp32.
#[derive(Clone, Copy, Debug)]
pub(super) struct Output {
    /// `[B][3]`: win, draw, loss; or `[B]`: q.
    pub(super) value: Address,
    /// `[B]`: the value's error before its sigmoid; nothing where it is not evaluated.
    pub(super) value_error: Address,
    /// `[B]`: plies.
    pub(super) moves_left: Address,
    /// One per move, in the order of [`Input::moves`].
    pub(super) priors: Address,
}

/// What a pass is laid out for.
pub(super) struct Pass<'a> {
    pub(super) network: &'a DeviceNetwork,
    pub(super) input: Input,
    pub(super) output: Output,
    /// One over the policy's softmax temperature.
    pub(super) inverse_temperature: f32,
}

/// Lays the whole pass out.
///
/// # Errors
/// A kernel that the device's code lacks, a product that no library takes, a layer beyond the kernels.
pub(super) fn forward(pass: &Pass<'_>, steps: &mut StepList<'_>) -> Result<()> {
    // planes -> stream [T][channels]
    let stream = match &pass.network.body {
        Body::Tower { input, blocks } => tower::tower(pass, input, blocks, steps)?,
        Body::Attention { embedding, stack } => {
            let stream = embed(pass, embedding, stack, steps)?;
            encoder::encoders("encoder", stack, stream, embedding.dense.outputs, steps)?;
            stream
        }
    };
    heads::heads(pass, stream, steps)
}

/// Bitboards `[B][112]` -> `planes [T][112 + extra]`, the extra columns from a constant table `[64][extra]`.
pub(super) fn planes(
    input: &Input,
    (table, extra): (Address, usize),
    steps: &mut StepList<'_>,
) -> Result<Address> {
    let output = steps.region(Region::Planes, steps.rows() * (InputPlanes::COUNT + extra));
    expand(input, (table, extra), InputPlanes::COUNT, output, steps)?;
    Ok(output)
}

fn expand(
    input: &Input,
    (table, extra): (Address, usize),
    count: usize,
    output: Address,
    steps: &mut StepList<'_>,
) -> Result<()> {
    let launch = (steps.kernels.function("planes", "")?, grid(steps.positions, 1, 256));
    let arguments = PlanesArguments {
        masks: input.masks,
        values: input.rule50,
        table,
        output,
        mask_stride: InputPlanes::COUNT as i32,
        planes: count as i32,
        extra: extra as i32,
        valued_plane: InputPlanes::RULE50_PLANE as i32,
    };
    steps.kernel("planes", launch, arguments);
    Ok(())
}

/// Planes -> `stream [T][embedding]`.
fn embed(
    pass: &Pass<'_>,
    embedding: &Embedding,
    stack: &EncoderStack,
    steps: &mut StepList<'_>,
) -> Result<Address> {
    let (rows, width) = (steps.rows(), embedding.dense.outputs);
    let x = steps.region(Region::Stream, rows * width);
    // planes [T][112, or 176 with PE_MAP's table] -> dense -> [T][embedding]
    let planes = planes(&pass.input, embedding.table, steps)?;
    steps.product("embedding", &embedding.dense, rows, (planes, x))?;
    if let Some((first, reader)) = &embedding.position {
        // newest pieces [B][64 * 12] -> dense -> [B][64 * pe] = [T][pe] -> dense, added to [T][embedding]
        let pieces = steps.region(Region::Narrow, steps.positions * first.inputs);
        expand(&pass.input, (Address::NULL, 0), InputPlanes::PIECES, pieces, steps)?;
        let position = steps.region(Region::Wide, steps.positions * first.outputs);
        steps.dense("positional layer", first, steps.positions, (pieces, position), Activation::None)?;
        steps.product_added("positional embedding", reader, rows, (position, x))?;
    }
    // act(x + b), LayerNorm, gates
    let activation = pass.network.activation;
    match &embedding.ln {
        Some(ln) => {
            let norm = Norm::in_place(ln, x, embedding.dense.bias, activation);
            steps.layer_norm("embedding LayerNorm", Norm { gates: embedding.gates, ..norm }, rows)?;
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
    let (rows, width) = (steps.rows(), embedding.dense.outputs);
    let (Some(code), Some((multiply, add))) = (activation_code(activation), embedding.gates) else {
        return steps.activate("embedding activation", x, embedding.dense.bias, (rows, width), activation);
    };
    let blocks = (rows * width).div_ceil(2048);
    let launch = (steps.kernels.function("activation", "")?, grid(blocks, 1, 256));
    let arguments = ActivationArguments {
        input: x,
        bias: embedding.dense.bias,
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

/// Bytes that a batch of so many positions and moves takes on its way in, and where its parts begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct InputLayout {
    pub(super) rule50: usize,
    pub(super) first_moves: usize,
    pub(super) masks: usize,
    pub(super) moves: usize,
}

/// Legal moves of a position, at most: what shakmaty's lists hold.
pub(super) const MAXIMUM_MOVES: usize = 256;

impl InputLayout {
    /// For a bucket. The moves are last, so that a copy need not take more of them than there are.
    pub(super) fn new(bucket: usize) -> InputLayout {
        let masks = aligned(bucket * 4) + aligned((bucket + 1) * 4);
        let moves = masks + aligned(bucket * InputPlanes::COUNT * 8);
        InputLayout { rule50: 0, first_moves: aligned(bucket * 4), masks, moves }
    }

    /// Bytes with so many moves.
    pub(super) fn bytes(&self, moves: usize) -> usize {
        self.moves + moves * 2
    }

    /// The addresses on the device.
    pub(super) fn at(&self, base: Address) -> Input {
        Input {
            masks: base.offset(self.masks),
            rule50: base.offset(self.rule50),
            first_moves: base.offset(self.first_moves),
            moves: base.offset(self.moves),
        }
    }
}

/// As [`InputLayout`], for the way out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct OutputLayout {
    pub(super) value: usize,
    pub(super) value_error: usize,
    pub(super) moves_left: usize,
    pub(super) priors: usize,
}

impl OutputLayout {
    /// For a bucket, the priors last; with room for the value's error or without.
    pub(super) fn new(bucket: usize, has_value_error: bool) -> OutputLayout {
        let value_error = aligned(bucket * 3 * 4);
        let moves_left = value_error + if has_value_error { aligned(bucket * 4) } else { 0 };
        OutputLayout { value: 0, value_error, moves_left, priors: moves_left + aligned(bucket * 4) }
    }

    /// Bytes with so many moves.
    pub(super) fn bytes(&self, moves: usize) -> usize {
        self.priors + moves * 4
    }

    /// The addresses on the device.
    pub(super) fn at(&self, base: Address) -> Output {
        Output {
            value: base.offset(self.value),
            value_error: base.offset(self.value_error),
            moves_left: base.offset(self.moves_left),
            priors: base.offset(self.priors),
        }
    }
}

fn aligned(bytes: usize) -> usize {
    bytes.next_multiple_of(64)
}

/// The planes' rows are as long as kernels and products like them.
const _: () = assert!(InputPlanes::COUNT.is_multiple_of(8) && SQUARES == 64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_batch_do_not_overlap() {
        for bucket in [1, 3, 16, 100, 1024] {
            let input = InputLayout::new(bucket);
            assert!(input.rule50 + bucket * 4 <= input.first_moves);
            assert!(input.first_moves + (bucket + 1) * 4 <= input.masks);
            assert!(input.masks + bucket * InputPlanes::COUNT * 8 <= input.moves);
            assert!(input.masks.is_multiple_of(64) && input.moves.is_multiple_of(64));
            for has_value_error in [false, true] {
                let output = OutputLayout::new(bucket, has_value_error);
                let value_error = if has_value_error { bucket * 4 } else { 0 };
                assert!(output.value + bucket * 12 <= output.value_error);
                assert!(output.value_error + value_error <= output.moves_left);
                assert!(output.moves_left + bucket * 4 <= output.priors);
            }
        }
    }
}
