//! Arithmetic that gives the same bits on every machine.
//!
//! The search signature (a node count) must not depend on the C library or the CPU, so selection uses no `ln` or
//! `powf` of the platform: only IEEE operations, which round the same everywhere, and the polynomial below.

/// Natural logarithm of a normal positive number, with a relative error below 1e-6.
///
/// It splits off the exponent and sums the series of the inverse hyperbolic tangent:
/// `ln m = 2 atanh((m - 1) / (m + 1))` for a mantissa m in `[sqrt(1/2), sqrt(2))`.
pub(crate) fn natural_log(x: f32) -> f32 {
    let bits = x.to_bits();
    // Shift the mantissa's range so that it is centred on 1.
    let centred = bits.wrapping_sub(std::f32::consts::FRAC_1_SQRT_2.to_bits());
    let exponent = (centred as i32) >> 23;
    let mantissa = f32::from_bits(bits.wrapping_sub((exponent as u32) << 23));
    let t = f64::from(mantissa - 1.0) / f64::from(mantissa + 1.0);
    let t2 = t * t;
    let series = t * (2.0 + t2 * (2.0 / 3.0 + t2 * (2.0 / 5.0 + t2 * (2.0 / 7.0 + t2 * (2.0 / 9.0)))));
    (series + f64::from(exponent) * std::f64::consts::LN_2) as f32
}

/// The exponential function, with a relative error below 1e-12. The result is 0 or infinite beyond the range of f64.
///
/// It splits off the nearest power of two: `e^x = 2^k e^r` with `|r| <= ln(2) / 2`, and sums the series of `e^r`.
pub(crate) fn exponential(x: f64) -> f64 {
    if x.is_nan() {
        return x;
    }
    let whole = (x * std::f64::consts::LOG2_E).clamp(-1100.0, 1100.0).round_ties_even();
    let rest = (x - whole * std::f64::consts::LN_2).clamp(-1.0, 1.0);
    let series = (1..=14).rev().fold(1.0, |sum, term| 1.0 + sum * rest / f64::from(term));
    // Two factors, because a power of two near the ends of the range has no normal number of its own.
    let power_of_two = |exponent: i32| f64::from_bits(((exponent + 1023).clamp(0, 2047) as u64) << 52);
    let exponent = whole as i32;
    series * power_of_two(exponent / 2) * power_of_two(exponent - exponent / 2)
}

/// Rounds `x` up to a whole number within the range of u32. NaN gives 0. The result is that of `x.ceil() as u32`, but
/// `ceil` is a function call on processors older than SSE4.1, and this program is built for those too.
#[inline]
pub(crate) fn round_up(x: f32) -> u32 {
    let whole = x as u32;
    whole.saturating_add(u32::from((whole as f32) < x))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_up_equals_ceil() {
        let around =
            [0.0, 1.0, 2.0, 3.5, 1e6, 8_388_607.5, 16_777_216.0, 4_294_967_040.0, 4_294_967_296.0, 1e20];
        let values = around.into_iter().flat_map(|x: f32| [x, -x, x.next_up(), x.next_down()]);
        for x in values.chain([f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MIN_POSITIVE]) {
            assert_eq!(round_up(x), x.ceil() as u32, "{x}");
        }
    }

    #[test]
    fn exponential_is_right() {
        for i in -7000..7000 {
            let x = f64::from(i) * 0.1;
            let relative = exponential(x) / x.exp() - 1.0;
            assert!(relative.abs() < 1e-12, "e^{x}: {relative}");
        }
        assert_eq!((exponential(0.0), exponential(-1e9), exponential(1e9)), (1.0, 0.0, f64::INFINITY));
        assert!(exponential(f64::NAN).is_nan());
    }

    #[test]
    fn natural_log_is_right_to_a_millionth() {
        for i in 1..200_000_u32 {
            let x = 1.0 + i as f32 * 0.013;
            let exact = f64::from(x).ln();
            assert!((f64::from(natural_log(x)) - exact).abs() <= 1e-6 * exact.abs().max(1e-3), "ln {x}");
        }
        assert_eq!(natural_log(1.0), 0.0);
        assert!((natural_log(0.1) - 0.1_f32.ln()).abs() < 1e-6);
    }
}
