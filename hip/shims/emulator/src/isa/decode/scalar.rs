//! The scalar encodings: SOP1, SOP2, SOPC, SOPK, SOPP.

use super::reader::{Reader, bits, plain, row};
use super::source::{LITERAL, source};
use crate::isa::scalar::{BINARY, BRANCH, CONDITION, CONSTANT, PROGRAM, UNARY, UNARY_SPECIAL};
use crate::isa::table::Row;
use crate::isa::wave::{Instruction, Operand, Source};

pub(super) fn scalar(reader: &mut Reader<'_>) -> Option<Instruction> {
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
