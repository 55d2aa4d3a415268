//! Products of 16 x 16 matrices by a whole wave (WMMA) on gfx12. See "RDNA4 Instruction Set Architecture", section "Wave
//! Matrix Multiply Accumulate (WMMA)".
//!
//! Lanes l and l + 16 hold row l of A and column l of B in four registers, or two for bytes: each lane has the half of the
//! 16 elements that [`k_of`] names, or of bytes the elements 8 (lane / 16) to 8 (lane / 16) + 7. Element (row, column) of C
//! and D lies in register row % 8 of lane column + 16 (row / 8). The emulator has the instructions with fp32 sums (of 8-bit
//! floats, the one for two operands in e4m3), and the one for bytes.

use super::float::{bf16_to_f32, f16_to_f32};
use super::fp8::OCP;
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
    0x46 wmma_halves_f32_fp8_fp8 (B32, B32, B32) -> B32;
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
    let d = multiply(&a, &b, tile(|register, lane| element_f32(wave, c, register, lane)));
    write(wave, instruction, |row, column| d[row][column].to_bits());
}

/// The matrix C. `read` takes a register's number and a lane, and returns the element there.
#[inline(always)]
fn tile<T>(read: impl Fn(usize, usize) -> T) -> Tile<T> {
    std::array::from_fn(|row| std::array::from_fn(|column| read(row % 8, column + TILE * (row / 8))))
}

/// Writes the matrix D.
#[inline(always)]
fn write(wave: &mut Wave, instruction: &Instruction, bits: impl Fn(usize, usize) -> u32) {
    for register in 0..TILE / 2 {
        let out = &mut wave.vector[(usize::from(instruction.destination) + register) & REGISTER_MASK].0;
        for lane in 0..WAVE {
            out[lane] = bits(register + 8 * (lane / TILE), lane % TILE);
        }
    }
}

/// The rows of A or the columns of B, whose elements are bytes. `of_byte` takes a word and the number of the byte in it.
/// `None` if the operand is not in registers.
#[inline(always)]
fn bytes_of<T>(wave: &Wave, source: &Source, of_byte: impl Fn(u32, usize) -> T) -> Option<Tile<T>> {
    let of_row = |row: usize, k: usize| {
        let (group, register) = (k / 8, k / 4 % 2);
        let word = wave.vector[(usize::from(source.index) + register) & REGISTER_MASK].0[row + TILE * group];
        of_byte(word, k % 4)
    };
    let is_register = source.kind == Kind::Vector;
    is_register.then(|| std::array::from_fn(|row| std::array::from_fn(|k| of_row(row, k))))
}

/// Reports an operand that is not in registers.
fn fail_without_register(wave: &mut Wave, instruction: &Instruction) {
    wave.fail(format!("{}: a matrix operand that is not a register", instruction.name));
}

handler! {
    /// Products of 8-bit integers. The sign modifiers say which operands are signed.
    fn wmma_halves_i32_iu8(wave, instruction) {
        if !full(wave, instruction) {
            return;
        }
        let [a, b, c] = &instruction.sources;
        let bytes = |source: &Source| bytes_of(wave, source, |word, number| byte(word, number, source.negate));
        let (Some(a), Some(b)) = (bytes(a), bytes(b)) else {
            fail_without_register(wave, instruction);
            return;
        };
        let d = multiply_bytes(&a, &b, tile(|register, lane| element_i32(wave, c, register, lane)));
        write(wave, instruction, |row, column| d[row][column] as u32);
    }
}

handler! {
    /// Products of 8-bit floats. The operands have no modifiers.
    fn wmma_halves_f32_fp8_fp8(wave, instruction) {
        if !full(wave, instruction) {
            return;
        }
        let [a, b, c] = &instruction.sources;
        let floats = |source: &Source| {
            bytes_of(wave, source, |word, number| OCP.value(word.to_le_bytes()[number]))
        };
        let (Some(a), Some(b)) = (floats(a), floats(b)) else {
            fail_without_register(wave, instruction);
            return;
        };
        let d = multiply(&a, &b, tile(|register, lane| element_f32(wave, c, register, lane)));
        write(wave, instruction, |row, column| d[row][column].to_bits());
    }
}

handler! { fn wmma_halves_f32_f16(wave, instruction) { wmma(wave, instruction, f16_to_f32); } }
handler! { fn wmma_halves_f32_bf16(wave, instruction) { wmma(wave, instruction, bf16_to_f32); } }
