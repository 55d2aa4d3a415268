//! Functions of whole boards: input planes, the transforms of a convolution, and squeeze-and-excitation.

use crate::network::layers::SQUARES;
use crate::runtime::activations::{activation, sigmoid};
use rukh_backend::winograd::{COMPONENTS, FAR, NEAR, TILES};

/// The inputs of a tile are 6 x 6 squares, and its results 4 x 4.
const SIDE: usize = 6;
const RESULT: usize = 4;

/// The points at which a convolution's polynomials are evaluated, apart from infinity.
const POINTS: [f64; 5] = [0.0, NEAR as f64, -NEAR as f64, FAR as f64, -FAR as f64];

/// How bitboards become planes.
#[derive(Clone, Copy)]
pub(crate) struct Planes {
    pub(crate) mask_stride: usize,
    pub(crate) planes: usize,
    pub(crate) extra: usize,
    /// The plane that `values` are for.
    pub(crate) valued_plane: Option<usize>,
}

/// `[B][64][planes + extra]`: each plane's bits, then the square's row of the table.
pub(crate) fn planes(masks: &[u64], values: &[f32], table: &[f64], how: Planes) -> Vec<f64> {
    let Planes { mask_stride, planes, extra, valued_plane } = how;
    let mut output = Vec::new();
    for (position, masks) in masks.chunks(mask_stride).enumerate() {
        for square in 0..SQUARES {
            output.extend(masks[..planes].iter().enumerate().map(|(plane, mask)| {
                let value = if valued_plane == Some(plane) { f64::from(values[position]) } else { 1.0 };
                (mask >> square & 1) as f64 * value
            }));
            output.extend_from_slice(&table[square * extra..][..extra]);
        }
    }
    output
}

/// The matrix B^T: row i has the coefficients of the polynomial whose zeros are all points but the i-th.
fn input_transform() -> [[f64; SIDE]; SIDE] {
    std::array::from_fn(|i| {
        let mut coefficients = [0.0; SIDE];
        coefficients[0] = 1.0;
        for (_, point) in POINTS.iter().enumerate().filter(|&(other, _)| other != i) {
            for power in (0..SIDE).rev() {
                let shifted = if power > 0 { coefficients[power - 1] } else { 0.0 };
                coefficients[power] = shifted - point * coefficients[power];
            }
        }
        coefficients
    })
}

/// The matrix A^T: row i has the i-th powers of the points. At infinity only the highest power counts.
fn output_transform() -> [[f64; SIDE]; RESULT] {
    std::array::from_fn(|i| {
        std::array::from_fn(|j| match POINTS.get(j) {
            Some(point) => point.powi(i as i32),
            None => f64::from(u8::from(i == RESULT - 1)),
        })
    })
}

/// `B^T x B` of each tile. `input` is `[B][64][channels]`. The result is `[36][stride]`, of which `[4 B][channels]` are
/// numbers.
pub(crate) fn winograd_input(input: &[f64], channels: usize, stride: usize) -> Vec<f64> {
    let transform = input_transform();
    let positions = input.len() / (SQUARES * channels);
    let mut output = vec![f64::NAN; COMPONENTS * stride];
    for tile in 0..positions * TILES {
        let (position, rank, file) = (tile / TILES, tile % TILES / 2 * RESULT, tile % 2 * RESULT);
        for channel in 0..channels {
            // A tile's inputs begin one square before its results. Squares outside of the board are zeros.
            let x = |row: usize, column: usize| {
                let (rank, file) = (rank + row, file + column);
                let is_inside = (1..=8).contains(&rank) && (1..=8).contains(&file);
                let square = || 8 * (rank - 1) + file - 1;
                if is_inside { input[(position * SQUARES + square()) * channels + channel] } else { 0.0 }
            };
            for component in 0..COMPONENTS {
                let (left, right) = (&transform[component / SIDE], &transform[component % SIDE]);
                let terms =
                    (0..SIDE * SIDE).map(|k| left[k / SIDE] * right[k % SIDE] * x(k / SIDE, k % SIDE));
                output[component * stride + tile * channels + channel] = terms.sum();
            }
        }
    }
    output
}

/// `A^T M A + bias + residual`, `[B][64][channels]`, from the sums `[36][stride]` of `positions` boards.
pub(crate) fn winograd_output(
    sums: &[f64],
    (positions, channels, stride): (usize, usize, usize),
    bias: Option<&[f64]>,
    residual: Option<&[f64]>,
) -> Vec<f64> {
    let transform = output_transform();
    let mut output = vec![0.0; positions * SQUARES * channels];
    for (place, output) in output.iter_mut().enumerate() {
        let (position, square, channel) =
            (place / channels / SQUARES, place / channels % SQUARES, place % channels);
        let (rank, file) = (square / 8, square % 8);
        let tile = position * TILES + rank / RESULT * 2 + file / RESULT;
        let (left, right) = (&transform[rank % RESULT], &transform[file % RESULT]);
        let terms = (0..COMPONENTS)
            .map(|k| left[k / SIDE] * right[k % SIDE] * sums[k * stride + tile * channels + channel]);
        *output = terms.sum::<f64>()
            + bias.map_or(0.0, |bias| bias[channel])
            + residual.map_or(0.0, |residual| residual[place]);
    }
    output
}

/// The mean of each channel over the squares, `[B][channels]`.
pub(crate) fn means(x: &[f64], channels: usize) -> Vec<f64> {
    let of_board = |board: &[f64]| -> Vec<f64> {
        let sum = |channel: usize| board.iter().skip(channel).step_by(channels).sum::<f64>();
        (0..channels).map(|channel| sum(channel) / SQUARES as f64).collect()
    };
    x.chunks(SQUARES * channels).flat_map(of_board).collect()
}

