//! VOP3P without the matrix instructions: two 16-bit numbers at once, dot products, mixed precision.

use super::float::{bf16_to_f32, f16_to_f32, f32_to_f16, f64_to_f16};
use super::table::{Row, handler, special_rows};
use super::vector::{dot_bytes, dot2, flushed_dot2};
use super::wave::{F32, Instruction, Lanes, Operand, Source, WAVE, Wave};

special_rows! {
    /// VOP3P without the matrix instructions.
    PACKED:
    0x00 v_pk_mad_i16 (Packed, Packed, Packed) -> Packed;
    0x01 v_pk_mul_lo_u16 (Packed, Packed) -> Packed;
    0x02 v_pk_add_i16 (Packed, Packed) -> Packed;
    0x03 v_pk_sub_i16 (Packed, Packed) -> Packed;
    0x04 v_pk_lshlrev_b16 (Packed, Packed) -> Packed;
    0x05 v_pk_lshrrev_b16 (Packed, Packed) -> Packed;
    0x06 v_pk_ashrrev_i16 (Packed, Packed) -> Packed;
    0x07 v_pk_max_i16 (Packed, Packed) -> Packed;
    0x08 v_pk_min_i16 (Packed, Packed) -> Packed;
    0x09 v_pk_mad_u16 (Packed, Packed, Packed) -> Packed;
    0x0a v_pk_add_u16 (Packed, Packed) -> Packed;
    0x0b v_pk_sub_u16 (Packed, Packed) -> Packed;
    0x0c v_pk_max_u16 (Packed, Packed) -> Packed;
    0x0d v_pk_min_u16 (Packed, Packed) -> Packed;
    0x0e v_pk_fma_f16 (Packed, Packed, Packed) -> Packed;
    0x0f v_pk_add_f16 (Packed, Packed) -> Packed;
    0x10 v_pk_mul_f16 (Packed, Packed) -> Packed;
    0x11 v_pk_min_f16 (Packed, Packed) -> Packed;
    0x12 v_pk_max_f16 (Packed, Packed) -> Packed;
    0x13 v_dot2_f32_f16 (Packed, Packed, B32) -> B32;
    0x16 v_dot4_i32_iu8 (B32, B32, B32) -> B32;
    0x17 v_dot4_u32_u8 (B32, B32, B32) -> B32;
    0x1a v_dot2_f32_bf16 (Packed, Packed, B32) -> B32;
    0x20 v_fma_mix_f32 (Mixed, Mixed, Mixed) -> B32;
    0x21 v_fma_mixlo_f16 (Mixed, Mixed, Mixed) -> B16;
    0x22 v_fma_mixhi_f16 (Mixed, Mixed, Mixed) -> B16;
}

special_rows! {
    /// The dot product of signed bytes of the families that have no v_dot4_i32_iu8.
    BYTES:
    0x16 v_dot4_i32_i8 (B32, B32, B32) -> B32;
}

/// For each lane, the half of a packed source for the low half of the result and the half for the high half, each in
/// the low 16 bits. If `float` is set, the sign modifiers apply.
#[inline(always)]
fn halves(wave: &Wave, source: &Source, float: bool) -> (Lanes, Lanes) {
    let mut space = Lanes::ZERO;
    let bits = wave.raw(source, &mut space);
    let (mut low, mut high) = (Lanes::ZERO, Lanes::ZERO);
    let (shift_low, shift_high) = (u32::from(source.high) * 16, u32::from(source.high_for_high) * 16);
    let flip_low = if float && source.negate { 0x8000 } else { 0 };
    let flip_high = if float && source.negate_high { 0x8000 } else { 0 };
    for lane in 0..WAVE {
        low.0[lane] = ((bits.0[lane] >> shift_low) & 0xffff) ^ flip_low;
        high.0[lane] = ((bits.0[lane] >> shift_high) & 0xffff) ^ flip_high;
    }
    (low, high)
}

