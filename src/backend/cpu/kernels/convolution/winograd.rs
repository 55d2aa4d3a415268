//! 3x3 convolutions with Winograd's minimal filtering algorithm, F(4x4, 3x3).
//!
//! The board is divided into four tiles of 4x4 results. The 6x6 inputs of a tile are transformed to 36
//! components. Each component is multiplied by a matrix of its own over the channels, which takes a quarter of
//! the multiplications of a direct convolution. The 36 products are then transformed back to 4x4 results. The
//! transforms follow Lavin and Gray, *Fast algorithms for convolutional neural networks* (2015), except for the
//! interpolation points: instead of 0, ±1 and ±2 they are 0, ±5/8 and ±3/2, whose squares are exact too. On
//! random data these points have half the error, and a fifth of the largest error.
//!
//! The arithmetic is always fp32. If the components were rounded to bf16, the error would be four times that of
//! a direct convolution in bf16 (q of maia-1900 would be off by 0.07). With F(2x2, 3x3) in bf16 it would be only
//! one and a half times that of a direct convolution, but that is no faster than F(4x4, 3x3) in fp32.
//!
//! ```text
//! x [position][64][channels] -> V [36][tile][channels] -> M [36][tile][outputs] -> y [position][64][outputs]
//! ```

use super::finish::Finish;
use crate::kernels::SQUARES;
use crate::kernels::elementary::{activate_slice, floor_and_rest};
use crate::kernels::matrix::{Format, MatrixProduct, PackedMatrix, RoundedRows};
use crate::simd::{AlignedVec, Isa, Kernel, Simd};
use rukh_backend::winograd::{COMPONENTS, FAR, NEAR, TILES, WeightsTransform};
use rukh_net::architecture::Activation;
use rukh_net::weights::Convolution;

/// The side of a tile of inputs, and of its components.
const SIDE: usize = 6;
/// The side of a tile of results.
const RESULT: usize = 4;

/// The gap between one component and the next, in elements. Without it the components of a tile would often be
/// a power of two apart and compete for the same cache sets.
const COMPONENT_GAP: usize = 16;

/// Working memory of [`WinogradConvolution::run`]. Reusing it avoids allocations.
#[derive(Default, Debug)]
pub(super) struct WinogradScratch {
    /// V: `[36][tile][channels]`.
    transformed: AlignedVec<f32>,
    /// M: `[36][tile][outputs]`.
    products: AlignedVec<f32>,
    /// [`MatrixProduct`] needs this field, but fp32 products do not use it.
    rounded: RoundedRows,
}

/// A 3x3 convolution with transformed and packed weights.
#[derive(Clone, Debug)]
pub(super) struct WinogradConvolution {
    /// One matrix `[output][input]` for each of the 36 components.
    components: PackedMatrix,
    biases: Vec<f32>,
}

impl WinogradConvolution {
    /// Transforms and packs the weights of a 3x3 convolution.
    pub(super) fn new(isa: Isa, convolution: &Convolution) -> WinogradConvolution {
        let Convolution { inputs, outputs, .. } = *convolution;
        let weights = &convolution.weights;
        let transform = WeightsTransform::new();
        let components = PackedMatrix::batch_from_fn(
            isa,
            Format::Fp32,
            COMPONENTS,
            outputs,
            inputs,
            |component, output, input| {
                let kernel = &weights[(output * inputs + input) * 9..][..9];
                transform.component(kernel, component)
            },
        );
        WinogradConvolution { components, biases: convolution.biases.clone() }
    }

    /// A convolution whose transformed weights are all 1, with as many outputs as inputs.
    pub(super) fn constant(isa: Isa, channels: usize) -> WinogradConvolution {
        let components =
            PackedMatrix::batch_from_fn(isa, Format::Fp32, COMPONENTS, channels, channels, |_, _, _| 1.0);
        WinogradConvolution { components, biases: vec![0.0; channels] }
    }

    /// The number of channels of x.
    pub(super) fn inputs(&self) -> usize {
        self.components.inputs()
    }

