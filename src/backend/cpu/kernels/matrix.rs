//! Dense layers, `y = act(x W^T + b)`: most of the arithmetic of every network.
//!
//! When a network is loaded, its weights are packed into panels of `2 * LANES` outputs, in fp32 or as pairs of
//! bf16 ([`PackedMatrix`]). The last panel is padded with zeros. The outer loop of the product is over blocks of
//! rows of x that fit the second-level cache, the next loop is over the panels, and the inner loop is over tiles
//! of rows ([`crate::backend::cpu::simd::tile`]). The activation is applied to the rows of a panel's result while
//! they are still in the cache.

use super::elementary::{activate_slice, floor_and_rest};
use crate::backend::cpu::simd::tile::{Bf16, Fp32, Layout, MAX_PANEL, PanelProduct, Product, Start};
use crate::backend::cpu::simd::{AlignedVec, Bf16Pair, Isa, Kernel, Simd, bf16_bits};
use crate::net::architecture::Activation;

/// The number format of the factors in a layer's products. Sums are always fp32.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Format {
    /// Weights and inputs as they are.
    Fp32,
    /// Weights and inputs rounded to bf16 (to nearest, ties to even).
    Bf16,
}

#[derive(Clone, Debug)]
enum Panels {
    Fp32(AlignedVec<f32>),
    Bf16(AlignedVec<Bf16Pair>),
}

/// A weight matrix and its biases, or several matrices of the same size, packed for the product on one
/// instruction set.
#[derive(Clone, Debug)]
pub(crate) struct PackedMatrix {
    /// `[matrix][panel][step][2 * LANES]`. A step is one input in fp32 and a pair of inputs in bf16.
    panels: Panels,
    /// `[outputs]`, padded with zeros to the end of the last panel.
    biases: AlignedVec<f32>,
    inputs: usize,
    outputs: usize,
    panel_width: usize,
    /// The length of one matrix in `panels`.
    matrix_words: usize,
}

impl PackedMatrix {
    /// Packs `weights` (`[outputs][inputs]`) and `biases` (`[outputs]`, or empty if there are none).
    ///
    /// # Panics
    /// If the slices do not have these sizes, which the network loader has checked.
    pub(crate) fn new(isa: Isa, format: Format, weights: &[f32], biases: &[f32], inputs: usize) -> Self {
        let outputs = weights.len().checked_div(inputs).unwrap_or(0);
        assert_eq!(weights.len(), inputs * outputs, "weights are [outputs][inputs]");
        Self::from_fn(isa, format, outputs, inputs, biases, |output, input| weights[output * inputs + input])
    }

    /// Packs the matrix with the elements `weight(output, input)`.
    pub(crate) fn from_fn(
        isa: Isa,
        format: Format,
        outputs: usize,
        inputs: usize,
        biases: &[f32],
        weight: impl Fn(usize, usize) -> f32,
    ) -> Self {
        assert!(biases.is_empty() || biases.len() == outputs, "one bias for each output, or none");
        let mut packed =
            Self::batch_from_fn(isa, format, 1, outputs, inputs, |_, output, input| weight(output, input));
        packed.biases[..biases.len()].copy_from_slice(biases);
        packed
    }

    /// Packs `count` matrices of the same size with the elements `weight(which, output, input)` and no biases.
    pub(crate) fn batch_from_fn(
        isa: Isa,
        format: Format,
        count: usize,
        outputs: usize,
        inputs: usize,
        weight: impl Fn(usize, usize, usize) -> f32,
    ) -> Self {
        let panel_width = 2 * isa.lanes();
        let panel_count = outputs.div_ceil(panel_width);
        let steps = format.steps(inputs);
        let matrix_words = panel_count * steps * panel_width;
        let place = |which: usize, output: usize, step: usize| {
            let (panel, column) = (output / panel_width, output % panel_width);
            which * matrix_words + (panel * steps + step) * panel_width + column
        };
        // This order reads the source sequentially.
        let all = (0..count).flat_map(|which| (0..outputs).map(move |output| (which, output)));
        let panels = match format {
            Format::Fp32 => {
                let mut words = AlignedVec::zeroed(count * matrix_words);
                for (which, output) in all {
                    for step in 0..steps {
                        words[place(which, output, step)] = weight(which, output, step);
                    }
                }
                Panels::Fp32(words)
            }
            Format::Bf16 => {
                let mut words = AlignedVec::zeroed(count * matrix_words);
                for (which, output) in all {
                    for step in 0..steps {
                        let low = u32::from(bf16_bits(weight(which, output, 2 * step)));
                        let odd = 2 * step + 1;
                        let high = if odd < inputs { bf16_bits(weight(which, output, odd)) } else { 0 };
                        words[place(which, output, step)] = low | u32::from(high) << 16;
                    }
                }
                Panels::Bf16(words)
            }
        };
        let biases = AlignedVec::zeroed(panel_count * panel_width);
        PackedMatrix { panels, biases, inputs, outputs, panel_width, matrix_words }
    }

