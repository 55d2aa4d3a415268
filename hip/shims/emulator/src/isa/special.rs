//! Vector instructions that use a scalar register or pairs of vector registers, or that read other lanes.

use super::compare::wide;
use super::table::{Row, handler, special_rows};
use super::wave::{F32, Instruction, Lanes, Operand, SCRATCH_RESULT, SCRATCH_SOURCE, U16, WAVE, Wave};

special_rows! {
    /// The instructions of VOP2 with an operand or a result in VCC. The VOP3 form has 0x100 added to the opcode and
    /// uses any scalar register.
    TWO_SPECIAL:
    0x01 v_cndmask_b32 (B32, B32, B32) -> B32;
    0x20 v_add_co_ci_u32 (B32, B32, B32) -> B32;
    0x21 v_sub_co_ci_u32 (B32, B32, B32) -> B32;
    0x22 v_subrev_co_ci_u32 (B32, B32, B32) -> B32;
}

special_rows! {
    /// The instructions of VOP1 that convert from or to fp64, or that write a scalar register, two registers or none.
    ONE_SPECIAL:
    0x00 v_nop () -> B32;
    0x02 v_readfirstlane_b32 (B32) -> B32;
    0x03 v_cvt_i32_f64 (F64) -> B32;
    0x04 v_cvt_f64_i32 (B32) -> B64;
    0x0f v_cvt_f32_f64 (F64) -> B32;
    0x10 v_cvt_f64_f32 (B32) -> B64;
    0x15 v_cvt_u32_f64 (F64) -> B32;
    0x16 v_cvt_f64_u32 (B32) -> B64;
    0x65 v_swap_b32 (B32) -> B32;
}

special_rows! {
    /// Instructions that exist only in VOP3.
    THREE_SPECIAL:
    0x214 v_fma_f64 (F64, F64, F64) -> B64;
    0x237 v_div_fmas_f32 (B32, B32, B32) -> B32;
    0x25b v_permlane16_b32 (B32, B32, B32) -> B32;
    0x25c v_permlanex16_b32 (B32, B32, B32) -> B32;
    0x25d v_cndmask_b16 (B16, B16, B32) -> B16;
    0x2fc v_div_scale_f32 (B32, B32, B32) -> B32;
    0x2fe v_mad_u64_u32 (B32, B32, B64) -> B64;
    0x2ff v_mad_i64_i32 (B32, B32, I64) -> B64;
    0x300 v_add_co_u32 (B32, B32) -> B32;
    0x301 v_sub_co_u32 (B32, B32) -> B32;
    0x302 v_subrev_co_u32 (B32, B32) -> B32;
    0x31f v_mbcnt_lo_u32_b32 (B32, B32) -> B32;
    0x320 v_mbcnt_hi_u32_b32 (B32, B32) -> B32;
    0x327 v_add_f64 (F64, F64) -> B64;
    0x328 v_mul_f64 (F64, F64) -> B64;
    0x33c v_lshlrev_b64 (B32, B64) -> B64;
    0x33d v_lshrrev_b64 (B32, B64) -> B64;
    0x33e v_ashrrev_i64 (B32, I64) -> B64;
    0x360 v_readlane_b32 (B32, B32) -> B32;
    0x361 v_writelane_b32 (B32, B32) -> B32;
}

handler! { fn v_nop(_wave, _instruction) {} }

handler! { fn v_cndmask_b32(wave, instruction) {
    let (mut space_a, mut space_b) = (Lanes::ZERO, Lanes::ZERO);
    let mask = wave.uniform(&instruction.sources[2]);
    let a = wave.operand::<F32>(&instruction.sources[0], &mut space_a);
    let b = wave.operand::<F32>(&instruction.sources[1], &mut space_b);
    let mut result = Lanes::ZERO;
    for lane in 0..WAVE {
        let chosen = 0u32.wrapping_sub((mask >> lane) & 1);
        result.0[lane] = (b.0[lane] & chosen) | (a.0[lane] & !chosen);
    }
    wave.write(instruction.destination, &result);
} }

handler! { fn v_cndmask_b16(wave, instruction) {
    let (mut space_a, mut space_b) = (Lanes::ZERO, Lanes::ZERO);
    let mask = wave.uniform(&instruction.sources[2]);
    let a = wave.operand::<super::vector::U16F>(&instruction.sources[0], &mut space_a);
    let b = wave.operand::<super::vector::U16F>(&instruction.sources[1], &mut space_b);
    let mut result = Lanes::ZERO;
    for lane in 0..WAVE {
        result.0[lane] = if (mask >> lane) & 1 == 1 { b.0[lane] } else { a.0[lane] };
    }
    wave.finish::<U16>(instruction, &mut result);
} }

