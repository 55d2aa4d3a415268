//! VOP1, VOP2, VOP3: vector instructions of one, two or three operands that treat each lane by itself.

use super::float::{f16_to_f32, f32_to_f16_towards_zero, f64_to_f16, flushed, flushed_f16_to_f32};
use super::table::{Row, handler, lanes, rows};
use super::wave::{F16, F32, I16, I32, Instruction, Lane, Lanes, Operand, U16, U32, WAVE, Wave};

/// `value * 2^exponent` with a single rounding.
#[inline(always)]
fn ldexp(value: f32, exponent: i32) -> f32 {
    let exponent = i64::from(exponent.clamp(-600, 600));
    (f64::from(value) * f64::from_bits(((exponent + 1023) as u64) << 52)) as f32
}

/// The exponent of C's `frexp`, which puts the mantissa into 0.5..1; 0 for zero, infinities and NaNs.
#[inline(always)]
fn frexp_exponent(value: f32) -> i32 {
    let wide = f64::from(value).to_bits();
    let exponent = ((wide >> 52) & 0x7ff) as i32 - 1022;
    if value == 0.0 || !value.is_finite() { 0 } else { exponent }
}

/// The mantissa in 0.5..1 that belongs to [`frexp_exponent`].
#[inline(always)]
fn frexp_mantissa(value: f32) -> f32 {
    let wide = f64::from(value).to_bits();
    let mantissa = f64::from_bits((wide & !(0x7ff << 52)) | (1022 << 52)) as f32;
    if value == 0.0 || !value.is_finite() { value } else { mantissa }
}

#[inline(always)]
fn fract(value: f32) -> f32 {
    (value - value.floor()).min(f32::from_bits(0x3f7f_ffff))
}

#[inline(always)]
fn median(a: f32, b: f32, c: f32) -> f32 {
    a.max(b).min(a.min(b).max(c))
}

#[inline(always)]
fn fma16(a: f32, b: f32, c: f32) -> f32 {
    // The product of two fp16 numbers is exact in fp64.
    f16_to_f32(f64_to_f16(f64::from(a) * f64::from(b) + f64::from(c)))
}

#[inline(always)]
fn sign_extend24(bits: u32) -> i32 {
    (bits << 8) as i32 >> 8
}

/// `width` bits of a word from bit `offset` on. Only the low five bits of `offset` and `width` count, so a width of 32
/// means 0.
#[inline(always)]
fn bit_field(bits: u32, offset: u32, width: u32) -> u32 {
    let width = width & 31;
    (bits >> (offset & 31)) & ((1u32 << width) - 1)
}

#[inline(always)]
fn bit_field_signed(bits: u32, offset: u32, width: u32) -> i32 {
    let (offset, width) = (offset & 31, width & 31);
    let field = bit_field(bits, offset, width);
    let unused = 32 - width;
    if width == 0 { 0 } else { (field << unused) as i32 >> unused }
}

/// Each byte of the selector chooses a byte of the 64-bit word {a, b}. Selector values from 8 on mean signs and
/// constants.
#[inline(always)]
fn permute_bytes(a: u32, b: u32, selector: u32) -> u32 {
    let word = u64::from(a) << 32 | u64::from(b);
    let mut result = 0;
    for byte in 0..4 {
        let choice = (selector >> (8 * byte)) & 255;
        let sign = |bit: u32| if (word >> bit) & 1 == 1 { 255 } else { 0 };
        let value = match choice {
            0..=7 => (word >> (8 * choice)) as u32 & 255,
            8 => sign(15),
            9 => sign(31),
            10 => sign(47),
            11 => sign(63),
            12 => 0,
            _ => 255,
        };
        result |= value << (8 * byte);
    }
    result
}

