//! 3x3 convolutions on the 8x8 board by Winograd's minimal filtering, F(4x4, 3x3).
//!
//! The board is four tiles of 4x4 results. A tile's 6x6 inputs are transformed to 36 components, each component
//! is multiplied by its own matrix over channels (a quarter of the direct method's multiplications), and 36
//! sums are transformed back to 4x4 results. Transforms after Lavin and Gray, *Fast algorithms for
//! convolutional neural networks* (2015), but not with their points 0, ±1, ±2: the points 0, ±5/8, ±3/2, whose
//! squares are exact too, have half the error and a fifth of the worst case (measured on random data).
//!
//! ```text
//! x [position][64][channels] -> V [36][tile][channels] -> M [36][tile][outputs] -> y [position][64][outputs]
//! ```

use super::SQUARES;
use super::elementary::activate;
use super::matrix::{Format, MatrixProduct, PackedMatrix};
use crate::backend::cpu::simd::{AlignedVec, Bf16Pair, Isa, Kernel, Simd};
use crate::net::architecture::Activation;
use crate::net::weights::Convolution;

/// Side of a transformed tile.
const SIDE: usize = 6;
/// Components of a transformed tile.
const COMPONENTS: usize = SIDE * SIDE;
/// Side of a tile of results.
const RESULT: usize = 4;
/// Tiles of a board.
pub(crate) const TILES: usize = 4;

/// Elements between the end of one component and the next: keeps the components of a tile out of each other's
/// cache sets (their distance would else be a power of two).
const COMPONENT_GAP: usize = 16;

/// Memory between the steps, kept from call to call.
#[derive(Default, Debug)]
pub(crate) struct WinogradScratch {
    transformed: AlignedVec<f32>,
    products: AlignedVec<f32>,
    rounded: AlignedVec<Bf16Pair>,
}

/// A 3x3 convolution, ready to use.
pub(crate) struct PackedConvolution {
    /// 36 matrices `[output][input]`.
    components: PackedMatrix,
    biases: Vec<f32>,
}

/// What becomes of the sums when they come back to the board.
pub(crate) enum Finish<'a> {
    /// `y = act(sum + bias)`
    Activate(Activation),
    /// `y = act(sum + bias + y)`: y holds the residual.
    AddToOutput(Activation),
    /// `y = sum + bias`, and the means over the board go to `[position][output]`.
    Pool(&'a mut [f32]),
}

impl PackedConvolution {
    /// Transforms and packs the weights.
    pub(crate) fn new(isa: Isa, format: Format, convolution: &Convolution) -> PackedConvolution {
        let Convolution { inputs, outputs, .. } = *convolution;
        let weights = &convolution.weights;
        let components = PackedMatrix::batch_from_fn(
            isa,
            format,
            COMPONENTS,
            outputs,
            inputs,
            |component, output, input| {
                let kernel = &weights[(output * inputs + input) * 9..][..9];
                transformed_weight(kernel, component / SIDE, component % SIDE)
            },
        );
        PackedConvolution {
            components,
            biases: convolution.biases.clone(),
        }
    }

    /// Output channels.
    pub(crate) fn outputs(&self) -> usize {
        self.components.outputs()
    }

