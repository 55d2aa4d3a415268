//! Products in vector registers.

use super::finish::{Dequantise, Finish, SoftmaxRows, Sums};
use super::pack::Storage;
use super::product::MatrixProduct;
use crate::kernels::elementary::{activate_slice, floor_and_rest};
use crate::simd::tile::{Bf16, Fp32, Int8, Layout, MAX_PANEL, PanelProduct, Product, Start};
use crate::simd::{Factors, Isa, Kernel, Simd};
use rukh_net::architecture::Activation;

/// The largest size of a block of rows of x, in bytes: a quarter of a second-level cache of 1 MB. The rest is
/// left for panels and results.
const BLOCK_BYTES: usize = 256 << 10;

/// The number of rows of a block whose rows have `row_bytes` bytes: a multiple of `tile`.
fn block_rows(row_bytes: usize, tile: usize) -> usize {
    (BLOCK_BYTES / row_bytes.max(1) / tile).max(1) * tile
}

/// Computes a product whose rows have been rounded.
pub(super) fn run(product: MatrixProduct<'_>, isa: Isa) {
    match product.weights.storage() {
        Storage::Bf16 => isa.run(InBf16(product)),
        Storage::Int8 => isa.run(InInt8(product)),
        _ => isa.run(InFp32(product)),
    }
}

struct InFp32<'a>(MatrixProduct<'a>);

impl Kernel for InFp32<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let mut product = self.0;
        let MatrixProduct { weights, which, x, x_stride, .. } = product;
        in_floats::<S, Fp32>(simd, &mut product, (x, x_stride), weights.fp32_panels(which));
    }
}

struct InBf16<'a>(MatrixProduct<'a>);

impl Kernel for InBf16<'_> {
    type Output = ();
    const MULTIPLIES: Factors = Factors::Bf16;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let mut product = self.0;
        let x = std::mem::take(&mut product.rounded.words);
        let (stride, panels) = (product.rounded.stride, product.weights.panels(product.which));
        in_floats::<S, Bf16>(simd, &mut product, (&x, stride), panels);
        product.rounded.words = x;
    }
}

/// Computes a product whose sums are fp32, so that they are kept in y.
#[inline(always)]
fn in_floats<S: Simd, P: Product<Element = f32>>(
    simd: S,
    product: &mut MatrixProduct<'_>,
    (x, x_stride): (&[P::Word], usize),
    panels: &[P::Word],
) {
    let MatrixProduct { weights, y_stride, rows: all_rows, activation, accumulate, .. } = *product;
    let y = &mut *product.y;
    let (outputs, steps, panel_width) = (weights.outputs(), weights.steps(), 2 * S::LANES);
    // ReLU is computed as a lower limit of the sums. Other functions are applied to the stored rows of a panel.
    let (floor, after) = floor_and_rest(activation);
    let block = block_rows(steps * size_of::<P::Word>(), P::tile_rows::<S>());
    for first in (0..all_rows).step_by(block) {
        let rows = block.min(all_rows - first);
        for column in (0..outputs).step_by(panel_width) {
            let width = panel_width.min(outputs - column);
            PanelProduct::<P> {
                a: &x[first * x_stride..],
                layout: Layout::RowMajor { stride: x_stride },
                panel: &panels[column * steps..][..steps * panel_width],
                panel_stride: panel_width,
                steps,
                c: &mut y[first * y_stride + column..],
                c_stride: y_stride,
                rows,
                width,
                start: if accumulate { Start::Output } else { Start::Bias(weights.biases_from(column)) },
                floor,
            }
            .run(simd);
            if !matches!(after, Activation::None | Activation::Softmax) {
                for row in 0..rows {
                    activate_slice(simd, after, &mut y[(first + row) * y_stride + column..][..width]);
                }
            }
        }
        if after == Activation::Softmax {
            SoftmaxRows { y: &mut y[first * y_stride..], y_stride, rows, outputs }.run(simd);
        }
    }
}

struct InInt8<'a>(MatrixProduct<'a>);

impl Kernel for InInt8<'_> {
    type Output = ();
    const MULTIPLIES: Factors = Factors::Int8;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        /// The number of tiles of rows whose sums are converted together. They stay in the first-level cache.
        const TILES: usize = 4;
        let MatrixProduct {
            weights,
            which,
            y,
            y_stride,
            rows: all_rows,
            activation,
            accumulate,
            rounded,
            ..
        } = self.0;
        let (outputs, steps, panel_width) = (weights.outputs(), weights.steps(), 2 * S::LANES);
        let part = TILES * S::TILE_ROWS_INT8;
        let mut sums = std::mem::take(&mut rounded.sums);
        sums.grow_to(part * panel_width);
        let block = block_rows(steps * 4, part);
        for first in (0..all_rows).step_by(block) {
            let rows = block.min(all_rows - first);
            for column in (0..outputs).step_by(panel_width) {
                let (scales, column_sums) = weights.scales_and_sums(which, column);
                for row in (first..first + rows).step_by(part) {
                    let rows = part.min(first + rows - row);
                    let panel = &weights.panels(which)[column * steps..][..steps * panel_width];
                    for piece in 0..rounded.pieces {
                        let (a, panel) = rounded.piece(piece, row, panel, panel_width);
                        PanelProduct::<Int8> {
                            a,
                            layout: Layout::RowMajor { stride: rounded.stride },
                            panel,
                            panel_stride: panel_width,
                            steps: steps / rounded.pieces,
                            c: &mut sums,
                            c_stride: panel_width,
                            rows,
                            width: panel_width,
                            start: if piece == 0 { Start::Bias(&[0; MAX_PANEL]) } else { Start::Output },
                            floor: f32::NEG_INFINITY,
                        }
                        .run(simd);
                    }
                    Finish {
                        sums: Sums::Integers(
                            &sums,
                            Dequantise {
                                row_scales: &rounded.scales[row..],
                                row_minima: &rounded.minima[row..],
                                scales,
                                sums: column_sums,
                            },
                        ),
                        start: if accumulate {
                            Start::Output
                        } else {
                            Start::Bias(weights.biases_from(column))
                        },
                        activation,
                        y: &mut y[row * y_stride + column..],
                        y_stride,
                        rows,
                        width: panel_width.min(outputs - column),
                    }
                    .run(simd);
                }
            }
            if activation == Activation::Softmax {
                SoftmaxRows { y: &mut y[first * y_stride..], y_stride, rows, outputs }.run(simd);
            }
        }
        rounded.sums = sums;
    }
}
