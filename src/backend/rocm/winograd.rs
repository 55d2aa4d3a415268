//! 3x3 convolutions as products of 36 components: Winograd's F(4 x 4, 3 x 3), after Lavin and Gray, *Fast
//! algorithms for convolutional neural networks* (2015), with the points 0, 1, -1, 2, -2 and infinity.
//!
//! A board is four tiles of 4 x 4 outputs, each from 6 x 6 inputs. The kernels transform inputs and outputs;
//! here are the weights, once, in f64.

use crate::net::weights::Convolution;

/// Components of a tile: 6 x 6.
pub(super) const COMPONENTS: usize = 36;

/// Tiles of a board.
pub(super) const TILES: usize = 4;

/// From three weights to six components.
const G: [[f64; 3]; 6] = [
    [1.0 / 4.0, 0.0, 0.0],
    [-1.0 / 6.0, -1.0 / 6.0, -1.0 / 6.0],
    [-1.0 / 6.0, 1.0 / 6.0, -1.0 / 6.0],
    [1.0 / 24.0, 1.0 / 12.0, 1.0 / 6.0],
    [1.0 / 24.0, -1.0 / 12.0, 1.0 / 6.0],
    [0.0, 0.0, 1.0],
];

/// `[outputs][inputs][3][3]` -> `[36][outputs][inputs]`, component 6 * row + column: `G g G^T`.
pub(super) fn transform_weights(layer: &Convolution) -> Vec<f32> {
    let pairs = layer.outputs * layer.inputs;
    let mut components = vec![0.0; COMPONENTS * pairs];
    for (pair, g) in layer.weights.as_chunks::<9>().0.iter().enumerate() {
        for (row, left) in G.iter().enumerate() {
            for (column, right) in G.iter().enumerate() {
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

    const B_TRANSPOSED: [[f64; 6]; 6] = [
        [4.0, 0.0, -5.0, 0.0, 1.0, 0.0],
        [0.0, -4.0, -4.0, 1.0, 1.0, 0.0],
        [0.0, 4.0, -4.0, -1.0, 1.0, 0.0],
        [0.0, -2.0, -1.0, 2.0, 1.0, 0.0],
        [0.0, 2.0, -1.0, -2.0, 1.0, 0.0],
        [0.0, 4.0, 0.0, -5.0, 0.0, 1.0],
    ];
    const A_TRANSPOSED: [[f64; 6]; 4] = [
        [1.0, 1.0, 1.0, 1.0, 1.0, 0.0],
        [0.0, 1.0, -1.0, 2.0, -2.0, 0.0],
        [0.0, 1.0, 1.0, 4.0, 4.0, 0.0],
        [0.0, 1.0, -1.0, 8.0, -8.0, 1.0],
    ];

    /// One tile through the three transforms is the convolution of its 6 x 6 inputs.
    #[test]
    fn components_multiply_to_the_convolution() {
        let weights: Vec<f32> = (0..9).map(|i| (i * i) as f32 - 7.5).collect();
        let layer =
            Convolution { weights: weights.clone(), biases: vec![0.0], inputs: 1, outputs: 1, size: 3 };
        let components = transform_weights(&layer);
        let tile = |row: usize, column: usize| ((row * 17 + column * 5) % 11) as f64 - 4.0;
        let mut products = [[0.0; 6]; 6];
        for (i, products) in products.iter_mut().enumerate() {
            for (j, product) in products.iter_mut().enumerate() {
                let inputs = (0..36)
                    .map(|k| B_TRANSPOSED[i][k / 6] * B_TRANSPOSED[j][k % 6] * tile(k / 6, k % 6))
                    .sum::<f64>();
                *product = inputs * f64::from(components[6 * i + j]);
            }
        }
        for row in 0..4 {
            for column in 0..4 {
                let found = (0..36)
                    .map(|k| A_TRANSPOSED[row][k / 6] * A_TRANSPOSED[column][k % 6] * products[k / 6][k % 6])
                    .sum::<f64>();
                let expected = (0..9)
                    .map(|tap| f64::from(weights[tap]) * tile(row + tap / 3, column + tap % 3))
                    .sum::<f64>();
                assert!((found - expected).abs() < 1e-3, "{row} {column}: {found}, {expected}");
            }
        }
    }
}
