//! Vector comparisons (VOPC). They write one bit per lane to a scalar register or to EXEC.

use super::table::{Row, handler};
use super::wave::{
    EXEC, F16, F32, I16, I32, Instruction, Kind, Lane, Lanes, Operand, REGISTER_MASK, Source, U16, U32, WAVE,
    Wave,
};

macro_rules! comparisons {
    ($table:ident: $($opcode:literal $name:ident ($type:ty) |$a:ident, $b:ident| $body:expr;)*) => {
        /// The VOPC instructions on 16-bit and 32-bit numbers. The opcodes of the forms that write EXEC are greater by
        /// 0x80. VOP3 uses the same opcodes.
        pub(crate) const $table: &[Row] = &[$(Row {
            opcode: $opcode,
            name: stringify!($name),
            handler: $name,
            operands: &[<$type as Lane>::OPERAND, <$type as Lane>::OPERAND],
            result: Operand::B32,
            float: false,
        }),*];
        $(handler! { fn $name(wave, instruction) {
            let (mut space_a, mut space_b) = (Lanes::ZERO, Lanes::ZERO);
            let a = wave.operand::<$type>(&instruction.sources[0], &mut space_a);
            let b = wave.operand::<$type>(&instruction.sources[1], &mut space_b);
            let mut bits = Lanes::ZERO;
            for lane in 0..WAVE {
                let $a = <$type as Lane>::load(a.0[lane]);
                let $b = <$type as Lane>::load(b.0[lane]);
                bits.0[lane] = u32::from($body) << lane;
            }
            let mask = bits.0.iter().fold(0, |mask, bit| mask | bit);
            wave.write_mask(instruction.scalar, mask);
        } })*
    };
}

// An "n" before a comparison's name negates it, so that it is true for NaNs.
#[rustfmt::skip]
comparisons! {
    COMPARE:
    0x01 v_cmp_lt_f16 (F16) |a, b| a < b;
    0x02 v_cmp_eq_f16 (F16) |a, b| a == b;
    0x03 v_cmp_le_f16 (F16) |a, b| a <= b;
    0x04 v_cmp_gt_f16 (F16) |a, b| a > b;
    0x05 v_cmp_lg_f16 (F16) |a, b| a < b || a > b;
    0x06 v_cmp_ge_f16 (F16) |a, b| a >= b;
    0x07 v_cmp_o_f16 (F16) |a, b| !a.is_nan() && !b.is_nan();
    0x08 v_cmp_u_f16 (F16) |a, b| a.is_nan() || b.is_nan();
    0x09 v_cmp_nge_f16 (F16) |a, b| !(a >= b);
    0x0a v_cmp_nlg_f16 (F16) |a, b| !(a < b || a > b);
    0x0b v_cmp_ngt_f16 (F16) |a, b| !(a > b);
    0x0c v_cmp_nle_f16 (F16) |a, b| !(a <= b);
    0x0d v_cmp_neq_f16 (F16) |a, b| a != b;
    0x0e v_cmp_nlt_f16 (F16) |a, b| !(a < b);
    0x11 v_cmp_lt_f32 (F32) |a, b| a < b;
    0x12 v_cmp_eq_f32 (F32) |a, b| a == b;
    0x13 v_cmp_le_f32 (F32) |a, b| a <= b;
    0x14 v_cmp_gt_f32 (F32) |a, b| a > b;
    0x15 v_cmp_lg_f32 (F32) |a, b| a < b || a > b;
    0x16 v_cmp_ge_f32 (F32) |a, b| a >= b;
    0x17 v_cmp_o_f32 (F32) |a, b| !a.is_nan() && !b.is_nan();
    0x18 v_cmp_u_f32 (F32) |a, b| a.is_nan() || b.is_nan();
    0x19 v_cmp_nge_f32 (F32) |a, b| !(a >= b);
    0x1a v_cmp_nlg_f32 (F32) |a, b| !(a < b || a > b);
    0x1b v_cmp_ngt_f32 (F32) |a, b| !(a > b);
    0x1c v_cmp_nle_f32 (F32) |a, b| !(a <= b);
    0x1d v_cmp_neq_f32 (F32) |a, b| a != b;
    0x1e v_cmp_nlt_f32 (F32) |a, b| !(a < b);
    0x31 v_cmp_lt_i16 (I16) |a, b| a < b;
    0x32 v_cmp_eq_i16 (I16) |a, b| a == b;
    0x33 v_cmp_le_i16 (I16) |a, b| a <= b;
    0x34 v_cmp_gt_i16 (I16) |a, b| a > b;
    0x35 v_cmp_ne_i16 (I16) |a, b| a != b;
    0x36 v_cmp_ge_i16 (I16) |a, b| a >= b;
    0x39 v_cmp_lt_u16 (U16) |a, b| a < b;
    0x3a v_cmp_eq_u16 (U16) |a, b| a == b;
    0x3b v_cmp_le_u16 (U16) |a, b| a <= b;
    0x3c v_cmp_gt_u16 (U16) |a, b| a > b;
    0x3d v_cmp_ne_u16 (U16) |a, b| a != b;
    0x3e v_cmp_ge_u16 (U16) |a, b| a >= b;
    0x41 v_cmp_lt_i32 (I32) |a, b| a < b;
    0x42 v_cmp_eq_i32 (I32) |a, b| a == b;
    0x43 v_cmp_le_i32 (I32) |a, b| a <= b;
    0x44 v_cmp_gt_i32 (I32) |a, b| a > b;
    0x45 v_cmp_ne_i32 (I32) |a, b| a != b;
    0x46 v_cmp_ge_i32 (I32) |a, b| a >= b;
    0x49 v_cmp_lt_u32 (U32) |a, b| a < b;
    0x4a v_cmp_eq_u32 (U32) |a, b| a == b;
    0x4b v_cmp_le_u32 (U32) |a, b| a <= b;
    0x4c v_cmp_gt_u32 (U32) |a, b| a > b;
    0x4d v_cmp_ne_u32 (U32) |a, b| a != b;
    0x4e v_cmp_ge_u32 (U32) |a, b| a >= b;
}