/// The quotient of a division, corrected for infinities, NaNs and zeros, which the division's steps cannot handle.
#[inline(always)]
fn div_fixup(quotient: f32, denominator: f32, numerator: f32) -> f32 {
    let sign = (denominator.to_bits() ^ numerator.to_bits()) & 0x8000_0000;
    let signed = |magnitude: f32| f32::from_bits(magnitude.to_bits() | sign);
    let both_zero = numerator == 0.0 && denominator == 0.0;
    let both_infinite = numerator.is_infinite() && denominator.is_infinite();
    if numerator.is_nan() || denominator.is_nan() || both_zero || both_infinite {
        f32::NAN
    } else if denominator == 0.0 || numerator.is_infinite() {
        signed(f32::INFINITY)
    } else if denominator.is_infinite() || numerator == 0.0 {
        signed(0.0)
    } else if quotient.is_nan() {
        signed(f32::INFINITY)
    } else {
        signed(quotient.abs())
    }
}

rows! {
    /// The instructions of VOP1. In the VOP3 form their opcodes are greater by 0x180.
    ONE:
    0x01 v_mov_b32 (a: U32) -> U32 = a;
    0x05 v_cvt_f32_i32 (a: I32) -> F32 = a as f32;
    0x06 v_cvt_f32_u32 (a: U32) -> F32 = a as f32;
    0x07 v_cvt_u32_f32 (a: F32) -> U32 = a as u32;
    0x08 v_cvt_i32_f32 (a: F32) -> I32 = a as i32;
    0x0a v_cvt_f16_f32 (a: F32) -> F16 = a;
    0x0b v_cvt_f32_f16 (a: F16) -> F32 = a;
    0x0c v_cvt_nearest_i32_f32 (a: F32) -> I32 = (a + 0.5).floor() as i32;
    0x0d v_cvt_floor_i32_f32 (a: F32) -> I32 = a.floor() as i32;
    0x11 v_cvt_f32_ubyte0 (a: U32) -> F32 = (a & 255) as f32;
    0x12 v_cvt_f32_ubyte1 (a: U32) -> F32 = ((a >> 8) & 255) as f32;
    0x13 v_cvt_f32_ubyte2 (a: U32) -> F32 = ((a >> 16) & 255) as f32;
    0x14 v_cvt_f32_ubyte3 (a: U32) -> F32 = (a >> 24) as f32;
    0x1c v_mov_b16 (a: U16) -> U16 = a;
    0x20 v_fract_f32 (a: F32) -> F32 = fract(a);
    0x21 v_trunc_f32 (a: F32) -> F32 = a.trunc();
    0x22 v_ceil_f32 (a: F32) -> F32 = a.ceil();
    0x23 v_rndne_f32 (a: F32) -> F32 = a.round_ties_even();
    0x24 v_floor_f32 (a: F32) -> F32 = a.floor();
    // Of these five AMD's documents say that "denormals are flushed".
    0x25 v_exp_f32 (a: F32) -> F32 = flushed(flushed(a).exp2());
    0x27 v_log_f32 (a: F32) -> F32 = flushed(a).log2();
    0x2a v_rcp_f32 (a: F32) -> F32 = flushed(1.0 / flushed(a));
    0x2b v_rcp_iflag_f32 (a: F32) -> F32 = 1.0 / a;
    0x2e v_rsq_f32 (a: F32) -> F32 = 1.0 / flushed(a).sqrt();
    0x33 v_sqrt_f32 (a: F32) -> F32 = flushed(a).sqrt();
    0x35 v_sin_f32 (a: F32) -> F32 = (f64::from(a) * std::f64::consts::TAU).sin() as f32;
    0x36 v_cos_f32 (a: F32) -> F32 = (f64::from(a) * std::f64::consts::TAU).cos() as f32;
    0x37 v_not_b32 (a: U32) -> U32 = !a;
    0x38 v_bfrev_b32 (a: U32) -> U32 = a.reverse_bits();
    0x39 v_clz_i32_u32 (a: U32) -> I32 = if a == 0 { -1 } else { a.leading_zeros() as i32 };
    0x3a v_ctz_i32_b32 (a: U32) -> I32 = if a == 0 { -1 } else { a.trailing_zeros() as i32 };
    0x3b v_cls_i32 (a: I32) -> I32 = if a == 0 || a == -1 { -1 } else { (a ^ (a >> 31)).leading_zeros() as i32 };
    0x3f v_frexp_exp_i32_f32 (a: F32) -> I32 = frexp_exponent(a);
    0x40 v_frexp_mant_f32 (a: F32) -> F32 = frexp_mantissa(a);
    0x50 v_cvt_f16_u16 (a: U16) -> F16 = a as f32;
    0x51 v_cvt_f16_i16 (a: I16) -> F16 = a as f32;
    0x52 v_cvt_u16_f16 (a: F16) -> U16 = u32::from(a as u16);
    0x53 v_cvt_i16_f16 (a: F16) -> I16 = i32::from(a as i16);
    0x54 v_rcp_f16 (a: F16) -> F16 = 1.0 / a;
    0x55 v_sqrt_f16 (a: F16) -> F16 = a.sqrt();
    0x56 v_rsq_f16 (a: F16) -> F16 = 1.0 / a.sqrt();
    0x57 v_log_f16 (a: F16) -> F16 = a.log2();
    0x58 v_exp_f16 (a: F16) -> F16 = a.exp2();
    0x5b v_floor_f16 (a: F16) -> F16 = a.floor();
    0x5c v_ceil_f16 (a: F16) -> F16 = a.ceil();
    0x5d v_trunc_f16 (a: F16) -> F16 = a.trunc();
    0x5e v_rndne_f16 (a: F16) -> F16 = a.round_ties_even();
    0x5f v_fract_f16 (a: F16) -> F16 = fract(a).min(0.999_511_7);
    0x69 v_not_b16 (a: U16) -> U16 = !a;
    0x6a v_cvt_i32_i16 (a: I16) -> I32 = a;
    0x6b v_cvt_u32_u16 (a: U16) -> U32 = a;
}

