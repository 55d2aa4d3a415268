//! A network's layers in the device's memory: addresses and sizes.

use super::ffi::gemm::ElementType;
use super::ffi::hip::Address;

/// Squares of a board.
pub(super) const SQUARES: usize = 64;

/// A dense layer; also a 1x1 convolution, which is a dense layer for each square.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dense {
    /// `[outputs][inputs]` of the element type. For squeeze-and-excitation's second layer, `[inputs][outputs]`.
    pub(super) weights: Address,
    /// `[outputs]` of the element type, repeated [`rows_together`] times. Null if all biases are zero. In fp32 for the
    /// output layers of the scalar heads; never repeated nor null for squeeze-and-excitation.
    pub(super) bias: Address,
    pub(super) inputs: usize,
    pub(super) outputs: usize,
}

/// A LayerNorm.
#[derive(Clone, Copy, Debug)]
pub(super) struct LayerNorm {
    /// Factors, `[width]` of the element type.
    pub(super) gammas: Address,
    /// Offsets, `[width]` of the element type.
    pub(super) betas: Address,
    pub(super) width: usize,
    pub(super) epsilon: f32,
}

/// A 3x3 convolution, computed as 36 products.
#[derive(Clone, Copy, Debug)]
pub(super) struct Convolution {
    /// `[36][outputs][inputs]` of [`component_type`].
    pub(super) weights: Address,
    /// `[outputs]` of the element type.
    pub(super) bias: Address,
    pub(super) inputs: usize,
    pub(super) outputs: usize,
}

/// The dense layer that reads a square's planes and its row of a constant table.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlaneEmbedding {
    pub(super) dense: Dense,
    pub(super) table: SquareTable,
}

/// Constants that follow a square's planes as further inputs.
#[derive(Clone, Copy, Debug)]
pub(super) struct SquareTable {
    /// `[64][width]` of the element type, or null.
    pub(super) values: Address,
    pub(super) width: usize,
}

impl SquareTable {
    /// No further inputs.
    pub(super) const EMPTY: SquareTable = SquareTable { values: Address::NULL, width: 0 };
}

/// The type of Winograd's components and their weights. In bf16 they would cost four times the error of a
/// direct convolution.
pub(super) fn component_type(element: ElementType) -> ElementType {
    match element {
        ElementType::Fp32 => ElementType::Fp32,
        ElementType::Fp16 | ElementType::Bf16 => ElementType::Fp16,
    }
}

/// How many rows of this width an elementwise kernel takes as one row, so that it reads 8 elements at a time.
pub(super) fn rows_together(width: usize) -> usize {
    1 << 3_u32.saturating_sub(width.trailing_zeros())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrow_rows_are_taken_together() {
        for (width, rows) in [(8, 1), (768, 1), (4, 2), (12, 2), (6, 4), (1, 8), (3, 8)] {
            assert_eq!(rows_together(width), rows, "{width}");
            assert!((width * rows).is_multiple_of(8));
        }
    }
}
