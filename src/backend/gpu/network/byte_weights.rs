//! Weights of 8 bits for GEMMs of few rows, where moving the weights takes the time. The arithmetic stays in 16 bits
//! (`hip/kernels/gemm_byte_weights.hip`).
//!
//! The scale of an output is its largest weight divided by 127, and a weight becomes the nearest multiple of the scale.
//! So it changes by at most 1/254 of the output's largest weight. Nothing else is rounded: the kernel's numbers are
//! exact.
//!
//! A layer whose GEMMs use such weights gets a copy of its own ([`super::copies`]), because GEMMs of more rows read
//! the plain ones. The host rounds, because that happens once in a start.

use super::preshuffle::{ALIGNMENT, PIECE_ROWS};
use crate::runtime::ffi::arguments::GemmArguments;
use crate::runtime::ffi::gemm::{ElementType, GemmShape};
use crate::runtime::numbers;

/// The most rows of a GEMM with such weights: 8 positions of 64 squares. With more rows, the operations take the time
/// (`hip/kernels/EXPECTED_TIMES.md`).
pub(crate) const MOST_ROWS: usize = 512;

/// The part of a row that lies together.
const PIECE: usize = 32;

/// The scales are fp32, and of so many outputs at least.
const SCALES_TOGETHER: usize = 8;

/// The byte that stands for zero, and the largest multiple of a scale.
const ZERO: f32 = 128.0;
const LARGEST: f32 = 127.0;

/// Whether our kernels may compute a GEMM of this shape with such weights, apart from its alignment: one GEMM of a
/// layer in 16 bits whose weights may be rounded.
pub(crate) fn are_possible(shape: &GemmShape) -> bool {
    let is_of_16_bits = matches!(shape.input_type, ElementType::Fp16 | ElementType::Bf16);
    shape.may_round && is_of_16_bits && shape.output_type == shape.input_type && shape.batch == 1
}

/// Whether a GEMM of this shape may be worth such weights.
pub(crate) fn may_pay(shape: &GemmShape) -> bool {
    are_possible(shape) && shape.rows <= MOST_ROWS
}

/// The bytes of a row, and of all rows without the scales.
fn row_and_matrix_bytes(shape: &GemmShape) -> (usize, usize) {
    let row = shape.inputs.next_multiple_of(PIECE);
    (row, shape.outputs.next_multiple_of(PIECE_ROWS) * row)
}

/// The size of the weights of a layer with their scales, in bytes.
pub(crate) fn bytes(shape: &GemmShape) -> usize {
    let scales = shape.outputs.next_multiple_of(SCALES_TOGETHER) * size_of::<f32>();
    (row_and_matrix_bytes(shape).1 + scales).next_multiple_of(ALIGNMENT)
}

/// The weights of an output as multiples of its scale, and the scale.
fn rounded_row(weights: &[f64]) -> (impl Iterator<Item = f32>, f32) {
    let largest = weights.iter().fold(0.0_f64, |most, weight| most.max(weight.abs()));
    let scale = largest as f32 / LARGEST;
    let inverse = if scale > 0.0 { 1.0 / scale } else { 0.0 };
    (weights.iter().map(move |&weight| (weight as f32 * inverse).round().clamp(-LARGEST, LARGEST)), scale)
}

/// The weights of an output as they are after the rounding.
pub(crate) fn after_rounding(weights: &[f64]) -> Vec<f64> {
    let (multiples, scale) = rounded_row(weights);
    multiples.map(|multiple| f64::from(multiple) * f64::from(scale)).collect()
}

/// The weights of a layer with 8 bits, as the kernel reads them. `plain` are the plain ones, without the gap after the
/// last row. The result has [`bytes`].
pub(crate) fn rounded(shape: &GemmShape, plain: &[u8]) -> Vec<u8> {
    let (row_bytes, matrix_bytes) = row_and_matrix_bytes(shape);
    let mut output = vec![0; bytes(shape)];
    output[..matrix_bytes].fill(ZERO as u8);
    let element = shape.input_type.bytes();
    let rows = plain.chunks(shape.weights_stride * element).take(shape.outputs).enumerate();
    for (index, row) in rows {
        let weights = numbers::decode(shape.input_type, &row[..shape.inputs * element]);
        let (multiples, scale) = rounded_row(&weights);
        let first = index / PIECE_ROWS * PIECE_ROWS * row_bytes + index % PIECE_ROWS * PIECE;
        for (input, multiple) in multiples.enumerate() {
            output[first + input / PIECE * PIECE * PIECE_ROWS + input % PIECE] = (ZERO + multiple) as u8;
        }
        output[matrix_bytes + index * size_of::<f32>()..][..size_of::<f32>()]
            .copy_from_slice(&scale.to_le_bytes());
    }
    output
}

/// The arguments of a GEMM with such weights.
pub(crate) fn arguments(shape: &GemmShape, plain: GemmArguments) -> GemmArguments {
    let (row, _) = row_and_matrix_bytes(shape);
    GemmArguments { weights_stride: row as i32, weights_batch: 0, is_preshuffled: 1, ..plain }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 21 outputs are two blocks of 16 rows, and 40 inputs two pieces of 32.
    #[test]
    fn every_weight_and_every_scale_gets_its_place() {
        let shape = GemmShape { weights_stride: 48, ..GemmShape::plain(8, 21, 40, ElementType::Fp16) };
        let weights = numbers::noise(3, 20 * 48 + 40);
        let (plain, values) = numbers::encode(ElementType::Fp16, &weights);
        let found = rounded(&shape, &plain);
        assert_eq!(found.len(), bytes(&shape));
        assert_eq!(bytes(&shape), (32 * 64 + 24 * 4_usize).next_multiple_of(256));
        for output in 0..21 {
            let row = &values[output * 48..][..40];
            let place = 32 * 64 + 4 * output;
            let scale = f32::from_le_bytes(found[place..place + 4].try_into().unwrap());
            let largest = row.iter().fold(0.0_f64, |most, weight| most.max(weight.abs()));
            assert!((f64::from(scale) - largest / 127.0).abs() < 1e-8);
            for (input, (weight, after)) in row.iter().zip(after_rounding(row)).enumerate() {
                let place = ((output / 16 * 2 + input / 32) * 16 + output % 16) * 32 + input % 32;
                let value = f64::from(scale) * (f64::from(found[place]) - 128.0);
                assert!((value - weight).abs() <= largest / 254.0 * 1.0001, "{output}, {input}: {value}");
                assert!((value - after).abs() < 1e-9);
            }
        }
        // What lies beyond the outputs and the inputs is zero: row 21, and input 40 of row 0.
        assert_eq!([found[2 * 512 + 5 * 32], found[512 + 8]], [128; 2]);
    }

    #[test]
    fn an_output_without_weights_stays_zero() {
        assert_eq!(after_rounding(&[0.0, -0.0, 0.0]), [0.0; 3]);
    }

    #[test]
    fn only_single_gemms_of_few_rows_in_16_bits_are_worth_it() {
        let plain = GemmShape::plain(512, 64, 64, ElementType::Bf16);
        let shape = GemmShape { may_round: true, ..plain };
        assert!(may_pay(&shape) && !may_pay(&plain));
        assert!(!may_pay(&GemmShape { rows: 513, ..shape }));
        assert!(!may_pay(&GemmShape { batch: 2, ..shape }));
        let fp32 = ElementType::Fp32;
        assert!(!may_pay(&GemmShape { input_type: fp32, output_type: fp32, ..shape }));
    }
}
