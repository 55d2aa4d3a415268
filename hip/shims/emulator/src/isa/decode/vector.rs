//! The vector encodings: VOP1, VOP2, VOPC, VOP3, VOP3P and VOPD, with or without DPP.

use super::reader::{Reader, bits, plain, row};
use super::source::{LITERAL, VECTOR, source};
use crate::isa::compare::{CLASS, COMPARE, COMPARE_WIDE, EXEC_RESULT};
use crate::isa::matrix::MATRIX;
use crate::isa::packed::PACKED;
use crate::isa::special::{ONE_SPECIAL, THREE_SPECIAL, TWO_SPECIAL, dual, permuted};
use crate::isa::table::Row;
use crate::isa::vector::{ONE, THREE, TWO, v_dot2acc_f32_f16, v_dual_add_nc_u32};
use crate::isa::wave::{Handler, Instruction, Kind, Operand, SCRATCH_RESULT, SCRATCH_SOURCE, Source, VCC};

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

/// VOP1, VOP2 and VOPC.
pub(super) fn vop12c(reader: &mut Reader<'_>) -> Option<Instruction> {
    let word = reader.first();
    let (code, destination) = (bits(word, 0, 9), bits(word, 17, 8) as u16);
    let second = Source::vector(bits(word, 9, 8) as u16);
    let top = word >> 25;
    let compares_to_exec = top == 0b011_1110 && bits(word, 17, 8) & 0x80 != 0;
    let row = match top {
        0b011_1111 => row(&[ONE, ONE_SPECIAL], bits(word, 9, 8))?,
        0b011_1110 => row(&[COMPARE, COMPARE_WIDE, CLASS], bits(word, 17, 8) & 0x7f)?,
        0b000_0010 => return dot2acc(reader),
        _ => row(&[TWO, TWO_SPECIAL], bits(word, 25, 6))?,
    };
    let mut instruction = plain(row.handler, row.name);
    let operand = |number: usize| row.operands.get(number).copied().unwrap_or(Operand::B32);
    let mut literal = None;
    // DPP's control word takes the place of a literal.
    let dpp = match code {
        DPP16 | DPP8 | DPP8_FETCH_INACTIVE => Some(reader.next()?),
        _ => None,
    };
    let mut first = match dpp {
        Some(control) => Source::vector(bits(control, 0, 8) as u16),
        None => source(reader, code, operand(0), &mut literal)?,
    };
    let mut second = second;
    if operand(0) == Operand::B16 {
        half_register(&mut first);
    }
    if operand(1) == Operand::B16 {
        half_register(&mut second);
    }
    instruction.sources = [first, second, Source::NONE];
    match top {
        0b011_1110 => instruction.scalar = if compares_to_exec { EXEC_RESULT } else { VCC },
        0b011_1111 => {
            instruction.sources[1] = Source::NONE;
            instruction.destination = destination;
            instruction.scalar = destination as u8;
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
                _ if TWO_SPECIAL.iter().any(|special| special.name == row.name) => {
                    instruction.sources[2] = Source::scalar(VCC);
                    instruction.scalar = VCC;
                }
                _ if row.operands.len() == 3 => instruction.sources[2] = Source::vector(destination),
                _ => {}
            }
        }
    }
    if row.result == Operand::B16 && top != 0b011_1110 && destination & 128 != 0 {
        instruction.destination &= 127;
        instruction.high = true;
        if row.operands.len() == 3 && instruction.sources[2].kind == Kind::Vector {
            half_register(&mut instruction.sources[2]);
        }
    }
    let Some(control) = dpp else { return Some(instruction) };
    if code == DPP16 {
        instruction.sources[0].negate = bits(control, 20, 1) == 1;
        instruction.sources[0].absolute = bits(control, 21, 1) == 1;
        instruction.sources[1].negate = bits(control, 22, 1) == 1;
        instruction.sources[1].absolute = bits(control, 23, 1) == 1;
    }
    wrap_permuted(instruction, code, control)
}

/// Wraps an instruction in another one, which permutes the instruction's first source as the control word says and then
/// executes it.
fn wrap_permuted(mut inner: Instruction, kind: u32, control: u32) -> Option<Instruction> {
    if inner.scalar == EXEC_RESULT {
        return None;
    }
    let mut outer = plain(permuted, inner.name);
    outer.sources[0] = Source::vector(inner.sources[0].index);
    inner.sources[0].index = SCRATCH_SOURCE;
    if kind == DPP16 {
        outer.immediate = i64::from(control);
    } else {
        outer.immediate = i64::from(control) | 1 << 32 | i64::from(kind == DPP8_FETCH_INACTIVE) << 33;
    }
    outer.inner = Some(Box::new([inner]));
    Some(outer)
}

/// VOP2's dot product of two pairs of fp16 numbers. Its encoding has no operand selectors.
fn dot2acc(reader: &mut Reader<'_>) -> Option<Instruction> {
    let word = reader.first();
    let mut instruction = plain(v_dot2acc_f32_f16, "v_dot2acc_f32_f16");
    instruction.destination = bits(word, 17, 8) as u16;
    let first = source(reader, bits(word, 0, 9), Operand::Packed, &mut None)?;
    instruction.sources =
        [first, Source::vector(bits(word, 9, 8) as u16), Source::vector(instruction.destination)];
    Some(instruction)
}

/// VOP3 and VOP3SD, the form that writes a carry.
pub(super) fn vop3(reader: &mut Reader<'_>) -> Option<Instruction> {
    let word = reader.first();
    let second = reader.next()?;
    let opcode = bits(word, 16, 10);
    let row = match opcode {
        0..=0xff => row(&[COMPARE, COMPARE_WIDE, CLASS], opcode & 0x7f)?,
        0x100..=0x17f => row(&[TWO, TWO_SPECIAL], opcode - 0x100)?,
        0x180..=0x1ff => row(&[ONE, ONE_SPECIAL], opcode - 0x180)?,
        _ => row(&[THREE, THREE_SPECIAL], opcode)?,
    };
    let carries = matches!(opcode, 0x120..=0x122 | 0x2fc..=0x302);
    let mut instruction = plain(row.handler, row.name);
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
    instruction.scalar = destination as u8;
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
            if opcode & 0x80 != 0 {
                instruction.scalar = EXEC_RESULT;
            }
        }
        _ if carries => instruction.scalar = bits(word, 8, 7) as u8,
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
    match dpp {
        None => Some(instruction),
        Some((kind, control)) => wrap_permuted(instruction, kind, control),
    }
}

pub(super) fn vop3p(reader: &mut Reader<'_>) -> Option<Instruction> {
    let word = reader.first();
    if bits(word, 24, 2) != 0 {
        return None;
    }
    let second = reader.next()?;
    let row = row(&[PACKED, MATRIX], bits(word, 16, 7))?;
    let mut instruction = plain(row.handler, row.name);
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
    }
    instruction.destination = bits(word, 0, 8) as u16;
    instruction.clamp = bits(word, 15, 1) == 1;
    let float = row.name.contains("_f16") || row.name.contains("_f32");
    let matrix = row.name.starts_with("v_wmma");
    if instruction.clamp && (!float || matrix) {
        return None;
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