rows! {
    /// The instructions of VOP2. In the VOP3 form their opcodes are greater by 0x100. A third operand is the
    /// destination's old value or a literal.
    TWO:
    0x03 v_add_f32 (a: F32, b: F32) -> F32 = a + b;
    0x04 v_sub_f32 (a: F32, b: F32) -> F32 = a - b;
    0x05 v_subrev_f32 (a: F32, b: F32) -> F32 = b - a;
    0x07 v_mul_dx9_zero_f32 (a: F32, b: F32) -> F32 = if a == 0.0 || b == 0.0 { 0.0 } else { a * b };
    0x08 v_mul_f32 (a: F32, b: F32) -> F32 = a * b;
    0x09 v_mul_i32_i24 (a: U32, b: U32) -> I32 = sign_extend24(a).wrapping_mul(sign_extend24(b));
    0x0a v_mul_hi_i32_i24 (a: U32, b: U32) -> I32 = ((i64::from(sign_extend24(a)) * i64::from(sign_extend24(b))) >> 32) as i32;
    0x0b v_mul_u32_u24 (a: U32, b: U32) -> U32 = (a & 0xff_ffff).wrapping_mul(b & 0xff_ffff);
    0x0c v_mul_hi_u32_u24 (a: U32, b: U32) -> U32 = ((u64::from(a & 0xff_ffff) * u64::from(b & 0xff_ffff)) >> 32) as u32;
    0x0f v_min_f32 (a: F32, b: F32) -> F32 = a.min(b);
    0x10 v_max_f32 (a: F32, b: F32) -> F32 = a.max(b);
    0x11 v_min_i32 (a: I32, b: I32) -> I32 = a.min(b);
    0x12 v_max_i32 (a: I32, b: I32) -> I32 = a.max(b);
    0x13 v_min_u32 (a: U32, b: U32) -> U32 = a.min(b);
    0x14 v_max_u32 (a: U32, b: U32) -> U32 = a.max(b);
    0x18 v_lshlrev_b32 (a: U32, b: U32) -> U32 = b << (a & 31);
    0x19 v_lshrrev_b32 (a: U32, b: U32) -> U32 = b >> (a & 31);
    0x1a v_ashrrev_i32 (a: U32, b: I32) -> I32 = b >> (a & 31);
    0x1b v_and_b32 (a: U32, b: U32) -> U32 = a & b;
    0x1c v_or_b32 (a: U32, b: U32) -> U32 = a | b;
    0x1d v_xor_b32 (a: U32, b: U32) -> U32 = a ^ b;
    0x1e v_xnor_b32 (a: U32, b: U32) -> U32 = !(a ^ b);
    0x25 v_add_nc_u32 (a: U32, b: U32) -> U32 = a.wrapping_add(b);
    0x26 v_sub_nc_u32 (a: U32, b: U32) -> U32 = a.wrapping_sub(b);
    0x27 v_subrev_nc_u32 (a: U32, b: U32) -> U32 = b.wrapping_sub(a);
    0x2b v_fmac_f32 (a: F32, b: F32, c: F32) -> F32 = a.mul_add(b, c);
    0x2c v_fmamk_f32 (a: F32, b: F32, c: F32) -> F32 = a.mul_add(b, c);
    0x2d v_fmaak_f32 (a: F32, b: F32, c: F32) -> F32 = a.mul_add(b, c);
    0x2f v_cvt_pk_rtz_f16_f32 (a: F32, b: F32) -> U32 = f32_to_f16_towards_zero(a) | f32_to_f16_towards_zero(b) << 16;
    0x32 v_add_f16 (a: F16, b: F16) -> F16 = a + b;
    0x33 v_sub_f16 (a: F16, b: F16) -> F16 = a - b;
    0x34 v_subrev_f16 (a: F16, b: F16) -> F16 = b - a;
    0x35 v_mul_f16 (a: F16, b: F16) -> F16 = a * b;
    0x36 v_fmac_f16 (a: F16, b: F16, c: F16) -> F16 = fma16(a, b, c);
    0x37 v_fmamk_f16 (a: F16, b: F16, c: F16) -> F16 = fma16(a, b, c);
    0x38 v_fmaak_f16 (a: F16, b: F16, c: F16) -> F16 = fma16(a, b, c);
    0x39 v_max_f16 (a: F16, b: F16) -> F16 = a.max(b);
    0x3a v_min_f16 (a: F16, b: F16) -> F16 = a.min(b);
    0x3b v_ldexp_f16 (a: F16, b: I16) -> F16 = ldexp(a, b);
}

