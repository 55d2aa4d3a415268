//! exp, tanh, softmax and the activation functions, with a relative error of at most 1e-6.
//!
//! The polynomials are those of `expf` and `tanhf` in Moshier's Cephes library, which have an error of about
//! 1e-7. The errors of ten or more layers add up: with a cheaper polynomial the policy would differ in the
//! fourth digit.

use crate::simd::{Kernel, Simd};
use rukh_net::architecture::Activation;

/// The lowest argument of [`exp`]. Below it the result would be subnormal.
const EXP_LOWEST: f32 = -87.3;
/// The highest argument of [`exp`]. Above it the last step would overflow.
const EXP_HIGHEST: f32 = 88.0;

/// Splits `x = n ln 2 + r` with a whole number `n` and `|r| <= ln 2 / 2`. Returns `n` and `e^r - 1`.
#[inline(always)]
fn reduced_exp<S: Simd>(simd: S, x: S::Vector) -> (S::Vector, S::Vector) {
    // ln 2 as the sum of two numbers. The first has few bits, so its product with n is exact.
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    const COEFFICIENTS: [f32; 6] =
        [1.987_569_1e-4, 1.398_2e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5];
    let x = simd.max(simd.splat(EXP_LOWEST), simd.min(simd.splat(EXP_HIGHEST), x));
    let n = simd.round(simd.mul(x, simd.splat(std::f32::consts::LOG2_E)));
    let r = simd.mul_add(n, simd.splat(-LN2_HIGH), x);
    let r = simd.mul_add(n, simd.splat(-LN2_LOW), r);
    let mut p = simd.splat(COEFFICIENTS[0]);
    for c in &COEFFICIENTS[1..] {
        p = simd.mul_add(p, r, simd.splat(*c));
    }
    (n, simd.mul_add(simd.mul(r, r), p, r))
}

/// `e^x`, limited to between 1.2e-38 (for x below -87.3) and 1.7e38 (for x above 88).
#[inline(always)]
pub(crate) fn exp<S: Simd>(simd: S, x: S::Vector) -> S::Vector {
    let (n, fraction) = reduced_exp(simd, x);
    simd.scale_by_power_of_two(simd.add(fraction, simd.splat(1.0)), n)
}

/// `e^x` with a relative error of 1e-4, for results that are rounded to bf16, whose error is 4e-3. The same limits apply
/// as for [`exp`]. The coefficients are those of the cubic that interpolates 2^f at the Chebyshev nodes of -1/2…1/2.
#[inline(always)]
#[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "only x86-64 has tile registers"))]
pub(crate) fn short_exp<S: Simd>(simd: S, x: S::Vector) -> S::Vector {
    const COEFFICIENTS: [f32; 4] = [0.055_838_283, 0.242_639_48, 0.693_136_73, 0.999_924_56];
    let x = simd.max(simd.splat(EXP_LOWEST), simd.min(simd.splat(EXP_HIGHEST), x));
    let power = simd.mul(x, simd.splat(std::f32::consts::LOG2_E));
    let n = simd.round(power);
    let f = simd.sub(power, n);
    let mut p = simd.splat(COEFFICIENTS[0]);
    for c in &COEFFICIENTS[1..] {
        p = simd.mul_add(p, f, simd.splat(*c));
    }
    simd.scale_by_power_of_two(p, n)
}

/// `e^x - 1`, accurate near 0 too.
#[inline(always)]
fn exp_minus_one<S: Simd>(simd: S, x: S::Vector) -> S::Vector {
    let (n, fraction) = reduced_exp(simd, x);
    let one = simd.splat(1.0);
    let scale = simd.scale_by_power_of_two(one, n);
    simd.mul_add(scale, fraction, simd.sub(scale, one))
}

/// `1 / (1 + e^-x)`
#[inline(always)]
pub(crate) fn sigmoid<S: Simd>(simd: S, x: S::Vector) -> S::Vector {
    let one = simd.splat(1.0);
    let e = exp(simd, simd.sub(simd.splat(0.0), x));
    simd.div(one, simd.add(one, e))
}

/// `tanh x`, computed by a polynomial near 0 and as `1 - 2 / (e^2x + 1)` elsewhere.
#[inline(always)]
fn tanh<S: Simd>(simd: S, x: S::Vector) -> S::Vector {
    const COEFFICIENTS: [f32; 5] =
        [-5.704_988_5e-3, 2.063_908_8e-2, -5.373_971_6e-2, 1.333_144_2e-1, -3.333_328e-1];
    /// The polynomial is used for |x| below this value.
    const NEAR: f32 = 0.625;
    let one = simd.splat(1.0);
    let square = simd.mul(x, x);
    let mut p = simd.splat(COEFFICIENTS[0]);
    for c in &COEFFICIENTS[1..] {
        p = simd.mul_add(p, square, simd.splat(*c));
    }
    let near = simd.mul_add(simd.mul(p, square), x, x);
    let two = simd.splat(2.0);
    let far = simd.sub(one, simd.div(two, simd.add(exp(simd, simd.add(x, x)), one)));
    simd.select_positive(simd.sub(simd.splat(NEAR * NEAR), square), near, far)
}

