//! The launches of a product of 8-bit numbers (`hip/kernels/bytes.hip`): one that rounds the rows of x, and one that
//! multiplies them.

use super::error::{Result, RocmError};
use super::ffi::arguments::{GemmBytesArguments, QuantiseArguments};
use super::ffi::gemm::{GemmOperands, GemmShape};
use super::ffi::hip::Address;
use super::ffi::module::{Function, Grid};
use super::kernels::{Kernels, grid};
use super::layers::{ByteKind, ByteWeights};
use super::own::{best_tile, product_arguments};

/// The memory of a product, except that of its weights.
pub(super) struct ByteOperands {
    /// `[rows][inputs]` of the element type.
    pub(super) x: Address,
    /// `[rows][inputs]` of bytes.
    pub(super) bytes: Address,
    /// Of fp32: `[rows][2]` for integers, and `[rows]` for e4m3.
    pub(super) row_scales: Address,
    /// `[rows][outputs]` of the element type.
    pub(super) y: Address,
}

/// The two launches, in their order.
pub(super) struct ByteProduct {
    pub(super) rounding: ((Function, Grid), QuantiseArguments),
    pub(super) product: ((Function, Grid), GemmBytesArguments),
}

/// `y = act(x W^T + b)`. The shape is that of the product in the element type. Its epilogue says whether there are a bias
/// and an activation.
///
/// # Errors
/// The device's code lacks the kernels.
pub(super) fn byte_product(
    name: &str,
    (shape, weights, bias): (&GemmShape, &ByteWeights, Address),
    memory: &ByteOperands,
    kernels: &Kernels,
    compute_units: usize,
) -> Result<ByteProduct> {
    let ByteOperands { x, bytes, row_scales, y } = *memory;
    let GemmShape { rows, inputs, outputs, .. } = *shape;
    let rounding = QuantiseArguments {
        x,
        factors: weights.factors,
        bytes,
        row_scales,
        rows: rows as i32,
        width: inputs as i32,
    };
    let (quantise, gemm, numbers) = match weights.kind {
        ByteKind::Integers => ("quantise", "gemm_bytes", "integers"),
        ByteKind::Floats(_) => ("quantise_fp8", "gemm_fp8", "floating-point numbers"),
    };
    let kernel = |rows: usize, columns: usize, threads: u32| {
        kernels.function(gemm, &format!("_{rows}x{columns}_{threads}")).ok()
    };
    let (size, function) = best_tile(shape, compute_units, kernel).ok_or_else(|| {
        RocmError::Unsupported(format!("{name}: no kernel of our own multiplies 8-bit {numbers}"))
    })?;
    let operands = GemmOperands::plain(weights.weights, bytes, y);
    let product = GemmBytesArguments {
        product: product_arguments(shape, operands, bias, 1),
        row_scales,
        output_scales: weights.scales,
    };
    let tiles = rows.div_ceil(size.rows) * outputs.div_ceil(size.columns);
    let quantise = kernels.function(quantise, "")?;
    Ok(ByteProduct {
        rounding: ((quantise, grid(rows.div_ceil(8), 1, 256)), rounding),
        product: ((function, grid(tiles, 1, size.threads)), product),
    })
}