rows! {
    /// Instructions that exist only in VOP3.
    THREE:
    0x20a v_mad_i32_i24 (a: U32, b: U32, c: I32) -> I32 = sign_extend24(a).wrapping_mul(sign_extend24(b)).wrapping_add(c);
    0x20b v_mad_u32_u24 (a: U32, b: U32, c: U32) -> U32 = (a & 0xff_ffff).wrapping_mul(b & 0xff_ffff).wrapping_add(c);
    0x210 v_bfe_u32 (a: U32, b: U32, c: U32) -> U32 = bit_field(a, b, c);
    0x211 v_bfe_i32 (a: U32, b: U32, c: U32) -> I32 = bit_field_signed(a, b, c);
    0x212 v_bfi_b32 (a: U32, b: U32, c: U32) -> U32 = (a & b) | (!a & c);
    0x213 v_fma_f32 (a: F32, b: F32, c: F32) -> F32 = a.mul_add(b, c);
    0x216 v_alignbit_b32 (a: U32, b: U32, c: U32) -> U32 = ((u64::from(a) << 32 | u64::from(b)) >> (c & 31)) as u32;
    0x217 v_alignbyte_b32 (a: U32, b: U32, c: U32) -> U32 = ((u64::from(a) << 32 | u64::from(b)) >> (8 * (c & 3))) as u32;
    0x219 v_min3_f32 (a: F32, b: F32, c: F32) -> F32 = a.min(b).min(c);
    0x21a v_min3_i32 (a: I32, b: I32, c: I32) -> I32 = a.min(b).min(c);
    0x21b v_min3_u32 (a: U32, b: U32, c: U32) -> U32 = a.min(b).min(c);
    0x21c v_max3_f32 (a: F32, b: F32, c: F32) -> F32 = a.max(b).max(c);
    0x21d v_max3_i32 (a: I32, b: I32, c: I32) -> I32 = a.max(b).max(c);
    0x21e v_max3_u32 (a: U32, b: U32, c: U32) -> U32 = a.max(b).max(c);
    0x21f v_med3_f32 (a: F32, b: F32, c: F32) -> F32 = median(a, b, c);
    0x220 v_med3_i32 (a: I32, b: I32, c: I32) -> I32 = a.max(b).min(a.min(b).max(c));
    0x221 v_med3_u32 (a: U32, b: U32, c: U32) -> U32 = a.max(b).min(a.min(b).max(c));
    0x225 v_sad_u32 (a: U32, b: U32, c: U32) -> U32 = a.abs_diff(b).wrapping_add(c);
    0x227 v_div_fixup_f32 (a: F32, b: F32, c: F32) -> F32 = div_fixup(a, b, c);
    0x240 v_xor3_b32 (a: U32, b: U32, c: U32) -> U32 = a ^ b ^ c;
    0x241 v_mad_u16 (a: U16, b: U16, c: U16) -> U16 = a.wrapping_mul(b).wrapping_add(c);
    0x244 v_perm_b32 (a: U32, b: U32, c: U32) -> U32 = permute_bytes(a, b, c);
    0x245 v_xad_u32 (a: U32, b: U32, c: U32) -> U32 = (a ^ b).wrapping_add(c);
    0x246 v_lshl_add_u32 (a: U32, b: U32, c: U32) -> U32 = (a << (b & 31)).wrapping_add(c);
    0x247 v_add_lshl_u32 (a: U32, b: U32, c: U32) -> U32 = a.wrapping_add(b) << (c & 31);
    0x248 v_fma_f16 (a: F16, b: F16, c: F16) -> F16 = fma16(a, b, c);
    0x249 v_min3_f16 (a: F16, b: F16, c: F16) -> F16 = a.min(b).min(c);
    0x24a v_min3_i16 (a: I16, b: I16, c: I16) -> I16 = a.min(b).min(c);
    0x24b v_min3_u16 (a: U16, b: U16, c: U16) -> U16 = a.min(b).min(c);
    0x24c v_max3_f16 (a: F16, b: F16, c: F16) -> F16 = a.max(b).max(c);
    0x24d v_max3_i16 (a: I16, b: I16, c: I16) -> I16 = a.max(b).max(c);
    0x24e v_max3_u16 (a: U16, b: U16, c: U16) -> U16 = a.max(b).max(c);
    0x24f v_med3_f16 (a: F16, b: F16, c: F16) -> F16 = median(a, b, c);
    0x250 v_med3_i16 (a: I16, b: I16, c: I16) -> I16 = a.max(b).min(a.min(b).max(c));
    0x251 v_med3_u16 (a: U16, b: U16, c: U16) -> U16 = a.max(b).min(a.min(b).max(c));
    0x253 v_mad_i16 (a: I16, b: I16, c: I16) -> I16 = a.wrapping_mul(b).wrapping_add(c);
    0x255 v_add3_u32 (a: U32, b: U32, c: U32) -> U32 = a.wrapping_add(b).wrapping_add(c);
    0x256 v_lshl_or_b32 (a: U32, b: U32, c: U32) -> U32 = (a << (b & 31)) | c;
    0x257 v_and_or_b32 (a: U32, b: U32, c: U32) -> U32 = (a & b) | c;
    0x258 v_or3_b32 (a: U32, b: U32, c: U32) -> U32 = a | b | c;
    0x259 v_mad_u32_u16 (a: U16, b: U16, c: U32) -> U32 = a.wrapping_mul(b).wrapping_add(c);
    0x25a v_mad_i32_i16 (a: I16, b: I16, c: I32) -> I32 = a.wrapping_mul(b).wrapping_add(c);
    0x25e v_maxmin_f32 (a: F32, b: F32, c: F32) -> F32 = a.max(b).min(c);
    0x25f v_minmax_f32 (a: F32, b: F32, c: F32) -> F32 = a.min(b).max(c);
    0x260 v_maxmin_f16 (a: F16, b: F16, c: F16) -> F16 = a.max(b).min(c);
    0x261 v_minmax_f16 (a: F16, b: F16, c: F16) -> F16 = a.min(b).max(c);
    0x262 v_maxmin_u32 (a: U32, b: U32, c: U32) -> U32 = a.max(b).min(c);
    0x263 v_minmax_u32 (a: U32, b: U32, c: U32) -> U32 = a.min(b).max(c);
    0x264 v_maxmin_i32 (a: I32, b: I32, c: I32) -> I32 = a.max(b).min(c);
    0x265 v_minmax_i32 (a: I32, b: I32, c: I32) -> I32 = a.min(b).max(c);
    0x303 v_add_nc_u16 (a: U16, b: U16) -> U16 = a.wrapping_add(b);
    0x304 v_sub_nc_u16 (a: U16, b: U16) -> U16 = a.wrapping_sub(b);
    0x305 v_mul_lo_u16 (a: U16, b: U16) -> U16 = a.wrapping_mul(b);
    0x309 v_max_u16 (a: U16, b: U16) -> U16 = a.max(b);
    0x30a v_max_i16 (a: I16, b: I16) -> I16 = a.max(b);
    0x30b v_min_u16 (a: U16, b: U16) -> U16 = a.min(b);
    0x30c v_min_i16 (a: I16, b: I16) -> I16 = a.min(b);
    0x30d v_add_nc_i16 (a: I16, b: I16) -> I16 = a.wrapping_add(b);
    0x30e v_sub_nc_i16 (a: I16, b: I16) -> I16 = a.wrapping_sub(b);
    0x311 v_pack_b32_f16 (a: U16F, b: U16F) -> U32 = a | b << 16;
    0x31c v_ldexp_f32 (a: F32, b: I32) -> F32 = ldexp(a, b);
    0x31d v_bfm_b32 (a: U32, b: U32) -> U32 = ((1u32 << (a & 31)) - 1) << (b & 31);
    0x31e v_bcnt_u32_b32 (a: U32, b: U32) -> U32 = a.count_ones().wrapping_add(b);
    0x323 v_cvt_pk_u16_u32 (a: U32, b: U32) -> U32 = a.min(0xffff) | b.min(0xffff) << 16;
    0x324 v_cvt_pk_i16_i32 (a: I32, b: I32) -> U32 = a.clamp(-32768, 32767) as u32 & 0xffff | (b.clamp(-32768, 32767) as u32) << 16;
    0x325 v_sub_nc_i32 (a: I32, b: I32) -> I32 = a.wrapping_sub(b);
    0x326 v_add_nc_i32 (a: I32, b: I32) -> I32 = a.wrapping_add(b);
    0x32c v_mul_lo_u32 (a: U32, b: U32) -> U32 = a.wrapping_mul(b);
    0x32d v_mul_hi_u32 (a: U32, b: U32) -> U32 = ((u64::from(a) * u64::from(b)) >> 32) as u32;
    0x32e v_mul_hi_i32 (a: I32, b: I32) -> I32 = ((i64::from(a) * i64::from(b)) >> 32) as i32;
    0x338 v_lshlrev_b16 (a: U16, b: U16) -> U16 = b << (a & 15);
    0x339 v_lshrrev_b16 (a: U16, b: U16) -> U16 = b >> (a & 15);
    0x33a v_ashrrev_i16 (a: U16, b: I16) -> I16 = b >> (a & 15);
    0x362 v_and_b16 (a: U16, b: U16) -> U16 = a & b;
    0x363 v_or_b16 (a: U16, b: U16) -> U16 = a | b;
    0x364 v_xor_b16 (a: U16, b: U16) -> U16 = a ^ b;
}

