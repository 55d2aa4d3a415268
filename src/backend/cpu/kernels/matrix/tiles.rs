//! Products in the tile registers of AMX.

use super::finish::{self, Dequantise, Finish, SoftmaxRows};
use super::pack::Storage;
use super::product::MatrixProduct;
use super::rounding::{RoundedRows, Sums};
use crate::simd::amx::{Amx, Block, BlockFactors, COLUMNS, ROWS, Tiles};
use crate::simd::tile::Start;
use crate::simd::{Isa, Word};
use rukh_net::architecture::Activation;

/// The size of weights that stay in a second-level cache of 2 MB beside x and y, in bytes.
const SMALL_WEIGHTS: usize = 512 << 10;
/// With small weights, the largest size of the rows of x that are multiplied with one panel after another, in bytes: half
/// of a first-level cache of 48 kB. The other half is for the panel and the sums.
const FEW_ROWS: usize = 24 << 10;
/// The same size with larger weights. The third-level cache delivers weights more slowly than AMX multiplies, so each
/// panel is multiplied with as many rows of x as a quarter of the second-level cache holds.
const MANY_ROWS: usize = 512 << 10;

/// Computes a product whose rows have been rounded.
pub(super) fn run(mut product: MatrixProduct<'_>, isa: Isa, amx: Amx) {
    let MatrixProduct { weights, rows: all_rows, .. } = product;
    let mut rounded = std::mem::take(product.rounded);
    let tiles = amx.tiles();
    let row_bytes = weights.steps() * size_of::<Word>();
    let x_bytes = if weights.matrix_bytes() <= SMALL_WEIGHTS { FEW_ROWS } else { MANY_ROWS };
    let block = (x_bytes / row_bytes / ROWS).max(1) * ROWS;
    // While the matrix unit computes a part of y, the vector units finish the part before it.
    let mut sums = std::mem::take(&mut rounded.blocks);
    for part in [&mut sums.now, &mut sums.before] {
        part.floats.grow_to(ROWS * COLUMNS);
        part.integers.grow_to(ROWS * COLUMNS);
    }
    let mut before = None;
    for first in (0..all_rows).step_by(block) {
        let end = all_rows.min(first + block);
        for column in (0..weights.outputs()).step_by(COLUMNS) {
            for row in (first..end).step_by(ROWS) {
                let part = Part { row, column, rows: ROWS.min(end - row) };
                part.multiply(&product, &rounded, &tiles, &mut sums.now);
                if let Some(before) = before.replace(part) {
                    before.finish(&mut product, &rounded, isa, &sums.before);
                }
                std::mem::swap(&mut sums.now, &mut sums.before);
            }
        }
    }
    if let Some(last) = before {
        last.finish(&mut product, &rounded, isa, &sums.before);
    }
    if product.activation == Activation::Softmax {
        let MatrixProduct { weights, y, y_stride, rows, .. } = &mut product;
        isa.run(SoftmaxRows { y, y_stride: *y_stride, rows: *rows, outputs: weights.outputs() });
    }
    rounded.blocks = sums;
    *product.rounded = rounded;
}

/// A part of y: at most [`ROWS`] rows of one panel.
#[derive(Clone, Copy)]
struct Part {
    row: usize,
    column: usize,
    rows: usize,
}

impl Part {
    fn multiply(self, product: &MatrixProduct<'_>, rounded: &RoundedRows, tiles: &Tiles, sums: &mut Sums) {
        let steps = product.weights.steps();
        let panel = &product.weights.panels(product.which)[self.column * steps..][..steps * COLUMNS];
        for piece in 0..rounded.pieces {
            let (a, panel) = rounded.piece(piece, self.row, panel, COLUMNS);
            let factors = BlockFactors {
                a,
                a_stride: rounded.stride,
                panel,
                steps: steps / rounded.pieces,
                rows: self.rows,
            };
            let accumulate = piece > 0;
            let floats = Block { c: &mut sums.floats, stride: COLUMNS, accumulate };
            match product.weights.storage() {
                Storage::Int8 => {
                    let integers = Block { c: &mut sums.integers, stride: COLUMNS, accumulate };
                    tiles.multiply_bytes(factors, integers);
                }
                Storage::Split => tiles.multiply_split(factors, floats),
                Storage::Fp32 | Storage::Bf16 => tiles.multiply_bf16(factors, floats),
            }
        }
    }

    fn finish(self, product: &mut MatrixProduct<'_>, rounded: &RoundedRows, isa: Isa, sums: &Sums) {
        let Part { row, column, rows } = self;
        let MatrixProduct { weights, which, y_stride, activation, accumulate, .. } = *product;
        let sums = if weights.storage() == Storage::Int8 {
            let (scales, column_sums) = weights.scales_and_sums(which, column);
            let (row_scales, row_minima) = (&rounded.scales[row..], &rounded.minima[row..]);
            finish::Sums::Integers(
                &sums.integers,
                Dequantise { row_scales, row_minima, scales, sums: column_sums },
            )
        } else {
            finish::Sums::Floats(&sums.floats)
        };
        isa.run(Finish {
            sums,
            start: if accumulate { Start::Output } else { Start::Bias(weights.biases_from(column)) },
            activation,
            y: &mut product.y[row * y_stride + column..],
            y_stride,
            rows,
            width: COLUMNS.min(weights.outputs() - column),
        });
    }
}
