//! Transposed weights: `[inputs][outputs]`, which hipBLASLt and rocBLAS read without transposing them. For some shapes
//! they have faster kernels for that.
//!
//! The host transposes, because that happens once in a start, and only for layers whose GEMMs were faster so. It
//! moves the bits of each element, whatever they mean. A GEMM of the weights with the identity would do the same on
//! the device, but some matrix instructions lose numbers near zero.

use crate::runtime::ffi::gemm::{ColumnMajor, GemmShape, WeightLayout};

/// The rows and columns of a part that is transposed at a time, so that the caches hold the lines that are written.
const PART: usize = 32;

/// The size of the transposed weights of a layer, in bytes.
pub(crate) fn bytes(shape: &GemmShape) -> usize {
    let ColumnMajor { batch_stride, .. } = shape.column_major_weights(WeightLayout::Transposed);
    shape.batch * batch_stride * shape.input_type.bytes()
}

/// The size of the plain weights of a layer, in bytes, without the gap after the last row.
pub(crate) fn plain_bytes(shape: &GemmShape) -> usize {
    let GemmShape { outputs, inputs, weights_stride, batch, batch_strides: [step, ..], .. } = *shape;
    let elements = batch.saturating_sub(1) * step + outputs.saturating_sub(1) * weights_stride + inputs;
    elements * shape.input_type.bytes()
}

/// Transposes weights. `plain` has [`plain_bytes`], and the result has [`bytes`]; the elements of its gaps are zero.
pub(crate) fn transposed(shape: &GemmShape, plain: &[u8]) -> Vec<u8> {
    match shape.input_type.bytes() {
        2 => transposed_elements::<2>(shape, plain),
        _ => transposed_elements::<4>(shape, plain),
    }
}

/// As [`transposed`], for elements of so many bytes.
fn transposed_elements<const BYTES: usize>(shape: &GemmShape, plain: &[u8]) -> Vec<u8> {
    let from = shape.column_major_weights(WeightLayout::Plain);
    let to = shape.column_major_weights(WeightLayout::Transposed);
    let (plain, _) = plain.as_chunks::<BYTES>();
    let mut turned = vec![[0; BYTES]; shape.batch * to.batch_stride];
    for gemm in 0..shape.batch {
        let plain = &plain[gemm * from.batch_stride..];
        let turned = &mut turned[gemm * to.batch_stride..];
        for first_output in (0..shape.outputs).step_by(PART) {
            let outputs = first_output..(first_output + PART).min(shape.outputs);
            for first_input in (0..shape.inputs).step_by(PART) {
                for input in first_input..(first_input + PART).min(shape.inputs) {
                    for output in outputs.clone() {
                        turned[input * to.stride + output] = plain[output * from.stride + input];
                    }
                }
            }
        }
    }
    turned.into_flattened()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::ffi::gemm::ElementType;

    #[test]
    fn every_element_gets_its_place() {
        for element in [ElementType::Fp16, ElementType::Fp32] {
            let dense = GemmShape::plain(8, 41, 70, element);
            let shape = GemmShape { weights_stride: 72, batch: 3, batch_strides: [3000, 1, 1], ..dense };
            let size = element.bytes();
            let number = |place: usize| (place as u32).wrapping_mul(2_654_435_761).to_le_bytes();
            let plain: Vec<u8> =
                (0..plain_bytes(&shape) / size).flat_map(|place| number(place)[..size].to_vec()).collect();
            let turned = transposed(&shape, &plain);
            // 41 outputs are six vectors of eight.
            assert_eq!((turned.len(), bytes(&shape)), (3 * 70 * 48 * size, 3 * 70 * 48 * size));
            for (place, found) in turned.chunks(size).enumerate() {
                let (gemm, input, output) = (place / 48 / 70, place / 48 % 70, place % 48);
                let expected = number(gemm * 3000 + output * 72 + input);
                let expected = if output < 41 { expected } else { [0; 4] };
                assert_eq!(found, &expected[..size], "GEMM {gemm}, ({input}, {output})");
            }
        }
    }
}