    pub(crate) fn inputs(&self) -> usize {
        self.inputs
    }

    pub(crate) fn outputs(&self) -> usize {
        self.outputs
    }

    /// The size of one of the packed matrices. The words of all formats have four bytes.
    pub(crate) fn matrix_bytes(&self) -> usize {
        self.matrix_words * size_of::<f32>()
    }
}

impl Format {
    /// The number of steps of a product over `inputs` columns.
    fn steps(self, inputs: usize) -> usize {
        match self {
            Format::Fp32 => inputs,
            Format::Bf16 => inputs.div_ceil(2),
        }
    }
}

/// Computes `y = act(x W^T + b)` or, with `accumulate`, `y = act(y + x W^T)`. Here x is `[rows][inputs]`, W is
/// `[outputs][inputs]` and y is `[rows][outputs]`.
pub(crate) struct MatrixProduct<'a> {
    pub weights: &'a PackedMatrix,
    /// The index of the matrix in `weights`: 0 if there is only one.
    pub which: usize,
    pub x: &'a [f32],
    /// Elements from the start of one row of x to the start of the next.
    pub x_stride: usize,
    pub y: &'a mut [f32],
    /// Elements from the start of one row of y to the start of the next.
    pub y_stride: usize,
    pub rows: usize,
    /// The function `act`. Softmax applies to each row of y.
    pub activation: Activation,
    /// Whether the sums start with y instead of the biases.
    pub accumulate: bool,
    /// Memory for x in bf16. It is used, and grows as needed, if the weights are bf16.
    pub rounded: &'a mut AlignedVec<Bf16Pair>,
}

impl MatrixProduct<'_> {
    /// Computes the product. `isa` must be the instruction set that the weights were packed for.
    pub(crate) fn run(self, isa: Isa) {
        match &self.weights.panels {
            Panels::Fp32(_) => isa.run(InFp32(self)),
            Panels::Bf16(_) => isa.run(InBf16(self)),
        }
    }
}

struct InFp32<'a>(MatrixProduct<'a>);

impl Kernel for InFp32<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let product = self.0;
        let Panels::Fp32(panels) = &product.weights.panels else {
            return;
        };
        let blocks = Blocks {
            weights: product.weights,
            y: product.y,
            y_stride: product.y_stride,
            rows: product.rows,
            activation: product.activation,
            accumulate: product.accumulate,
        };
        let words = product.weights.matrix_words;
        let panels = &panels[product.which * words..][..words];
        blocks.run::<S, Fp32>(simd, product.x, product.x_stride, panels);
    }
}

struct InBf16<'a>(MatrixProduct<'a>);

impl Kernel for InBf16<'_> {
    type Output = ();
    const MULTIPLIES_BF16: bool = true;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let product = self.0;
        let Panels::Bf16(panels) = &product.weights.panels else {
            return;
        };
        let steps = Format::Bf16.steps(product.weights.inputs);
        // Only whole vectors are stored, so the rows have room for a whole number of them.
        let stride = steps.next_multiple_of(S::LANES);
        product.rounded.grow_to(product.rows * stride);
        for row in 0..product.rows {
            let x = &product.x[row * product.x_stride..][..product.weights.inputs];
            round_row(simd, x, &mut product.rounded[row * stride..][..stride]);
        }
        let blocks = Blocks {
            weights: product.weights,
            y: product.y,
            y_stride: product.y_stride,
            rows: product.rows,
            activation: product.activation,
            accumulate: product.accumulate,
        };
        let words = product.weights.matrix_words;
        let panels = &panels[product.which * words..][..words];
        blocks.run::<S, Bf16>(simd, product.rounded, stride, panels);
    }
}

