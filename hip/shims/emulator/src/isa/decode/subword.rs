//! SDWA, the form of VOP1, VOP2 and VOPC whose sources and result are bytes or halves of registers. Its control word
//! follows the instruction ("RDNA 2 Instruction Set Architecture", chapter "Microcode Formats", SDWA and SDWAB).

use super::reader::{Reader, bits, plain};
use super::source::VECTOR;
use super::source::source;
use crate::isa::subword::{Selection, selected};
use crate::isa::table::Row;
use crate::isa::wave::{Instruction, Operand, SCRATCH_RESULT, SCRATCH_SECOND, SCRATCH_SOURCE, Source};

/// In the field of the first source, this code means SDWA.
pub(super) const SDWA: u32 = 249;

/// A source's register. The bit `scalar` makes it a scalar register or a constant.
fn operand(reader: &mut Reader<'_>, number: u32, scalar: bool) -> Option<Source> {
    source(reader, if scalar { number } else { VECTOR + number }, Operand::B32, &mut None)
}

/// Wraps an instruction in another one, which copies the selected parts of the sources to scratch registers, executes
/// the instruction there, and puts its result into the selected part of the destination.
pub(super) fn wrap_selected(
    reader: &mut Reader<'_>,
    mut inner: Instruction,
    compares: bool,
    row: &Row,
    control: u32,
) -> Option<Instruction> {
    let mut outer = plain(selected, inner.name);
    outer.sources[0] = operand(reader, bits(control, 0, 8), bits(control, 23, 1) == 1)?;
    inner.sources[0] = Source::vector(SCRATCH_SOURCE);
    inner.sources[0].negate = bits(control, 20, 1) == 1;
    inner.sources[0].absolute = bits(control, 21, 1) == 1;
    let two = row.operands.len() > 1;
    if two {
        let number = u32::from(inner.sources[1].index);
        outer.sources[1] = operand(reader, number, bits(control, 31, 1) == 1)?;
        inner.sources[1] = Source::vector(SCRATCH_SECOND);
        inner.sources[1].negate = bits(control, 28, 1) == 1;
        inner.sources[1].absolute = bits(control, 29, 1) == 1;
    }
    let mut selection = Selection {
        first: bits(control, 16, 3) as u8,
        first_signed: bits(control, 19, 1) == 1,
        second: bits(control, 24, 3) as u8,
        second_signed: bits(control, 27, 1) == 1,
        ..Selection::WHOLE
    };
    if compares {
        // Where another instruction has its destination's selector, a comparison has a scalar destination.
        if bits(control, 15, 1) == 1 {
            inner.scalar = reader.family.scalar(control >> 8);
        }
    } else {
        selection.result = bits(control, 8, 3) as u8;
        selection.rest = bits(control, 11, 2) as u8;
        inner.clamp = bits(control, 13, 1) == 1;
        inner.scale = [1.0, 2.0, 4.0, 0.5][bits(control, 14, 2) as usize];
        if (inner.clamp || inner.scale != 1.0) && !row.float {
            return None;
        }
        outer.destination = inner.destination;
        inner.destination = SCRATCH_RESULT;
    }
    outer.high = compares;
    outer.immediate = selection.encode();
    outer.inner = Some(Box::new([inner]));
    Some(outer)
}
