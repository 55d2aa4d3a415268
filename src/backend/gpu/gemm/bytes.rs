//! The launches of a GEMM of 8-bit numbers (`hip/kernels/bytes.hip`): one that rounds the rows of x, and one that
//! multiplies them.

use super::own::{OwnChoice, family, gemm_arguments, whole_choices};
use crate::network::layers::{ByteKind, ByteWeights};
use crate::runtime::error::{GpuError, Result};
use crate::runtime::ffi::arguments::{GemmBytesArguments, QuantiseArguments};
use crate::runtime::ffi::gemm::{GemmOperands, GemmShape};
use crate::runtime::ffi::hip::Address;
use crate::runtime::ffi::module::{Function, Grid};
use crate::runtime::kernels::{Kernels, grid};

/// The memory of a GEMM, except that of its weights.
pub(crate) struct ByteOperands {
    /// `[rows][inputs]` of the element type.
    pub(crate) x: Address,
    /// `[rows][inputs]` of bytes.
    pub(crate) bytes: Address,
    /// Of fp32: `[rows][2]` for integers, and `[rows]` for e4m3.
    pub(crate) row_scales: Address,
    /// `[rows][outputs]` of the element type.
    pub(crate) y: Address,
}

/// A launch, and its arguments.
pub(crate) type ByteLaunch = ((Function, Grid), GemmBytesArguments);

/// The two launches, in their order.
pub(crate) struct ByteGemm {
    pub(crate) rounding: ((Function, Grid), QuantiseArguments),
    pub(crate) gemm: ByteLaunch,
}

/// `y = act(x W^T + b)`. The factors of the shape have the type of the weights. Its epilogue says whether there are a
/// bias and an activation. `choice` is the tile that was measured to be the fastest.
///
/// # Errors
/// The device's code lacks the kernels.
pub(crate) fn byte_gemm(
    name: &str,
    (shape, weights, bias): (&GemmShape, &ByteWeights, Address),
    memory: &ByteOperands,
    kernels: &Kernels,
    (multiprocessors, choice): (usize, Option<OwnChoice>),
) -> Result<ByteGemm> {
    let ByteOperands { x, bytes, row_scales, y } = *memory;
    let GemmShape { rows, inputs, .. } = *shape;
    let rounding = QuantiseArguments {
        x,
        factors: weights.factors,
        bytes,
        row_scales,
        rows: rows as i32,
        width: inputs as i32,
    };
    let (quantise, numbers) = match weights.kind {
        ByteKind::Integers => ("quantise", "integers"),
        ByteKind::Floats(_) => ("quantise_fp8", "floating-point numbers"),
    };
    let operands = GemmOperands::plain(weights.weights, bytes, y);
    let scales = [row_scales, weights.scales];
    let launch_of = |choice: OwnChoice| launch(shape, (operands, bias), scales, kernels, choice);
    let gemm = choice.and_then(launch_of).or_else(|| {
        let choices = whole_choices(shape, multiprocessors);
        choices.into_iter().find_map(launch_of)
    });
    let gemm = gemm.ok_or_else(|| {
        GpuError::Unsupported(format!("{name}: no kernel of our own multiplies 8-bit {numbers}"))
    })?;
    let quantise = kernels.function(quantise, "")?;
    Ok(ByteGemm { rounding: ((quantise, grid(rows.div_ceil(8), 1, 256)), rounding), gemm })
}

/// The launch that multiplies with a tile. The scales are those of the rows of x and of W. `None` if the device's code
/// lacks the kernel.
pub(crate) fn launch(
    shape: &GemmShape,
    (operands, bias): (GemmOperands, Address),
    [row_scales, output_scales]: [Address; 2],
    kernels: &Kernels,
    choice: OwnChoice,
) -> Option<ByteLaunch> {
    let function = kernel(shape, kernels, choice)?;
    let size = choice.size();
    let gemm = gemm_arguments(shape, operands, bias, 1);
    let tiles = shape.rows.div_ceil(size.rows) * shape.outputs.div_ceil(size.columns);
    let arguments = GemmBytesArguments { gemm, row_scales, output_scales };
    Some(((function, grid(tiles, 1, size.threads)), arguments))
}

/// The kernel of a tile; `None` if the device's code lacks it.
pub(crate) fn kernel(shape: &GemmShape, kernels: &Kernels, choice: OwnChoice) -> Option<Function> {
    let suffix = Some(choice.suffix()).filter(|suffix| !suffix.is_empty() && choice.splits() == 1)?;
    kernels.function(family(shape.input_type), &suffix).ok()
}

/// The tiles that the device has a kernel for, the one that should be the fastest first.
pub(crate) fn choices(shape: &GemmShape, kernels: &Kernels, multiprocessors: usize) -> Vec<OwnChoice> {
    let is_there = |&choice: &OwnChoice| kernel(shape, kernels, choice).is_some();
    whole_choices(shape, multiprocessors).into_iter().filter(is_there).collect()
}