/// Defines sums or differences of 33 bits. The low 32 bits go to a register, and the highest bit goes to a mask.
macro_rules! carries {
    ($($name:ident |$a:ident, $b:ident, $carry:ident| $body:expr;)*) => {
        $(handler! { fn $name(wave, instruction) {
            let (mut space_a, mut space_b) = (Lanes::ZERO, Lanes::ZERO);
            let carry_in = wave.uniform(&instruction.sources[2]);
            let a = wave.raw(&instruction.sources[0], &mut space_a);
            let b = wave.raw(&instruction.sources[1], &mut space_b);
            let (mut result, mut mask) = (Lanes::ZERO, 0);
            for lane in 0..WAVE {
                let ($a, $b) = (u64::from(a.0[lane]), u64::from(b.0[lane]));
                let $carry = u64::from((carry_in >> lane) & 1);
                let sum: u64 = $body;
                result.0[lane] = sum as u32;
                mask |= ((sum >> 32) as u32 & 1) << lane;
            }
            wave.write(instruction.destination, &result);
            wave.write_mask(instruction.scalar, mask);
        } })*
    };
}

carries! {
    v_add_co_ci_u32 |a, b, carry| a + b + carry;
    v_sub_co_ci_u32 |a, b, carry| a.wrapping_sub(b).wrapping_sub(carry);
    v_subrev_co_ci_u32 |a, b, carry| b.wrapping_sub(a).wrapping_sub(carry);
    v_add_co_u32 |a, b, _carry| a + b;
    v_sub_co_u32 |a, b, _carry| a.wrapping_sub(b);
    v_subrev_co_u32 |a, b, _carry| b.wrapping_sub(a);
}

/// Writes 64 bits per lane to two registers.
#[inline(always)]
pub(super) fn write_wide(wave: &mut Wave, index: u16, values: &[u64; WAVE]) {
    let (mut low, mut high) = (Lanes::ZERO, Lanes::ZERO);
    for lane in 0..WAVE {
        low.0[lane] = values[lane] as u32;
        high.0[lane] = (values[lane] >> 32) as u32;
    }
    wave.write(index, &low);
    wave.write(index + 1, &high);
}

/// Defines instructions with two 32-bit operands, a 64-bit operand and a 64-bit result.
macro_rules! products {
    ($($name:ident |$a:ident, $b:ident, $c:ident| $body:expr;)*) => {
        $(handler! { fn $name(wave, instruction) {
            let (mut space_a, mut space_b) = (Lanes::ZERO, Lanes::ZERO);
            let c = wide(wave, &instruction.sources[2]);
            let a = wave.raw(&instruction.sources[0], &mut space_a);
            let b = wave.raw(&instruction.sources[1], &mut space_b);
            let mut result = [0; WAVE];
            for lane in 0..WAVE {
                let ($a, $b, $c) = (a.0[lane], b.0[lane], c[lane]);
                result[lane] = $body;
            }
            write_wide(wave, instruction.destination, &result);
        } })*
    };
}

products! {
    v_mad_u64_u32 |a, b, c| (u64::from(a) * u64::from(b)).wrapping_add(c);
    v_mad_i64_i32 |a, b, c| (i64::from(a as i32) * i64::from(b as i32)).wrapping_add(c as i64) as u64;
}

/// Defines instructions with a 32-bit operand, a 64-bit operand and a 64-bit result.
macro_rules! shifts {
    ($($name:ident |$a:ident, $b:ident| $body:expr;)*) => {
        $(handler! { fn $name(wave, instruction) {
            let mut space = Lanes::ZERO;
            let b = wide(wave, &instruction.sources[1]);
            let a = wave.raw(&instruction.sources[0], &mut space);
            let mut result = [0; WAVE];
            for lane in 0..WAVE {
                let ($a, $b) = (a.0[lane] & 63, b[lane]);
                result[lane] = $body;
            }
            write_wide(wave, instruction.destination, &result);
        } })*
    };
}

shifts! {
    v_lshlrev_b64 |a, b| b << a;
    v_lshrrev_b64 |a, b| b >> a;
    v_ashrrev_i64 |a, b| ((b as i64) >> a) as u64;
}

/// An fp64 operand in every lane, with its sign modifiers.
#[inline(always)]
fn double(wave: &Wave, instruction: &Instruction, number: usize) -> [f64; WAVE] {
    let source = &instruction.sources[number];
    wide(wave, source).map(|bits| {
        let value = f64::from_bits(bits);
        let value = if source.absolute { value.abs() } else { value };
        if source.negate { -value } else { value }
    })
}