/// fp16 bits that an instruction moves without computing with them. Sign modifiers still apply.
pub(crate) struct U16F;

impl Lane for U16F {
    const OPERAND: Operand = Operand::B16;
    type Value = u32;
    const HALF: bool = true;
    const SIGN: u32 = 0x8000;
    #[inline(always)]
    fn load(bits: u32) -> u32 {
        bits & 0xffff
    }
    #[inline(always)]
    fn save(value: u32) -> u32 {
        value & 0xffff
    }
}

lanes! { v_dual_add_nc_u32 (a: U32, b: U32) -> U32 = a.wrapping_add(b) }
lanes! { v_dot2acc_f32_f16 (a: U32, b: U32, c: F32) -> F32 = dot2(a, b, c) }

/// A byte of a word, signed or unsigned.
#[inline(always)]
pub(crate) fn byte(word: u32, number: usize, signed: bool) -> i32 {
    let bits = (word >> (8 * number)) as u8;
    if signed { i32::from(bits as i8) } else { i32::from(bits) }
}

/// The sum of four products of bytes, plus `c`. The flags say whether the bytes of a word are signed.
#[inline(always)]
pub(crate) fn dot_bytes((a, signed_a): (u32, bool), (b, signed_b): (u32, bool), c: u32) -> u32 {
    let products = (0..4).map(|number| byte(a, number, signed_a) * byte(b, number, signed_b));
    products.fold(c as i32, i32::wrapping_add) as u32
}

