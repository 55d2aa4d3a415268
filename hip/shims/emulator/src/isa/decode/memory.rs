//! The encodings of memory instructions: SMEM, DS, MUBUF, FLAT.

use super::family::Encoding;
use super::reader::{Reader, bits, of, plain};
use super::source::source;
use crate::isa::memory::lds::{LDS, LDS_PAIRS};
use crate::isa::wave::{ACCUMULATOR, Handler, Instruction, NULL, Operand, SCRATCH_SOURCE, Source};

/// The `count` low bits of a word as a signed number.
fn signed(word: u32, count: u32) -> i64 {
    i64::from((word << (32 - count)) as i32 >> (32 - count))
}

/// SMEM: scalar loads. The opcode begins at a bit of the first word. The offset is the low bits of the second word.
fn scalar_load(
    reader: &mut Reader<'_>,
    (opcode_at, opcode_bits): (u32, u32),
    offset_bits: u32,
) -> Option<Instruction> {
    let word = reader.first();
    let second = reader.next()?;
    let mut instruction = of(reader.known(Encoding::Smem, bits(word, opcode_at, opcode_bits))?);
    instruction.scalar = reader.family.scalar(word >> 6);
    instruction.sources[0] = Source::scalar((bits(word, 0, 6) * 2) as u8);
    instruction.sources[1] = Source::scalar(reader.family.scalar(second >> 25));
    instruction.immediate = signed(second, offset_bits);
    Some(instruction)
}

/// SMEM on gfx10 and gfx11.
pub(super) fn smem(reader: &mut Reader<'_>) -> Option<Instruction> {
    scalar_load(reader, (18, 8), 21)
}

/// SMEM on gfx12.
pub(super) fn smem_gfx12(reader: &mut Reader<'_>) -> Option<Instruction> {
    scalar_load(reader, (13, 6), 24)
}

/// SMEM on gfx9. The flags say whether the second word has a constant offset, and whether it names a scalar register
/// with a further one. Without a constant, the place of the constant names that register.
pub(super) fn smem_gfx9(reader: &mut Reader<'_>) -> Option<Instruction> {
    let word = reader.first();
    let mut instruction = scalar_load(reader, (18, 8), 21)?;
    let (constant, register) = (bits(word, 17, 1) == 1, bits(word, 14, 1) == 1);
    if !constant {
        instruction.sources[1] = match register {
            true => instruction.sources[1],
            false => Source::scalar(reader.family.scalar(instruction.immediate as u32)),
        };
        instruction.immediate = 0;
    } else if !register {
        instruction.sources[1] = Source::scalar(NULL);
    }
    Some(instruction)
}

/// DS: LDS instructions.
pub(super) fn lds(reader: &mut Reader<'_>) -> Option<Instruction> {
    lds_from(reader, 17, 0)
}

/// DS on gfx9. On CDNA a bit makes the data's registers accumulation registers.
pub(super) fn lds_gfx9(reader: &mut Reader<'_>) -> Option<Instruction> {
    let data = bits(reader.first(), 25, 1) as u16 * ACCUMULATOR;
    lds_from(reader, 16, data)
}

/// The bit GDS is before the opcode. `data` is the number of the first register that can hold data.
fn lds_from(reader: &mut Reader<'_>, gds_at: u32, data: u16) -> Option<Instruction> {
    let word = reader.first();
    let second = reader.next()?;
    let opcode = bits(word, gds_at + 1, 8);
    // The bit GDS selects the global data share, which the emulator does not have.
    if bits(word, gds_at, 1) == 1 {
        return None;
    }
    let sources = [(0, 0), (8, data), (16, data)]
        .map(|(low, first)| Source::vector(bits(second, low, 8) as u16 + first));
    let destination = bits(second, 24, 8) as u16 + data;
    let fill = |handler: Handler, name: &'static str| {
        let mut instruction = plain(handler, name);
        instruction.sources = sources;
        instruction.destination = destination;
        instruction.immediate = i64::from(bits(word, 0, 16));
        instruction
    };
    let known = reader.known(Encoding::Lds, opcode)?;
    let mut instruction = fill(known.row.handler, known.name);
    let Some(pair) = LDS_PAIRS.iter().find(|pair| pair.name == known.row.name) else {
        return Some(instruction);
    };
    let step = LDS.iter().find(|row| row.name == pair.step)?;
    let halves = [0, 1].map(|number| {
        let mut half = fill(step.handler, known.name);
        half.immediate = i64::from(bits(word, 8 * number, 8)) * pair.unit;
        half.destination += number as u16 * pair.registers;
        half.sources = [Source::vector(SCRATCH_SOURCE), sources[1 + number as usize], Source::NONE];
        half
    });
    instruction.inner = Some(Box::new(halves));
    Some(instruction)
}

