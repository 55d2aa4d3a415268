//! What the inputs of a layer are on real positions. [`super::quantise`] rounds weights by it.

use crate::simd::{AlignedVec, Isa, Kernel, Simd};

/// The largest number of rows that count. More rows hardly change the rounded weights.
const MOST_ROWS: usize = 4096;
/// Of a product with at least 64 rows, one row in so many counts. It is odd, so that all 64 squares have their turn.
const ROW_STEP: usize = 3;
/// The largest number of inputs whose products with each other are summed: they take `4 * inputs^2` bytes.
const MOST_INPUTS: usize = 512;

/// Statistics of a layer's inputs over some rows of x.
#[derive(Clone, Debug, Default)]
pub(crate) struct InputStatistics {
    inputs: usize,
    rows: usize,
    /// `[inputs]`: the largest absolute value of each input.
    largest: Vec<f32>,
    /// `[inputs][stride]`: the sum of the products of two inputs, the first of which has the lower index or the same.
    /// Empty if there are too many inputs.
    products: AlignedVec<f32>,
    /// The inputs, rounded up to whole vectors.
    stride: usize,
    /// A row of x, followed by zeros to the length of the stride.
    row: AlignedVec<f32>,
}

impl InputStatistics {
    /// Adds some of the rows of x, `[rows][inputs]`, whose starts are `x_stride` numbers apart.
    pub(crate) fn add(&mut self, isa: Isa, (x, x_stride): (&[f32], usize), rows: usize, inputs: usize) {
        if self.inputs != inputs {
            let stride = inputs.next_multiple_of(isa.lanes());
            *self = InputStatistics {
                inputs,
                rows: 0,
                largest: vec![0.0; inputs],
                products: AlignedVec::zeroed(if inputs <= MOST_INPUTS { inputs * stride } else { 0 }),
                stride,
                row: AlignedVec::zeroed(stride),
            };
        }
        let step = if rows >= 64 { ROW_STEP } else { 1 };
        for row in (self.rows % step..rows).step_by(step).take(MOST_ROWS - self.rows) {
            let x = &x[row * x_stride..][..inputs];
            for (largest, value) in self.largest.iter_mut().zip(x) {
                *largest = largest.max(value.abs());
            }
            self.rows += 1;
            if !self.products.is_empty() {
                self.row[..inputs].copy_from_slice(x);
                isa.run(AddProducts(self));
            }
        }
    }

    /// The largest absolute value of each input; `None` without rows.
    pub(super) fn largest(&self) -> Option<&[f32]> {
        (self.rows > 0 && self.largest.iter().all(|value| value.is_finite())).then_some(&self.largest)
    }

    /// The mean product of inputs `i` and `j`. `None` if the products are not known well: there are too many inputs,
    /// fewer than twice as many rows as inputs, or numbers that are not finite.
    pub(super) fn mean_products(&self) -> Option<impl Fn(usize, usize) -> f64> {
        let is_known = !self.products.is_empty()
            && self.rows >= 2 * self.inputs
            && (0..self.inputs).all(|i| self.products[i * self.stride + i].is_finite());
        is_known.then_some(move |i: usize, j: usize| {
            f64::from(self.products[i.min(j) * self.stride + i.max(j)]) / self.rows as f64
        })
    }
}

/// Adds the products of the numbers of `row`.
struct AddProducts<'a>(&'a mut InputStatistics);

impl Kernel for AddProducts<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let InputStatistics { inputs, products, stride, row, .. } = self.0;
        for i in 0..*inputs {
            // The vector with input i, and those after it.
            let first = i / S::LANES * S::LANES;
            let factor = simd.splat(row[i]);
            let sums = products[i * *stride..][first..*stride].chunks_exact_mut(S::LANES);
            for (sum, other) in sums.zip(row[first..].chunks_exact(S::LANES)) {
                simd.store(simd.mul_add(factor, simd.load(other), simd.load(sum)), sum);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::matrix::tests::noise;

    #[test]
    fn products_and_maxima_are_those_of_the_rows() {
        for isa in Isa::tested() {
            for inputs in [1, 15, 16, 33] {
                let (rows, x_stride) = (63, inputs + 2);
                let x = noise(rows * x_stride, 1);
                let mut statistics = InputStatistics::default();
                // Fewer than 64 rows all count.
                statistics.add(isa, (&x[..], x_stride), rows, inputs);
                statistics.add(isa, (&x[..], x_stride), 10, inputs);
                let added: Vec<&[f32]> = (0..rows).chain(0..10).map(|row| &x[row * x_stride..]).collect();
                let largest = statistics.largest().expect("there are rows");
                let means = statistics.mean_products().expect("there are more rows than inputs");
                for i in 0..inputs {
                    assert_eq!(largest[i], added.iter().fold(0.0_f32, |most, row| most.max(row[i].abs())));
                    for j in 0..inputs {
                        let right: f64 = added.iter().map(|row| f64::from(row[i] * row[j])).sum();
                        let right = right / added.len() as f64;
                        assert!((means(i, j) - right).abs() < 1e-5, "{} {inputs} [{i}][{j}]", isa.name());
                    }
                }
            }
        }
    }

    #[test]
    fn numbers_that_are_not_finite_are_no_statistics() {
        for value in [f32::NAN, f32::INFINITY] {
            let mut statistics = InputStatistics::default();
            let x = [1.0, value, 2.0, 3.0];
            statistics.add(Isa::best(), (&x[..], 1), 4, 1);
            assert!(statistics.mean_products().is_none(), "{value}");
            let known = statistics.largest();
            assert!(known.is_none_or(|largest| largest[0] == 3.0), "{known:?}");
        }
    }
}
