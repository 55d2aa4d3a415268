//! A network's layers in the device's memory: addresses and sizes.

use crate::runtime::ffi::gemm::ElementType;
use crate::runtime::ffi::hip::Address;
use crate::runtime::fp8::Fp8Format;

pub(crate) const SQUARES: usize = 64;

/// A dense layer. A 1x1 convolution is also stored as a dense layer, which is applied to each square.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dense {
    /// `[outputs][inputs]` of the element type. For squeeze-and-excitation's second layer, `[inputs][outputs]`. Null if
    /// the layer has weights of 8 bits.
    pub(crate) weights: Address,
    /// The weights, if they are rounded to 8 bits.
    pub(crate) bytes: Option<ByteWeights>,
    /// The bias, `[outputs]` of the element type, repeated [`rows_together`] times. Null if all its values are zero. In
    /// the output layers of the scalar heads it is fp32. Squeeze-and-excitation's bias is never repeated or null.
    pub(crate) bias: Address,
    pub(crate) inputs: usize,
    pub(crate) outputs: usize,
    /// Whether GEMMs of few rows may round the weights to 8 bits: those of encoders and of smolgen, which nearly all
    /// weights belong to. The embedding and the heads keep their weights.
    pub(crate) may_round: bool,
}

/// What the bits of an 8-bit number mean.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ByteKind {
    Integers,
    Floats(Fp8Format),
}

impl ByteKind {
    /// The type of the factors of a GEMM.
    pub(crate) fn element(self) -> ElementType {
        match self {
            ByteKind::Integers => ElementType::Int8,
            ByteKind::Floats(format) => ElementType::Fp8(format),
        }
    }
}

/// Weights of 8 bits, for the kernels of `hip/kernels/bytes.hip`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ByteWeights {
    pub(crate) kind: ByteKind,
    /// `[outputs][inputs]`
    pub(crate) weights: Address,
    /// `[outputs, rounded up to a multiple of 8]` of fp32: the weight that 1 stands for. For integers there are two such
    /// rows, and the second has that weight times the sum of the output's bytes.
    pub(crate) scales: Address,
    /// `[inputs]` of fp32: what the inputs are multiplied by before they are rounded. Null if that is always 1.
    pub(crate) factors: Address,
}

/// The parameters of a LayerNorm over `width` channels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LayerNorm {
    /// The factors: `[width]` of the element type.
    pub(crate) gammas: Address,
    /// The offsets: `[width]` of the element type.
    pub(crate) betas: Address,
    pub(crate) width: usize,
    pub(crate) epsilon: f32,
}

/// A 3x3 convolution, computed as 36 GEMMs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Convolution {
    /// `[36][outputs][inputs]` of [`component_type`].
    pub(crate) weights: Address,
    /// `[outputs]` of the element type.
    pub(crate) bias: Address,
    pub(crate) inputs: usize,
    pub(crate) outputs: usize,
}

/// The dense layer that reads a square's planes and its row of a constant table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlaneEmbedding {
    pub(crate) dense: Dense,
    pub(crate) table: SquareTable,
}

/// A table of constants. Each square's row is appended to its planes as additional inputs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SquareTable {
    /// `[64][width]` of the element type, or null.
    pub(crate) values: Address,
    pub(crate) width: usize,
}

impl SquareTable {
    /// A table without columns: the planes are the only inputs.
    pub(crate) const EMPTY: SquareTable = SquareTable { values: Address::NULL, width: 0 };
}

/// The type of Winograd's components and their weights. In bf16, the error would be four times that of a direct
/// convolution, so bf16 networks use fp16 for them.
pub(crate) fn component_type(element: ElementType) -> ElementType {
    match element {
        ElementType::Fp32 => ElementType::Fp32,
        _ => ElementType::Fp16,
    }
}

/// The number of consecutive rows of this width that an elementwise kernel treats as a single row. Their total width
/// is a multiple of 8, so that the kernel can read 8 elements at a time.
pub(crate) fn rows_together(width: usize) -> usize {
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