    /// See [`super::PackedConvolution::work`].
    pub(super) fn work(&self, positions: usize) -> (usize, usize, usize) {
        let (inputs, outputs) = (self.components.inputs(), self.components.outputs());
        (
            COMPONENTS * positions * TILES * inputs * outputs,
            COMPONENTS * self.components.matrix_bytes(),
            positions * SQUARES * (inputs + outputs),
        )
    }

    /// See [`super::PackedConvolution::run`].
    pub(super) fn run(
        &self,
        isa: Isa,
        positions: usize,
        x: &[f32],
        y: &mut [f32],
        finish: Finish<'_>,
        scratch: &mut WinogradScratch,
    ) {
        let (inputs, outputs) = (self.components.inputs(), self.components.outputs());
        let tiles = positions * TILES;
        let input_stride = tiles * inputs + COMPONENT_GAP;
        let output_stride = tiles * outputs + COMPONENT_GAP;
        scratch.transformed.grow_to(COMPONENTS * input_stride);
        scratch.products.grow_to(COMPONENTS * output_stride);
        isa.run(TransformInput {
            x: &x[..positions * SQUARES * inputs],
            channels: inputs,
            transformed: &mut scratch.transformed,
            component_stride: input_stride,
        });
        for component in 0..COMPONENTS {
            MatrixProduct {
                weights: &self.components,
                which: component,
                x: &scratch.transformed[component * input_stride..][..tiles * inputs],
                x_stride: inputs,
                y: &mut scratch.products[component * output_stride..][..tiles * outputs],
                y_stride: outputs,
                rows: tiles,
                activation: Activation::None,
                accumulate: false,
                rounded: &mut scratch.rounded,
            }
            .run(isa);
        }
        isa.run(TransformOutput {
            products: &scratch.products,
            component_stride: output_stride,
            biases: &self.biases,
            y: &mut y[..positions * SQUARES * outputs],
            finish,
        });
    }
}

const NEAR_SQUARED: f32 = NEAR * NEAR;
const FAR_SQUARED: f32 = FAR * FAR;

/// Applies B^T to six values. The row of a point contains the coefficients of the polynomial whose zeros are
/// the other points.
#[inline(always)]
fn input_transform<S: Simd>(simd: S, d: &[S::Vector; SIDE]) -> [S::Vector; SIDE] {
    let product = simd.splat(NEAR_SQUARED * FAR_SQUARED);
    let sum = simd.splat(-(NEAR_SQUARED + FAR_SQUARED));
    let [near_squared, far_squared] = [simd.splat(-NEAR_SQUARED), simd.splat(-FAR_SQUARED)];
    let near_even = simd.mul_add(d[2], far_squared, d[4]);
    let near_odd = simd.mul_add(d[1], far_squared, d[3]);
    let far_even = simd.mul_add(d[2], near_squared, d[4]);
    let far_odd = simd.mul_add(d[1], near_squared, d[3]);
    [
        simd.mul_add(d[0], product, simd.mul_add(d[2], sum, d[4])),
        simd.mul_add(near_odd, simd.splat(NEAR), near_even),
        simd.mul_add(near_odd, simd.splat(-NEAR), near_even),
        simd.mul_add(far_odd, simd.splat(FAR), far_even),
        simd.mul_add(far_odd, simd.splat(-FAR), far_even),
        simd.mul_add(d[1], product, simd.mul_add(d[3], sum, d[5])),
    ]
}

/// Applies A^T to six values. Row i contains the i-th powers of the points.
#[inline(always)]
fn output_transform<S: Simd>(simd: S, m: &[S::Vector; SIDE]) -> [S::Vector; RESULT] {
    let near_sum = simd.add(m[1], m[2]);
    let near_difference = simd.sub(m[1], m[2]);
    let far_sum = simd.add(m[3], m[4]);
    let far_difference = simd.sub(m[3], m[4]);
    [
        simd.add(m[0], simd.add(near_sum, far_sum)),
        combine(simd, near_difference, NEAR, far_difference, FAR),
        combine(simd, near_sum, NEAR_SQUARED, far_sum, FAR_SQUARED),
        simd.add(
            m[5],
            combine(simd, near_difference, NEAR * NEAR_SQUARED, far_difference, FAR * FAR_SQUARED),
        ),
    ]
}

