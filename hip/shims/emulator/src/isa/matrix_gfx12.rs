//! Products of 16 x 16 matrices by a whole wave (WMMA) on gfx12. See "RDNA4 Instruction Set Architecture", section "Wave
//! Matrix Multiply Accumulate (WMMA)".
//!
//! Lanes l and l + 16 hold row l of A and column l of B in four registers, or two for bytes: each lane has the half of the
//! 16 elements that [`k_of`] names. Sums of bytes are integers, so that their order does not matter. Element (row, column)
//! of C and D lies in register row % 8 of lane column + 16 (row / 8). The emulator has the instructions with fp32 sums,
//! and the one for bytes.

use super::float::{bf16_to_f32, f16_to_f32};
use super::matrix::{TILE, Tile, element_f32, element_i32, full, multiply, multiply_bytes};
use super::table::{Row, handler, special_rows};
use super::vector::byte;
use super::wave::{Instruction, Kind, Operand, REGISTER_MASK, Source, WAVE, Wave};

special_rows! {
    /// The matrix instructions of VOP3P on gfx12.
    MATRIX_GFX12:
    0x40 wmma_halves_f32_f16 (Packed, Packed, B32) -> B32;
    0x41 wmma_halves_f32_bf16 (Packed, Packed, B32) -> B32;
    0x44 wmma_halves_i32_iu8 (B32, B32, B32) -> B32;
}

/// The number k of the element in a half of a register. A and B have the same order, so that it does not change the
/// product.
fn k_of(register: usize, group: usize, half: usize) -> usize {
    8 * (register / 2) + 4 * group + 2 * (register % 2) + half
}

/// The rows of A or the columns of B.
#[inline(always)]
fn rows_of(wave: &Wave, source: &Source, convert: impl Fn(u32) -> f32) -> Result<Tile<f32>, String> {
    if source.kind != Kind::Vector || source.high || !source.high_for_high {
        return Err("a matrix operand that is not a vector register with default selectors".to_owned());
    }
    let flip = u32::from(source.negate) << 15 | u32::from(source.negate_high) << 31;
    let mut tile = [[0.0; TILE]; TILE];
    for register in 0..TILE / 4 {
        let bits = &wave.vector[(usize::from(source.index) + register) & REGISTER_MASK].0;
        for lane in 0..WAVE {
            let word = bits[lane] ^ flip;
            let (row, group) = (&mut tile[lane % TILE], lane / TILE);
            row[k_of(register, group, 0)] = convert(word & 0xffff);
            row[k_of(register, group, 1)] = convert(word >> 16);
        }
    }
    Ok(tile)
}

#[inline(always)]
fn wmma(wave: &mut Wave, instruction: &Instruction, convert: impl Fn(u32) -> f32 + Copy) {
    if !full(wave, instruction) {
        return;
    }
    let [a, b, c] = &instruction.sources;
    let (a, b) = match (rows_of(wave, a, convert), rows_of(wave, b, convert)) {
        (Ok(a), Ok(b)) => (a, b),
        (Err(message), _) | (_, Err(message)) => {
            wave.fail(format!("{}: {message}", instruction.name));
            return;
        }
    };
    let mut start = [[0.0; TILE]; TILE];
    for (row, numbers) in start.iter_mut().enumerate() {
        for (column, number) in numbers.iter_mut().enumerate() {
            *number = element_f32(wave, c, row % 8, column + TILE * (row / 8));
        }
    }
    let d = multiply(&a, &b, start);
    for register in 0..TILE / 2 {
        let out = &mut wave.vector[(usize::from(instruction.destination) + register) & REGISTER_MASK].0;
        for lane in 0..WAVE {
            out[lane] = d[register + 8 * (lane / TILE)][lane % TILE].to_bits();
        }
    }
}

handler! {
    /// Products of 8-bit integers. The sign modifiers say which operands are signed.
    fn wmma_halves_i32_iu8(wave, instruction) {
        if !full(wave, instruction) {
            return;
        }
        let [a, b, c] = &instruction.sources;
        if a.kind != Kind::Vector || b.kind != Kind::Vector {
            wave.fail(format!("{}: a matrix operand that is not a register", instruction.name));
            return;
        }
        let bytes = |source: &Source| -> Tile<i32> {
            let of_row = |row: usize, k: usize| {
                let (group, register) = (k / 8, k / 4 % 2);
                let word = wave.vector[(usize::from(source.index) + register) & REGISTER_MASK].0[row + TILE * group];
                byte(word, k % 4, source.negate)
            };
            std::array::from_fn(|row| std::array::from_fn(|k| of_row(row, k)))
        };
        let start = std::array::from_fn(|row| {
            std::array::from_fn(|column| element_i32(wave, c, row % 8, column + TILE * (row / 8)))
        });
        let d = multiply_bytes(&bytes(a), &bytes(b), start);
        for register in 0..TILE / 2 {
            let out = &mut wave.vector[(usize::from(instruction.destination) + register) & REGISTER_MASK].0;
            for lane in 0..WAVE {
                out[lane] = d[register + 8 * (lane / TILE)][lane % TILE] as u32;
            }
        }
    }
}

handler! { fn wmma_halves_f32_f16(wave, instruction) { wmma(wave, instruction, f16_to_f32); } }
handler! { fn wmma_halves_f32_bf16(wave, instruction) { wmma(wave, instruction, bf16_to_f32); } }
