//! Conversions between fp32 and the 16-bit formats. They have no branches, so that a loop over lanes becomes vector
//! code.

/// The exact value of the fp16 number in the low half of `bits`.
#[inline(always)]
pub(crate) fn f16_to_f32(bits: u32) -> f32 {
    let magnitude = (bits & 0x7fff) << 13;
    // After the shift the exponent is too small by 112. The product corrects that, for subnormal numbers too.
    let scaled = f32::from_bits(magnitude) * f32::from_bits((254 - 15) << 23);
    let special = if magnitude >= 0x0f80_0000 { 0x7f80_0000 } else { 0 };
    f32::from_bits(scaled.to_bits() | special | (bits & 0x8000) << 16)
}

/// The nearest fp16 number, ties to even, in the low half of the result.
#[inline(always)]
pub(crate) fn f32_to_f16(value: f32) -> u32 {
    let bits = value.to_bits();
    let sign = (bits >> 16) & 0x8000;
    let magnitude = bits & 0x7fff_ffff;
    // Subnormal results: adding 0.5 rounds to multiples of 2^-24 and leaves them in the mantissa's low bits.
    let small = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0.5f32.to_bits());
    let normal = magnitude.wrapping_add(0xc800_0fff + ((magnitude >> 13) & 1)) >> 13;
    let finite = if magnitude < 0x3880_0000 { small } else { normal & 0xffff };
    let large = if magnitude > 0x7f80_0000 { 0x7e00 } else { 0x7c00 };
    sign | if magnitude >= 0x477f_f000 { large } else { finite }
}

/// The value rounded to fp16 towards zero, and so never to infinity.
#[inline(always)]
pub(crate) fn f32_to_f16_towards_zero(value: f32) -> u32 {
    let magnitude = value.to_bits() & 0x7fff_ffff;
    let rounded = f32_to_f16(value);
    if magnitude >= 0x7f80_0000 {
        return rounded;
    }
    let above = f16_to_f32(rounded & 0x7fff) > f32::from_bits(magnitude);
    if above { rounded - 1 } else { rounded }
}

/// An fp64 number rounded to fp16 directly, without an intermediate rounding to fp32.
#[inline(always)]
pub(crate) fn f64_to_f16(value: f64) -> u32 {
    // The first rounding is to odd, so that the second rounding still sees whether any bits were cut off.
    let nearest = value as f32;
    let exact = f64::from(nearest) == value || value.is_nan() || nearest.is_infinite();
    let bits = nearest.to_bits();
    let towards_zero = if f64::from(nearest).abs() > value.abs() { bits.wrapping_sub(1) } else { bits };
    f32_to_f16(f32::from_bits(if exact { bits } else { towards_zero | 1 }))
}

/// The number, or a zero of its sign if it is subnormal.
#[inline(always)]
pub(crate) fn flushed(value: f32) -> f32 {
    if value.is_subnormal() { 0.0_f32.copysign(value) } else { value }
}

/// The value of the fp16 number in the low half of `bits`, with subnormal numbers as zeros.
#[inline(always)]
pub(crate) fn flushed_f16_to_f32(bits: u32) -> f32 {
    f16_to_f32(if bits & 0x7c00 == 0 { bits & 0x8000 } else { bits })
}

/// The same for bfloat16.
#[inline(always)]
pub(crate) fn flushed_bf16_to_f32(bits: u32) -> f32 {
    flushed(bf16_to_f32(bits))
}

/// The exact value of the bfloat16 number in the low half of `bits`.
#[inline(always)]
pub(crate) fn bf16_to_f32(bits: u32) -> f32 {
    f32::from_bits(bits << 16)
}

/// The nearest bfloat16 number, ties to even, in the low half of the result.
#[inline(always)]
pub(crate) fn f32_to_bf16(value: f32) -> u32 {
    let bits = value.to_bits();
    let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
    if bits & 0x7fff_ffff > 0x7f80_0000 { (bits >> 16) | 0x40 } else { rounded }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_has_its_value_and_comes_back() {
        for bits in 0..=0xffffu32 {
            let expected = half::f16::from_bits(bits as u16);
            let value = f16_to_f32(bits);
            if expected.is_nan() {
                assert!(value.is_nan(), "{bits:#x}");
                continue;
            }
            assert_eq!(value.to_bits(), expected.to_f32().to_bits(), "{bits:#x}");
            assert_eq!(f32_to_f16(value), bits, "{bits:#x}");
            assert_eq!(f32_to_f16_towards_zero(value), bits, "{bits:#x}");
        }
    }

    #[test]
    fn rounding_agrees_with_the_half_crate() {
        let mut bits = 1u32;
        for _ in 0..2_000_000 {
            bits = bits.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            for value in [f32::from_bits(bits), f32::from_bits(bits & 0x8fff_ffff | 0x3000_0000)] {
                if value.is_nan() {
                    assert!(
                        f16_to_f32(f32_to_f16(value)).is_nan() && bf16_to_f32(f32_to_bf16(value)).is_nan()
                    );
                    continue;
                }
                assert_eq!(f32_to_f16(value), u32::from(half::f16::from_f32(value).to_bits()), "{value:e}");
                assert_eq!(f32_to_bf16(value), u32::from(half::bf16::from_f32(value).to_bits()), "{value:e}");
                assert_eq!(f64_to_f16(f64::from(value)), f32_to_f16(value), "{value:e}");
            }
        }
        // The value is a little more than half an ulp of fp16 above 1. An intermediate fp32 would be rounded down to
        // the tie, and then to even.
        let value = 1.0 + 2f64.powi(-11) + 2f64.powi(-40);
        assert_eq!(f64_to_f16(value), 0x3c01);
        assert_eq!(f32_to_f16_towards_zero(65535.0), 0x7bff);
    }
}
