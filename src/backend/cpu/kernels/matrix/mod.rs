//! Dense layers, `y = act(x W^T + b)`: most of the arithmetic of every network.
//!
//! When a network is loaded, its weights are packed into panels of `2 * LANES` outputs ([`pack`]). The last panel is
//! padded with zeros. To 8 bits they are rounded by what the layer's inputs are on real positions ([`quantise`],
//! [`statistics`]). A product rounds the rows of x to the format of the weights ([`rounding`]). Its outer loop is over
//! blocks of rows of x that fit the second-level cache, the next loop is over the panels, and the inner loop is over
//! tiles of rows: in vector registers ([`crate::simd::tile`]), or in the tile registers of AMX
//! ([`crate::simd::amx`]). The activation is applied to the rows of a panel's result while they are still
//! in the cache ([`finish`]).
//!
//! | [`Format`] | vector registers | AMX |
//! |---|---|---|
//! | `Fp32` | fp32 | three bf16 for each fp32 |
//! | `Bf16` | pairs of bf16 | pairs of bf16 |
//! | `Int8` | groups of four bytes | groups of four bytes |

mod finish;
mod kept;
mod pack;
mod product;
mod quantise;
mod rounding;
mod statistics;
#[cfg(target_arch = "x86_64")]
mod tiles;
mod vectors;

pub(crate) use kept::KeptRounding;
pub(crate) use pack::{Format, PackedMatrix};
pub(crate) use product::MatrixProduct;
pub use quantise::Quantised;
pub(crate) use quantise::{Taps, quantise};
#[cfg(target_arch = "x86_64")]
pub(crate) use rounding::round_row;
pub(crate) use rounding::{BoardRows, RoundedRows};
pub(crate) use statistics::InputStatistics;

use crate::simd::Isa;
use crate::simd::tile::MAX_PANEL;
use rukh_net::architecture::Activation;
use std::time::{Duration, Instant};

impl MatrixProduct<'_> {
    /// Computes the product. `isa` must be the instruction set that the weights were packed for.
    pub(crate) fn run(self, isa: Isa) {
        self.rounded.fill(isa, self.weights, (self.x, self.x_stride), self.rows);
        self.run_rounded(isa);
    }

    /// Computes the product of rows that are in `rounded` already, and does not read x.
    pub(crate) fn run_rounded(self, isa: Isa) {
        if self.rows == 0 || self.weights.outputs() == 0 {
            return;
        }
        assert_eq!(
            self.weights.panel_width(),
            2 * isa.lanes(),
            "the weights are packed for this instruction set"
        );
        #[cfg(target_arch = "x86_64")]
        if let Some(amx) = isa.amx() {
            return tiles::run(self, isa, amx);
        }
        vectors::run(self, isa);
    }
}

/// Whether a typical product takes less time in bf16 than in fp32: the fastest of a few runs of each.
pub(crate) fn is_bf16_faster(isa: Isa) -> bool {
    const SIZE: usize = 256;
    const ROWS: usize = 64;
    const RUNS: usize = 5;
    let [mut fp32, mut bf16] = [Format::Fp32, Format::Bf16]
        .map(|format| PackedMatrix::from_fn(isa, format, SIZE, SIZE, &[], |_, _| 1.0))
        .map(|weights| (weights, Duration::MAX));
    let x = vec![1.0; ROWS * SIZE];
    let mut y = vec![0.0; ROWS * SIZE];
    let mut rounded = RoundedRows::default();
    for _ in 0..RUNS {
        for (weights, fastest) in [&mut fp32, &mut bf16] {
            let start = Instant::now();
            MatrixProduct {
                weights,
                which: 0,
                x: &x,
                x_stride: SIZE,
                y: &mut y,
                y_stride: SIZE,
                rows: ROWS,
                activation: Activation::None,
                accumulate: false,
                rounded: &mut rounded,
            }
            .run(isa);
            *fastest = start.elapsed().min(*fastest);
        }
    }
    bf16.1 < fp32.1
}

