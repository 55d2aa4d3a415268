//! The vector encodings: VOP1, VOP2, VOPC, VOP3, VOP3P and VOPD, with or without DPP.

use super::family::{Encoding, Generation, Known};
use super::halves::clear;
use super::reader::{Reader, bits, of, plain};
use super::source::{LITERAL, VECTOR, source};
use super::subword::{SDWA, wrap_selected};
use crate::isa::compare::EXEC_RESULT;
use crate::isa::special::{TWO_SPECIAL, dual, permuted};
use crate::isa::table::Row;
use crate::isa::vector::{ONE, TWO, v_dot2acc_f32_f16, v_dual_add_nc_u32};
use crate::isa::wave::{
    ACCUMULATOR, Handler, Instruction, Kind, Operand, SCRATCH_RESULT, SCRATCH_SOURCE, Source, VCC,
};

// In the field of the first source, these codes mean that the source is permuted (DPP).
const DPP8: u32 = 233;
const DPP8_FETCH_INACTIVE: u32 = 234;
const DPP16: u32 = 250;

/// Corrects a vector register of a 16-bit operand in the short encodings, where bit 7 selects the upper half.
fn half_register(source: &mut Source) {
    if source.kind == Kind::Vector && source.index & 128 != 0 {
        source.index &= 127;
        source.high = true;
    }
}

/// Whether an instruction writes a mask of carries or of marked lanes to a scalar register of its own.
fn carries(known: Known) -> bool {
    let name = known.row.name;
    name.contains("_co_")
        || name.ends_with("_with_carry")
        || matches!(name, "v_div_scale_f32" | "v_mad_u64_u32" | "v_mad_i64_i32")
}

/// VOP1, VOP2 and VOPC.
pub(super) fn vop12c(reader: &mut Reader<'_>) -> Option<Instruction> {
    let word = reader.first();
    let (code, destination) = (bits(word, 0, 9), bits(word, 17, 8) as u16);
    let mut second = Source::vector(bits(word, 9, 8) as u16);
    let (encoding, opcode) = match word >> 25 {
        0b011_1111 => (Encoding::Vop1, bits(word, 9, 8)),
        0b011_1110 => (Encoding::Vopc, bits(word, 17, 8)),
        _ => (Encoding::Vop2, bits(word, 25, 6)),
    };
    let known = reader.known(encoding, opcode)?;
    let row = known.row;
    let mut instruction = of(known);
    let operand = |number: usize| row.operands.get(number).copied().unwrap_or(Operand::B32);
    let mut literal = None;
    // The control word of DPP or SDWA takes the place of a literal.
    let control = match code {
        DPP16 | DPP8 | DPP8_FETCH_INACTIVE | SDWA => Some(reader.next()?),
        _ => None,
    };
    let mut first = match control {
        Some(control) => Source::vector(bits(control, 0, 8) as u16),
        None => source(reader, code, operand(0), &mut literal)?,
    };
    let halves = reader.family.halves;
    if halves && operand(0) == Operand::B16 {
        half_register(&mut first);
    }
    if halves && operand(1) == Operand::B16 {
        half_register(&mut second);
    }
    instruction.sources = [first, second, Source::NONE];
    match encoding {
        Encoding::Vopc => instruction.scalar = if known.to_exec { EXEC_RESULT } else { VCC },
        Encoding::Vop1 => {
            instruction.sources[1] = Source::NONE;
            instruction.destination = destination;
            instruction.scalar = reader.family.scalar(u32::from(destination));
        }
        _ => {
            instruction.destination = destination;
            match row.name {
                "v_fmaak_f32" | "v_fmaak_f16" => {
                    instruction.sources[2] = source(reader, LITERAL, Operand::B32, &mut literal)?;
                }
                "v_fmamk_f32" | "v_fmamk_f16" => {
                    instruction.sources[1] = source(reader, LITERAL, Operand::B32, &mut literal)?;
                    instruction.sources[2] = second;
                }
                _ if TWO_SPECIAL.iter().any(|special| special.name == row.name) || carries(known) => {
                    instruction.sources[2] = Source::scalar(VCC);
                    instruction.scalar = VCC;
                }
                _ if row.operands.len() == 3 => instruction.sources[2] = Source::vector(destination),
                _ => {}
            }
        }
    }
    if halves && row.result == Operand::B16 && encoding != Encoding::Vopc && destination & 128 != 0 {
        instruction.destination &= 127;
        instruction.high = true;
        if row.operands.len() == 3 && instruction.sources[2].kind == Kind::Vector {
            half_register(&mut instruction.sources[2]);
        }
    }
    if known.name == "v_accvgpr_mov_b32" {
        instruction.sources[0].index += ACCUMULATOR;
        instruction.destination += ACCUMULATOR;
    }
    let clears = reader.family.clears_halves && row.result == Operand::B16 && encoding != Encoding::Vopc;
    let Some(control) = control else {
        return Some(if clears { clear(instruction) } else { instruction });
    };
    if known.to_exec {
        return None;
    }
    if code == DPP16 && (clears || !dpp_known(reader, bits(control, 8, 9))) {
        return None;
    }
    match code {
        SDWA => return wrap_selected(reader, instruction, encoding == Encoding::Vopc, row, control),
        DPP16 => {
            instruction.sources[0].negate = bits(control, 20, 1) == 1;
            instruction.sources[0].absolute = bits(control, 21, 1) == 1;
            instruction.sources[1].negate = bits(control, 22, 1) == 1;
            instruction.sources[1].absolute = bits(control, 23, 1) == 1;
        }
        _ => {}
    }
    Some(wrap_permuted(instruction, code, control))
}

