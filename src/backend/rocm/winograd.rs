//! 3x3 convolutions as products of 36 components: Winograd's F(4 x 4, 3 x 3), after Lavin and Gray, *Fast
//! algorithms for convolutional neural networks* (2015).
//!
//! A board is four tiles of 4 x 4 outputs, each from 6 x 6 inputs. The kernels transform inputs and outputs;
//! here are the weights, once, in f64.

use crate::net::weights::Convolution;

/// Components of a tile: 6 x 6.
pub(super) const COMPONENTS: usize = 36;

/// Tiles of a board.
pub(super) const TILES: usize = 4;

/// The points but infinity. They have half the error of the customary 0, ±1, ±2: see the CPU's convolution.
const POINTS: [f64; 5] = [0.0, 0.625, -0.625, 1.5, -1.5];

/// From three weights to six components: the rows of G are 1, p, p^2 for each point p, divided by the product
/// of its distances from the others; infinity's is 0, 0, 1.
fn weights_transform() -> [[f64; 3]; 6] {
    let mut rows = [[0.0, 0.0, 1.0]; 6];
    for (row, p) in rows.iter_mut().zip(POINTS) {
        let distances: f64 = POINTS.iter().filter(|&&other| other != p).map(|other| p - other).product();
        *row = [1.0 / distances, p / distances, p * p / distances];
    }
    rows
}

/// `[outputs][inputs][3][3]` -> `[36][outputs][inputs]`, component 6 * row + column: `G g G^T`.
pub(super) fn transform_weights(layer: &Convolution) -> Vec<f32> {
    let transform = weights_transform();
    let pairs = layer.outputs * layer.inputs;
    let mut components = vec![0.0; COMPONENTS * pairs];
    for (pair, g) in layer.weights.as_chunks::<9>().0.iter().enumerate() {
        for (row, left) in transform.iter().enumerate() {
            for (column, right) in transform.iter().enumerate() {
                let sum: f64 = (0..9).map(|i| left[i / 3] * right[i % 3] * f64::from(g[i])).sum();
                components[(6 * row + column) * pairs + pair] = sum as f32;
            }
        }
    }
    components
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Coefficients of the product of (x - p) over `points`, lowest power first.
    fn polynomial(points: impl Iterator<Item = f64>) -> [f64; 6] {
        let mut coefficients = [1.0, 0.0, 0.0, 0.0, 0.0, 0.0];
        for p in points {
            for i in (0..6).rev() {
                coefficients[i] = -p * coefficients[i] + if i > 0 { coefficients[i - 1] } else { 0.0 };
            }
        }
        coefficients
    }

    /// Row i of B transposed: the polynomial whose zeros are the other points.
    fn input_transform() -> [[f64; 6]; 6] {
        let all = || POINTS.into_iter();
        std::array::from_fn(|i| match POINTS.get(i) {
            Some(&point) => polynomial(all().filter(|&p| p != point)),
            None => polynomial(all()),
        })
    }

    /// Row i of A transposed: the i-th powers of the points.
    fn output_transform() -> [[f64; 6]; 4] {
        std::array::from_fn(|i| {
            std::array::from_fn(|j| match POINTS.get(j) {
                Some(point) => point.powi(i as i32),
                None => {
                    if i == 3 {
                        1.0
                    } else {
                        0.0
                    }
                }
            })
        })
    }

    /// One tile through the three transforms is the convolution of its 6 x 6 inputs.
    #[test]
    fn components_multiply_to_the_convolution() {
        let weights: Vec<f32> = (0..9).map(|i| (i * i) as f32 - 7.5).collect();
        let layer =
            Convolution { weights: weights.clone(), biases: vec![0.0], inputs: 1, outputs: 1, size: 3 };
        let components = transform_weights(&layer);
        let (b, a) = (input_transform(), output_transform());
        let tile = |row: usize, column: usize| ((row * 17 + column * 5) % 11) as f64 - 4.0;
        let mut products = [[0.0; 6]; 6];
        for (i, products) in products.iter_mut().enumerate() {
            for (j, product) in products.iter_mut().enumerate() {
                let inputs = (0..36).map(|k| b[i][k / 6] * b[j][k % 6] * tile(k / 6, k % 6)).sum::<f64>();
                *product = inputs * f64::from(components[6 * i + j]);
            }
        }
        for row in 0..4 {
            for column in 0..4 {
                let found =
                    (0..36).map(|k| a[row][k / 6] * a[column][k % 6] * products[k / 6][k % 6]).sum::<f64>();
                let expected = (0..9)
                    .map(|tap| f64::from(weights[tap]) * tile(row + tap / 3, column + tap % 3))
                    .sum::<f64>();
                assert!((found - expected).abs() < 1e-3, "{row} {column}: {found}, {expected}");
            }
        }
    }
}