/// Defines instructions that compute the same expression for both halves. The expression uses the low 16 bits of its
/// variables.
macro_rules! packed {
    ($float:literal: $($name:ident |$a:ident, $b:ident, $c:ident| $body:expr;)*) => {
        $(handler! { fn $name(wave, instruction) {
            let (low_a, high_a) = halves(wave, &instruction.sources[0], $float);
            let (low_b, high_b) = halves(wave, &instruction.sources[1], $float);
            let (low_c, high_c) = halves(wave, &instruction.sources[2], $float);
            let mut result = Lanes::ZERO;
            for lane in 0..WAVE {
                let low = {
                    let ($a, $b, $c) = (low_a.0[lane], low_b.0[lane], low_c.0[lane]);
                    $body
                };
                let high = {
                    let ($a, $b, $c) = (high_a.0[lane], high_b.0[lane], high_c.0[lane]);
                    $body
                };
                result.0[lane] = (low & 0xffff) | (high << 16);
            }
            if instruction.clamp && $float {
                for bits in &mut result.0 {
                    let clamp = |half: u32| f32_to_f16(f16_to_f32(half).max(0.0).min(1.0));
                    *bits = clamp(*bits & 0xffff) | clamp(*bits >> 16) << 16;
                }
            }
            wave.write(instruction.destination, &result);
        } })*
    };
}

#[inline(always)]
fn signed(bits: u32) -> i32 {
    i32::from(bits as u16 as i16)
}

packed! { false:
    v_pk_mad_i16 |a, b, c| a.wrapping_mul(b).wrapping_add(c);
    v_pk_mad_u16 |a, b, c| a.wrapping_mul(b).wrapping_add(c);
    v_pk_mul_lo_u16 |a, b, _c| a.wrapping_mul(b);
    v_pk_add_i16 |a, b, _c| a.wrapping_add(b);
    v_pk_add_u16 |a, b, _c| a.wrapping_add(b);
    v_pk_sub_i16 |a, b, _c| a.wrapping_sub(b);
    v_pk_sub_u16 |a, b, _c| a.wrapping_sub(b);
    v_pk_lshlrev_b16 |a, b, _c| b << (a & 15);
    v_pk_lshrrev_b16 |a, b, _c| b >> (a & 15);
    v_pk_ashrrev_i16 |a, b, _c| (signed(b) >> (a & 15)) as u32;
    v_pk_max_i16 |a, b, _c| signed(a).max(signed(b)) as u32;
    v_pk_min_i16 |a, b, _c| signed(a).min(signed(b)) as u32;
    v_pk_max_u16 |a, b, _c| a.max(b);
    v_pk_min_u16 |a, b, _c| a.min(b);
}

packed! { true:
    v_pk_fma_f16 |a, b, c| {
        f64_to_f16(f64::from(f16_to_f32(a)) * f64::from(f16_to_f32(b)) + f64::from(f16_to_f32(c)))
    };
    v_pk_add_f16 |a, b, _c| f32_to_f16(f16_to_f32(a) + f16_to_f32(b));
    v_pk_mul_f16 |a, b, _c| f32_to_f16(f16_to_f32(a) * f16_to_f32(b));
    v_pk_min_f16 |a, b, _c| f32_to_f16(f16_to_f32(a).min(f16_to_f32(b)));
    v_pk_max_f16 |a, b, _c| f32_to_f16(f16_to_f32(a).max(f16_to_f32(b)));
}

/// The third operand of a dot product, which is an fp32 number.
#[inline(always)]
fn addend(wave: &Wave, instruction: &Instruction) -> Lanes {
    let mut space = Lanes::ZERO;
    *wave.operand::<F32>(&instruction.sources[2], &mut space)
}

#[inline(always)]
fn dot2_of_pairs(wave: &mut Wave, instruction: &Instruction, dot: impl Fn(u32, u32, f32) -> f32) {
    let (low_a, high_a) = halves(wave, &instruction.sources[0], true);
    let (low_b, high_b) = halves(wave, &instruction.sources[1], true);
    let mut result = addend(wave, instruction);
    for lane in 0..WAVE {
        let (a, b) = (low_a.0[lane] | high_a.0[lane] << 16, low_b.0[lane] | high_b.0[lane] << 16);
        result.0[lane] = dot(a, b, f32::from_bits(result.0[lane])).to_bits();
    }
    wave.finish::<F32>(instruction, &mut result);
}