handler! { fn v_fma_f64(wave, instruction) {
    let (a, b, c) = (double(wave, instruction, 0), double(wave, instruction, 1), double(wave, instruction, 2));
    let result = std::array::from_fn(|lane| a[lane].mul_add(b[lane], c[lane]).to_bits());
    write_wide(wave, instruction.destination, &result);
} }

handler! { fn v_add_f64(wave, instruction) {
    let (a, b) = (double(wave, instruction, 0), double(wave, instruction, 1));
    let result = std::array::from_fn(|lane| (a[lane] + b[lane]).to_bits());
    write_wide(wave, instruction.destination, &result);
} }

handler! { fn v_mul_f64(wave, instruction) {
    let (a, b) = (double(wave, instruction, 0), double(wave, instruction, 1));
    let result = std::array::from_fn(|lane| (a[lane] * b[lane]).to_bits());
    write_wide(wave, instruction.destination, &result);
} }

handler! { fn v_cvt_f32_f64(wave, instruction) {
    let a = double(wave, instruction, 0);
    wave.finish::<F32>(instruction, &mut Lanes(a.map(|value| (value as f32).to_bits())));
} }

handler! { fn v_cvt_i32_f64(wave, instruction) {
    let a = double(wave, instruction, 0);
    wave.write(instruction.destination, &Lanes(a.map(|value| value as i32 as u32)));
} }

handler! { fn v_cvt_u32_f64(wave, instruction) {
    let a = double(wave, instruction, 0);
    wave.write(instruction.destination, &Lanes(a.map(|value| value as u32)));
} }

handler! { fn v_cvt_f64_f32(wave, instruction) {
    let mut space = Lanes::ZERO;
    let a = *wave.operand::<F32>(&instruction.sources[0], &mut space);
    write_wide(wave, instruction.destination, &a.0.map(|bits| f64::from(f32::from_bits(bits)).to_bits()));
} }

handler! { fn v_cvt_f64_i32(wave, instruction) {
    let mut space = Lanes::ZERO;
    let a = *wave.raw(&instruction.sources[0], &mut space);
    write_wide(wave, instruction.destination, &a.0.map(|bits| f64::from(bits as i32).to_bits()));
} }

handler! { fn v_cvt_f64_u32(wave, instruction) {
    let mut space = Lanes::ZERO;
    let a = *wave.raw(&instruction.sources[0], &mut space);
    write_wide(wave, instruction.destination, &a.0.map(|bits| f64::from(bits).to_bits()));
} }

/// The biased exponent of an fp32 number.
fn exponent(value: f32) -> i32 {
    ((value.to_bits() >> 23) & 255) as i32
}

handler! {
    /// Scales an operand of a division where later steps would leave fp32's range, and marks the lanes whose quotient
    /// must be scaled back. The operands are the number to scale (the numerator or the denominator), the denominator
    /// and the numerator.
    fn v_div_scale_f32(wave, instruction) {
        let mut spaces = [Lanes::ZERO; 3];
        let [space_a, space_b, space_c] = &mut spaces;
        let a = wave.operand::<F32>(&instruction.sources[0], space_a);
        let b = wave.operand::<F32>(&instruction.sources[1], space_b);
        let c = wave.operand::<F32>(&instruction.sources[2], space_c);
        let (mut result, mut mask) = (Lanes::ZERO, 0);
        let up = 2f32.powi(64);
        for lane in 0..WAVE {
            let scaled = f32::from_bits(a.0[lane]);
            let (denominator, numerator) = (f32::from_bits(b.0[lane]), f32::from_bits(c.0[lane]));
            let is_denominator = a.0[lane] == b.0[lane];
            let reciprocal_subnormal = (1.0 / f64::from(denominator)).abs() < f64::from(f32::MIN_POSITIVE);
            let quotient = (f64::from(numerator) / f64::from(denominator)).abs();
            let quotient_subnormal = quotient < f64::from(f32::MIN_POSITIVE);
            let (value, mark) = if numerator == 0.0 || denominator == 0.0 {
                (f32::NAN, false)
            } else if exponent(numerator) - exponent(denominator) >= 96 {
                (if is_denominator { scaled * up } else { scaled }, true)
            } else if denominator.is_subnormal() {
                (scaled * up, false)
            } else if reciprocal_subnormal && quotient_subnormal {
                (if is_denominator { scaled / up } else { scaled }, true)
            } else if reciprocal_subnormal {
                (scaled / up, false)
            } else if quotient_subnormal {
                (if a.0[lane] == c.0[lane] { scaled * up } else { scaled }, true)
            } else if exponent(numerator) <= 23 {
                (scaled * up, false)
            } else {
                (scaled, false)
            };
            result.0[lane] = value.to_bits();
            mask |= u32::from(mark) << lane;
        }
        wave.write(instruction.destination, &result);
        wave.write_mask(instruction.scalar, mask);
    }
}