/// `near * near_factor + far * far_factor`
#[inline(always)]
fn combine<S: Simd>(
    simd: S,
    near: S::Vector,
    near_factor: f32,
    far: S::Vector,
    far_factor: f32,
) -> S::Vector {
    simd.mul_add(near, simd.splat(near_factor), simd.mul(far, simd.splat(far_factor)))
}

/// Loads a whole vector if `WHOLE` is true. Otherwise, loads all the numbers of `from`, which are fewer.
#[inline(always)]
fn load<S: Simd, const WHOLE: bool>(simd: S, from: &[f32]) -> S::Vector {
    if WHOLE { simd.load(from) } else { simd.load_some(from) }
}

/// Stores a whole vector if `WHOLE` is true. Otherwise, fills `to`, which is shorter.
#[inline(always)]
fn store<S: Simd, const WHOLE: bool>(simd: S, v: S::Vector, to: &mut [f32]) {
    if WHOLE { simd.store(v, to) } else { simd.store_some(v, to) }
}

struct TransformInput<'a> {
    x: &'a [f32],
    channels: usize,
    transformed: &'a mut [f32],
    component_stride: usize,
}

impl Kernel for TransformInput<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        let x = self.x;
        for (position, board) in x.chunks_exact(SQUARES * self.channels).enumerate() {
            self.tile::<S, 0, 0>(simd, board, position * TILES);
            self.tile::<S, 0, 1>(simd, board, position * TILES + 1);
            self.tile::<S, 1, 0>(simd, board, position * TILES + 2);
            self.tile::<S, 1, 1>(simd, board, position * TILES + 3);
        }
    }
}

impl TransformInput<'_> {
    /// Transforms the tile in row `DOWN` and column `ACROSS` of the 2x2 tiles. These are constants so that the
    /// compiler knows which inputs are outside the board.
    #[inline(always)]
    fn tile<S: Simd, const DOWN: usize, const ACROSS: usize>(&mut self, simd: S, board: &[f32], tile: usize) {
        let whole = self.channels / S::LANES * S::LANES;
        for channel in (0..whole).step_by(S::LANES) {
            self.vector::<S, DOWN, ACROSS, true>(simd, board, tile, channel, S::LANES);
        }
        if whole < self.channels {
            self.vector::<S, DOWN, ACROSS, false>(simd, board, tile, whole, self.channels - whole);
        }
    }

    /// Transforms `count` channels of a tile, beginning with `channel`.
    #[inline(always)]
    fn vector<S: Simd, const DOWN: usize, const ACROSS: usize, const WHOLE: bool>(
        &mut self,
        simd: S,
        board: &[f32],
        tile: usize,
        channel: usize,
        count: usize,
    ) {
        let column = Column { board, channels: self.channels, channel, count };
        let columns = [
            column.transformed::<S, DOWN, ACROSS, WHOLE>(simd, 0),
            column.transformed::<S, DOWN, ACROSS, WHOLE>(simd, 1),
            column.transformed::<S, DOWN, ACROSS, WHOLE>(simd, 2),
            column.transformed::<S, DOWN, ACROSS, WHOLE>(simd, 3),
            column.transformed::<S, DOWN, ACROSS, WHOLE>(simd, 4),
            column.transformed::<S, DOWN, ACROSS, WHOLE>(simd, 5),
        ];
        for i in 0..SIDE {
            let row = input_transform(simd, &row_of(&columns, i));
            for (j, value) in row.iter().enumerate() {
                let at = (i * SIDE + j) * self.component_stride + tile * self.channels + channel;
                store::<S, WHOLE>(simd, *value, &mut self.transformed[at..][..count]);
            }
        }
    }
}

/// `count` channels of a board, beginning with `channel`.
#[derive(Clone, Copy)]
struct Column<'a> {
    board: &'a [f32],
    channels: usize,
    channel: usize,
    count: usize,
}