/// `x tanh(ln(1 + e^x))`, computed as `x n / (n + 2)` with `n = e^x (e^x + 2)`, which has no cancellation.
#[inline(always)]
fn mish<S: Simd>(simd: S, x: S::Vector) -> S::Vector {
    /// For x above this value n / (n + 2) is 1 in fp32. For x above 44 n would overflow.
    const LINEAR: f32 = 20.0;
    let two = simd.splat(2.0);
    let e = exp(simd, simd.min(simd.splat(LINEAR), x));
    let n = simd.mul(e, simd.add(e, two));
    simd.div(simd.mul(x, n), simd.add(n, two))
}

/// SELU: `scale x` for positive x, otherwise `scale alpha (e^x - 1)`. The constants are those of Klambauer et
/// al., *Self-normalizing neural networks* (2017).
#[inline(always)]
fn selu<S: Simd>(simd: S, x: S::Vector) -> S::Vector {
    const ALPHA: f32 = 1.673_263_2;
    const SCALE: f32 = 1.050_701;
    let negative = simd.mul(simd.splat(SCALE * ALPHA), exp_minus_one(simd, x));
    simd.select_positive(x, simd.mul(simd.splat(SCALE), x), negative)
}

/// A function of one number that is applied to vectors.
///
/// This is a trait because a closure would not be compiled for the instruction set: if the compiler did not
/// inline the closure, each of its vector operations would become a function call.
pub(crate) trait Function: Copy {
    /// Applies the function to each lane of `x`.
    fn apply<S: Simd>(self, simd: S, x: S::Vector) -> S::Vector;
}

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident($simd:ident, $x:ident) $body:expr;)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy)]
            struct $name;

            impl Function for $name {
                #[inline(always)]
                fn apply<S: Simd>(self, $simd: S, $x: S::Vector) -> S::Vector {
                    $body
                }
            }
        )*
    };
}

functions! {
    /// `max(x, 0)`
    Relu(simd, x) simd.max(simd.splat(0.0), x);
    /// `max(x, 0)^2`
    Relu2(simd, x) simd.mul(simd.max(simd.splat(0.0), x), simd.max(simd.splat(0.0), x));
    Tanh(simd, x) tanh(simd, x);
    Sigmoid(simd, x) sigmoid(simd, x);
    Selu(simd, x) selu(simd, x);
    Mish(simd, x) mish(simd, x);
    /// `x sigmoid(x)`
    Swish(simd, x) simd.mul(x, sigmoid(simd, x));
}

/// `factor x`
#[derive(Clone, Copy)]
struct Scale(f32);

impl Function for Scale {
    #[inline(always)]
    fn apply<S: Simd>(self, simd: S, x: S::Vector) -> S::Vector {
        simd.mul(x, simd.splat(self.0))
    }
}

/// `e^(x - shift)`
#[derive(Clone, Copy)]
struct ShiftedExp(f32);

impl Function for ShiftedExp {
    #[inline(always)]
    fn apply<S: Simd>(self, simd: S, x: S::Vector) -> S::Vector {
        exp(simd, simd.sub(x, simd.splat(self.0)))
    }
}

/// Replaces every element `x` of `data` with `f(x)`.
#[inline(always)]
pub(crate) fn map<S: Simd, F: Function>(simd: S, data: &mut [f32], f: F) {
    let mut vectors = data.chunks_exact_mut(S::LANES);
    for v in &mut vectors {
        let y = f.apply(simd, simd.load(v));
        simd.store(y, v);
    }
    let rest = vectors.into_remainder();
    if !rest.is_empty() {
        let y = f.apply(simd, simd.load_some(rest));
        simd.store_some(y, rest);
    }
}

/// Applies an activation to `data` in place. Softmax treats all of `data` as one row.
#[inline(always)]
pub(crate) fn activate_slice<S: Simd>(simd: S, activation: Activation, data: &mut [f32]) {
    // Each function has its own loop, so that the choice is made once.
    match activation {
        Activation::None => {}
        Activation::Relu => map(simd, data, Relu),
        Activation::Relu2 => map(simd, data, Relu2),
        Activation::Tanh => map(simd, data, Tanh),
        Activation::Sigmoid => map(simd, data, Sigmoid),
        Activation::Selu => map(simd, data, Selu),
        Activation::Mish => map(simd, data, Mish),
        Activation::Swish => map(simd, data, Swish),
        Activation::Softmax => softmax(simd, data),
    }
}

/// Splits an activation into a lower limit for the sums (0 for ReLU) and the activation that remains to be
/// applied.
#[inline(always)]
pub(crate) fn floor_and_rest(activation: Activation) -> (f32, Activation) {
    match activation {
        Activation::Relu => (0.0, Activation::None),
        other => (f32::NEG_INFINITY, other),
    }
}