macro_rules! wide_comparisons {
    ($table:ident: $($opcode:literal $name:ident ($type:ty) |$a:ident, $b:ident| $body:expr;)*) => {
        /// The VOPC instructions on 64-bit integers.
        pub(crate) const $table: &[Row] = &[$(Row {
            opcode: $opcode,
            name: stringify!($name),
            handler: $name,
            operands: &[Operand::I64, Operand::I64],
            result: Operand::B32,
            float: false,
        }),*];
        $(handler! { fn $name(wave, instruction) {
            let (a, b) = (wide(wave, &instruction.sources[0]), wide(wave, &instruction.sources[1]));
            let mut mask = 0;
            for lane in 0..WAVE {
                let ($a, $b) = (a[lane] as $type, b[lane] as $type);
                mask |= u32::from($body) << lane;
            }
            wave.write_mask(instruction.scalar, mask);
        } })*
    };
}

/// The value of a 64-bit source in every lane.
#[inline(always)]
pub(crate) fn wide(wave: &Wave, source: &Source) -> [u64; WAVE] {
    let mut result = [0; WAVE];
    if source.kind == Kind::Vector {
        let low = &wave.vector[usize::from(source.index) & REGISTER_MASK];
        let high = &wave.vector[usize::from(source.index + 1) & REGISTER_MASK];
        for lane in 0..WAVE {
            result[lane] = u64::from(low.0[lane]) | u64::from(high.0[lane]) << 32;
        }
    } else {
        result.fill(wave.uniform64(source));
    }
    result
}