impl Column<'_> {
    /// Transforms column `j` of a tile. Inputs outside the board are zeros.
    #[inline(always)]
    fn transformed<S: Simd, const DOWN: usize, const ACROSS: usize, const WHOLE: bool>(
        self,
        simd: S,
        j: usize,
    ) -> [S::Vector; SIDE] {
        let mut d = [simd.splat(0.0); SIDE];
        for (i, value) in d.iter_mut().enumerate() {
            // The first input of a tile is one rank and one file before its first result, so `rank` and `file`
            // are one more than those of the input.
            let (rank, file) = (DOWN * RESULT + i, ACROSS * RESULT + j);
            if matches!((rank, file), (1..=8, 1..=8)) {
                let square = (rank - 1) * 8 + file - 1;
                let from = &self.board[square * self.channels + self.channel..][..self.count];
                *value = load::<S, WHOLE>(simd, from);
            }
        }
        input_transform(simd, &d)
    }
}

/// Returns row `i` of six columns.
#[inline(always)]
fn row_of<V: Copy, const N: usize>(columns: &[[V; N]; SIDE], i: usize) -> [V; SIDE] {
    [columns[0][i], columns[1][i], columns[2][i], columns[3][i], columns[4][i], columns[5][i]]
}

struct TransformOutput<'a> {
    products: &'a [f32],
    component_stride: usize,
    biases: &'a [f32],
    y: &'a mut [f32],
    finish: Finish<'a>,
}

impl Kernel for TransformOutput<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        let channels = self.biases.len();
        if channels == 0 {
            return;
        }
        let (floor, after) = match self.finish {
            Finish::Activate(activation) | Finish::AddToOutput(activation) => floor_and_rest(activation),
            Finish::Pool(_) => (f32::NEG_INFINITY, Activation::None),
        };
        let add_residual = matches!(self.finish, Finish::AddToOutput(_));
        for position in 0..self.y.len() / (SQUARES * channels) {
            for channel in (0..channels).step_by(S::LANES) {
                let count = S::LANES.min(channels - channel);
                let total = match (add_residual, count == S::LANES) {
                    (false, true) => self.vector::<S, false, true>(simd, position, channel, floor),
                    (true, true) => self.vector::<S, true, true>(simd, position, channel, floor),
                    (false, false) => self.vector::<S, false, false>(simd, position, channel, floor),
                    (true, false) => self.vector::<S, true, false>(simd, position, channel, floor),
                };
                if let Finish::Pool(means) = &mut self.finish {
                    let mean = simd.mul(total, simd.splat(1.0 / SQUARES as f32));
                    simd.store_some(mean, &mut means[position * channels + channel..][..count]);
                }
            }
            // The board is still in the L1 cache.
            activate_slice(simd, after, &mut self.y[position * SQUARES * channels..][..SQUARES * channels]);
        }
    }
}

