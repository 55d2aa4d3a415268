//! Scalar instructions: arithmetic on scalar registers, branches, and the state of the wave.

use super::float::{f16_to_f32, f32_to_f16, f32_to_f16_towards_zero};
use super::table::{Row, handler};
use super::wave::{EXEC, Instruction, Operand, Stop, VCC, Wave};

/// A result, and the new value of the scalar condition code if the instruction changes it.
pub(super) struct Out<T>(pub(super) T, pub(super) Option<bool>);

/// A result that does not change the condition code.
pub(super) fn keep<T>(value: T) -> Out<T> {
    Out(value, None)
}

/// A result that sets the condition code to whether the result is not zero.
pub(super) fn test<T: PartialEq + Default + Copy>(value: T) -> Out<T> {
    Out(value, Some(value != T::default()))
}

/// A type of a scalar instruction's operands and results.
pub(super) trait Scalar: Sized {
    const OPERAND: Operand;
    fn read(wave: &Wave, instruction: &Instruction, number: usize) -> Self;
    fn write(self, wave: &mut Wave, index: u8);
}

macro_rules! scalar_type {
    ($type:ty, $operand:ident, $read:ident, $write:ident) => {
        impl Scalar for $type {
            const OPERAND: Operand = Operand::$operand;
            #[inline(always)]
            fn read(wave: &Wave, instruction: &Instruction, number: usize) -> Self {
                wave.$read(&instruction.sources[number]) as $type
            }
            #[inline(always)]
            fn write(self, wave: &mut Wave, index: u8) {
                wave.$write(index, self as _);
            }
        }
    };
}

scalar_type!(u32, B32, uniform, set_scalar);
scalar_type!(i32, B32, uniform, set_scalar);
scalar_type!(u64, B64, uniform64, set_scalar64);
scalar_type!(i64, I64, uniform64, set_scalar64);

impl Scalar for f32 {
    const OPERAND: Operand = Operand::B32;
    #[inline(always)]
    fn read(wave: &Wave, instruction: &Instruction, number: usize) -> Self {
        Self::from_bits(wave.uniform(&instruction.sources[number]))
    }
    #[inline(always)]
    fn write(self, wave: &mut Wave, index: u8) {
        wave.set_scalar(index, self.to_bits());
    }
}

/// An fp16 number in the low half of a register. Computations are in fp32.
struct Half(f32);

impl Scalar for Half {
    const OPERAND: Operand = Operand::B16;
    #[inline(always)]
    fn read(wave: &Wave, instruction: &Instruction, number: usize) -> Self {
        Self(f16_to_f32(wave.uniform(&instruction.sources[number]) & 0xffff))
    }
    #[inline(always)]
    fn write(self, wave: &mut Wave, index: u8) {
        wave.set_scalar(index, f32_to_f16(self.0));
    }
}