/// The layers of squeeze-and-excitation, as `SqueezeExciteArguments` in kernels.h describes them.
#[derive(Clone, Copy)]
pub(crate) struct SqueezeExcite<'a> {
    pub(crate) squeeze: &'a [f64],
    pub(crate) squeeze_bias: &'a [f64],
    pub(crate) excite: &'a [f64],
    pub(crate) excite_bias: &'a [f64],
    pub(crate) activation: i32,
}

/// `act(sigmoid(scales) * branch + shifts + residual)`
pub(crate) fn squeeze_excite(
    branch: &[f64],
    residual: &[f64],
    means: &[f64],
    layers: SqueezeExcite<'_>,
) -> Vec<f64> {
    let SqueezeExcite { squeeze, squeeze_bias, excite, excite_bias, activation: code } = layers;
    let (hidden, outputs) = (squeeze_bias.len(), excite_bias.len());
    let channels = outputs / 2;
    let factors = means.chunks(channels).flat_map(|means| {
        let small: Vec<f64> = (0..hidden)
            .map(|row| {
                let weights = &squeeze[row * channels..][..channels];
                let sum: f64 = weights.iter().zip(means).map(|(weight, mean)| weight * mean).sum();
                activation(code, sum + squeeze_bias[row])
            })
            .collect();
        let factor = move |output: usize| {
            let products = small.iter().enumerate().map(|(row, x)| x * excite[row * outputs + output]);
            products.sum::<f64>() + excite_bias[output]
        };
        (0..outputs).map(factor)
    });
    let factors: Vec<f64> = factors.collect();
    let element = |(place, (x, residual)): (usize, (&f64, &f64))| {
        let (position, channel) = (place / channels / SQUARES, place % channels);
        let (scale, shift) =
            (factors[position * outputs + channel], factors[position * outputs + channels + channel]);
        activation(code, sigmoid(scale) * x + shift + residual)
    };
    branch.iter().zip(residual).enumerate().map(element).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rukh_backend::winograd::WeightsTransform;

    #[test]
    fn planes_have_bits_values_and_constants() {
        let table: Vec<f64> = (0..64).map(f64::from).collect();
        let how = Planes { mask_stride: 3, planes: 2, extra: 1, valued_plane: Some(1) };
        let found = planes(&[1, 2, 7, 1 << 63, 1 << 63, 0], &[0.5, 0.25], &table, how);
        assert_eq!(found.len(), 2 * 64 * 3);
        assert_eq!(found[..6], [1.0, 0.0, 0.0, 0.0, 0.5, 1.0]);
        assert_eq!(found[2 * 64 * 3 - 3..], [1.0, 0.25, 63.0]);
    }

    /// The transforms and plain products give the convolution as it is defined.
    #[test]
    fn transforms_and_products_compute_a_convolution() {
        let (positions, channels, stride) = (2, 3, 4 * 2 * 3 + 1);
        let x: Vec<f64> = (0..positions * 64 * channels).map(|i| ((i * 37) % 23) as f64 - 11.0).collect();
        // Each channel has a kernel of its own, so that the products are taken channel by channel.
        let kernel = |channel: usize| -> Vec<f32> {
            (0..9).map(|tap| ((tap * tap + channel) % 7) as f32 - 3.0).collect()
        };
        let components = winograd_input(&x, channels, stride);
        assert!(components[stride - 1].is_nan());
        let transform = WeightsTransform::new();
        let product = |(place, component): (usize, &f64)| {
            let (index, channel) = (place / stride, place % stride % channels);
            component * f64::from(transform.component(&kernel(channel), index))
        };
        let sums: Vec<f64> = components.iter().enumerate().map(product).collect();
        let bias = [0.5, 0.0, -1.0];
        let found = winograd_output(&sums, (positions, channels, stride), Some(&bias), Some(&x));
        for (place, found) in found.iter().enumerate() {
            let (position, square, channel) =
                (place / channels / 64, place / channels % 64, place % channels);
            let mut expected = bias[channel] + x[place];
            for tap in 0..9 {
                let (rank, file) = (square / 8 + tap / 3, square % 8 + tap % 3);
                if (1..9).contains(&rank) && (1..9).contains(&file) {
                    let from = (position * 64 + 8 * (rank - 1) + file - 1) * channels + channel;
                    expected += f64::from(kernel(channel)[tap]) * x[from];
                }
            }
            assert!((found - expected).abs() < 1e-3, "{place}: {found}, {expected}");
        }
    }

    #[test]
    fn means_are_taken_over_the_squares() {
        let x: Vec<f64> = (0..2 * 64 * 2).map(f64::from).collect();
        assert_eq!(means(&x, 2), [63.0, 64.0, 191.0, 192.0]);
    }

    #[test]
    fn squeezing_and_exciting_scales_and_shifts_channels() {
        let layers = SqueezeExcite {
            squeeze: &[1.0, 2.0],
            squeeze_bias: &[-1.0],
            // The first two are the scales of the channels, and the others their shifts.
            excite: &[0.0, 1.0, 2.0, 0.0],
            excite_bias: &[0.0, 0.0, 0.0, -100.0],
            activation: 1,
        };
        let found = squeeze_excite(&[2.0; 128], &[0.5; 128], &[3.0, 1.0], layers);
        // The hidden unit is 3 + 2 - 1 = 4.
        assert!(found.chunks(2).all(|square| square == [1.0 + 8.0 + 0.5, 0.0]));
    }
}