handler! { fn v_dot2_f32_f16(wave, instruction) { dot2_of_pairs(wave, instruction, dot2); } }
handler! { fn dot2_f32_f16_flushed(wave, instruction) { dot2_of_pairs(wave, instruction, flushed_dot2); } }

handler! { fn v_dot2_f32_bf16(wave, instruction) {
    let (low_a, high_a) = halves(wave, &instruction.sources[0], true);
    let (low_b, high_b) = halves(wave, &instruction.sources[1], true);
    let mut result = addend(wave, instruction);
    for lane in 0..WAVE {
        let low = bf16_to_f32(low_a.0[lane]).mul_add(bf16_to_f32(low_b.0[lane]), f32::from_bits(result.0[lane]));
        result.0[lane] = bf16_to_f32(high_a.0[lane]).mul_add(bf16_to_f32(high_b.0[lane]), low).to_bits();
    }
    wave.finish::<F32>(instruction, &mut result);
} }

/// The sum of four products of bytes, plus the third operand. `signed_a` and `signed_b` say which operands are signed.
#[inline(always)]
fn dot4(wave: &mut Wave, instruction: &Instruction, signed_a: bool, signed_b: bool) {
    let mut spaces = [Lanes::ZERO; 3];
    let [space_a, space_b, space_c] = &mut spaces;
    let a = wave.raw(&instruction.sources[0], space_a);
    let b = wave.raw(&instruction.sources[1], space_b);
    let c = wave.raw(&instruction.sources[2], space_c);
    let mut result = Lanes::ZERO;
    for lane in 0..WAVE {
        result.0[lane] = dot_bytes((a.0[lane], signed_a), (b.0[lane], signed_b), c.0[lane]);
    }
    wave.write(instruction.destination, &result);
}

handler! { fn v_dot4_i32_iu8(wave, instruction) {
    dot4(wave, instruction, instruction.sources[0].negate, instruction.sources[1].negate);
} }

handler! { fn v_dot4_i32_i8(wave, instruction) { dot4(wave, instruction, true, true); } }

handler! { fn v_dot4_u32_u8(wave, instruction) { dot4(wave, instruction, false, false); } }

/// An operand of a mixed-precision instruction. It is fp32, or if `high_for_high` is set, the fp16 half that `high`
/// selects. `negate_high` means the absolute value.
#[inline(always)]
fn mixed(wave: &Wave, source: &Source) -> [f32; WAVE] {
    let mut space = Lanes::ZERO;
    let bits = wave.raw(source, &mut space);
    let mut result = [0.0; WAVE];
    let shift = u32::from(source.high) * 16;
    for lane in 0..WAVE {
        let half = f16_to_f32((bits.0[lane] >> shift) & 0xffff);
        let value = if source.high_for_high { half } else { f32::from_bits(bits.0[lane]) };
        let value = if source.negate_high { value.abs() } else { value };
        result[lane] = if source.negate { -value } else { value };
    }
    result
}

#[inline(always)]
fn fma_mix(wave: &Wave, instruction: &Instruction) -> Lanes {
    let [a, b, c] = &instruction.sources;
    let (a, b, c) = (mixed(wave, a), mixed(wave, b), mixed(wave, c));
    let mut result = Lanes::ZERO;
    for lane in 0..WAVE {
        let sum = a[lane].mul_add(b[lane], c[lane]);
        result.0[lane] = if instruction.clamp { sum.max(0.0).min(1.0) } else { sum }.to_bits();
    }
    result
}

handler! { fn v_fma_mix_f32(wave, instruction) {
    let result = fma_mix(wave, instruction);
    wave.write(instruction.destination, &result);
} }

handler! { fn v_fma_mixlo_f16(wave, instruction) {
    let mut result = fma_mix(wave, instruction);
    for bits in &mut result.0 {
        *bits = f32_to_f16(f32::from_bits(*bits));
    }
    wave.write_half(instruction.destination, false, &result);
} }

handler! { fn v_fma_mixhi_f16(wave, instruction) {
    let mut result = fma_mix(wave, instruction);
    for bits in &mut result.0 {
        *bits = f32_to_f16(f32::from_bits(*bits));
    }
    wave.write_half(instruction.destination, true, &result);
} }