    /// Convolves `positions` boards of x into y.
    pub(crate) fn run(
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

/// The points that the transforms evaluate polynomials at: 0, ±NEAR, ±FAR and infinity.
const NEAR: f32 = 0.625;
const FAR: f32 = 1.5;
const NEAR_SQUARED: f32 = NEAR * NEAR;
const FAR_SQUARED: f32 = FAR * FAR;

/// Component (`row`, `column`) of a 3x3 kernel: G g G^T, in f64. G's rows are 1, p, p^2 for each point p, over
/// the product of its distances from the other points.
fn transformed_weight(kernel: &[f32], row: usize, column: usize) -> f32 {
    let g = |component: usize| -> [f64; 3] {
        let (near, far) = (f64::from(NEAR), f64::from(FAR));
        let (point, scale) = match component {
            0 => (0.0, near * near * far * far),
            1 => (near, 2.0 * near * near * (near * near - far * far)),
            2 => (-near, 2.0 * near * near * (near * near - far * far)),
            3 => (far, 2.0 * far * far * (far * far - near * near)),
            4 => (-far, 2.0 * far * far * (far * far - near * near)),
            _ => return [0.0, 0.0, 1.0],
        };
        [1.0 / scale, point / scale, point * point / scale]
    };
    let (rows, columns) = (g(row), g(column));
    let mut sum = 0.0;
    for i in 0..3 {
        for j in 0..3 {
            sum += rows[i] * f64::from(kernel[3 * i + j]) * columns[j];
        }
    }
    sum as f32
}

/// B^T applied to six values: for each point, the coefficients of the polynomial whose zeros are the others.
#[inline(always)]
fn input_transform<S: Simd>(simd: S, d: [S::Vector; SIDE]) -> [S::Vector; SIDE] {
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

/// A^T applied to six values: row i is the i-th powers of the points.
#[inline(always)]
fn output_transform<S: Simd>(simd: S, m: [S::Vector; SIDE]) -> [S::Vector; RESULT] {
    let near_sum = simd.add(m[1], m[2]);
    let near_difference = simd.sub(m[1], m[2]);
    let far_sum = simd.add(m[3], m[4]);
    let far_difference = simd.sub(m[3], m[4]);
    let combine = |near: S::Vector, near_factor: f32, far: S::Vector, far_factor: f32| {
        simd.mul_add(
            near,
            simd.splat(near_factor),
            simd.mul(far, simd.splat(far_factor)),
        )
    };
    [
        simd.add(m[0], simd.add(near_sum, far_sum)),
        combine(near_difference, NEAR, far_difference, FAR),
        combine(near_sum, NEAR_SQUARED, far_sum, FAR_SQUARED),
        simd.add(
            m[5],
            combine(
                near_difference,
                NEAR * NEAR_SQUARED,
                far_difference,
                FAR * FAR_SQUARED,
            ),
        ),
    ]
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
    fn run<S: Simd>(self, simd: S) {
        let channels = self.channels;
        for (position, board) in self.x.chunks_exact(SQUARES * channels).enumerate() {
            for tile in 0..TILES {
                // The tile's first input is one square up and left of its first result.
                let (top, left) = (tile / 2 * RESULT, tile % 2 * RESULT);
                let square = |row: usize, column: usize| {
                    let (rank, file) = (top + row, left + column);
                    let inside = (1..=8).contains(&rank) && (1..=8).contains(&file);
                    inside.then(|| (rank - 1) * 8 + file - 1)
                };
                let at = (position * TILES + tile) * channels;
                for channel in (0..channels).step_by(S::LANES) {
                    let whole = channel + S::LANES <= channels;
                    let mut columns = [[simd.splat(0.0); SIDE]; SIDE];
                    for (j, column) in columns.iter_mut().enumerate() {
                        let mut d = [simd.splat(0.0); SIDE];
                        for (i, value) in d.iter_mut().enumerate() {
                            if let Some(square) = square(i, j) {
                                let from = &board[square * channels + channel..];
                                *value = if whole {
                                    simd.load(from)
                                } else {
                                    simd.load_some(&from[..channels - channel])
                                };
                            }
                        }
                        *column = input_transform(simd, d);
                    }
                    for i in 0..SIDE {
                        let row = input_transform(simd, std::array::from_fn(|j| columns[j][i]));
                        for (j, value) in row.into_iter().enumerate() {
                            let component = (i * SIDE + j) * self.component_stride;
                            let to = &mut self.transformed[component + at + channel..];
                            if whole {
                                simd.store(value, to);
                            } else {
                                simd.store_some(value, &mut to[..channels - channel]);
                            }
                        }
                    }
                }
            }
        }
    }
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
        for position in 0..self.y.len() / (SQUARES * channels) {
            for channel in (0..channels).step_by(S::LANES) {
                let count = S::LANES.min(channels - channel);
                let bias = simd.load_some(&self.biases[channel..][..count]);
                let mut total = simd.splat(0.0);
                for tile in 0..TILES {
                    let sums = self.results(simd, (position * TILES + tile) * channels + channel, count);
                    for (i, row) in sums.into_iter().enumerate() {
                        for (j, sum) in row.into_iter().enumerate() {
                            let square = (tile / 2 * RESULT + i) * 8 + tile % 2 * RESULT + j;
                            let place = (position * SQUARES + square) * channels + channel;
                            let place = &mut self.y[place..][..count];
                            let mut value = simd.add(sum, bias);
                            match self.finish {
                                Finish::Activate(activation) => value = activate(simd, activation, value),
                                Finish::AddToOutput(activation) => {
                                    let residual = if count == S::LANES {
                                        simd.load(place)
                                    } else {
                                        simd.load_some(place)
                                    };
                                    value = activate(simd, activation, simd.add(value, residual));
                                }
                                Finish::Pool(_) => total = simd.add(total, value),
                            }
                            if count == S::LANES {
                                simd.store(value, place);
                            } else {
                                simd.store_some(value, place);
                            }
                        }
                    }
                }
                if let Finish::Pool(means) = &mut self.finish {
                    let mean = simd.mul(total, simd.splat(1.0 / SQUARES as f32));
                    simd.store_some(mean, &mut means[position * channels + channel..][..count]);
                }
            }
        }
    }
}

impl TransformOutput<'_> {
    /// The 4x4 sums of the tile and channels whose products start at `at` in each component.
    #[inline(always)]
    fn results<S: Simd>(&self, simd: S, at: usize, count: usize) -> [[S::Vector; RESULT]; RESULT] {
        let product = |row: usize, column: usize| {
            let from = &self.products[(row * SIDE + column) * self.component_stride + at..];
            if count == S::LANES {
                simd.load(from)
            } else {
                simd.load_some(&from[..count])
            }
        };
        let mut columns = [[simd.splat(0.0); RESULT]; SIDE];
        for (j, column) in columns.iter_mut().enumerate() {
            *column = output_transform(simd, std::array::from_fn(|i| product(i, j)));
        }
        std::array::from_fn(|i| output_transform(simd, std::array::from_fn(|j| columns[j][i])))
    }
}

/// Squeeze and excitation's last step: `y = act(sigmoid(scale) y + shift + residual)`, into the residual.
pub(crate) struct ScaleAndAdd<'a> {
    /// `[position][64][channels]`
    pub y: &'a [f32],
    /// `[position][2 * channels]`: scales (before the sigmoid), then shifts; overwritten.
    pub excitation: &'a mut [f32],
    /// In: the residual; out: the result.
    pub residual: &'a mut [f32],
    /// Channels.
    pub channels: usize,
    /// The block's activation.
    pub activation: Activation,
}

