//! Decodes source operands: registers, constants, literals.

use super::reader::Reader;
use crate::isa::float::f32_to_f16;
use crate::isa::wave::{Kind, Operand, SHARED_APERTURE, Source};

/// The source-operand code for a literal constant, which follows the instruction.
pub(super) const LITERAL: u32 = 255;
/// The source-operand code of vector register v0. The codes of v1 to v255 follow.
pub(super) const VECTOR: u32 = 256;

/// The float constants that the source-operand codes 240 to 248 stand for. The last one is 1 / (2 pi).
const FLOATS: [f32; 9] = [0.5, -0.5, 1.0, -1.0, 2.0, -2.0, 4.0, -4.0, 0.159_154_94];

/// Decodes a 9-bit source-operand code for this kind of operand. An instruction has at most one literal: it is read
/// from `reader` the first time and kept in `literal` for the instruction's other operands. Returns `None` if the code
/// is unknown or the literal is missing.
pub(super) fn source(
    reader: &mut Reader<'_>,
    code: u32,
    operand: Operand,
    literal: &mut Option<u32>,
) -> Option<Source> {
    let wide = matches!(operand, Operand::B64 | Operand::I64 | Operand::F64);
    let constant = |value: i64| {
        let mut source = Source::constant(value as u32);
        source.value_high = (value >> 32) as u32;
        Some(source)
    };
    match code {
        0..=107 | 124..=127 => Some(Source::scalar(reader.family.scalar(code))),
        108..=123 if reader.family.group_in_trap_registers => Some(Source::scalar(code as u8)),
        128..=192 => constant(i64::from(code) - 128),
        193..=208 => constant(192 - i64::from(code)),
        // SRC_SHARED_BASE: the base address of LDS in the flat address space.
        235 if wide => constant(i64::from(SHARED_APERTURE) << 32),
        235 => constant(i64::from(SHARED_APERTURE)),
        240..=248 => {
            let value = FLOATS[code as usize - 240];
            match operand {
                Operand::B16 | Operand::Packed => constant(i64::from(f32_to_f16(value))),
                Operand::F64 | Operand::B64 | Operand::I64 => {
                    let exact =
                        if code == 248 { std::f64::consts::FRAC_1_PI / 2.0 } else { f64::from(value) };
                    constant(exact.to_bits() as i64)
                }
                Operand::B32 | Operand::Mixed | Operand::Pair => constant(i64::from(value.to_bits())),
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