/// MUBUF: buffer memory, addressed in bytes. The emulator supports neither the indexed form nor the form that also
/// returns residency.
pub(super) fn buffer(reader: &mut Reader<'_>) -> Option<Instruction> {
    let word = reader.first();
    let second = reader.next()?;
    let known = reader.known(Encoding::Buffer, bits(word, 18, 8))?;
    // These bits are IDXEN (an index from a register) and TFE (a residency result).
    if bits(second, 21, 1) == 1 || bits(second, 23, 1) == 1 {
        return None;
    }
    let mut instruction = of(known);
    instruction.sources = [
        Source::vector(bits(second, 0, 8) as u16),
        Source::scalar((bits(second, 16, 5) * 4) as u8),
        source(reader, bits(second, 24, 8), Operand::B32, &mut None)?,
    ];
    // For a store, this register holds the data.
    instruction.destination = bits(second, 8, 8) as u16;
    instruction.immediate = i64::from(bits(word, 0, 12));
    // OFFEN: the vector register holds an offset.
    instruction.high = bits(second, 22, 1) == 1;
    Some(instruction)
}

/// FLAT on gfx10 and gfx11: global and flat memory. Scratch memory is not supported, because the loader refuses kernels
/// that use it. The arguments are the first bit of the segment, the bits of the offset, and the bit GLC, which makes an
/// atomic instruction return the old value.
fn segmented(
    reader: &mut Reader<'_>,
    segment_at: u32,
    offset_bits: u32,
    returns_at: u32,
) -> Option<Instruction> {
    let word = reader.first();
    let second = reader.next()?;
    // A flat instruction has no scalar base.
    let (encoding, base) = match bits(word, segment_at, 2) {
        0 => (Encoding::Flat, NULL),
        2 => (Encoding::Global, reader.family.scalar(second >> 16)),
        _ => return None,
    };
    let mut instruction = of(reader.known(encoding, bits(word, 18, 7))?);
    instruction.sources = [
        Source::vector(bits(second, 0, 8) as u16),
        Source::scalar(base),
        Source::vector(bits(second, 8, 8) as u16),
    ];
    instruction.destination = bits(second, 24, 8) as u16;
    instruction.immediate = signed(word, offset_bits);
    instruction.high = bits(word, returns_at, 1) == 1;
    Some(instruction)
}

/// FLAT on gfx9. On CDNA a bit makes the data's registers accumulation registers.
pub(super) fn flat_gfx9(reader: &mut Reader<'_>) -> Option<Instruction> {
    /// The code that means no scalar base.
    const NO_BASE: u16 = 127;
    let mut instruction = segmented(reader, 14, 13, 16)?;
    let base = &mut instruction.sources[1];
    if base.index == NO_BASE {
        *base = Source::scalar(NULL);
    }
    if bits(reader.words[1], 23, 1) == 1 {
        instruction.sources[2].index += ACCUMULATOR;
        instruction.destination += ACCUMULATOR;
    }
    Some(instruction)
}

/// FLAT on gfx10.
pub(super) fn flat_gfx10(reader: &mut Reader<'_>) -> Option<Instruction> {
    segmented(reader, 14, 12, 16)
}

/// FLAT on gfx11.
pub(super) fn flat_gfx11(reader: &mut Reader<'_>) -> Option<Instruction> {
    segmented(reader, 16, 13, 14)
}

/// VFLAT and VGLOBAL on gfx12: flat and global memory in three words.
fn three_words(reader: &mut Reader<'_>, encoding: Encoding) -> Option<Instruction> {
    let word = reader.first();
    let (second, third) = (reader.next()?, reader.next()?);
    let mut instruction = of(reader.known(encoding, bits(word, 14, 8))?);
    instruction.sources = [
        Source::vector(bits(third, 0, 8) as u16),
        Source::scalar(reader.family.scalar(word)),
        Source::vector(bits(second, 23, 8) as u16),
    ];
    instruction.destination = bits(second, 0, 8) as u16;
    instruction.immediate = signed(third >> 8, 24);
    // The lowest bit of the temporal hint makes an atomic instruction return the old value.
    instruction.high = bits(second, 20, 1) == 1;
    Some(instruction)
}

/// VFLAT on gfx12.
pub(super) fn flat_gfx12(reader: &mut Reader<'_>) -> Option<Instruction> {
    three_words(reader, Encoding::Flat)
}

/// VGLOBAL on gfx12.
pub(super) fn global_gfx12(reader: &mut Reader<'_>) -> Option<Instruction> {
    three_words(reader, Encoding::Global)
}