/// Defines a table. A row has an opcode, a name, operands with their types and source numbers, the result's type, and
/// an expression that returns an `Out`. The expression can read the condition code from `wave`.
macro_rules! scalars {
    ($(#[$attribute:meta])* $table:ident($wave:ident, $instruction:ident): $($opcode:literal $name:ident ($($argument:ident: $type:ty = $number:literal),*) -> $result:ty = $body:expr;)*) => {
        $(#[$attribute])*
        pub(crate) const $table: &[Row] = &[$(Row {
            opcode: $opcode,
            name: stringify!($name),
            handler: $name,
            operands: &[$(<$type as Scalar>::OPERAND),*],
            result: <$result as Scalar>::OPERAND,
            float: false,
        }),*];
        $(handler! { fn $name($wave, $instruction) {
            $(let $argument = <$type as Scalar>::read($wave, $instruction, $number);)*
            let out: Out<$result> = $body;
            out.0.write($wave, $instruction.scalar);
            if let Some(code) = out.1 {
                $wave.scc = code;
            }
        } })*
    };
}

pub(super) use scalars;

scalars! {
    /// The instructions of SOP2.
    BINARY(wave, instruction):
    0x00 s_add_u32 (a: u32 = 0, b: u32 = 1) -> u32 = Out(a.wrapping_add(b), Some(a.checked_add(b).is_none()));
    0x01 s_sub_u32 (a: u32 = 0, b: u32 = 1) -> u32 = Out(a.wrapping_sub(b), Some(b > a));
    0x02 s_add_i32 (a: i32 = 0, b: i32 = 1) -> i32 = Out(a.wrapping_add(b), Some(a.checked_add(b).is_none()));
    0x03 s_sub_i32 (a: i32 = 0, b: i32 = 1) -> i32 = Out(a.wrapping_sub(b), Some(a.checked_sub(b).is_none()));
    0x04 s_addc_u32 (a: u32 = 0, b: u32 = 1) -> u32 = {
        let sum = u64::from(a) + u64::from(b) + u64::from(wave.scc);
        Out(sum as u32, Some(sum >> 32 != 0))
    };
    0x05 s_subb_u32 (a: u32 = 0, b: u32 = 1) -> u32 = {
        let taken = u64::from(b) + u64::from(wave.scc);
        Out(u64::from(a).wrapping_sub(taken) as u32, Some(taken > u64::from(a)))
    };
    0x06 s_absdiff_i32 (a: i32 = 0, b: i32 = 1) -> u32 = test(a.abs_diff(b));
    0x08 s_lshl_b32 (a: u32 = 0, b: u32 = 1) -> u32 = test(a << (b & 31));
    0x09 s_lshl_b64 (a: u64 = 0, b: u32 = 1) -> u64 = test(a << (b & 63));
    0x0a s_lshr_b32 (a: u32 = 0, b: u32 = 1) -> u32 = test(a >> (b & 31));
    0x0b s_lshr_b64 (a: u64 = 0, b: u32 = 1) -> u64 = test(a >> (b & 63));
    0x0c s_ashr_i32 (a: i32 = 0, b: u32 = 1) -> i32 = test(a >> (b & 31));
    0x0d s_ashr_i64 (a: i64 = 0, b: u32 = 1) -> i64 = test(a >> (b & 63));
    0x0e s_lshl1_add_u32 (a: u32 = 0, b: u32 = 1) -> u32 = shift_add(a, 1, b);
    0x0f s_lshl2_add_u32 (a: u32 = 0, b: u32 = 1) -> u32 = shift_add(a, 2, b);
    0x10 s_lshl3_add_u32 (a: u32 = 0, b: u32 = 1) -> u32 = shift_add(a, 3, b);
    0x11 s_lshl4_add_u32 (a: u32 = 0, b: u32 = 1) -> u32 = shift_add(a, 4, b);
    0x12 s_min_i32 (a: i32 = 0, b: i32 = 1) -> i32 = Out(a.min(b), Some(a < b));
    0x13 s_min_u32 (a: u32 = 0, b: u32 = 1) -> u32 = Out(a.min(b), Some(a < b));
    0x14 s_max_i32 (a: i32 = 0, b: i32 = 1) -> i32 = Out(a.max(b), Some(a >= b));
    0x15 s_max_u32 (a: u32 = 0, b: u32 = 1) -> u32 = Out(a.max(b), Some(a >= b));
    0x16 s_and_b32 (a: u32 = 0, b: u32 = 1) -> u32 = test(a & b);
    0x17 s_and_b64 (a: u64 = 0, b: u64 = 1) -> u64 = test(a & b);
    0x18 s_or_b32 (a: u32 = 0, b: u32 = 1) -> u32 = test(a | b);
    0x19 s_or_b64 (a: u64 = 0, b: u64 = 1) -> u64 = test(a | b);
    0x1a s_xor_b32 (a: u32 = 0, b: u32 = 1) -> u32 = test(a ^ b);
    0x1b s_xor_b64 (a: u64 = 0, b: u64 = 1) -> u64 = test(a ^ b);
    0x1c s_nand_b32 (a: u32 = 0, b: u32 = 1) -> u32 = test(!(a & b));
    0x1e s_nor_b32 (a: u32 = 0, b: u32 = 1) -> u32 = test(!(a | b));
    0x20 s_xnor_b32 (a: u32 = 0, b: u32 = 1) -> u32 = test(!(a ^ b));
    0x22 s_and_not1_b32 (a: u32 = 0, b: u32 = 1) -> u32 = test(a & !b);
    0x23 s_and_not1_b64 (a: u64 = 0, b: u64 = 1) -> u64 = test(a & !b);
    0x24 s_or_not1_b32 (a: u32 = 0, b: u32 = 1) -> u32 = test(a | !b);
    0x25 s_or_not1_b64 (a: u64 = 0, b: u64 = 1) -> u64 = test(a | !b);
    0x26 s_bfe_u32 (a: u32 = 0, b: u32 = 1) -> u32 = test(field(u64::from(a), b & 31, (b >> 16) & 127) as u32);
    0x27 s_bfe_i32 (a: i32 = 0, b: u32 = 1) -> i32 = test(signed_field(i64::from(a), b & 31, (b >> 16) & 127, 32) as i32);
    0x28 s_bfe_u64 (a: u64 = 0, b: u32 = 1) -> u64 = test(field(a, b & 63, (b >> 16) & 127));
    0x29 s_bfe_i64 (a: i64 = 0, b: u32 = 1) -> i64 = test(signed_field(a, b & 63, (b >> 16) & 127, 64));
    0x2a s_bfm_b32 (a: u32 = 0, b: u32 = 1) -> u32 = keep(((1u32 << (a & 31)) - 1) << (b & 31));
    0x2b s_bfm_b64 (a: u32 = 0, b: u32 = 1) -> u64 = keep(((1u64 << (a & 63)) - 1) << (b & 63));
    0x2c s_mul_i32 (a: i32 = 0, b: i32 = 1) -> i32 = keep(a.wrapping_mul(b));
    0x2d s_mul_hi_u32 (a: u32 = 0, b: u32 = 1) -> u32 = keep(((u64::from(a) * u64::from(b)) >> 32) as u32);
    0x2e s_mul_hi_i32 (a: i32 = 0, b: i32 = 1) -> i32 = keep(((i64::from(a) * i64::from(b)) >> 32) as i32);
    0x30 s_cselect_b32 (a: u32 = 0, b: u32 = 1) -> u32 = keep(if wave.scc { a } else { b });
    0x31 s_cselect_b64 (a: u64 = 0, b: u64 = 1) -> u64 = keep(if wave.scc { a } else { b });
    0x32 s_pack_ll_b32_b16 (a: u32 = 0, b: u32 = 1) -> u32 = keep((a & 0xffff) | b << 16);
    0x33 s_pack_lh_b32_b16 (a: u32 = 0, b: u32 = 1) -> u32 = keep((a & 0xffff) | (b & 0xffff_0000));
    0x34 s_pack_hh_b32_b16 (a: u32 = 0, b: u32 = 1) -> u32 = keep((a >> 16) | (b & 0xffff_0000));
    0x35 s_pack_hl_b32_b16 (a: u32 = 0, b: u32 = 1) -> u32 = keep((a >> 16) | b << 16);
    0x40 s_add_f32 (a: f32 = 0, b: f32 = 1) -> f32 = keep(a + b);
    0x41 s_sub_f32 (a: f32 = 0, b: f32 = 1) -> f32 = keep(a - b);
    0x42 s_min_f32 (a: f32 = 0, b: f32 = 1) -> f32 = keep(a.min(b));
    0x43 s_max_f32 (a: f32 = 0, b: f32 = 1) -> f32 = keep(a.max(b));
    0x44 s_mul_f32 (a: f32 = 0, b: f32 = 1) -> f32 = keep(a * b);
    0x45 s_fmaak_f32 (a: f32 = 0, b: f32 = 1, c: f32 = 2) -> f32 = keep(a.mul_add(b, c));
    0x46 s_fmamk_f32 (a: f32 = 0, b: f32 = 1, c: f32 = 2) -> f32 = keep(a.mul_add(b, c));
    0x47 s_fmac_f32 (a: f32 = 0, b: f32 = 1, c: f32 = 2) -> f32 = keep(a.mul_add(b, c));
    0x48 s_cvt_pk_rtz_f16_f32 (a: f32 = 0, b: f32 = 1) -> u32 = keep(f32_to_f16_towards_zero(a) | f32_to_f16_towards_zero(b) << 16);
    0x49 s_add_f16 (a: Half = 0, b: Half = 1) -> Half = keep(Half(a.0 + b.0));
    0x4a s_sub_f16 (a: Half = 0, b: Half = 1) -> Half = keep(Half(a.0 - b.0));
    0x4b s_min_f16 (a: Half = 0, b: Half = 1) -> Half = keep(Half(a.0.min(b.0)));
    0x4c s_max_f16 (a: Half = 0, b: Half = 1) -> Half = keep(Half(a.0.max(b.0)));
    0x4d s_mul_f16 (a: Half = 0, b: Half = 1) -> Half = keep(Half(a.0 * b.0));
}

/// `(a << by) + b`. The condition code is the carry out of the shift or the sum.
fn shift_add(a: u32, by: u32, b: u32) -> Out<u32> {
    let sum = (u64::from(a) << by) + u64::from(b);
    Out(sum as u32, Some(sum >> 32 != 0))
}

fn field(bits: u64, offset: u32, width: u32) -> u64 {
    let rest = bits >> offset;
    if width >= 64 { rest } else { rest & ((1 << width) - 1) }
}

fn signed_field(bits: i64, offset: u32, width: u32, size: u32) -> i64 {
    let width = width.min(size - offset);
    if width == 0 { 0 } else { (bits >> offset) << (64 - width) >> (64 - width) }
}

/// The result of an instruction that looks for a bit: `number`, or -1 if there is no such bit.
fn position(none: bool, number: u32) -> i32 {
    if none { -1 } else { number as i32 }
}

scalars! {
    /// The instructions of SOP1.
    UNARY(wave, instruction):
    0x00 s_mov_b32 (a: u32 = 0) -> u32 = keep(a);
    0x01 s_mov_b64 (a: u64 = 0) -> u64 = keep(a);
    0x02 s_cmov_b32 (a: u32 = 0) -> u32 = keep(if wave.scc { a } else { wave.scalar[usize::from(instruction.scalar)] });
    0x04 s_brev_b32 (a: u32 = 0) -> u32 = keep(a.reverse_bits());
    0x08 s_ctz_i32_b32 (a: u32 = 0) -> i32 = keep(position(a == 0, a.trailing_zeros()));
    0x09 s_ctz_i32_b64 (a: u64 = 0) -> i32 = keep(position(a == 0, a.trailing_zeros()));
    0x0a s_clz_i32_u32 (a: u32 = 0) -> i32 = keep(position(a == 0, a.leading_zeros()));
    0x0b s_clz_i32_u64 (a: u64 = 0) -> i32 = keep(position(a == 0, a.leading_zeros()));
    0x0c s_cls_i32 (a: i32 = 0) -> i32 = keep(position(a == 0 || a == -1, (a ^ (a >> 31)).leading_zeros()));
    0x0e s_sext_i32_i8 (a: u32 = 0) -> i32 = keep(i32::from(a as i8));
    0x0f s_sext_i32_i16 (a: u32 = 0) -> i32 = keep(i32::from(a as i16));
    0x10 s_bitset0_b32 (a: u32 = 0) -> u32 = keep(wave.scalar[usize::from(instruction.scalar)] & !(1 << (a & 31)));
    0x12 s_bitset1_b32 (a: u32 = 0) -> u32 = keep(wave.scalar[usize::from(instruction.scalar)] | 1 << (a & 31));
    0x15 s_abs_i32 (a: i32 = 0) -> i32 = test(a.wrapping_abs());
    0x16 s_bcnt0_i32_b32 (a: u32 = 0) -> u32 = test(a.count_zeros());
    0x18 s_bcnt1_i32_b32 (a: u32 = 0) -> u32 = test(a.count_ones());
    0x19 s_bcnt1_i32_b64 (a: u64 = 0) -> u32 = test(a.count_ones());
    0x1e s_not_b32 (a: u32 = 0) -> u32 = test(!a);
    0x1f s_not_b64 (a: u64 = 0) -> u64 = test(!a);
    0x20 s_and_saveexec_b32 (a: u32 = 0) -> u32 = save_exec(wave, |exec| a & exec);
    0x22 s_or_saveexec_b32 (a: u32 = 0) -> u32 = save_exec(wave, |exec| a | exec);
    0x24 s_xor_saveexec_b32 (a: u32 = 0) -> u32 = save_exec(wave, |exec| a ^ exec);
    0x26 s_nand_saveexec_b32 (a: u32 = 0) -> u32 = save_exec(wave, |exec| !(a & exec));
    0x28 s_nor_saveexec_b32 (a: u32 = 0) -> u32 = save_exec(wave, |exec| !(a | exec));
    0x2a s_xnor_saveexec_b32 (a: u32 = 0) -> u32 = save_exec(wave, |exec| !(a ^ exec));
    0x2c s_and_not0_saveexec_b32 (a: u32 = 0) -> u32 = save_exec(wave, |exec| !a & exec);
    0x2e s_or_not0_saveexec_b32 (a: u32 = 0) -> u32 = save_exec(wave, |exec| !a | exec);
    0x30 s_and_not1_saveexec_b32 (a: u32 = 0) -> u32 = save_exec(wave, |exec| a & !exec);
    0x32 s_or_not1_saveexec_b32 (a: u32 = 0) -> u32 = save_exec(wave, |exec| a | !exec);
    0x34 s_and_not0_wrexec_b32 (a: u32 = 0) -> u32 = write_exec(wave, |exec| !a & exec);
    0x36 s_and_not1_wrexec_b32 (a: u32 = 0) -> u32 = write_exec(wave, |exec| a & !exec);
    0x60 s_ceil_f32 (a: f32 = 0) -> f32 = keep(a.ceil());
    0x61 s_floor_f32 (a: f32 = 0) -> f32 = keep(a.floor());
    0x62 s_trunc_f32 (a: f32 = 0) -> f32 = keep(a.trunc());
    0x63 s_rndne_f32 (a: f32 = 0) -> f32 = keep(a.round_ties_even());
    0x64 s_cvt_f32_i32 (a: i32 = 0) -> f32 = keep(a as f32);
    0x65 s_cvt_f32_u32 (a: u32 = 0) -> f32 = keep(a as f32);
    0x66 s_cvt_i32_f32 (a: f32 = 0) -> i32 = keep(a as i32);
    0x67 s_cvt_u32_f32 (a: f32 = 0) -> u32 = keep(a as u32);
    0x68 s_cvt_f16_f32 (a: f32 = 0) -> Half = keep(Half(a));
    0x69 s_cvt_f32_f16 (a: Half = 0) -> f32 = keep(a.0);
    0x6a s_cvt_hi_f32_f16 (a: u32 = 0) -> f32 = keep(f16_to_f32(a >> 16));
}

macro_rules! program_counter {
    ($($opcode:literal $name:ident |$wave:ident, $instruction:ident| $body:block)*) => {
        /// The instructions of SOP1 that use the program counter. The decoder has put the address of the next
        /// instruction into the immediate.
        pub(crate) const UNARY_SPECIAL: &[Row] = &[$(Row {
            opcode: $opcode,
            name: stringify!($name),
            handler: $name,
            operands: &[Operand::B64],
            result: Operand::B64,
            float: false,
        }),*];
        $(handler! { fn $name($wave, $instruction) $body })*
    };
}

program_counter! {
    0x47 s_getpc_b64 |wave, instruction| { wave.set_scalar64(instruction.scalar, instruction.immediate as u64); }
    0x48 s_setpc_b64 |wave, instruction| { wave.stop = Stop::Jump(wave.uniform64(&instruction.sources[0])); }
    0x49 s_swappc_b64 |wave, instruction| {
        let target = wave.uniform64(&instruction.sources[0]);
        wave.set_scalar64(instruction.scalar, instruction.immediate as u64);
        wave.stop = Stop::Jump(target);
    }
}

/// Changes EXEC and returns its old value.
fn save_exec(wave: &mut Wave, change: impl Fn(u32) -> u32) -> Out<u32> {
    let old = wave.exec();
    let new = change(old);
    wave.set_scalar(EXEC, new);
    Out(old, Some(new != 0))
}

/// Changes EXEC and returns its new value.
fn write_exec(wave: &mut Wave, change: impl Fn(u32) -> u32) -> Out<u32> {
    let new = change(wave.exec());
    wave.set_scalar(EXEC, new);
    Out(new, Some(new != 0))
}

/// Defines comparisons, whose only result is the condition code.
macro_rules! conditions {
    ($(#[$attribute:meta])* $table:ident: $($opcode:literal $name:ident ($a:ident: $ta:ty, $b:ident: $tb:ty) = $body:expr;)*) => {
        $(#[$attribute])*
        pub(crate) const $table: &[Row] = &[$(Row {
            opcode: $opcode,
            name: stringify!($name),
            handler: $name,
            operands: &[<$ta as Scalar>::OPERAND, <$tb as Scalar>::OPERAND],
            result: Operand::B32,
            float: false,
        }),*];
        $(handler! { fn $name(wave, instruction) {
            let $a = <$ta as Scalar>::read(wave, instruction, 0);
            let $b = <$tb as Scalar>::read(wave, instruction, 1);
            wave.scc = $body;
        } })*
    };
}

conditions! {
    /// The instructions of SOPC.
    CONDITION:
    0x00 s_cmp_eq_i32 (a: i32, b: i32) = a == b;
    0x01 s_cmp_lg_i32 (a: i32, b: i32) = a != b;
    0x02 s_cmp_gt_i32 (a: i32, b: i32) = a > b;
    0x03 s_cmp_ge_i32 (a: i32, b: i32) = a >= b;
    0x04 s_cmp_lt_i32 (a: i32, b: i32) = a < b;
    0x05 s_cmp_le_i32 (a: i32, b: i32) = a <= b;
    0x06 s_cmp_eq_u32 (a: u32, b: u32) = a == b;
    0x07 s_cmp_lg_u32 (a: u32, b: u32) = a != b;
    0x08 s_cmp_gt_u32 (a: u32, b: u32) = a > b;
    0x09 s_cmp_ge_u32 (a: u32, b: u32) = a >= b;
    0x0a s_cmp_lt_u32 (a: u32, b: u32) = a < b;
    0x0b s_cmp_le_u32 (a: u32, b: u32) = a <= b;
    0x0c s_bitcmp0_b32 (a: u32, b: u32) = (a >> (b & 31)) & 1 == 0;
    0x0d s_bitcmp1_b32 (a: u32, b: u32) = (a >> (b & 31)) & 1 == 1;
    0x0e s_bitcmp0_b64 (a: u64, b: u32) = (a >> (b & 63)) & 1 == 0;
    0x0f s_bitcmp1_b64 (a: u64, b: u32) = (a >> (b & 63)) & 1 == 1;
    0x10 s_cmp_eq_u64 (a: u64, b: u64) = a == b;
    0x11 s_cmp_lg_u64 (a: u64, b: u64) = a != b;
    0x41 s_cmp_lt_f32 (a: f32, b: f32) = a < b;
    0x42 s_cmp_eq_f32 (a: f32, b: f32) = a == b;
    0x43 s_cmp_le_f32 (a: f32, b: f32) = a <= b;
    0x44 s_cmp_gt_f32 (a: f32, b: f32) = a > b;
    0x45 s_cmp_lg_f32 (a: f32, b: f32) = a < b || a > b;
    0x46 s_cmp_ge_f32 (a: f32, b: f32) = a >= b;
    0x47 s_cmp_o_f32 (a: f32, b: f32) = !a.is_nan() && !b.is_nan();
    0x48 s_cmp_u_f32 (a: f32, b: f32) = a.is_nan() || b.is_nan();
    0x49 s_cmp_nge_f32 (a: f32, b: f32) = !(a >= b);
    0x4a s_cmp_nlg_f32 (a: f32, b: f32) = !(a < b || a > b);
    0x4b s_cmp_ngt_f32 (a: f32, b: f32) = !(a > b);
    0x4c s_cmp_nle_f32 (a: f32, b: f32) = !(a <= b);
    0x4d s_cmp_neq_f32 (a: f32, b: f32) = a != b;
    0x4e s_cmp_nlt_f32 (a: f32, b: f32) = !(a < b);
}

/// Defines instructions with a 16-bit constant. They can change a register, the condition code or the wave's state.
macro_rules! with_constant {
    ($(#[$attribute:meta])* $table:ident: $($opcode:literal $name:ident |$wave:ident, $register:ident, $constant:ident| $body:block)*) => {
        $(#[$attribute])*
        pub(crate) const $table: &[Row] = &[$(Row::whole($opcode, stringify!($name), $name)),*];
        $(handler! { fn $name($wave, instruction) {
            let ($register, $constant) = (instruction.scalar, instruction.immediate as i32);
            $body
        } })*
    };
}

fn register(wave: &Wave, index: u8) -> u32 {
    wave.scalar[usize::from(index & 127)]
}

with_constant! {
    /// The instructions of SOPK. The constant is sign-extended.
    CONSTANT:
    0x00 s_movk_i32 |wave, to, constant| { wave.set_scalar(to, constant as u32); }
    0x01 s_version |_wave, _to, _constant| {}
    0x02 s_cmovk_i32 |wave, to, constant| {
        if wave.scc {
            wave.set_scalar(to, constant as u32);
        }
    }
    0x03 s_cmpk_eq_i32 |wave, of, constant| { wave.scc = register(wave, of) as i32 == constant; }
    0x04 s_cmpk_lg_i32 |wave, of, constant| { wave.scc = register(wave, of) as i32 != constant; }
    0x05 s_cmpk_gt_i32 |wave, of, constant| { wave.scc = register(wave, of) as i32 > constant; }
    0x06 s_cmpk_ge_i32 |wave, of, constant| { wave.scc = register(wave, of) as i32 >= constant; }
    0x07 s_cmpk_lt_i32 |wave, of, constant| { wave.scc = (register(wave, of) as i32) < constant; }
    0x08 s_cmpk_le_i32 |wave, of, constant| { wave.scc = register(wave, of) as i32 <= constant; }
    0x09 s_cmpk_eq_u32 |wave, of, constant| { wave.scc = register(wave, of) == constant as u32 & 0xffff; }
    0x0a s_cmpk_lg_u32 |wave, of, constant| { wave.scc = register(wave, of) != constant as u32 & 0xffff; }
    0x0b s_cmpk_gt_u32 |wave, of, constant| { wave.scc = register(wave, of) > constant as u32 & 0xffff; }
    0x0c s_cmpk_ge_u32 |wave, of, constant| { wave.scc = register(wave, of) >= constant as u32 & 0xffff; }
    0x0d s_cmpk_lt_u32 |wave, of, constant| { wave.scc = register(wave, of) < constant as u32 & 0xffff; }
    0x0e s_cmpk_le_u32 |wave, of, constant| { wave.scc = register(wave, of) <= constant as u32 & 0xffff; }
    0x0f s_addk_i32 |wave, to, constant| {
        let (sum, overflow) = (register(wave, to) as i32).overflowing_add(constant);
        wave.set_scalar(to, sum as u32);
        wave.scc = overflow;
    }
    0x10 s_mulk_i32 |wave, to, constant| {
        wave.set_scalar(to, (register(wave, to) as i32).wrapping_mul(constant) as u32);
    }
    0x18 s_waitcnt_vscnt |_wave, _to, _constant| {}
    0x19 s_waitcnt_vmcnt |_wave, _to, _constant| {}
    0x1a s_waitcnt_expcnt |_wave, _to, _constant| {}
    0x1b s_waitcnt_lgkmcnt |_wave, _to, _constant| {}
}

/// Defines branches from their conditions.
macro_rules! branches {
    ($($opcode:literal $name:ident |$wave:ident| $taken:expr;)*) => {
        /// The branches of SOPP.
        pub(crate) const BRANCH: &[Row] = &[$(Row::whole($opcode, stringify!($name), $name)),*];
        $(handler! { fn $name($wave, instruction) {
            if $taken {
                $wave.next = instruction.target;
            }
        } })*
    };
}

branches! {
    0x20 s_branch |_wave| true;
    0x21 s_cbranch_scc0 |wave| !wave.scc;
    0x22 s_cbranch_scc1 |wave| wave.scc;
    0x23 s_cbranch_vccz |wave| wave.scalar[usize::from(VCC)] == 0;
    0x24 s_cbranch_vccnz |wave| wave.scalar[usize::from(VCC)] != 0;
    0x25 s_cbranch_execz |wave| wave.exec() == 0;
    0x26 s_cbranch_execnz |wave| wave.exec() != 0;
}

with_constant! {
    /// The other instructions of SOPP. Instructions that wait or give hints about timing do nothing, because in the
    /// emulator every result is ready before the next instruction.
    PROGRAM:
    0x00 s_nop |_wave, _to, _constant| {}
    0x03 s_sleep |_wave, _to, _constant| {}
    0x04 s_set_inst_prefetch_distance |_wave, _to, _constant| {}
    0x05 s_clause |_wave, _to, _constant| {}
    0x07 s_delay_alu |_wave, _to, _constant| {}
    0x08 s_waitcnt_depctr |_wave, _to, _constant| {}
    0x09 s_waitcnt |_wave, _to, _constant| {}
    0x11 s_round_mode |wave, _to, mode| {
        if mode & 15 != 0 {
            wave.fail(format!("rounding mode {mode}: the emulator only rounds to nearest"));
        }
    }
    0x12 s_denorm_mode |wave, _to, mode| {
        if mode & 15 != 15 {
            wave.fail(format!("denormal mode {mode}: the emulator never flushes denormal numbers"));
        }
    }
    0x13 s_singleuse_vdst |_wave, _to, _constant| {}
    0x30 s_endpgm |wave, _to, _constant| { wave.stop = Stop::End; }
    0x35 s_setprio |_wave, _to, _constant| {}
    0x36 s_sendmsg |wave, _to, message| {
        // Message 3 releases the vector registers before the end.
        if message & 255 != 3 {
            wave.fail(format!("message {message}: the emulator only knows the release of registers"));
        }
    }
    0x3c s_icache_inv |_wave, _to, _constant| {}
    0x3d s_barrier |wave, _to, _constant| { wave.stop = Stop::Barrier; }
}
