//! Machine code of gfx11 (RDNA 3 and 3.5) to instructions, once per code object.
//!
//! What is not in a table decodes to an instruction that stops the wave when it is reached, with the encoding's words:
//! a code object may hold what a run does not need.

use super::access::{FLAT, GLOBAL, LDS, LDS_PAIRS, SCALAR_MEMORY, lds_pair};
use super::buffer::BUFFER;
use super::compare::{CLASS, COMPARE, COMPARE_WIDE, EXEC_RESULT};
use super::matrix::MATRIX;
use super::packed::PACKED;
use super::scalar::{BINARY, BRANCH, CONDITION, CONSTANT, PROGRAM, UNARY, UNARY_SPECIAL};
use super::special::{ONE_SPECIAL, THREE_SPECIAL, TWO_SPECIAL, dual, permuted};
use super::table::{Row, handler};
use super::vector::{ONE, THREE, TWO, v_dot2acc_f32_f16, v_dual_add_nc_u32};
use super::wave::{
    Handler, Instruction, Kind, NULL, Operand, SCRATCH_RESULT, SCRATCH_SOURCE, SHARED_APERTURE, Source, VCC,
    Wave,
};

/// First source codes with a meaning of their own.
const DPP8: u32 = 233;
const DPP8_FETCH_INACTIVE: u32 = 234;
const DPP16: u32 = 250;
const LITERAL: u32 = 255;
const VECTOR: u32 = 256;

handler! {
    /// Stops the wave: the emulator does not know this encoding.
    fn unknown(wave, instruction) {
        let words = instruction.immediate as u64;
        wave.fail(format!("unknown instruction {:08x} {:08x}", words as u32, words >> 32));
    }
}

/// A decoded program: instructions in order of address.
pub(crate) struct Program {
    /// Where the code object lies in memory.
    pub(crate) base: u64,
    pub(crate) instructions: Vec<Instruction>,
}

impl Program {
    /// Decodes code that starts at an address of a code object which lies at `base`.
    pub(crate) fn decode(code: &[u8], start: u32, base: u64) -> Self {
        let words: Vec<u32> = code
            .chunks_exact(4)
            .map(|bytes| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
            .collect();
        let mut instructions = Vec::new();
        let mut branches = Vec::new();
        let mut at = 0;
        while at < words.len() {
            let mut reader = Reader { words: &words[at..], used: 1 };
            let mut instruction = decode(&mut reader).unwrap_or_else(|| plain(unknown, "unknown"));
            if instruction.name == "unknown" {
                reader.used = 1;
                let next = words.get(at + 1).copied().unwrap_or_default();
                instruction.immediate = (u64::from(words[at]) | u64::from(next) << 32) as i64;
            }
            instruction.pc = start + 4 * at as u32;
            if matches!(instruction.name, "s_getpc_b64" | "s_swappc_b64") {
                instruction.immediate = (base + u64::from(instruction.pc) + 4) as i64;
            }
            if BRANCH.iter().any(|row| row.name == instruction.name) {
                let target = i64::from(instruction.pc) + 4 + 4 * instruction.immediate;
                branches.push((instructions.len(), target as u32));
            }
            instructions.push(instruction);
            at += reader.used;
        }
        // A branch into the middle of an instruction, or out of the code, ends at the sentinel behind all.
        for (number, target) in branches {
            let found =
                instructions.binary_search_by_key(&target, |instruction: &Instruction| instruction.pc);
            instructions[number].target = found.unwrap_or(instructions.len()) as u32;
        }
        let mut sentinel = plain(unknown, "unknown");
        sentinel.pc = start + 4 * words.len() as u32;
        instructions.push(sentinel);
        Self { base, instructions }
    }

    /// The number of the instruction at an address in memory.
    pub(crate) fn at_address(&self, address: u64) -> Option<u32> {
        self.at(u32::try_from(address.checked_sub(self.base)?).ok()?)
    }

    /// The number of the instruction at an address of the code object.
    pub(crate) fn at(&self, pc: u32) -> Option<u32> {
        self.instructions
            .binary_search_by_key(&pc, |instruction| instruction.pc)
            .ok()
            .map(|number| number as u32)
    }
}

/// The words of one instruction.
struct Reader<'a> {
    words: &'a [u32],
    used: usize,
}

