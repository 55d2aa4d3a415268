//! 3x3 convolutions in 8-bit integers, as a product of matrices for each board.
//!
//! A row of the product is the neighbourhood of a square, nine squares with all their channels
//! ([`super::neighbourhoods`]), so a convolution is a dense layer with nine times as many inputs. It multiplies with the
//! same kernels, sums in 32-bit integers, and gives fp32.
//!
//! The inputs of a board are rounded to multiples of one number, because a sum takes them from nine squares. Weights are
//! rounded to multiples of a number for each output. With statistics of the inputs they are rounded as those of dense
//! layers are ([`crate::kernels::matrix`]).

use super::finish::Finish;
use super::neighbourhoods::Neighbourhoods;
use crate::kernels::SQUARES;
use crate::kernels::matrix::{MatrixProduct, PackedMatrix, Quantised, RoundedRows, Taps};
use crate::simd::{AlignedVec, Isa, Kernel, Simd, Word};
use rukh_net::architecture::Activation;
use rukh_net::weights::Convolution;

/// The number of squares of a neighbourhood.
const TAPS: usize = 9;
/// The number of files, and of ranks, of a neighbourhood.
const SIDE: usize = 3;

/// Working memory of [`ByteConvolution::run`].
#[derive(Default, Debug)]
pub(super) struct ByteScratch {
    rounded: RoundedRows,
}

/// A 3x3 convolution with weights of 8 bits.
#[derive(Clone, Debug)]
pub(super) struct ByteConvolution {
    /// `[output][3 ranks][3 files][channel]`. The channels of a square are padded to whole segments, and the segments of a
    /// rank to whole vectors of words.
    weights: PackedMatrix,
    /// `[channels]`, padded to whole vectors: the numbers by which inputs are multiplied before they are rounded. Empty if
    /// they are all 1.
    factors: AlignedVec<f32>,
    channels: usize,
}