handler! {
    /// The last step of a division. Scales back the lanes that VCC marks. The decoder has put VCC's number into the
    /// field for a scalar register.
    fn v_div_fmas_f32(wave, instruction) {
        let mut spaces = [Lanes::ZERO; 3];
        let [space_a, space_b, space_c] = &mut spaces;
        let marked = wave.scalar[usize::from(instruction.scalar & 127)];
        let a = wave.operand::<F32>(&instruction.sources[0], space_a);
        let b = wave.operand::<F32>(&instruction.sources[1], space_b);
        let c = wave.operand::<F32>(&instruction.sources[2], space_c);
        let mut result = Lanes::ZERO;
        for lane in 0..WAVE {
            let quotient = f32::from_bits(c.0[lane]);
            let (a, b) = (f32::from_bits(a.0[lane]), f32::from_bits(b.0[lane]));
            // The scaled sum is rounded to fp32 only once, so that a subnormal quotient is right, too.
            let back = 2f64.powi(if exponent(quotient) > 127 { 64 } else { -64 });
            let scaled = f64::from(a).mul_add(f64::from(b), f64::from(quotient)) * back;
            let marked = (marked >> lane) & 1 == 1;
            result.0[lane] = if marked { scaled as f32 } else { a.mul_add(b, quotient) }.to_bits();
        }
        wave.finish::<F32>(instruction, &mut result);
    }
}

/// For each lane, adds the number of set bits of the mask below the lane's own bit to the second operand. The mask is
/// for lanes 0 to 31 if `low` is true, and otherwise for lanes 32 to 63.
#[inline(always)]
fn masked_count(wave: &mut Wave, instruction: &Instruction, low: bool) {
    let (mut space_a, mut space_b) = (Lanes::ZERO, Lanes::ZERO);
    let a = wave.raw(&instruction.sources[0], &mut space_a);
    let b = wave.raw(&instruction.sources[1], &mut space_b);
    let mut result = Lanes::ZERO;
    let upper_half = wave.first_lane != 0;
    for lane in 0..WAVE {
        let below = match (low, upper_half) {
            (true, false) | (false, true) => (1u32 << lane) - 1,
            (true, true) => u32::MAX,
            (false, false) => 0,
        };
        result.0[lane] = (a.0[lane] & below).count_ones().wrapping_add(b.0[lane]);
    }
    wave.write(instruction.destination, &result);
}

handler! { fn v_mbcnt_lo_u32_b32(wave, instruction) { masked_count(wave, instruction, true); } }
handler! { fn v_mbcnt_hi_u32_b32(wave, instruction) { masked_count(wave, instruction, false); } }

handler! { fn v_swap_b32(wave, instruction) {
    let from = instruction.sources[0].index;
    let (theirs, ours) = (wave.vector[usize::from(from)], wave.vector[usize::from(instruction.destination)]);
    wave.write(instruction.destination, &theirs);
    wave.write(from, &ours);
} }

handler! { fn v_readfirstlane_b32(wave, instruction) {
    let mut space = Lanes::ZERO;
    let lane = if wave.exec() == 0 { 0 } else { wave.exec().trailing_zeros() as usize };
    let value = wave.raw(&instruction.sources[0], &mut space).0[lane];
    wave.set_scalar(instruction.scalar, value);
} }

handler! { fn v_readlane_b32(wave, instruction) {
    let mut space = Lanes::ZERO;
    let lane = wave.uniform(&instruction.sources[1]) as usize & (WAVE - 1);
    let value = wave.raw(&instruction.sources[0], &mut space).0[lane];
    wave.set_scalar(instruction.scalar, value);
} }

handler! { fn v_writelane_b32(wave, instruction) {
    let lane = wave.uniform(&instruction.sources[1]) as usize & (WAVE - 1);
    wave.vector[usize::from(instruction.destination)].0[lane] = wave.uniform(&instruction.sources[0]);
} }