impl Reader<'_> {
    fn first(&self) -> u32 {
        self.words[0]
    }

    /// The next word, or `None` at the code's end.
    fn next(&mut self) -> Option<u32> {
        let word = *self.words.get(self.used)?;
        self.used += 1;
        Some(word)
    }
}

fn plain(execute: Handler, name: &'static str) -> Instruction {
    Instruction {
        execute,
        name,
        sources: [Source::NONE; 3],
        destination: 0,
        scalar: NULL,
        high: false,
        clamp: false,
        scale: 1.0,
        immediate: 0,
        target: 0,
        pc: 0,
        inner: None,
    }
}

fn row(tables: &[&'static [Row]], opcode: u32) -> Option<&'static Row> {
    tables.iter().flat_map(|table| table.iter()).find(|row| u32::from(row.opcode) == opcode)
}

fn bits(word: u32, low: u32, count: u32) -> u32 {
    (word >> low) & ((1u32 << count) - 1)
}

fn decode(reader: &mut Reader<'_>) -> Option<Instruction> {
    let word = reader.first();
    match word >> 26 {
        0b110101 => vop3(reader),
        0b110010 => vopd(reader),
        0b110011 => vop3p(reader),
        0b110110 => lds(reader),
        0b110111 => memory(reader),
        0b111000 => buffer(reader),
        0b111101 => smem(reader),
        _ if word >> 31 == 0 => vop12c(reader),
        _ => scalar(reader),
    }
}

/// A float constant of the source codes 240 to 248 as fp32.
const FLOATS: [f32; 9] = [0.5, -0.5, 1.0, -1.0, 2.0, -2.0, 4.0, -4.0, 0.159_154_94];

/// A source by its 9-bit code, for an operand of some kind.
fn source(reader: &mut Reader<'_>, code: u32, operand: Operand, literal: &mut Option<u32>) -> Option<Source> {
    let wide = matches!(operand, Operand::B64 | Operand::I64 | Operand::F64);
    let constant = |value: i64| {
        let mut source = Source::constant(value as u32);
        source.value_high = (value >> 32) as u32;
        Some(source)
    };
    match code {
        0..=107 | 124..=127 => Some(Source::scalar(code as u8)),
        128..=192 => constant(i64::from(code) - 128),
        193..=208 => constant(192 - i64::from(code)),
        // Where LDS lies in flat addresses: the upper half of a 64-bit source.
        235 if wide => constant(i64::from(SHARED_APERTURE) << 32),
        235 => constant(i64::from(SHARED_APERTURE)),
        240..=248 => {
            let value = FLOATS[code as usize - 240];
            match operand {
                Operand::B16 | Operand::Packed => constant(i64::from(super::float::f32_to_f16(value))),
                Operand::F64 | Operand::B64 | Operand::I64 => {
                    let exact =
                        if code == 248 { std::f64::consts::FRAC_1_PI / 2.0 } else { f64::from(value) };
                    constant(exact.to_bits() as i64)
                }
                Operand::B32 | Operand::Mixed => constant(i64::from(value.to_bits())),
            }
        }
        253 => Some(Source { kind: Kind::Scc, ..Source::NONE }),
        LITERAL => {
            let word = match *literal {
                Some(word) => word,
                None => *literal.insert(reader.next()?),
            };
            match operand {
                Operand::F64 => constant((u64::from(word) << 32) as i64),
                Operand::I64 => constant(i64::from(word as i32)),
                _ => constant(i64::from(word)),
            }
        }
        VECTOR.. => Some(Source::vector((code - VECTOR) as u16)),
        _ => None,
    }
}

/// SOP1, SOP2, SOPC, SOPK, SOPP.
fn scalar(reader: &mut Reader<'_>) -> Option<Instruction> {
    let word = reader.first();
    let mut literal = None;
    let operand = |row: &Row, number: usize| row.operands.get(number).copied().unwrap_or(Operand::B32);
    match word >> 23 {
        0b1_0111_1111 => {
            let row = row(&[PROGRAM, BRANCH], bits(word, 16, 7))?;
            let mut instruction = plain(row.handler, row.name);
            instruction.immediate = i64::from(word as u16 as i16);
            Some(instruction)
        }
        0b1_0111_1110 => {
            let row = row(&[CONDITION], bits(word, 16, 7))?;
            let mut instruction = plain(row.handler, row.name);
            instruction.sources[0] = source(reader, bits(word, 0, 8), operand(row, 0), &mut literal)?;
            instruction.sources[1] = source(reader, bits(word, 8, 8), operand(row, 1), &mut literal)?;
            Some(instruction)
        }
        0b1_0111_1101 => {
            let row = row(&[UNARY, UNARY_SPECIAL], bits(word, 8, 8))?;
            let mut instruction = plain(row.handler, row.name);
            instruction.scalar = bits(word, 16, 7) as u8;
            instruction.sources[0] = source(reader, bits(word, 0, 8), operand(row, 0), &mut literal)?;
            Some(instruction)
        }
        _ if word >> 28 == 0b1011 => {
            let row = row(&[CONSTANT], bits(word, 23, 5))?;
            let mut instruction = plain(row.handler, row.name);
            instruction.scalar = bits(word, 16, 7) as u8;
            instruction.immediate = i64::from(word as u16 as i16);
            Some(instruction)
        }
        _ if word >> 30 == 0b10 => {
            let row = row(&[BINARY], bits(word, 23, 7))?;
            let mut instruction = plain(row.handler, row.name);
            instruction.scalar = bits(word, 16, 7) as u8;
            instruction.sources[0] = source(reader, bits(word, 0, 8), operand(row, 0), &mut literal)?;
            let second = source(reader, bits(word, 8, 8), operand(row, 1), &mut literal)?;
            instruction.sources[1] = second;
            match row.name {
                "s_fmaak_f32" => {
                    instruction.sources[2] = source(reader, LITERAL, Operand::B32, &mut literal)?
                }
                "s_fmamk_f32" => {
                    instruction.sources[1] = source(reader, LITERAL, Operand::B32, &mut literal)?;
                    instruction.sources[2] = second;
                }
                "s_fmac_f32" => instruction.sources[2] = Source::scalar(instruction.scalar),
                _ => {}
            }
            Some(instruction)
        }
        _ => None,
    }
}

/// Scalar loads.
fn smem(reader: &mut Reader<'_>) -> Option<Instruction> {
    let word = reader.first();
    let second = reader.next()?;
    let row = row(&[SCALAR_MEMORY], bits(word, 18, 8))?;
    let mut instruction = plain(row.handler, row.name);
    instruction.scalar = bits(word, 6, 7) as u8;
    instruction.sources[0] = Source::scalar((bits(word, 0, 6) * 2) as u8);
    instruction.sources[1] = Source::scalar(bits(second, 25, 7) as u8);
    instruction.immediate = i64::from((bits(second, 0, 21) << 11) as i32 >> 11);
    Some(instruction)
}

/// A vector register of a 16-bit operand in the short encodings: bit 7 names the upper half.
fn half_register(source: &mut Source) {
    if source.kind == Kind::Vector && source.index & 128 != 0 {
        source.index &= 127;
        source.high = true;
    }
}

/// VOP1, VOP2 and VOPC.
fn vop12c(reader: &mut Reader<'_>) -> Option<Instruction> {
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
    // DPP's control word stands where a literal would.
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

/// An instruction behind a permutation of its first source, which the control word describes.
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

/// VOP2's dot product, whose operands are halves that cannot be chosen.
fn dot2acc(reader: &mut Reader<'_>) -> Option<Instruction> {
    let word = reader.first();
    let mut instruction = plain(v_dot2acc_f32_f16, "v_dot2acc_f32_f16");
    instruction.destination = bits(word, 17, 8) as u16;
    let first = source(reader, bits(word, 0, 9), Operand::Packed, &mut None)?;
    instruction.sources =
        [first, Source::vector(bits(word, 9, 8) as u16), Source::vector(instruction.destination)];
    Some(instruction)
}

/// VOP3, with the forms that write a carry.
fn vop3(reader: &mut Reader<'_>) -> Option<Instruction> {
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
    // The old value that these add to is an operand that the encoding does not name.
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

/// VOP3P.
fn vop3p(reader: &mut Reader<'_>) -> Option<Instruction> {
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
        // The accumulator of a dot product is one number: its second modifier takes the absolute value.
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

/// The instructions of a dual pair by their numbers.
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

/// VOPD: two instructions in one.
fn vopd(reader: &mut Reader<'_>) -> Option<Instruction> {
    let word = reader.first();
    let second = reader.next()?;
    let mut literal = None;
    let first_destination = bits(second, 24, 8) as u16;
    // The lowest bit of the second destination is the opposite of the first one's.
    let second_destination = (bits(second, 17, 7) << 1) as u16 | (!first_destination & 1);
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

/// LDS.
fn lds(reader: &mut Reader<'_>) -> Option<Instruction> {
    let word = reader.first();
    let second = reader.next()?;
    let opcode = bits(word, 18, 8);
    if bits(word, 17, 1) == 1 {
        return None;
    }
    let sources = [0, 8, 16].map(|low| Source::vector(bits(second, low, 8) as u16));
    let destination = bits(second, 24, 8) as u16;
    let fill = |handler, name| {
        let mut instruction = plain(handler, name);
        instruction.sources = sources;
        instruction.destination = destination;
        instruction.immediate = i64::from(bits(word, 0, 16));
        instruction
    };
    let pair = LDS_PAIRS.iter().find(|pair| u32::from(pair.0) == opcode);
    let Some(&(_, name, step, unit, registers)) = pair else {
        let row = row(&[LDS], opcode)?;
        return Some(fill(row.handler, row.name));
    };
    let step = row(&[LDS], u32::from(step))?;
    let mut instruction = fill(lds_pair, name);
    let halves = [0, 1].map(|number| {
        let mut half = fill(step.handler, name);
        half.immediate = i64::from(bits(word, 8 * number, 8)) * unit;
        half.destination += number as u16 * registers;
        half.sources = [Source::vector(SCRATCH_SOURCE), sources[1 + number as usize], Source::NONE];
        half
    });
    instruction.inner = Some(Box::new(halves));
    Some(instruction)
}

/// Buffer memory, where it is addressed by bytes.
fn buffer(reader: &mut Reader<'_>) -> Option<Instruction> {
    let word = reader.first();
    let second = reader.next()?;
    let row = row(&[BUFFER], bits(word, 18, 8))?;
    // By index, or with a register that says what was not resident.
    if bits(second, 21, 1) == 1 || bits(second, 23, 1) == 1 {
        return None;
    }
    let mut instruction = plain(row.handler, row.name);
    instruction.sources = [
        Source::vector(bits(second, 0, 8) as u16),
        Source::scalar((bits(second, 16, 5) * 4) as u8),
        source(reader, bits(second, 24, 8), Operand::B32, &mut None)?,
    ];
    // Of a store too: what it stores.
    instruction.destination = bits(second, 8, 8) as u16;
    instruction.immediate = i64::from(bits(word, 0, 12));
    // Here this flag says that the vector register holds an offset.
    instruction.high = bits(second, 22, 1) == 1;
    Some(instruction)
}

/// Global and flat memory. Scratch is refused when a kernel is looked up, and unknown here.
fn memory(reader: &mut Reader<'_>) -> Option<Instruction> {
    let word = reader.first();
    let second = reader.next()?;
    let table = match bits(word, 16, 2) {
        0 => FLAT,
        2 => GLOBAL,
        _ => return None,
    };
    let row = row(&[table], bits(word, 18, 7))?;
    let mut instruction = plain(row.handler, row.name);
    let base = bits(second, 16, 7) as u8;
    instruction.sources = [
        Source::vector(bits(second, 0, 8) as u16),
        Source::scalar(if table[0].opcode == FLAT[0].opcode && bits(word, 16, 2) == 0 { NULL } else { base }),
        Source::vector(bits(second, 8, 8) as u16),
    ];
    instruction.destination = bits(second, 24, 8) as u16;
    instruction.immediate = i64::from((bits(word, 0, 13) << 19) as i32 >> 19);
    // Of an atomic instruction, whether it gives the old value back.
    instruction.high = bits(word, 14, 1) == 1;
    Some(instruction)
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::path::{Path, PathBuf};
    use std::process::Command;

    use object::{Object, ObjectSection};

    use super::*;

    /// Code objects for architectures that the emulator knows.
    fn objects() -> Vec<PathBuf> {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut folders = vec![here.join("tests/fixtures"), here.join("../../kernels/objects")];
        folders.extend(std::env::var_os("RUKH_STANDIN_OBJECTS").map(PathBuf::from));
        let files = folders.iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten().flatten();
        let paths = files
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|it| it == "co" || it == "gz"));
        paths
            .filter(|path| ["gfx1100", "gfx1151"].iter().any(|arch| path.to_string_lossy().contains(arch)))
            .collect()
    }

    /// A file's bytes, unpacked.
    fn unpacked(path: &Path) -> Vec<u8> {
        let file = std::fs::read(path).unwrap();
        if path.extension().is_none_or(|extension| extension != "gz") {
            return file;
        }
        let mut bytes = Vec::new();
        flate2::read::GzDecoder::new(&*file).read_to_end(&mut bytes).unwrap();
        bytes
    }

    /// The disassembler's names of a file's instructions by address, or nothing where it is not installed.
    fn disassembled(path: &Path) -> Option<Vec<(u32, String)>> {
        let tools = ["llvm-objdump-19", "llvm-objdump"];
        let run =
            |tool: &&str| Command::new(tool).args(["-d", "--mattr=-real-true16"]).arg(path).output().ok();
        let output = tools.iter().find_map(run).filter(|output| output.status.success())?;
        let text = String::from_utf8(output.stdout).ok()?;
        let lines = text.lines().filter_map(|line| {
            let (code, comment) = line.strip_prefix('\t')?.split_once("//")?;
            let pc = u32::from_str_radix(comment.trim().split(':').next()?, 16).ok()?;
            let name = code.split_whitespace().next()?;
            let short = ["_e32", "_e64", "_dpp", "_e64_dpp"]
                .iter()
                .fold(name, |name, end| name.trim_end_matches(end));
            Some((pc, short.to_owned()))
        });
        Some(lines.collect())
    }

    #[test]
    fn the_decoder_knows_every_instruction_of_the_kernels_by_the_disassembler_s_name() {
        let objects = objects();
        assert!(!objects.is_empty(), "tests/fixtures has code objects");
        let mut compared = 0;
        for path in objects {
            let file = unpacked(&path);
            let elf = object::File::parse(&*file).unwrap();
            let text = elf.section_by_name(".text").unwrap();
            let program = Program::decode(text.data().unwrap(), text.address() as u32, 0);
            let copy = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(copy.path(), &file).unwrap();
            let Some(names) = disassembled(copy.path()) else {
                eprintln!("skipped: llvm-objdump-19 is not installed");
                return;
            };
            let mut wrong: Vec<String> = Vec::new();
            for (pc, name) in names {
                let found = program.at(pc).map(|number| program.instructions[number as usize].name);
                let same = match found {
                    Some("v_dual") => name.starts_with("v_dual_"),
                    Some(found) => found == name.replace("v_cmpx", "v_cmp"),
                    None => false,
                };
                if !same && name != "s_code_end" {
                    wrong.push(format!("{pc:#x}: {name} is {}", found.unwrap_or("inside of another")));
                }
                compared += 1;
            }
            wrong.sort_by_key(|line| line.split_once(": ").map(|(_, rest)| rest.to_owned()));
            wrong.dedup_by_key(|line| line.split_once(": ").map(|(_, rest)| rest.to_owned()));
            assert!(wrong.is_empty(), "{}:\n{}", path.display(), wrong.join("\n"));
        }
        assert!(compared > 1000, "only {compared} instructions were compared");
    }
}
