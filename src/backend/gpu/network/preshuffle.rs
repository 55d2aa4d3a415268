//! Preshuffled weights: the order in which a block of our own kernels reads the weights of a GEMM, so that each step
//! takes whole cache lines (`hip/kernels/kernels.h`). The order is the same for all tiles.
//!
//! A layer that is faster with preshuffled weights gets a copy of its own ([`super::copies`]). Passes with at least so
//! many rows use the copy ([`crate::gemm::thresholds`]), and passes with fewer rows use the plain weights.

use crate::runtime::ffi::arguments::{GemmArguments, PreshuffleArguments};
use crate::runtime::ffi::gemm::GemmShape;
use crate::runtime::ffi::hip::Address;
use crate::runtime::ffi::module::{Function, Grid};
use crate::runtime::ffi::program::Step;
use crate::runtime::kernels::grid;

/// The name of the kernel that makes preshuffled weights.
pub(crate) const KERNEL: &str = "preshuffle";

/// The threads of a block of the kernel, and the bytes that a thread moves.
const THREADS: usize = 256;
const VECTOR_BYTES: usize = 16;

/// The part of a row that lies together, and the number of rows whose parts follow one another.
const PIECE_BYTES: usize = 64;
pub(crate) const PIECE_ROWS: usize = 16;

/// The size of a copy is a multiple of this many bytes, so that the next one begins at one, too.
pub(crate) const ALIGNMENT: usize = 256;

/// The bytes of a row, and of the weights of one of a shape's GEMMs.
fn row_and_gemm_bytes(shape: &GemmShape) -> (usize, usize) {
    let row = (shape.inputs * shape.input_type.bytes()).next_multiple_of(PIECE_BYTES);
    (row, shape.outputs.next_multiple_of(PIECE_ROWS) * row)
}

/// The size of the preshuffled weights of a layer, in bytes.
pub(crate) fn bytes(shape: &GemmShape) -> usize {
    (shape.batch * row_and_gemm_bytes(shape).1).next_multiple_of(ALIGNMENT)
}

/// The step that writes the preshuffled weights of a layer to `output`, which has room for [`bytes`]. The weights must
/// have rows of whole vectors.
pub(crate) fn step(function: Function, shape: &GemmShape, weights: Address, output: Address) -> Step {
    let (grid, arguments) = launch(shape, weights, output);
    Step::kernel(KERNEL.to_owned(), function, grid, arguments)
}

/// The grid and the arguments of [`step`].
pub(crate) fn launch(shape: &GemmShape, weights: Address, output: Address) -> (Grid, PreshuffleArguments) {
    let (_, gemm) = row_and_gemm_bytes(shape);
    let element = shape.input_type.bytes();
    let arguments = PreshuffleArguments {
        weights,
        output,
        weights_batch: (shape.batch_strides[0] * element) as i64,
        output_batch: gemm as i64,
        outputs: shape.outputs as i32,
        row: (shape.inputs * element) as i32,
        stride: (shape.weights_stride * element) as i32,
        reserved: 0,
    };
    let blocks = (gemm / VECTOR_BYTES).div_ceil(THREADS);
    (grid(blocks, shape.batch, THREADS as u32), arguments)
}

/// The arguments of a GEMM whose weights are preshuffled.
pub(crate) fn arguments(shape: &GemmShape, plain: GemmArguments) -> GemmArguments {
    let (row, gemm) = row_and_gemm_bytes(shape);
    let element = shape.input_type.bytes();
    GemmArguments {
        weights_stride: (row / element) as i32,
        weights_batch: (gemm / element) as i64,
        is_preshuffled: 1,
        ..plain
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::ffi::gemm::ElementType;

    fn shape(rows: usize) -> GemmShape {
        GemmShape::plain(rows, 40, 72, ElementType::Fp16)
    }

    /// 40 outputs are three times 16, and 72 elements of two bytes are three times 64.
    #[test]
    fn preshuffled_weights_have_whole_pieces() {
        let batched = GemmShape { batch: 2, batch_strides: [3000, 1, 1], ..shape(8) };
        assert_eq!((bytes(&shape(8)), bytes(&batched)), (48 * 192, 2 * 48 * 192));
        let plain = GemmArguments { weights_batch: 3000, ..GemmArguments::NONE };
        let arguments = arguments(&batched, plain);
        assert_eq!((arguments.weights_stride, arguments.weights_batch), (96, 48 * 96));
    }
}