/// Rounds a row to bf16. `to` has room for a whole number of vectors; the end of the last one is filled with
/// zeros.
#[inline(always)]
fn round_row<S: Simd>(simd: S, x: &[f32], to: &mut [Bf16Pair]) {
    let mut vectors = x.chunks_exact(2 * S::LANES);
    let mut places = to.chunks_exact_mut(S::LANES);
    for (v, place) in (&mut vectors).zip(&mut places) {
        let pairs = simd.round_to_bf16(simd.load(v), simd.load(&v[S::LANES..]));
        simd.store_pairs(pairs, place);
    }
    let rest = vectors.remainder();
    if !rest.is_empty() {
        let (first, second) = rest.split_at(rest.len().min(S::LANES));
        let pairs = simd.round_to_bf16(simd.load_some(first), simd.load_some(second));
        if let Some(place) = places.next() {
            simd.store_pairs(pairs, place);
        }
    }
}

/// The largest size of a block of rows of x, in bytes: a quarter of a second-level cache of 1 MB. The rest is
/// left for panels and results.
const BLOCK_BYTES: usize = 256 << 10;

struct Blocks<'a> {
    weights: &'a PackedMatrix,
    y: &'a mut [f32],
    y_stride: usize,
    rows: usize,
    activation: Activation,
    accumulate: bool,
}

impl Blocks<'_> {
    #[inline(always)]
    fn run<S: Simd, P: Product>(self, simd: S, x: &[P::Word], x_stride: usize, panels: &[P::Word]) {
        let PackedMatrix { outputs, panel_width, .. } = *self.weights;
        if self.rows == 0 || outputs == 0 {
            return;
        }
        assert_eq!(panel_width, 2 * S::LANES, "the weights are packed for this instruction set");
        let panel_count = outputs.div_ceil(panel_width);
        let panel_words = panels.len() / panel_count;
        let steps = panel_words / panel_width;
        // ReLU is computed as a lower limit of the sums. Other functions are applied to the stored rows of a
        // panel.
        let (floor, after) = floor_and_rest(self.activation);
        let row_bytes = (steps * size_of::<P::Word>()).max(1);
        let tile = P::tile_rows::<S>();
        let block = (BLOCK_BYTES / row_bytes / tile).max(1) * tile;
        for first in (0..self.rows).step_by(block) {
            let rows = block.min(self.rows - first);
            for panel in 0..panel_count {
                let column = panel * panel_width;
                let width = panel_width.min(outputs - column);
                let start = if self.accumulate {
                    Start::Output
                } else {
                    Start::Bias(&self.weights.biases[column..][..panel_width])
                };
                let c = &mut self.y[first * self.y_stride + column..];
                PanelProduct::<P> {
                    a: &x[first * x_stride..],
                    layout: Layout::RowMajor { stride: x_stride },
                    panel: &panels[panel * panel_words..][..panel_words],
                    panel_stride: panel_width,
                    steps,
                    c,
                    c_stride: self.y_stride,
                    rows,
                    width,
                    start,
                    floor,
                }
                .run(simd);
                if !matches!(after, Activation::None | Activation::Softmax) {
                    for row in 0..rows {
                        let y = &mut self.y[(first + row) * self.y_stride + column..][..width];
                        activate_slice(simd, after, y);
                    }
                }
            }
            if after == Activation::Softmax {
                for row in 0..rows {
                    activate_slice(simd, after, &mut self.y[(first + row) * self.y_stride..][..outputs]);
                }
            }
        }
    }
}

/// The zeros that a product without a bias starts with.
pub(crate) const NO_BIAS: [f32; MAX_PANEL] = [0.0; MAX_PANEL];

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

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
            Format::Fp32 => f64::from(x),
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
            rounded: &mut AlignedVec::default(),
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
                let allowed = 2e-7 * (4.0 + inputs as f64);
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
        for isa in Isa::available() {
            for format in [Format::Fp32, Format::Bf16] {
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
        for isa in Isa::available() {
            for format in [Format::Fp32, Format::Bf16] {
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
                    rounded: &mut AlignedVec::default(),
                }
                .run(isa);
                assert_eq!(y, [1.0, 2.0, -3.0, 1.0, 2.0, -3.0], "{}", isa.name());
            }
        }
    }

    #[test]
    fn a_product_of_more_rows_than_a_block_matches_the_naive_product() {
        for isa in Isa::available() {
            check(isa, Format::Fp32, 700, 300, 35, false);
        }
    }
}
