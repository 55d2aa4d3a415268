//! Numbers of the kernels' element types, as the processor sees them.

use super::ffi::gemm::ElementType;
use half::{bf16, f16};

/// Converts numbers to the type. Returns their bytes, and their values after rounding.
pub(crate) fn encode(element: ElementType, values: &[f32]) -> (Vec<u8>, Vec<f64>) {
    let mut bytes = Vec::with_capacity(values.len() * element.bytes());
    values.iter().for_each(|&value| element.append(value, &mut bytes));
    let rounded = decode(element, &bytes);
    (bytes, rounded)
}

/// The values of numbers of the type.
pub(crate) fn decode(element: ElementType, bytes: &[u8]) -> Vec<f64> {
    let (of_two, of_four) = (bytes.as_chunks::<2>().0, bytes.as_chunks::<4>().0);
    match element {
        ElementType::Fp32 => of_four.iter().map(|&bytes| f64::from(f32::from_le_bytes(bytes))).collect(),
        ElementType::Fp16 => of_two.iter().map(|&bytes| f16::from_le_bytes(bytes).to_f64()).collect(),
        ElementType::Bf16 => of_two.iter().map(|&bytes| bf16::from_le_bytes(bytes).to_f64()).collect(),
        ElementType::Int8 => bytes.iter().map(|&byte| f64::from(i8::from_le_bytes([byte]))).collect(),
        ElementType::Fp8(format) => bytes.iter().map(|&code| f64::from(format.value(code))).collect(),
    }
}

/// `count` numbers between -1 and 1 that look random. The same seed gives the same numbers.
pub(crate) fn noise(seed: u32, count: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9) ^ 0x5851_f42d;
    let mut number = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let mixed = (state ^ (state >> 15)).wrapping_mul(0x2c1b_3c6d);
        (mixed >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..count).map(|_| number()).collect()
}

/// The difference of two numbers relative to the expected one, or absolute if that is smaller than 1. It is infinite if
/// either is not a number.
pub(crate) fn error(found: f64, expected: f64) -> f64 {
    error_above(found, expected, 1.0)
}

/// The [`error`] of a number that is compared with `least` if it is smaller than that.
pub(crate) fn error_above(found: f64, expected: f64, least: f64) -> f64 {
    let error = (found - expected).abs() / expected.abs().max(least);
    if error.is_nan() { f64::INFINITY } else { error }
}

/// The [`error`] that a result of the type may have: a few roundings to 10, 7 or 23 bits, and for fp32 the roundings of
/// a long sum.
pub(crate) fn allowed(element: ElementType) -> f64 {
    match element {
        ElementType::Fp32 => 3e-5,
        ElementType::Fp16 => 2e-3,
        ElementType::Bf16 => 1.6e-2,
        // Results of these types have expectations of their own.
        ElementType::Int8 | ElementType::Fp8(_) => 0.0,
    }
}

/// A figure with three significant digits, for a row of the report.
pub(crate) fn short(value: f64) -> serde_json::Value {
    let rounded = format!("{value:.2e}").parse::<f64>().unwrap_or(value);
    if rounded.is_finite() { rounded.into() } else { format!("{value}").into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_rounded_to_their_type() {
        let values = [0.1, -3.0, 1000.25];
        assert_eq!(encode(ElementType::Fp32, &values).1, values.map(f64::from));
        let (bytes, rounded) = encode(ElementType::Bf16, &values);
        assert_eq!((bytes.len(), &rounded[1..]), (6, &[-3.0, 1000.0][..]));
        assert_eq!(encode(ElementType::Fp16, &values).1[2], 1000.0);
    }

    #[test]
    fn noise_is_spread_evenly() {
        let numbers = noise(7, 10_000);
        let mean = numbers.iter().sum::<f32>() / 10_000.0;
        assert!(mean.abs() < 0.02 && numbers.iter().all(|number| number.abs() <= 1.0), "{mean}");
        assert_ne!(numbers[..4], noise(8, 4)[..]);
    }

    #[test]
    fn what_is_not_a_number_is_wrong() {
        assert_eq!(error(3.0, 2.0), 0.5);
        assert_eq!(error(0.25, 0.0), 0.25);
        assert_eq!(error(f64::NAN, 0.0), f64::INFINITY);
        assert_eq!(short(0.000_123_456), 0.000_123);
        assert_eq!(short(f64::INFINITY), "inf");
    }
}