/// Replaces a row with its softmax.
#[inline(always)]
pub(crate) fn softmax<S: Simd>(simd: S, row: &mut [f32]) {
    let largest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    map(simd, row, ShiftedExp(largest));
    let total: f32 = row.iter().sum();
    map(simd, row, Scale(1.0 / total));
}

/// Applies an activation in place to rows of `width` elements whose starts are `stride` elements apart.
pub(crate) struct ActivateRows<'a> {
    pub data: &'a mut [f32],
    pub width: usize,
    pub stride: usize,
    /// The activation. Softmax applies to each row.
    pub activation: Activation,
}

impl Kernel for ActivateRows<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        for row in self.data.chunks_mut(self.stride.max(1)) {
            let width = self.width.min(row.len());
            activate_slice(simd, self.activation, &mut row[..width]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::Isa;

    fn exact(activation: Activation, x: f64) -> f64 {
        match activation {
            Activation::None | Activation::Softmax => x,
            Activation::Relu => x.max(0.0),
            Activation::Relu2 => x.max(0.0).powi(2),
            Activation::Tanh => x.tanh(),
            Activation::Sigmoid => 1.0 / (1.0 + (-x).exp()),
            Activation::Selu if x > 0.0 => 1.050_700_987_355_480_5 * x,
            Activation::Selu => 1.050_700_987_355_480_5 * 1.673_263_242_354_377_2 * x.exp_m1(),
            Activation::Mish => x * x.exp().ln_1p().tanh(),
            Activation::Swish => x / (1.0 + (-x).exp()),
        }
    }

    /// The activations that work on each value alone.
    fn elementwise() -> impl Iterator<Item = Activation> {
        Activation::ALL.into_iter().filter(|&activation| activation != Activation::Softmax)
    }

    #[test]
    fn activations_have_a_relative_error_of_at_most_a_millionth() {
        // Many numbers around 0, and some far into both tails. A result that underflows need only be tiny.
        let mut inputs: Vec<f32> = (-4000..=4000).map(|i| i as f32 * 0.005).collect();
        inputs.extend((-60..=60).map(|i| i as f32 * 1.37));
        inputs.extend([1e-8, -1e-8, 1e-4, -1e-4, 0.0]);
        for isa in Isa::tested() {
            for activation in elementwise() {
                let mut data = inputs.clone();
                let width = data.len();
                isa.run(ActivateRows { data: &mut data, width, stride: width, activation });
                for (&x, &y) in inputs.iter().zip(&data) {
                    let right = exact(activation, f64::from(x));
                    let error = (f64::from(y) - right).abs();
                    assert!(
                        error <= 1e-6 * right.abs() + 1e-36,
                        "{} {activation:?}({x}) = {y}, expected {right}",
                        isa.name()
                    );
                }
            }
        }
    }

    #[test]
    fn every_activation_of_nan_is_nan() {
        for isa in Isa::tested() {
            for activation in Activation::ALL {
                let mut data = vec![f32::NAN; 17];
                isa.run(ActivateRows { data: &mut data, width: 17, stride: 17, activation });
                assert!(data.iter().all(|x| x.is_nan()), "{} {activation:?}: {data:?}", isa.name());
            }
        }
    }

    #[test]
    fn rows_of_any_width_are_activated_and_the_gaps_between_them_are_not_written() {
        for isa in Isa::tested() {
            for width in [0, 1, 3, 15, 16, 17, 63, 64, 65] {
                let stride = width + 3;
                let mut data = vec![f32::NAN; 3 * stride];
                for row in 0..3 {
                    data[row * stride..][..width].fill(-1.0);
                }
                isa.run(ActivateRows { data: &mut data, width, stride, activation: Activation::Relu });
                for (i, x) in data.iter().enumerate() {
                    if i % stride < width {
                        assert_eq!(*x, 0.0);
                    } else {
                        assert!(x.is_nan(), "{} wrote beyond a row of {width}", isa.name());
                    }
                }
            }
        }
    }

    #[test]
    fn softmax_sums_to_one_and_survives_large_logits() {
        for isa in Isa::tested() {
            for width in [1, 2, 15, 16, 17, 64, 65, 255] {
                let mut data: Vec<f32> = (0..width).map(|i| 300.0 - (i * 7 % 13) as f32).collect();
                let logits = data.clone();
                isa.run(ActivateRows {
                    data: &mut data,
                    width,
                    stride: width,
                    activation: Activation::Softmax,
                });
                let weights: Vec<f64> = logits.iter().map(|&x| f64::from(x - 300.0).exp()).collect();
                let total: f64 = weights.iter().sum();
                for (y, w) in data.iter().zip(&weights) {
                    assert!((f64::from(*y) - w / total).abs() < 1e-6, "{} width {width}", isa.name());
                }
            }
        }
    }
}