wide_comparisons! {
    COMPARE_WIDE:
    0x51 v_cmp_lt_i64 (i64) |a, b| a < b;
    0x52 v_cmp_eq_i64 (i64) |a, b| a == b;
    0x53 v_cmp_le_i64 (i64) |a, b| a <= b;
    0x54 v_cmp_gt_i64 (i64) |a, b| a > b;
    0x55 v_cmp_ne_i64 (i64) |a, b| a != b;
    0x56 v_cmp_ge_i64 (i64) |a, b| a >= b;
    0x59 v_cmp_lt_u64 (u64) |a, b| a < b;
    0x5a v_cmp_eq_u64 (u64) |a, b| a == b;
    0x5b v_cmp_le_u64 (u64) |a, b| a <= b;
    0x5c v_cmp_gt_u64 (u64) |a, b| a > b;
    0x5d v_cmp_ne_u64 (u64) |a, b| a != b;
    0x5e v_cmp_ge_u64 (u64) |a, b| a >= b;
}

/// The class of a float as a bit of the mask of V_CMP_CLASS, from bit 0 (signalling NaN) to bit 9 (positive infinity).
/// The arguments describe the float's sign, exponent and mantissa.
fn class(negative: bool, exponent_zero: bool, exponent_full: bool, mantissa: u32, quiet_bit: u32) -> u32 {
    match (exponent_full, exponent_zero, mantissa == 0, negative) {
        (true, _, false, _) => 1 << u32::from(mantissa & quiet_bit != 0),
        (true, _, true, true) => 1 << 2,
        (false, false, _, true) => 1 << 3,
        (false, true, false, true) => 1 << 4,
        (false, true, true, true) => 1 << 5,
        (false, true, true, false) => 1 << 6,
        (false, true, false, false) => 1 << 7,
        (false, false, _, false) => 1 << 8,
        (true, _, true, false) => 1 << 9,
    }
}

handler! {
    /// Tests for each lane whether the float has one of the classes whose bits the second operand sets.
    fn v_cmp_class_f32(wave, instruction) {
        let (mut space_a, mut space_b) = (Lanes::ZERO, Lanes::ZERO);
        let a = wave.operand::<F32>(&instruction.sources[0], &mut space_a);
        let b = wave.raw(&instruction.sources[1], &mut space_b);
        let mut mask = 0;
        for lane in 0..WAVE {
            let bits = a.0[lane];
            let exponent = (bits >> 23) & 255;
            let found = class(bits >> 31 == 1, exponent == 0, exponent == 255, bits & 0x7f_ffff, 1 << 22);
            mask |= u32::from(found & b.0[lane] != 0) << lane;
        }
        wave.write_mask(instruction.scalar, mask);
    }
}

handler! {
    /// The same test for fp16.
    fn v_cmp_class_f16(wave, instruction) {
        let (mut space_a, mut space_b) = (Lanes::ZERO, Lanes::ZERO);
        let a = wave.operand::<F16>(&instruction.sources[0], &mut space_a);
        let b = wave.raw(&instruction.sources[1], &mut space_b);
        let mut mask = 0;
        for lane in 0..WAVE {
            let bits = a.0[lane] & 0xffff;
            let exponent = (bits >> 10) & 31;
            let found = class(bits >> 15 == 1, exponent == 0, exponent == 31, bits & 0x3ff, 1 << 9);
            mask |= u32::from(found & b.0[lane] != 0) << lane;
        }
        wave.write_mask(instruction.scalar, mask);
    }
}

/// The V_CMP_CLASS instructions, whose second operand is a mask of classes.
pub(crate) const CLASS: &[Row] = &[
    Row {
        opcode: 0x7d,
        name: "v_cmp_class_f16",
        handler: v_cmp_class_f16,
        operands: &[Operand::B16, Operand::B32],
        result: Operand::B32,
        float: false,
    },
    Row {
        opcode: 0x7e,
        name: "v_cmp_class_f32",
        handler: v_cmp_class_f32,
        operands: &[Operand::B32, Operand::B32],
        result: Operand::B32,
        float: false,
    },
];

/// The scalar register that receives the result in the forms that write EXEC.
pub(crate) const EXEC_RESULT: u8 = EXEC;
