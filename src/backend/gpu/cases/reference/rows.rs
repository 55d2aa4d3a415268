//! Functions of rows: elementwise functions with biases and gates, LayerNorm and softmax.

use crate::network::layers::SQUARES;
use crate::runtime::activations::activation;

/// What a kernel for rows reads besides its input. The bias has `bias_rows` rows, and the gates, multiply and add, have
/// one row for each square.
#[derive(Clone, Copy, Default)]
pub(crate) struct Extras<'a> {
    pub(crate) bias: Option<&'a [f64]>,
    pub(crate) bias_rows: usize,
    pub(crate) gates: Option<(&'a [f64], &'a [f64])>,
    /// The code of the activation.
    pub(crate) activation: i32,
}

impl Extras<'_> {
    /// `act(x + bias)` for the element in column `i` of a row.
    fn activated(&self, x: f64, row: usize, i: usize, width: usize) -> f64 {
        let bias = self.bias.map_or(0.0, |bias| bias[row % self.bias_rows.max(1) * width + i]);
        activation(self.activation, x + bias)
    }

    /// `x * multiply + add` for the element in column `i` of a row.
    fn gated(&self, x: f64, row: usize, i: usize, width: usize) -> f64 {
        let place = row % SQUARES * width + i;
        self.gates.map_or(x, |(multiply, add)| x * multiply[place] + add[place])
    }
}

/// `act(input + bias) * multiply + add`
pub(crate) fn elementwise(input: &[f64], width: usize, extras: Extras<'_>) -> Vec<f64> {
    let element = |(place, &x): (usize, &f64)| {
        let (row, i) = (place / width, place % width);
        extras.gated(extras.activated(x, row, i, width), row, i, width)
    };
    input.iter().enumerate().map(element).collect()
}

/// The parameters of a LayerNorm.
#[derive(Clone, Copy)]
pub(crate) struct Norm<'a> {
    pub(crate) gammas: &'a [f64],
    pub(crate) betas: &'a [f64],
    pub(crate) residual: Option<&'a [f64]>,
    pub(crate) alpha: f64,
    pub(crate) epsilon: f64,
}

/// `LN(alpha * act(input + bias) + residual) * multiply + add`
pub(crate) fn layer_norm(input: &[f64], norm: Norm<'_>, extras: Extras<'_>) -> Vec<f64> {
    let Norm { gammas, betas, residual, alpha, epsilon } = norm;
    let width = gammas.len();
    let mut output = Vec::with_capacity(input.len());
    for (row, x) in input.chunks(width).enumerate() {
        let sum = |(i, &x): (usize, &f64)| {
            let residual = residual.map_or(0.0, |residual| residual[row * width + i]);
            alpha * extras.activated(x, row, i, width) + residual
        };
        let sums: Vec<f64> = x.iter().enumerate().map(sum).collect();
        let mean = sums.iter().sum::<f64>() / width as f64;
        let variance = sums.iter().map(|sum| (sum - mean).powi(2)).sum::<f64>() / width as f64;
        let deviation = (variance + epsilon).sqrt();
        let normalised = sums.iter().zip(gammas).zip(betas).enumerate();
        output.extend(normalised.map(|(i, ((sum, gamma), beta))| {
            extras.gated((sum - mean) / deviation * gamma + beta, row, i, width)
        }));
    }
    output
}

/// The softmax of `scale` times the logits.
pub(crate) fn softmax(logits: &[f64], scale: f64) -> Vec<f64> {
    let most = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let powers: Vec<f64> = logits.iter().map(|logit| ((logit - most) * scale).exp()).collect();
    let sum: f64 = powers.iter().sum();
    powers.iter().map(|power| power / sum).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_near(found: &[f64], expected: &[f64]) -> bool {
        found.len() == expected.len() && found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-9)
    }

    #[test]
    fn biases_and_gates_repeat_with_the_rows() {
        let bias: Vec<f64> = (0..128).map(f64::from).collect();
        let (multiply, add) = (vec![2.0; 128], vec![0.5; 128]);
        let extras =
            Extras { bias: Some(&bias), bias_rows: 64, gates: Some((&multiply, &add)), activation: 0 };
        let found = elementwise(&[1.0; 132], 2, extras);
        assert_eq!((found[0], found[127], found[128], found[131]), (2.5, 256.5, 2.5, 8.5));
        let one = Extras { bias: Some(&bias[..2]), bias_rows: 1, ..Extras::default() };
        assert_eq!(elementwise(&[1.0; 4], 2, one), [1.0, 2.0, 1.0, 2.0]);
    }

    #[test]
    fn a_layer_norm_has_the_wanted_mean_and_deviation() {
        let norm = Norm {
            gammas: &[3.0; 4],
            betas: &[10.0; 4],
            residual: Some(&[0.0, 1.0, 0.0, 1.0]),
            alpha: 2.0,
            epsilon: 0.0,
        };
        let found = layer_norm(&[1.0, 1.5, 2.0, 3.5], norm, Extras::default());
        // The sums are 2, 4, 4 and 8: their mean is 4.5, and their variance 4.75.
        let expected = [2.0, 4.0, 4.0, 8.0].map(|sum: f64| (sum - 4.5) / 4.75_f64.sqrt() * 3.0 + 10.0);
        assert!(is_near(&found, &expected), "{found:?}");
    }

    #[test]
    fn a_softmax_adds_up_to_one() {
        assert!(is_near(&softmax(&[1000.0, 1000.0], 1.0), &[0.5, 0.5]));
        assert!(is_near(&softmax(&[0.0, 2.0 * 3.0_f64.ln()], 0.5), &[0.25, 0.75]));
        assert!(softmax(&[], 1.0).is_empty());
    }
}