impl ByteConvolution {
    /// Packs the weights of a 3x3 convolution, which `round` rounds.
    pub(super) fn new(
        isa: Isa,
        convolution: &Convolution,
        round: impl FnOnce(Taps<'_>) -> Quantised,
    ) -> Self {
        let Convolution { inputs, outputs, ref biases, .. } = *convolution;
        // [output][channel][tap] -> [output][tap][channel]
        let mut weights = Vec::with_capacity(outputs * TAPS * inputs);
        for kernels in convolution.weights.chunks_exact((inputs * TAPS).max(1)) {
            for tap in 0..TAPS {
                weights.extend((0..inputs).map(|input| kernels[input * TAPS + tap]));
            }
        }
        let Quantised { bytes, scales, factors } = round(Taps { weights: &weights, inputs, taps: TAPS });
        let mut convolution = ByteConvolution::pack(isa, &bytes, &scales, biases, inputs);
        if !factors.is_empty() {
            convolution.factors = AlignedVec::zeroed(inputs.next_multiple_of(isa.lanes()));
            convolution.factors[..inputs].copy_from_slice(&factors);
        }
        convolution
    }

    /// A convolution whose weights are all 1, with as many outputs as inputs.
    pub(super) fn constant(isa: Isa, channels: usize) -> ByteConvolution {
        let bytes = vec![1; channels * TAPS * channels];
        ByteConvolution::pack(isa, &bytes, &vec![1.0; channels], &vec![0.0; channels], channels)
    }

    /// Packs `bytes` (`[output][tap][channel]`), which are multiples of `scales` (`[output]`).
    fn pack(isa: Isa, bytes: &[i8], scales: &[f32], biases: &[f32], channels: usize) -> ByteConvolution {
        let segment = segment_words(isa, channels) * size_of::<Word>();
        let rank = rank_words(isa, channels) * size_of::<Word>();
        let mut padded = vec![0; scales.len() * SIDE * rank];
        for (index, from) in bytes.chunks_exact(channels.max(1)).enumerate() {
            let at = index / SIDE * rank + index % SIDE * segment;
            padded[at..][..channels].copy_from_slice(from);
        }
        let weights = PackedMatrix::from_bytes(isa, &padded, scales, biases, SIDE * rank);
        ByteConvolution { weights, factors: AlignedVec::default(), channels }
    }

    /// The number of channels of x.
    pub(super) fn inputs(&self) -> usize {
        self.channels
    }

    /// The matrix of the product.
    pub(super) fn product_weights(&self) -> &PackedMatrix {
        &self.weights
    }

    /// See [`super::PackedConvolution::work`].
    pub(super) fn work(&self, positions: usize) -> (usize, usize, usize) {
        let (inputs, outputs) = (self.channels, self.weights.outputs());
        (
            positions * SQUARES * TAPS * inputs * outputs,
            self.weights.matrix_bytes(),
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
        mut finish: Finish<'_>,
        scratch: &mut ByteScratch,
    ) {
        let (inputs, outputs) = (self.channels, self.weights.outputs());
        for position in 0..positions {
            let x = &x[position * SQUARES * inputs..][..SQUARES * inputs];
            let y = &mut y[position * SQUARES * outputs..][..SQUARES * outputs];
            match &mut finish {
                Finish::Activate(activation) => self.product(isa, x, y, *activation, false, scratch),
                Finish::AddToOutput(activation) => {
                    isa.run(AddBiases { y, biases: self.weights.biases() });
                    self.product(isa, x, y, *activation, true, scratch);
                }
                Finish::Pool(means) => {
                    self.product(isa, x, y, Activation::None, false, scratch);
                    let means = &mut means[position * outputs..][..outputs];
                    isa.run(Means { y, means });
                }
            }
        }
    }

    /// `y = act(convolution + bias)` or, with `accumulate`, `y = act(y + convolution)`, for one board.
    fn product(
        &self,
        isa: Isa,
        x: &[f32],
        y: &mut [f32],
        activation: Activation,
        accumulate: bool,
        scratch: &mut ByteScratch,
    ) {
        let rounded = &mut scratch.rounded;
        isa.run(Neighbourhoods {
            x,
            channels: self.channels,
            factors: &self.factors,
            segment: segment_words(isa, self.channels),
            rows: rounded.board(isa, &self.weights),
        });
        MatrixProduct {
            weights: &self.weights,
            which: 0,
            x: &[],
            x_stride: 0,
            y,
            y_stride: self.weights.outputs(),
            rows: SQUARES,
            activation,
            accumulate,
            rounded,
        }
        .run_rounded(isa);
    }
}

/// The words of a square's bytes: a vector of numbers becomes a vector's lanes of bytes.
fn segment_words(isa: Isa, channels: usize) -> usize {
    channels.next_multiple_of(isa.lanes()) / size_of::<Word>()
}

/// The words of the three squares of a neighbourhood's rank.
fn rank_words(isa: Isa, channels: usize) -> usize {
    (SIDE * segment_words(isa, channels)).next_multiple_of(isa.lanes())
}

/// `y = y + biases` for each square of a board y, `[64][channels]`.
struct AddBiases<'a> {
    y: &'a mut [f32],
    biases: &'a [f32],
}

impl Kernel for AddBiases<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let channels = self.biases.len();
        for channel in (0..channels).step_by(S::LANES) {
            let width = S::LANES.min(channels - channel);
            let biases = simd.load_some(&self.biases[channel..][..width]);
            for square in 0..SQUARES {
                let place = &mut self.y[square * channels + channel..][..width];
                simd.store_some(simd.add(simd.load_some(place), biases), place);
            }
        }
    }
}

/// The means of a board y, `[64][channels]`, over the squares.
struct Means<'a> {
    y: &'a [f32],
    /// `[channels]`
    means: &'a mut [f32],
}

