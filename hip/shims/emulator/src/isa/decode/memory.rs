//! The encodings of memory instructions: SMEM, DS, MUBUF, FLAT.

use super::reader::{Reader, bits, plain, row};
use super::source::source;
use crate::isa::memory::buffer::BUFFER;
use crate::isa::memory::global::{flat, global};
use crate::isa::memory::lds::{LDS, LDS_PAIRS, lds_pair};
use crate::isa::memory::scalar::SCALAR_MEMORY;
use crate::isa::wave::{Instruction, NULL, Operand, SCRATCH_SOURCE, Source};

/// SMEM: scalar loads.
pub(super) fn smem(reader: &mut Reader<'_>) -> Option<Instruction> {
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

/// DS: LDS instructions.
pub(super) fn lds(reader: &mut Reader<'_>) -> Option<Instruction> {
    let word = reader.first();
    let second = reader.next()?;
    let opcode = bits(word, 18, 8);
    // The bit GDS selects the global data share, which the emulator does not have.
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

/// MUBUF: buffer memory, addressed in bytes. The emulator supports neither the indexed form nor the form that also
/// returns residency.
pub(super) fn buffer(reader: &mut Reader<'_>) -> Option<Instruction> {
    let word = reader.first();
    let second = reader.next()?;
    let row = row(&[BUFFER], bits(word, 18, 8))?;
    // These bits are IDXEN (an index from a register) and TFE (a residency result).
    if bits(second, 21, 1) == 1 || bits(second, 23, 1) == 1 {
        return None;
    }
    let mut instruction = plain(row.handler, row.name);
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

/// FLAT: global and flat memory. Scratch memory is not supported, because the loader refuses kernels that use it.
pub(super) fn memory(reader: &mut Reader<'_>) -> Option<Instruction> {
    let word = reader.first();
    let second = reader.next()?;
    // A flat instruction has no scalar base.
    let (table, base) = match bits(word, 16, 2) {
        0 => (flat::TABLE, NULL),
        2 => (global::TABLE, bits(second, 16, 7) as u8),
        _ => return None,
    };
    let row = row(&[table], bits(word, 18, 7))?;
    let mut instruction = plain(row.handler, row.name);
    instruction.sources = [
        Source::vector(bits(second, 0, 8) as u16),
        Source::scalar(base),
        Source::vector(bits(second, 8, 8) as u16),
    ];
    instruction.destination = bits(second, 24, 8) as u16;
    instruction.immediate = i64::from((bits(word, 0, 13) << 19) as i32 >> 19);
    // The bit GLC makes an atomic instruction return the old value.
    instruction.high = bits(word, 14, 1) == 1;
    Some(instruction)
}