impl Kernel for ScaleAndAdd<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        match self.activation {
            // The usual two are compiled with their function inside the loop.
            Activation::Relu => self.with(simd, |x| activate(simd, Activation::Relu, x)),
            Activation::Mish => self.with(simd, |x| activate(simd, Activation::Mish, x)),
            other => self.with(simd, |x| activate(simd, other, x)),
        }
    }
}

impl ScaleAndAdd<'_> {
    #[inline(always)]
    fn with<S: Simd>(self, simd: S, activation: impl Fn(S::Vector) -> S::Vector) {
        let channels = self.channels.max(1);
        let boards = self.y.chunks_exact(SQUARES * channels);
        let residuals = self.residual.chunks_exact_mut(SQUARES * channels);
        for ((y, residual), excitation) in boards
            .zip(residuals)
            .zip(self.excitation.chunks_exact_mut(2 * channels))
        {
            let (scales, shifts) = excitation.split_at_mut(channels);
            super::elementary::map(simd, scales, |x| super::elementary::sigmoid(simd, x));
            for (y, residual) in y.chunks_exact(channels).zip(residual.chunks_exact_mut(channels)) {
                for channel in (0..channels).step_by(S::LANES) {
                    let end = channels.min(channel + S::LANES);
                    let load = |from: &[f32]| {
                        if end - channel == S::LANES {
                            simd.load(from)
                        } else {
                            simd.load_some(from)
                        }
                    };
                    let scaled = simd.mul_add(
                        load(&y[channel..end]),
                        load(&scales[channel..end]),
                        load(&shifts[channel..end]),
                    );
                    let value = activation(simd.add(scaled, load(&residual[channel..end])));
                    if end - channel == S::LANES {
                        simd.store(value, &mut residual[channel..end]);
                    } else {
                        simd.store_some(value, &mut residual[channel..end]);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cpu::kernels::matrix::tests::noise;

    /// The definition, in f64: weights `[out][in][3][3]`, boards `[64][channels]`.
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
    fn ragged_channels_match_the_direct_sum_and_every_finish_is_right() {
        for isa in Isa::available() {
            for (inputs, outputs) in [(1, 1), (16, 16), (5, 33), (64, 17), (33, 64)] {
                for positions in [1, 3] {
                    let convolution = Convolution {
                        weights: noise(outputs * inputs * 9, 1),
                        biases: noise(outputs, 2),
                        inputs,
                        outputs,
                        size: 3,
                    };
                    let packed = PackedConvolution::new(isa, Format::Fp32, &convolution);
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

    #[test]
    fn scale_and_add_matches_the_definition() {
        for isa in Isa::available() {
            for channels in [1, 15, 16, 33, 64] {
                let y = noise(2 * 64 * channels, 1);
                let residual = noise(2 * 64 * channels, 2);
                let excitation = noise(2 * 2 * channels, 3);
                let mut out = residual.clone();
                isa.run(ScaleAndAdd {
                    y: &y,
                    excitation: &mut excitation.clone(),
                    residual: &mut out,
                    channels,
                    activation: Activation::Relu,
                });
                for (i, got) in out.iter().enumerate() {
                    let (position, channel) = (i / (64 * channels), i % channels);
                    let scale = f64::from(excitation[position * 2 * channels + channel]);
                    let shift = f64::from(excitation[position * 2 * channels + channels + channel]);
                    let right = f64::from(y[i]) / (1.0 + (-scale).exp()) + shift + f64::from(residual[i]);
                    assert!((f64::from(*got) - right.max(0.0)).abs() < 1e-6, "{}", isa.name());
                }
            }
        }
    }
}
