//! 3x3 convolutions as products of 36 components: Winograd's F(4 x 4, 3 x 3), after Lavin and Gray, *Fast
//! algorithms for convolutional neural networks* (2015).
//!
//! A board consists of four tiles of 4 x 4 outputs, each computed from 6 x 6 inputs. This module has the points and the
//! transform of the weights, which all backends share. Each backend transforms inputs and outputs in its own way.

/// The number of components of a tile, 6 x 6.
pub const COMPONENTS: usize = 36;

/// The number of 4 x 4 tiles on a board.
pub const TILES: usize = 4;

/// The transforms evaluate polynomials at 0, ±NEAR, ±FAR and infinity. The rounding error with these points is half of
/// that with the customary 0, ±1 and ±2.
pub const NEAR: f32 = 0.625;
/// The outer pair of points: see [`NEAR`].
pub const FAR: f32 = 1.5;

/// All points except infinity.
const POINTS: [f64; 5] = [0.0, NEAR as f64, -NEAR as f64, FAR as f64, -FAR as f64];

/// The matrix G in f64: it transforms three weights to six components.
pub struct WeightsTransform([[f64; 3]; 6]);

impl WeightsTransform {
    /// The row of a point p is (1, p, p^2) divided by the product of the differences between p and the other points.
    /// The row of infinity is (0, 0, 1).
    pub fn new() -> WeightsTransform {
        let mut rows = [[0.0, 0.0, 1.0]; 6];
        for (row, p) in rows.iter_mut().zip(POINTS) {
            let distances: f64 = POINTS.iter().filter(|&&other| other != p).map(|other| p - other).product();
            *row = [1.0 / distances, p / distances, p * p / distances];
        }
        WeightsTransform(rows)
    }

    /// The element of `G g G^T` with the index `component` = 6 * row + column, for a 3x3 kernel g.
    pub fn component(&self, kernel: &[f32], component: usize) -> f32 {
        let (left, right) = (&self.0[component / 6], &self.0[component % 6]);
        let sum: f64 =
            kernel.iter().enumerate().map(|(i, &g)| left[i / 3] * right[i % 3] * f64::from(g)).sum();
        sum as f32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The coefficients of the product of (x - p) over `points`, from the lowest power to the highest.
    fn polynomial(points: impl Iterator<Item = f64>) -> [f64; 6] {
        let mut coefficients = [1.0, 0.0, 0.0, 0.0, 0.0, 0.0];
        for p in points {
            for i in (0..6).rev() {
                coefficients[i] = -p * coefficients[i] + if i > 0 { coefficients[i - 1] } else { 0.0 };
            }
        }
        coefficients
    }

    /// Row i of B transposed: the coefficients of the polynomial whose zeros are the other points.
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

    /// Passing one tile through the three transforms gives the convolution of its 6 x 6 inputs.
    #[test]
    fn components_multiply_to_the_convolution() {
        let weights: Vec<f32> = (0..9).map(|i| (i * i) as f32 - 7.5).collect();
        let transform = WeightsTransform::new();
        let components: Vec<f32> = (0..COMPONENTS).map(|i| transform.component(&weights, i)).collect();
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
