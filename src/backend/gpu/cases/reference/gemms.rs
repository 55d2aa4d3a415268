//! Matrix products and what follows them.

use crate::network::layers::SQUARES;
use crate::runtime::activations::activation;
use crate::runtime::ffi::gemm::ElementType;
use crate::runtime::numbers::encode;

/// The sum over k of `x[k] * w[k]`.
pub(crate) fn dot(x: &[f64], w: &[f64]) -> f64 {
    x.iter().zip(w).map(|(x, w)| x * w).sum()
}

/// The values after a rounding to the type, as the next step of a launch reads them.
pub(crate) fn rounded(element: ElementType, values: &[f64]) -> Vec<f64> {
    encode(element, &values.iter().map(|&value| value as f32).collect::<Vec<f32>>()).1
}

/// What follows the sums of a GEMM: `act(sum + bias) * multiply + add + residual`.
#[derive(Clone, Copy, Default)]
pub(crate) struct Epilogue<'a> {
    pub(crate) bias: Option<&'a [f64]>,
    /// The code of the activation.
    pub(crate) activation: i32,
    /// Multiply and add, `[64][stride]`.
    pub(crate) gates: Option<(&'a [f64], &'a [f64])>,
    /// `[gemms][rows][stride]`
    pub(crate) residual: Option<&'a [f64]>,
}

impl Epilogue<'_> {
    /// The results `[gemms][rows][stride]` without the gap after the last row. Between the rows they are no number.
    /// `sum` gets the product, the row and the column.
    pub(crate) fn results(
        &self,
        (products, rows): (usize, usize),
        (outputs, stride): (usize, usize),
        sum: impl Fn(usize, usize, usize) -> f64,
    ) -> Vec<f64> {
        let result = |place: usize| {
            let (row, column) = (place / stride, place % stride);
            if column >= outputs {
                return f64::NAN;
            }
            let sum = sum(row / rows, row % rows, column) + self.bias.map_or(0.0, |bias| bias[column]);
            let gate = row % rows % SQUARES * stride + column;
            let activated = activation(self.activation, sum);
            let gated =
                self.gates.map_or(activated, |(multiply, add)| activated * multiply[gate] + add[gate]);
            gated + self.residual.map_or(0.0, |residual| residual[place])
        };
        (0..products * rows * stride - (stride - outputs)).map(result).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epilogue_follows_the_sums() {
        let multiply: Vec<f64> = (0..192).map(f64::from).collect();
        let epilogue = Epilogue {
            bias: Some(&[-1.0, 0.5]),
            activation: 1,
            gates: Some((&multiply, &[0.25; 192])),
            residual: Some(&[100.0; 400]),
        };
        let found = epilogue.results((2, 65), (2, 3), |product, row, column| (product + row + column) as f64);
        assert_eq!(found.len(), 2 * 65 * 3 - 1);
        // Row 1 of the second product, and row 64, which has the gates of row 0.
        assert_eq!(found[66 * 3..66 * 3 + 2], [1.0 * 3.0 + 100.25, 3.5 * 4.0 + 100.25]);
        assert!(found[66 * 3 + 2].is_nan());
        assert_eq!(found[64 * 3 + 1], 65.5 + 100.25);
        assert_eq!(Epilogue::default().results((1, 1), (1, 1), |_, _, _| -3.0), [-3.0]);
    }
}