impl Kernel for Means<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let channels = self.means.len();
        for channel in (0..channels).step_by(S::LANES) {
            let width = S::LANES.min(channels - channel);
            let mut sums = [simd.splat(0.0); 4];
            for square in (0..SQUARES).step_by(sums.len()) {
                for (which, sum) in sums.iter_mut().enumerate() {
                    let from = &self.y[(square + which) * channels + channel..][..width];
                    *sum = simd.add(*sum, simd.load_some(from));
                }
            }
            let sum = simd.add(simd.add(sums[0], sums[1]), simd.add(sums[2], sums[3]));
            let mean = simd.mul(sum, simd.splat(1.0 / SQUARES as f32));
            simd.store_some(mean, &mut self.means[channel..][..width]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::matrix::tests::noise;
    use crate::kernels::matrix::{InputStatistics, quantise};

    /// Whole numbers from `least` to `most`, both of which occur among each board's first numbers.
    fn integers(count: usize, board: usize, least: i32, most: i32, seed: u32) -> Vec<i32> {
        let mut all: Vec<i32> = noise(count, seed)
            .iter()
            .map(|x| least + ((x + 1.0) * 0.5 * (most - least) as f32) as i32)
            .collect();
        for board in all.chunks_exact_mut(board) {
            (board[0], board[1]) = (least, most);
        }
        all
    }

    /// One sum of a direct convolution. Weights are `[output][tap][channel]`, the board is `[64][channels]`.
    fn direct(weights: &[i8], channels: usize, board: &[i32], output: usize, square: usize) -> i32 {
        let mut sum = 0;
        for tap in 0..TAPS {
            let rank = (square / 8 + tap / 3).wrapping_sub(1);
            let file = (square % 8 + tap % 3).wrapping_sub(1);
            if rank < 8 && file < 8 {
                let weights = &weights[(output * TAPS + tap) * channels..][..channels];
                let inputs = &board[(rank * 8 + file) * channels..][..channels];
                sum += weights.iter().zip(inputs).map(|(w, x)| i32::from(*w) * x).sum::<i32>();
            }
        }
        sum
    }

    /// Inputs from `least` to `most`, which rounding leaves as they are, are multiplied exactly.
    fn check(isa: Isa, (inputs, outputs): (usize, usize), positions: usize, (least, most): (i32, i32)) {
        let what = format!("{} {inputs}->{outputs}, {positions} boards from {least}", isa.name());
        let largest = i32::from(isa.largest_int8_weight());
        let weights: Vec<i8> = integers(outputs * TAPS * inputs, TAPS * inputs, -largest, largest, 1)
            .iter()
            .map(|weight| *weight as i8)
            .collect();
        let biases: Vec<f32> = (0..outputs).map(|output| output as f32 * 3.0 - 7.0).collect();
        let boards = integers(positions * SQUARES * inputs, SQUARES * inputs, least, most, 2);
        let x: Vec<f32> = boards.iter().map(|x| *x as f32).collect();
        let residual: Vec<f32> = (0..positions * SQUARES * outputs).map(|i| (i % 1000) as f32).collect();
        let packed = ByteConvolution::pack(isa, &weights, &vec![1.0; outputs], &biases, inputs);
        let mut scratch = ByteScratch::default();
        let mut run =
            |y: &mut [f32], finish: Finish<'_>| packed.run(isa, positions, &x, y, finish, &mut scratch);
        let mut plain = vec![f32::NAN; residual.len()];
        run(&mut plain, Finish::Activate(Activation::Relu));
        let mut added = residual.clone();
        run(&mut added, Finish::AddToOutput(Activation::None));
        let mut pooled = vec![f32::NAN; residual.len()];
        let mut means = vec![f32::NAN; positions * outputs];
        run(&mut pooled, Finish::Pool(&mut means));
        for (position, board) in boards.chunks_exact(SQUARES * inputs).enumerate() {
            for output in 0..outputs {
                let mut total = 0.0;
                for square in 0..SQUARES {
                    let right = direct(&weights, inputs, board, output, square) as f32 + biases[output];
                    total += f64::from(right);
                    let i = (position * SQUARES + square) * outputs + output;
                    let got = (plain[i], added[i], pooled[i]);
                    assert_eq!(got, (right.max(0.0), right + residual[i], right), "{what}, square {square}");
                }
                let (got, right) = (f64::from(means[position * outputs + output]), total / SQUARES as f64);
                assert!((got - right).abs() <= 1e-6 * (right.abs() + 1e4), "{what}: mean {got}, not {right}");
            }
        }
    }

    #[test]
    fn sums_are_exactly_those_of_the_direct_convolution_of_integers() {
        for isa in Isa::tested() {
            for range in [(0, 255), (-100, 154), (-254, 0)] {
                for shape in [(1, 1), (5, 33), (16, 16), (17, 3), (33, 40), (64, 64)] {
                    check(isa, shape, 3, range);
                }
            }
            check(isa, (96, 2), 1, (-3, 251));
        }
    }

    /// With the largest numbers in every place, a processor that adds products in 16 bits would saturate.
    #[test]
    fn the_largest_bytes_are_multiplied_exactly() {
        const CHANNELS: usize = 40;
        for isa in Isa::tested() {
            let largest = isa.largest_int8_weight();
            for weight in [largest, -largest] {
                let weights = [weight; TAPS * CHANNELS];
                let packed = ByteConvolution::pack(isa, &weights, &[1.0], &[0.0], CHANNELS);
                let mut y = [f32::NAN; SQUARES];
                let finish = Finish::Activate(Activation::None);
                packed.run(isa, 1, &[255.0; SQUARES * CHANNELS], &mut y, finish, &mut ByteScratch::default());
                for (square, got) in y.iter().enumerate() {
                    let right = direct(&weights, CHANNELS, &[255; SQUARES * CHANNELS], 0, square);
                    assert_eq!(*got, right as f32, "{} square {square}", isa.name());
                }
            }
        }
    }

    /// The error of a sum is that of its factors, with and without statistics of inputs of different sizes.
    #[test]
    fn rounded_convolutions_are_near_the_unrounded_ones() {
        let (inputs, outputs, positions) = (20, 6, 2);
        let convolution = Convolution {
            weights: noise(outputs * inputs * TAPS, 1),
            biases: noise(outputs, 2),
            inputs,
            outputs,
            size: 3,
        };
        let mut x = noise(positions * SQUARES * inputs, 3);
        for row in x.chunks_exact_mut(inputs) {
            row[7] *= 20.0;
        }
        for isa in Isa::tested() {
            let mut statistics = InputStatistics::default();
            statistics.add(isa, (&x, inputs), positions * SQUARES, inputs);
            let mut errors = Vec::new();
            for known in [None, Some(&statistics)] {
                let packed = ByteConvolution::new(isa, &convolution, |Taps { weights, inputs, taps }| {
                    quantise(isa, weights, inputs, taps, isa.largest_int8_weight(), known)
                });
                let mut y = vec![f32::NAN; positions * SQUARES * outputs];
                let finish = Finish::Activate(Activation::None);
                packed.run(isa, positions, &x, &mut y, finish, &mut ByteScratch::default());
                let mut squares = 0.0;
                for (i, got) in y.iter().enumerate() {
                    let (row, output) = (i / outputs, i % outputs);
                    let mut right = f64::from(convolution.biases[output]);
                    for tap in 0..TAPS {
                        let rank = (row % SQUARES / 8 + tap / 3).wrapping_sub(1);
                        let file = (row % 8 + tap % 3).wrapping_sub(1);
                        if rank < 8 && file < 8 {
                            let from = &x[(row / SQUARES * SQUARES + rank * 8 + file) * inputs..][..inputs];
                            right += (0..inputs)
                                .map(|input| {
                                    let weight = convolution.weights[(output * inputs + input) * TAPS + tap];
                                    f64::from(weight) * f64::from(from[input])
                                })
                                .sum::<f64>();
                        }
                    }
                    squares += (f64::from(*got) - right).powi(2);
                }
                errors.push((squares / y.len() as f64).sqrt());
            }
            println!("{}: {errors:?}", isa.name());
            // The steps of the inputs are 40/254, those of the weights 1/127 or 1/63.
            assert!(errors[0] < 0.6 && errors[1] < 0.75 * errors[0], "{}: {errors:?}", isa.name());
        }
    }

    /// A number that is not finite must reach the outputs, where it is reported.
    #[test]
    fn numbers_that_are_not_finite_stay_so() {
        for isa in Isa::tested() {
            let packed = ByteConvolution::constant(isa, 3);
            for number in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                let mut x = [1.0; 2 * SQUARES * 3];
                x[100] = number;
                let mut y = [0.0; 2 * SQUARES * 3];
                let finish = Finish::Activate(Activation::Relu);
                packed.run(isa, 2, &x, &mut y, finish, &mut ByteScratch::default());
                let (first, second) = y.split_at(SQUARES * 3);
                assert!(first.iter().all(|y| !y.is_finite()), "{}: {number}", isa.name());
                assert!(second.iter().all(|y| y.is_finite()), "{}: the other board", isa.name());
            }
        }
    }
}