/// Each lane reads the lane that its four bits of a 64-bit selector name, in its own row of 16 or in the other row. The
/// flag `high` of the first operand allows reads of inactive lanes. If they are not allowed, the flag `high` of the
/// second operand makes them return 0.
#[inline(always)]
fn permute_lanes(wave: &mut Wave, instruction: &Instruction, other_row: usize) {
    let [data, low, high] = &instruction.sources;
    let (fetch_inactive, bound_control) = (data.high, low.high);
    let mut space = Lanes::ZERO;
    let selector = u64::from(wave.uniform(low)) | u64::from(wave.uniform(high)) << 32;
    let exec = wave.exec();
    let source = *wave.raw(&super::wave::Source { high: false, ..*data }, &mut space);
    let mut result = wave.vector[usize::from(instruction.destination)];
    for lane in 0..WAVE {
        let from = ((lane & 16) ^ other_row) | ((selector >> (4 * (lane & 15))) & 15) as usize;
        if fetch_inactive || (exec >> from) & 1 == 1 {
            result.0[lane] = source.0[from];
        } else if bound_control {
            result.0[lane] = 0;
        }
    }
    wave.write(instruction.destination, &result);
}

handler! { fn v_permlane16_b32(wave, instruction) { permute_lanes(wave, instruction, 0); } }
handler! { fn v_permlanex16_b32(wave, instruction) { permute_lanes(wave, instruction, 16); } }

handler! {
    /// A dual instruction. Both of its parts read their sources before either writes its result.
    fn dual(wave, instruction) {
        if let Some([first, second]) = instruction.inner.as_deref() {
            // SAFETY: the instruction was decoded like any other. The first one writes to a scratch register.
            unsafe { (first.execute)(wave, first) };
            // SAFETY: the reason above applies here too.
            unsafe { (second.execute)(wave, second) };
            let result = wave.vector[usize::from(SCRATCH_RESULT)];
            wave.write(instruction.destination, &result);
        }
    }
}

/// The lane that `lane` reads under DPP, or `None` if that lane would be outside of the row.
pub(crate) fn dpp_source(control: u32, lane: usize) -> Option<usize> {
    let (row, place) = (lane & 16, lane & 15);
    let amount = (control & 15) as usize;
    let within = match control & 0x1f0 {
        0x000..=0x0f0 => Some((place & !3) | ((control >> (2 * (place & 3))) & 3) as usize),
        0x100 => Some(place + amount).filter(|&from| from < 16),
        0x110 => place.checked_sub(amount),
        0x120 => Some((place + 16 - amount) & 15),
        0x140 if amount == 0 => Some(15 - place),
        0x140 => Some(place ^ 7),
        0x150 => Some(amount),
        _ => Some(place ^ amount),
    };
    within.map(|place| row | place)
}

handler! {
    /// An instruction whose first source is permuted within rows of 16 or of 8 lanes. The immediate holds DPP's control
    /// word. If its bit 32 is set, it is a control word of DPP8, which has eight 3-bit selectors.
    fn permuted(wave, instruction) {
        let Some([inner]) = instruction.inner.as_deref() else { return };
        let exec = wave.exec();
        let word = instruction.immediate as u64;
        let source = wave.vector[usize::from(instruction.sources[0].index)];
        let mut moved = Lanes::ZERO;
        let mut enabled = exec;
        if word >> 32 & 1 == 1 {
            let fetch_inactive = word >> 33 & 1 == 1;
            for lane in 0..WAVE {
                let from = (lane & !7) | ((word >> (8 + 3 * (lane & 7))) & 7) as usize;
                let valid = fetch_inactive || (exec >> from) & 1 == 1;
                moved.0[lane] = if valid { source.0[from] } else { 0 };
            }
        } else {
            let control = (word >> 8 & 0x1ff) as u32;
            let (fetch_inactive, bound_control) = (word >> 18 & 1 == 1, word >> 19 & 1 == 1);
            let (bank_mask, row_mask) = ((word >> 24 & 15) as u32, (word >> 28 & 15) as u32);
            let row_mask = row_mask >> (wave.first_lane / 16);
            for lane in 0..WAVE {
                let from = dpp_source(control, lane).filter(|&from| fetch_inactive || (exec >> from) & 1 == 1);
                let masked = (row_mask >> (lane / 16)) & 1 == 0 || (bank_mask >> (lane / 4 % 4)) & 1 == 0;
                match from {
                    Some(from) => moved.0[lane] = source.0[from],
                    None if !bound_control => enabled &= !(1 << lane),
                    None => {}
                }
                if masked {
                    enabled &= !(1 << lane);
                }
            }
        }
        wave.vector[usize::from(SCRATCH_SOURCE)] = moved;
        wave.set_scalar(super::wave::EXEC, enabled);
        // SAFETY: the instruction was decoded like any other. It reads the permuted source from a scratch register.
        unsafe { (inner.execute)(wave, inner) };
        wave.set_scalar(super::wave::EXEC, exec);
    }
}
