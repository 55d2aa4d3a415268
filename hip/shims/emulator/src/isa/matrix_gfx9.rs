//! Products of 16 x 16 matrices by a whole wave of 64 lanes (MFMA) on gfx90a and gfx942. See "AMD Instinct MI300
//! Instruction Set Architecture", chapter "Matrix Arithmetic Instructions".
//!
//! With g = lane / 16, a lane holds the elements k = 4 g to 4 g + 3 of row lane % 16 of A, and of column lane % 16 of
//! B, in two registers. Element (row, column) of C and D lies in register row % 4 of lane column + 16 (row / 4). The
//! hardware computes with all lanes, whatever EXEC says; the emulator reports inactive lanes as a fault, because the
//! kernels never mean it.

use super::float::{bf16_to_f32, f16_to_f32};
use super::matrix::{TILE, Tile, multiply};
use super::table::{Row, handler, special_rows};
use super::wave::{Instruction, Kind, Operand, Source, WAVE, Wave};

special_rows! {
    /// The matrix instructions of VOP3P with fp32 sums and 16-bit elements.
    MATRIX_GFX9:
    0x4d mfma_f32_16x16x16_f16 (Packed, Packed, B32) -> B32;
    0x61 mfma_f32_16x16x16_bf16 (Packed, Packed, B32) -> B32;
}

/// The number of groups of lanes, and of the elements k in each of them.
const GROUPS: usize = 2 * WAVE / TILE;
const DEPTH: usize = TILE / GROUPS;

/// The rows of A or the columns of B.
#[inline(always)]
fn rows_of(wave: &mut Wave, source: &Source, convert: impl Fn(u32) -> f32) -> Option<Tile<f32>> {
    let mut tile = [[0.0; TILE]; TILE];
    if source.kind != Kind::Vector {
        return None;
    }
    for lane in 0..2 * WAVE {
        for register in 0..DEPTH / 2 {
            let word = *wave.lane64(source.index + register as u16, lane);
            let k = DEPTH * (lane / TILE) + 2 * register;
            tile[lane % TILE][k] = convert(word & 0xffff);
            tile[lane % TILE][k + 1] = convert(word >> 16);
        }
    }
    Some(tile)
}

#[inline(always)]
fn mfma(wave: &mut Wave, instruction: &Instruction, convert: impl Fn(u32) -> f32 + Copy) {
    let exec = wave.exec64();
    if exec != u64::MAX {
        wave.fail(format!("{} with inactive lanes: EXEC is {exec:#018x}", instruction.name));
        return;
    }
    let [a, b, c] = &instruction.sources;
    let (Some(a), Some(b)) = (rows_of(wave, a, convert), rows_of(wave, b, convert)) else {
        wave.fail(format!("{}: a matrix operand that is not a register", instruction.name));
        return;
    };
    let mut start = [[0.0; TILE]; TILE];
    for (row, numbers) in start.iter_mut().enumerate() {
        for (column, number) in numbers.iter_mut().enumerate() {
            let lane = column + TILE * (row / DEPTH);
            let bits = match c.kind {
                Kind::Vector => *wave.lane64(c.index + (row % DEPTH) as u16, lane),
                _ => c.value,
            };
            *number = f32::from_bits(bits);
        }
    }
    let d = multiply(&a, &b, start);
    for lane in 0..2 * WAVE {
        for register in 0..DEPTH {
            let value = d[DEPTH * (lane / TILE) + register][lane % TILE];
            *wave.lane64(instruction.destination + register as u16, lane) = value.to_bits();
        }
    }
}

handler! { fn mfma_f32_16x16x16_f16(wave, instruction) { mfma(wave, instruction, f16_to_f32); } }
handler! { fn mfma_f32_16x16x16_bf16(wave, instruction) { mfma(wave, instruction, bf16_to_f32); } }