/// VOP2's dot product of two pairs of fp16 numbers. Its encoding has no operand selectors.
pub(crate) const DOT: &[Row] = &[Row {
    opcode: 0x02,
    name: "v_dot2acc_f32_f16",
    handler: v_dot2acc_f32_f16,
    operands: &[Operand::Packed, Operand::Packed, Operand::B32],
    result: Operand::B32,
    float: true,
}];

lanes! { dot2acc_f32_f16_flushed (a: U32, b: U32, c: F32) -> F32 = flushed_dot2(a, b, c) }

/// The same on gfx90a.
pub(crate) const DOT_FLUSHED: &[Row] = &[Row {
    opcode: 0x37,
    name: "dot2acc_f32_f16_flushed",
    handler: dot2acc_f32_f16_flushed,
    operands: &[Operand::Packed, Operand::Packed, Operand::B32],
    result: Operand::B32,
    float: true,
}];

lanes! { v_dot4acc_i32_i8 (a: U32, b: U32, c: U32) -> U32 = dot_bytes((a, true), (b, true), c) }

/// The same for four signed bytes, on families other than gfx11.
pub(crate) const DOT_BYTES: &[Row] = &[Row {
    opcode: 0x0d,
    name: "v_dot4acc_i32_i8",
    handler: v_dot4acc_i32_i8,
    operands: &[Operand::B32; 3],
    result: Operand::B32,
    float: false,
}];

/// The dot product of two pairs of fp16 numbers, plus an fp32 number.
#[inline(always)]
pub(crate) fn dot2(a: u32, b: u32, c: f32) -> f32 {
    let low = f16_to_f32(a & 0xffff).mul_add(f16_to_f32(b & 0xffff), c);
    f16_to_f32(a >> 16).mul_add(f16_to_f32(b >> 16), low)
}

/// The same with subnormal numbers as zeros, as gfx90a takes and gives them (matrix_gfx9.rs).
#[inline(always)]
pub(crate) fn flushed_dot2(a: u32, b: u32, c: f32) -> f32 {
    let low = flushed_f16_to_f32(a & 0xffff).mul_add(flushed_f16_to_f32(b & 0xffff), flushed(c));
    flushed(flushed_f16_to_f32(a >> 16).mul_add(flushed_f16_to_f32(b >> 16), low))
}