/// The zeros that a product without a bias starts with.
pub(crate) const NO_BIAS: [f32; MAX_PANEL] = [0.0; MAX_PANEL];

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::simd::bf16_bits;

    /// Pseudorandom numbers in -1…1, without a pattern that could hide a transposition.
    pub(crate) fn noise(count: usize, seed: u32) -> Vec<f32> {
        let mut state = seed.wrapping_mul(2_654_435_761) | 1;
        (0..count)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 17;
                state ^= state << 5;
                (state >> 8) as f32 / (1 << 23) as f32 - 1.0
            })
            .collect()
    }

    fn rounded(format: Format, x: f32) -> f64 {
        match format {
            Format::Fp32 | Format::Int8 => f64::from(x),
            Format::Bf16 => f64::from(f32::from_bits(u32::from(bf16_bits(x)) << 16)),
        }
    }

    fn check(isa: Isa, format: Format, rows: usize, inputs: usize, outputs: usize, accumulate: bool) {
        let what = format!("{} {format:?} {rows}x{inputs}x{outputs} accumulate {accumulate}", isa.name());
        let weights = noise(outputs * inputs, 1);
        let biases = noise(outputs, 2);
        let x_stride = inputs + 5;
        let y_stride = outputs + 3;
        let x = noise(rows * x_stride, 3);
        let before = noise(rows * y_stride, 4);
        let mut y: Vec<f32> = if accumulate { before.clone() } else { vec![f32::NAN; rows * y_stride] };
        let packed = PackedMatrix::new(isa, format, &weights, &biases, inputs);
        MatrixProduct {
            weights: &packed,
            which: 0,
            x: &x,
            x_stride,
            y: &mut y,
            y_stride,
            rows,
            activation: Activation::Relu,
            accumulate,
            rounded: &mut RoundedRows::default(),
        }
        .run(isa);
        for row in 0..rows {
            for output in 0..outputs {
                let start = if accumulate { before[row * y_stride + output] } else { biases[output] };
                let mut right = f64::from(start);
                for input in 0..inputs {
                    right += rounded(format, x[row * x_stride + input])
                        * rounded(format, weights[output * inputs + input]);
                }
                let right = right.max(0.0);
                let got = f64::from(y[row * y_stride + output]);
                // The noise is between -1 and 1, so the steps of 8-bit numbers are 1/127 or 1/63, and 2/255.
                let allowed = match format {
                    Format::Int8 => 0.015 * (4.0 + inputs as f64).sqrt(),
                    _ => 2e-7 * (4.0 + inputs as f64),
                };
                assert!(
                    (got - right).abs() <= allowed,
                    "{what}: [{row}][{output}] is {got}, expected {right}"
                );
            }
            for gap in outputs..y_stride {
                let got = y[row * y_stride + gap];
                let untouched = if accumulate { got == before[row * y_stride + gap] } else { got.is_nan() };
                assert!(untouched, "{what}: wrote beyond row {row}");
            }
        }
    }

    #[test]
    fn every_ragged_shape_matches_the_naive_product() {
        let sizes = [1, 2, 7, 12, 13, 31, 32, 33, 63, 64, 65];
        for isa in Isa::tested() {
            for format in [Format::Fp32, Format::Bf16, Format::Int8] {
                for rows in sizes {
                    for outputs in [1, 3, 31, 32, 33, 65] {
                        check(isa, format, rows, 17, outputs, false);
                    }
                    check(isa, format, rows, 33, 64, true);
                }
                for inputs in [1, 2, 3, 255, 1030] {
                    check(isa, format, 13, inputs, 40, false);
                }
            }
        }
    }

    #[test]
    fn a_product_without_inputs_is_the_bias_and_one_without_rows_writes_nothing() {
        for isa in Isa::tested() {
            for format in [Format::Fp32, Format::Bf16, Format::Int8] {
                check(isa, format, 0, 5, 5, false);
                let packed = PackedMatrix::from_fn(isa, format, 3, 0, &[1.0, 2.0, -3.0], |_, _| f32::NAN);
                let mut y = [f32::NAN; 6];
                MatrixProduct {
                    weights: &packed,
                    which: 0,
                    x: &[],
                    x_stride: 0,
                    y: &mut y,
                    y_stride: 3,
                    rows: 2,
                    activation: Activation::None,
                    accumulate: false,
                    rounded: &mut RoundedRows::default(),
                }
                .run(isa);
                assert_eq!(y, [1.0, 2.0, -3.0, 1.0, 2.0, -3.0], "{}", isa.name());
            }
        }
    }

    /// With the largest bytes in every place, a processor that adds products in 16 bits would saturate.
    #[test]
    fn the_largest_bytes_are_multiplied_exactly() {
        const INPUTS: usize = 1024;
        for isa in Isa::tested() {
            for sign in [1.0, -1.0] {
                let packed = PackedMatrix::from_fn(isa, Format::Int8, 3, INPUTS, &[], |_, _| sign);
                let mut x = [1.0; INPUTS];
                x[0] = 0.0;
                let mut y = [f32::NAN; 3];
                MatrixProduct {
                    weights: &packed,
                    which: 0,
                    x: &x,
                    x_stride: INPUTS,
                    y: &mut y,
                    y_stride: 3,
                    rows: 1,
                    activation: Activation::None,
                    accumulate: false,
                    rounded: &mut RoundedRows::default(),
                }
                .run(isa);
                let right = sign * (INPUTS - 1) as f32;
                assert!(y.iter().all(|y| (y - right).abs() < 0.01), "{}: {y:?}, not {right}", isa.name());
            }
        }
    }

    /// A number that is not finite must reach the outputs, where it is reported.
    #[test]
    fn numbers_that_are_not_finite_stay_so() {
        for isa in Isa::tested() {
            for format in [Format::Fp32, Format::Bf16, Format::Int8] {
                let packed = PackedMatrix::from_fn(isa, format, 1, 40, &[], |_, input| input as f32 - 20.5);
                for x in [[f32::NAN; 40], [f32::INFINITY; 40]] {
                    let mut y = [0.0];
                    MatrixProduct {
                        weights: &packed,
                        which: 0,
                        x: &x,
                        x_stride: 40,
                        y: &mut y,
                        y_stride: 1,
                        rows: 1,
                        activation: Activation::None,
                        accumulate: false,
                        rounded: &mut RoundedRows::default(),
                    }
                    .run(isa);
                    assert!(!y[0].is_finite(), "{} {format:?}: {} of {}", isa.name(), y[0], x[0]);
                }
            }
        }
    }

    #[test]
    fn a_product_of_more_rows_than_a_block_matches_the_naive_product() {
        for isa in Isa::tested() {
            check(isa, Format::Fp32, 700, 300, 35, false);
        }
    }
}