/// Whether the emulator has a family's DPP control. Vega and CDNA also have some that move numbers between rows
/// (wave_shl to wave_ror, row_bcast).
fn dpp_known(reader: &Reader<'_>, control: u32) -> bool {
    reader.family.generation != Generation::Gfx9
        || matches!(control, 0..=0xff | 0x101..=0x12f | 0x140..=0x141 | 0x150..=0x15f)
}

/// Wraps an instruction in another one, which permutes the instruction's first source as the control word says and then
/// executes it.
fn wrap_permuted(mut inner: Instruction, kind: u32, control: u32) -> Instruction {
    let mut outer = plain(permuted, inner.name);
    outer.sources[0] = Source::vector(inner.sources[0].index);
    inner.sources[0].index = SCRATCH_SOURCE;
    if kind == DPP16 {
        outer.immediate = i64::from(control);
    } else {
        outer.immediate = i64::from(control) | 1 << 32 | i64::from(kind == DPP8_FETCH_INACTIVE) << 33;
    }
    outer.inner = Some(Box::new([inner]));
    outer
}

/// VOP3 and VOP3SD, the form that writes a carry.
pub(super) fn vop3(reader: &mut Reader<'_>) -> Option<Instruction> {
    three(reader, 0x180)
}

/// VOP3A and VOP3B, the same on gfx9.
pub(super) fn vop3_gfx9(reader: &mut Reader<'_>) -> Option<Instruction> {
    three(reader, 0x140)
}

/// The opcodes from `one` on are those of VOP1.
fn three(reader: &mut Reader<'_>, one: u32) -> Option<Instruction> {
    let word = reader.first();
    let second = reader.next()?;
    let opcode = bits(word, 16, 10);
    // The short encodings' instructions have a VOP3 form, too.
    let known = match opcode {
        0..=0xff => reader.known(Encoding::Vopc, opcode)?,
        0x100..=0x13f => reader.known(Encoding::Vop2, opcode - 0x100)?,
        _ if (one..one + 0x80).contains(&opcode) => reader.known(Encoding::Vop1, opcode - one)?,
        _ => reader.known(Encoding::Vop3, opcode)?,
    };
    let row = known.row;
    if matches!(row.name, "v_dot2acc_f32_f16" | "dot2acc_f32_f16_flushed" | "v_dot4acc_i32_i8") {
        return None;
    }
    let carries = carries(known);
    let mut instruction = of(known);
    let mut literal = None;
    let mut codes = [bits(second, 0, 9), bits(second, 9, 9), bits(second, 18, 9)];
    let dpp = match codes[0] {
        DPP16 | DPP8 | DPP8_FETCH_INACTIVE => {
            let control = reader.next()?;
            let kind = codes[0];
            codes[0] = VECTOR + bits(control, 0, 8);
            Some((kind, control))
        }
        _ => None,
    };
    for (number, &operand) in row.operands.iter().enumerate() {
        instruction.sources[number] = source(reader, codes[number], operand, &mut literal)?;
    }
    let destination = bits(word, 0, 8);
    instruction.destination = destination as u16;
    instruction.scalar = reader.family.scalar(destination);
    let (absolute, halves) = (bits(word, 8, 3), bits(word, 11, 4));
    for number in 0..3 {
        let source = &mut instruction.sources[number];
        source.negate = bits(second, 29 + number as u32, 1) == 1;
        if !carries {
            source.absolute = (absolute >> number) & 1 == 1;
            source.high = (halves >> number) & 1 == 1;
        }
    }
    instruction.clamp = bits(word, 15, 1) == 1;
    instruction.scale = [1.0, 2.0, 4.0, 0.5][bits(second, 27, 2) as usize];
    match opcode {
        0..=0xff => {
            if known.to_exec {
                instruction.scalar = EXEC_RESULT;
            }
        }
        _ if carries => instruction.scalar = reader.family.scalar(word >> 8),
        _ => instruction.high = row.result == Operand::B16 && halves & 8 != 0,
    }
    // The old value of the destination is an operand that the encoding does not name.
    if matches!(row.name, "v_fmac_f32" | "v_fmac_f16") {
        instruction.sources[2] = Source::vector(instruction.destination);
        instruction.sources[2].high = instruction.high;
    }
    if (instruction.clamp || instruction.scale != 1.0) && !row.float {
        return None;
    }
    if row.name == "v_div_fmas_f32" {
        instruction.scalar = VCC;
    }
    if reader.family.clears_halves && row.result == Operand::B16 && (0x100..one + 0x80).contains(&opcode) {
        instruction = clear(instruction);
    }
    match dpp {
        None => Some(instruction),
        Some(_) if known.to_exec => None,
        Some((kind, control)) => Some(wrap_permuted(instruction, kind, control)),
    }
}

