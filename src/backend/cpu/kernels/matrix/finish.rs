//! The last step of a product: from the sums of a part of y to y.

use crate::kernels::elementary::{activate_slice, floor_and_rest};
use crate::simd::tile::Start;
use crate::simd::{Kernel, Simd, Word};
use rukh_net::architecture::Activation;

/// The numbers that the integer sums of a part of y stand for:
/// `sum * row_scale * scale + row_minimum * column_sum`.
#[derive(Clone, Copy)]
pub(super) struct Dequantise<'a> {
    /// `[rows]`
    pub row_scales: &'a [f32],
    /// `[rows]`
    pub row_minima: &'a [f32],
    /// `[2 * LANES]`
    pub scales: &'a [f32],
    /// `[2 * LANES]`
    pub sums: &'a [f32],
}

/// The sums of a part of y.
#[derive(Clone, Copy)]
pub(super) enum Sums<'a> {
    #[cfg(target_arch = "x86_64")]
    Floats(&'a [f32]),
    Integers(&'a [Word], Dequantise<'a>),
}

/// Writes `y = act(start + sums)` for some rows and at most `2 * LANES` columns. The activation is not softmax, which
/// needs whole rows.
pub(super) struct Finish<'a> {
    /// `[rows][2 * LANES]`
    pub sums: Sums<'a>,
    pub start: Start<'a, f32>,
    pub activation: Activation,
    /// The first row and column of this part of y.
    pub y: &'a mut [f32],
    pub y_stride: usize,
    pub rows: usize,
    /// The number of columns, at most `2 * LANES`.
    pub width: usize,
}

impl Kernel for Finish<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let panel_width = 2 * S::LANES;
        let (floor, after) = floor_and_rest(self.activation);
        let floor = simd.splat(floor);
        for at in (0..self.width).step_by(S::LANES) {
            let width = S::LANES.min(self.width - at);
            let bias = match self.start {
                Start::Bias(biases) => simd.load(&biases[at..]),
                Start::Output => simd.splat(0.0),
            };
            match self.sums {
                #[cfg(target_arch = "x86_64")]
                Sums::Floats(sums) => {
                    for row in 0..self.rows {
                        let y = &mut self.y[row * self.y_stride + at..][..width];
                        let v = simd.add(simd.load(&sums[row * panel_width + at..]), bias);
                        store(simd, v, self.start, floor, y);
                    }
                }
                Sums::Integers(sums, dequantise) => {
                    let scales = simd.load(&dequantise.scales[at..]);
                    let column_sums = simd.load(&dequantise.sums[at..]);
                    let (row_scales, row_minima) =
                        (&dequantise.row_scales[..self.rows], &dequantise.row_minima[..self.rows]);
                    for row in 0..self.rows {
                        let y = &mut self.y[row * self.y_stride + at..][..width];
                        let scale = simd.mul(simd.splat(row_scales[row]), scales);
                        let v = simd.mul_add(simd.splat(row_minima[row]), column_sums, bias);
                        let sum = simd.to_float(simd.load_words(&sums[row * panel_width + at..]));
                        store(simd, simd.mul_add(sum, scale, v), self.start, floor, y);
                    }
                }
            }
        }
        if !matches!(after, Activation::None | Activation::Softmax) {
            for row in 0..self.rows {
                activate_slice(simd, after, &mut self.y[row * self.y_stride..][..self.width]);
            }
        }
    }
}

/// Stores `max(v, floor)` in y or, if the sums start with y, `max(y + v, floor)`.
#[inline(always)]
fn store<S: Simd>(simd: S, v: S::Vector, start: Start<'_, f32>, floor: S::Vector, y: &mut [f32]) {
    let v = if matches!(start, Start::Output) { simd.add(simd.load_some(y), v) } else { v };
    // The sum is the second argument, so that a NaN in it stays.
    simd.store_some(simd.max(floor, v), y);
}

/// Applies softmax to whole rows of y.
pub(super) struct SoftmaxRows<'a> {
    pub y: &'a mut [f32],
    pub y_stride: usize,
    pub rows: usize,
    pub outputs: usize,
}

impl Kernel for SoftmaxRows<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        for row in 0..self.rows {
            activate_slice(simd, Activation::Softmax, &mut self.y[row * self.y_stride..][..self.outputs]);
        }
    }
}