impl TransformOutput<'_> {
    /// Computes all squares for one vector of channels. Returns the sum over the squares.
    #[inline(always)]
    fn vector<S: Simd, const ADD: bool, const WHOLE: bool>(
        &mut self,
        simd: S,
        position: usize,
        channel: usize,
        floor: f32,
    ) -> S::Vector {
        let channels = self.biases.len();
        let count = S::LANES.min(channels - channel);
        let bias = load::<S, WHOLE>(simd, &self.biases[channel..][..count]);
        let floor = simd.splat(floor);
        let mut total = simd.splat(0.0);
        for tile in 0..TILES {
            let at = (position * TILES + tile) * channels + channel;
            let columns = [
                self.sums::<S, WHOLE>(simd, at, count, 0),
                self.sums::<S, WHOLE>(simd, at, count, 1),
                self.sums::<S, WHOLE>(simd, at, count, 2),
                self.sums::<S, WHOLE>(simd, at, count, 3),
                self.sums::<S, WHOLE>(simd, at, count, 4),
                self.sums::<S, WHOLE>(simd, at, count, 5),
            ];
            let board = &mut self.y[position * SQUARES * channels..][..SQUARES * channels];
            for i in 0..RESULT {
                let row = output_transform(simd, &row_of(&columns, i));
                for (j, sum) in row.iter().enumerate() {
                    let square = (tile / 2 * RESULT + i) * 8 + tile % 2 * RESULT + j;
                    let place = &mut board[square * channels + channel..][..count];
                    let mut value = simd.add(*sum, bias);
                    if ADD {
                        value = simd.add(value, load::<S, WHOLE>(simd, place));
                    }
                    total = simd.add(total, value);
                    store::<S, WHOLE>(simd, simd.max(floor, value), place);
                }
            }
        }
        total
    }

    /// Transforms column `j` of the products, which start at index `at` in each component.
    #[inline(always)]
    fn sums<S: Simd, const WHOLE: bool>(
        &self,
        simd: S,
        at: usize,
        count: usize,
        j: usize,
    ) -> [S::Vector; RESULT] {
        let mut products = [simd.splat(0.0); SIDE];
        for (i, product) in products.iter_mut().enumerate() {
            let from = (i * SIDE + j) * self.component_stride + at;
            *product = load::<S, WHOLE>(simd, &self.products[from..][..count]);
        }
        output_transform(simd, &products)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::matrix::tests::noise;

    /// One result of a direct convolution in f64. Weights are `[output][input][3][3]`, the board is
    /// `[64][channels]`.
    fn direct(convolution: &Convolution, board: &[f32], output: usize, square: usize) -> f64 {
        let mut sum = f64::from(convolution.biases[output]);
        for input in 0..convolution.inputs {
            for tap in 0..9 {
                let rank = (square / 8 + tap / 3).wrapping_sub(1);
                let file = (square % 8 + tap % 3).wrapping_sub(1);
                if rank < 8 && file < 8 {
                    let weight = convolution.weights[(output * convolution.inputs + input) * 9 + tap];
                    sum +=
                        f64::from(weight) * f64::from(board[(rank * 8 + file) * convolution.inputs + input]);
                }
            }
        }
        sum
    }

    #[test]
    fn any_number_of_channels_and_every_finish_match_the_direct_convolution() {
        for isa in Isa::tested() {
            for (inputs, outputs) in [(1, 1), (16, 16), (5, 33), (64, 17), (33, 64)] {
                for positions in [1, 3] {
                    let convolution = Convolution {
                        weights: noise(outputs * inputs * 9, 1),
                        biases: noise(outputs, 2),
                        inputs,
                        outputs,
                        size: 3,
                    };
                    let packed = WinogradConvolution::new(isa, &convolution);
                    let x = noise(positions * 64 * inputs, 3);
                    let residual = noise(positions * 64 * outputs, 4);
                    let mut scratch = WinogradScratch::default();
                    let mut run = |y: &mut [f32], finish: Finish<'_>| {
                        packed.run(isa, positions, &x, y, finish, &mut scratch);
                    };
                    let mut plain = vec![f32::NAN; residual.len()];
                    run(&mut plain, Finish::Activate(Activation::Relu));
                    let mut added = residual.clone();
                    run(&mut added, Finish::AddToOutput(Activation::None));
                    let mut pooled = vec![f32::NAN; residual.len()];
                    let mut means = vec![f32::NAN; positions * outputs];
                    run(&mut pooled, Finish::Pool(&mut means));
                    let allowed = 1e-6 * (8 + 2 * inputs) as f64;
                    for position in 0..positions {
                        let board = &x[position * 64 * inputs..][..64 * inputs];
                        for output in 0..outputs {
                            let mut mean = 0.0;
                            for square in 0..64 {
                                let right = direct(&convolution, board, output, square);
                                mean += right / 64.0;
                                let i = (position * 64 + square) * outputs + output;
                                let close = |got: f32, right: f64| (f64::from(got) - right).abs() < allowed;
                                let what = format!("{} {inputs}->{outputs} square {square}", isa.name());
                                assert!(close(plain[i], right.max(0.0)), "{what}: {} {right}", plain[i]);
                                assert!(close(added[i], right + f64::from(residual[i])), "{what}");
                                assert!(close(pooled[i], right), "{what}");
                            }
                            let got = f64::from(means[position * outputs + output]);
                            assert!((got - mean).abs() < allowed, "{} mean {got} {mean}", isa.name());
                        }
                    }
                }
            }
        }
    }
}
