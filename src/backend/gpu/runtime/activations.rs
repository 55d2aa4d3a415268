//! The elementwise functions of our kernels, in fp64, by the codes that [`super::kernels::activation_code`] returns.

/// Codes that tests name.
pub(crate) const NONE: i32 = 0;
pub(crate) const RELU: i32 = 1;
pub(crate) const RELU_2: i32 = 2;
pub(crate) const TANH: i32 = 3;
pub(crate) const SIGMOID: i32 = 4;
pub(crate) const SELU: i32 = 5;
pub(crate) const MISH: i32 = 6;
pub(crate) const SWISH: i32 = 7;

/// The elementwise function with this code.
pub(crate) fn activation(code: i32, x: f64) -> f64 {
    const SELU_SCALE: f64 = 1.050_700_987_355_480_5;
    const SELU_ALPHA: f64 = 1.673_263_242_354_377_2;
    match code {
        1 => x.max(0.0),
        2 => x.max(0.0).powi(2),
        3 => x.tanh(),
        4 => sigmoid(x),
        5 if x > 0.0 => SELU_SCALE * x,
        5 => SELU_SCALE * SELU_ALPHA * x.exp_m1(),
        6 => x * softplus(x).tanh(),
        7 => x * sigmoid(x),
        _ => x,
    }
}

/// `1 / (1 + exp(-x))`
pub(crate) fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// `ln(1 + exp(x))`
fn softplus(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_near(found: &[f64], expected: &[f64]) -> bool {
        found.len() == expected.len() && found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-9)
    }

    #[test]
    fn activations_have_their_known_values() {
        let at = |x: f64| -> Vec<f64> { (0..8).map(|code| activation(code, x)).collect() };
        let one = [
            1.0,
            1.0,
            1.0,
            0.761_594_155_956,
            0.731_058_578_630,
            1.050_700_987_355,
            0.865_098_388_268,
            0.731_058_578_630,
        ];
        let minus_two = [
            -2.0,
            0.0,
            0.0,
            -0.964_027_580_076,
            0.119_202_922_022,
            -1.520_166_468_596,
            -0.252_501_482_666,
            -0.238_405_844_044,
        ];
        assert!(is_near(&at(1.0), &one), "{:?}", at(1.0));
        assert!(is_near(&at(-2.0), &minus_two), "{:?}", at(-2.0));
        assert!(is_near(&[activation(6, 90.0), activation(6, -90.0)], &[90.0, 0.0]));
    }
}
