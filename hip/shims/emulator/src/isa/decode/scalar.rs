//! The scalar encodings: SOP1, SOP2, SOPC, SOPK, SOPP.

use super::family::{Encoding, Known};
use super::reader::{Reader, bits, of};
use super::source::{LITERAL, source};
use crate::isa::wave::{Instruction, Operand, Source};

pub(super) fn scalar(reader: &mut Reader<'_>) -> Option<Instruction> {
    let word = reader.first();
    let mut literal = None;
    let operand =
        |known: Known, number: usize| known.row.operands.get(number).copied().unwrap_or(Operand::B32);
    match word >> 23 {
        0b1_0111_1111 => {
            let mut instruction = of(reader.known(Encoding::Sopp, bits(word, 16, 7))?);
            instruction.immediate = i64::from(word as u16 as i16);
            Some(instruction)
        }
        0b1_0111_1110 => {
            let known = reader.known(Encoding::Sopc, bits(word, 16, 7))?;
            let mut instruction = of(known);
            instruction.sources[0] = source(reader, bits(word, 0, 8), operand(known, 0), &mut literal)?;
            instruction.sources[1] = source(reader, bits(word, 8, 8), operand(known, 1), &mut literal)?;
            Some(instruction)
        }
        0b1_0111_1101 => {
            let known = reader.known(Encoding::Sop1, bits(word, 8, 8))?;
            let mut instruction = of(known);
            instruction.scalar = reader.family.scalar(word >> 16);
            instruction.sources[0] = source(reader, bits(word, 0, 8), operand(known, 0), &mut literal)?;
            Some(instruction)
        }
        _ if word >> 28 == 0b1011 => {
            let mut instruction = of(reader.known(Encoding::Sopk, bits(word, 23, 5))?);
            instruction.scalar = reader.family.scalar(word >> 16);
            instruction.immediate = i64::from(word as u16 as i16);
            Some(instruction)
        }
        _ if word >> 30 == 0b10 => {
            let known = reader.known(Encoding::Sop2, bits(word, 23, 7))?;
            let mut instruction = of(known);
            instruction.scalar = reader.family.scalar(word >> 16);
            instruction.sources[0] = source(reader, bits(word, 0, 8), operand(known, 0), &mut literal)?;
            let second = source(reader, bits(word, 8, 8), operand(known, 1), &mut literal)?;
            instruction.sources[1] = second;
            match known.row.name {
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