pub(super) fn vop3p(reader: &mut Reader<'_>) -> Option<Instruction> {
    let word = reader.first();
    // On gfx9 these bits belong to the prefix.
    if bits(word, 24, 2) != 0 && reader.family.generation != Generation::Gfx9 {
        return None;
    }
    let second = reader.next()?;
    let known = reader.known(Encoding::Vop3p, bits(word, 16, 7))?;
    let row = known.row;
    let mut instruction = of(known);
    let mut literal = None;
    let high_for_high = bits(second, 27, 2) | bits(word, 14, 1) << 2;
    for (number, &operand) in row.operands.iter().enumerate() {
        let code = bits(second, 9 * number as u32, 9);
        let half = operand == Operand::Mixed && (high_for_high >> number) & 1 == 1;
        instruction.sources[number] =
            source(reader, code, if half { Operand::B16 } else { operand }, &mut literal)?;
        let source = &mut instruction.sources[number];
        source.high = bits(word, 11 + number as u32, 1) == 1;
        source.high_for_high = (high_for_high >> number) & 1 == 1;
        source.negate = bits(second, 29 + number as u32, 1) == 1;
        source.negate_high = bits(word, 8 + number as u32, 1) == 1;
        // The accumulator of a dot product is a single number. Its second modifier means the absolute value.
        if operand == Operand::B32 && number == 2 {
            source.absolute = source.negate_high;
            source.high = false;
        }
        if operand == Operand::Pair {
            // A move takes one number from each pair.
            let moves = row.name == "v_pk_mov_b32";
            source.high_for_high &= !moves;
            // It is not documented what the second number of a constant is.
            if source.kind == Kind::Constant && (source.high || source.high_for_high) {
                return None;
            }
        }
    }
    instruction.destination = bits(word, 0, 8) as u16;
    instruction.clamp = bits(word, 15, 1) == 1;
    let float = row.name.contains("_f16") || row.name.contains("_f32");
    let matrix = row.name.contains("wmma");
    let pair = row.result == Operand::Pair;
    if instruction.clamp && (!float || matrix || pair) {
        return None;
    }
    Some(instruction)
}

/// VOP3P on gfx9, whose opcodes from 0x40 on are the matrix instructions (VOP3P-MAI).
pub(super) fn vop3p_gfx9(reader: &mut Reader<'_>) -> Option<Instruction> {
    let word = reader.first();
    if bits(word, 16, 7) < 0x40 {
        return vop3p(reader);
    }
    let second = reader.next()?;
    let known = reader.known(Encoding::Vop3p, bits(word, 16, 7))?;
    let mut instruction = of(known);
    // The modifiers CBSZ, ABID and BLGP permute the operands' blocks.
    let permutes = bits(word, 8, 7) != 0 || bits(second, 29, 3) != 0;
    if permutes && known.name.starts_with("v_mfma_") {
        return None;
    }
    let operand = |number: usize| known.row.operands.get(number).copied().unwrap_or(Operand::B32);
    for number in 0..known.row.operands.len() {
        let code = bits(second, 9 * number as u32, 9);
        instruction.sources[number] = source(reader, code, operand(number), &mut None)?;
    }
    instruction.destination = bits(word, 0, 8) as u16;
    // Which of the operands are accumulation registers: a bit for A, one for B, and one for C and D.
    let (reads, writes) = match known.name {
        "v_accvgpr_read_b32" => ([true, false, false], false),
        "v_accvgpr_write_b32" => ([false; 3], true),
        _ => {
            let sums = reader.family.sums_always_accumulate || bits(word, 15, 1) == 1;
            ([bits(second, 27, 1) == 1, bits(second, 28, 1) == 1, sums], sums)
        }
    };
    for (source, accumulates) in instruction.sources.iter_mut().zip(reads) {
        if accumulates && source.kind == Kind::Vector {
            source.index += ACCUMULATOR;
        }
    }
    if writes {
        instruction.destination += ACCUMULATOR;
    }
    Some(instruction)
}

/// The handler, the name and the number of operands of the instruction with this opcode in VOPD.
fn dual_row(opcode: u32) -> Option<(Handler, &'static str, usize)> {
    let of = |table: &'static [Row], name: &str| {
        table.iter().find(|row| row.name == name).map(|row| (row.handler, row.name, row.operands.len()))
    };
    match opcode {
        0 => of(TWO, "v_fmac_f32"),
        1 => of(TWO, "v_fmaak_f32"),
        2 => of(TWO, "v_fmamk_f32"),
        3 => of(TWO, "v_mul_f32"),
        4 => of(TWO, "v_add_f32"),
        5 => of(TWO, "v_sub_f32"),
        6 => of(TWO, "v_subrev_f32"),
        7 => of(TWO, "v_mul_dx9_zero_f32"),
        8 => of(ONE, "v_mov_b32"),
        9 => of(TWO_SPECIAL, "v_cndmask_b32"),
        10 => of(TWO, "v_max_f32"),
        11 => of(TWO, "v_min_f32"),
        12 => Some((v_dot2acc_f32_f16, "v_dot2acc_f32_f16", 3)),
        16 => Some((v_dual_add_nc_u32, "v_dual_add_nc_u32", 2)),
        17 => of(TWO, "v_lshlrev_b32"),
        18 => of(TWO, "v_and_b32"),
        _ => None,
    }
}

/// VOPD: one encoding that holds two instructions.
pub(super) fn vopd(reader: &mut Reader<'_>) -> Option<Instruction> {
    let word = reader.first();
    let second = reader.next()?;
    let mut literal = None;
    let first_destination = bits(second, 24, 8) as u16;
    // The encoding omits the lowest bit of the second destination. It is the inverse of the first destination's.
    let second_destination = (bits(second, 17, 7) << 1) as u16 | (!first_destination & 1);
    // The first half writes to a scratch register, so that the second half still reads the old registers.
    let halves = [
        (bits(word, 22, 4), bits(word, 0, 9), bits(word, 9, 8), first_destination, SCRATCH_RESULT),
        (bits(word, 17, 5), bits(second, 0, 9), bits(second, 9, 8), second_destination, second_destination),
    ];
    let mut inner = Vec::with_capacity(2);
    for (opcode, code, register, destination, target) in halves {
        let (handler, name, _) = dual_row(opcode)?;
        let mut half = plain(handler, name);
        half.destination = target;
        let first =
            source(reader, code, if opcode == 12 { Operand::Packed } else { Operand::B32 }, &mut literal)?;
        let other = Source::vector(register as u16);
        half.sources = match opcode {
            0 | 12 => [first, other, Source::vector(destination)],
            1 => [first, other, source(reader, LITERAL, Operand::B32, &mut literal)?],
            2 => [first, source(reader, LITERAL, Operand::B32, &mut literal)?, other],
            8 => [first, Source::NONE, Source::NONE],
            9 => [first, other, Source::scalar(VCC)],
            _ => [first, other, Source::NONE],
        };
        inner.push(half);
    }
    let mut instruction = plain(dual, "v_dual");
    instruction.destination = first_destination;
    instruction.inner = Some(inner.into_boxed_slice());
    Some(instruction)
}
