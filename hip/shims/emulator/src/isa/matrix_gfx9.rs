//! Products of 16 x 16 matrices by a whole wave of 64 lanes (MFMA) on gfx908, gfx90a and gfx942. See "AMD Instinct
//! MI300 Instruction Set Architecture", chapter "Matrix Arithmetic Instructions", and "AMD Instinct MI100 Instruction
//! Set Architecture".
//!
//! With g = lane / 16, a lane holds the elements k = 4 g to 4 g + 3 of row lane % 16 of A, and of column lane % 16 of
//! B, in two registers. gfx908's rows in bf16 have only 8 elements, of which it holds 2 g and 2 g + 1 in one register.
//! Of 16 bytes it holds 4 g to 4 g + 3 in one register, and of 32 bytes the elements 8 g to 8 g + 7 in two. Element
//! (row, column) of C and D lies in register row % 4 of lane column + 16 (row / 4). The hardware computes with all
//! lanes, whatever EXEC says; the emulator reports inactive lanes as a fault, because the kernels never mean it.
//!
//! gfx90a takes subnormal numbers for zeros in its products of fp16 and bf16, and gives zeros for them (PyTorch's notes
//! on numerical accuracy, "Reduced Precision FP16 and BF16 GEMMs and Convolutions on AMD Instinct MI200 devices").

use super::float::{bf16_to_f32, f16_to_f32, flushed, flushed_bf16_to_f32, flushed_f16_to_f32};
use super::fp8::FNUZ;
use super::matrix::{TILE, Tile, multiply, multiply_bytes};
use super::packed::dot2_f32_f16_flushed;
use super::table::{Row, handler, special_rows};
use super::vector::byte;
use super::wave::{Instruction, Kind, Operand, Source, WAVE, Wave};

special_rows! {
    /// The matrix instructions of VOP3P with 16-bit elements and fp32 sums, or with bytes and sums of 32-bit integers,
    /// or with 8-bit floats and fp32 sums.
    MATRIX_GFX9:
    0x4d mfma_f32_16x16x16_f16 (Packed, Packed, B32) -> B32;
    0x61 mfma_f32_16x16x16_bf16 (Packed, Packed, B32) -> B32;
    0x6d mfma_f32_16x16x8_bf16 (Packed, Packed, B32) -> B32;
    0x4d mfma_f32_16x16x16_f16_flushed (Packed, Packed, B32) -> B32;
    0x67 mfma_f32_16x16x16_bf16_flushed (Packed, Packed, B32) -> B32;
    0x23 dot2_f32_f16_flushed (Packed, Packed, B32) -> B32;
    0x55 mfma_i32_16x16x16_i8 (B32, B32, B32) -> B32;
    0x57 mfma_i32_16x16x32_i8 (B32, B32, B32) -> B32;
    0x73 mfma_f32_16x16x32_fp8_fp8 (B32, B32, B32) -> B32;
}

/// The number of groups of lanes, and of the rows of D in each of them.
const GROUPS: usize = 2 * WAVE / TILE;
const DEPTH: usize = TILE / GROUPS;

/// The rows of A or the columns of B, of which each has K elements.
#[inline(always)]
fn rows_of<const K: usize>(
    wave: &mut Wave,
    source: &Source,
    convert: impl Fn(u32) -> f32,
) -> Option<[[f32; K]; TILE]> {
    let mut tile = [[0.0; K]; TILE];
    let each = K / GROUPS;
    if source.kind != Kind::Vector {
        return None;
    }
    for lane in 0..2 * WAVE {
        for register in 0..each / 2 {
            let word = *wave.lane64(source.index + register as u16, lane);
            let k = each * (lane / TILE) + 2 * register;
            tile[lane % TILE][k] = convert(word & 0xffff);
            tile[lane % TILE][k + 1] = convert(word >> 16);
        }
    }
    Some(tile)
}

/// A product of 16-bit elements. A row of A has K of them. `of_sums` is applied to the elements of C and D.
#[inline(always)]
fn mfma<const K: usize>(
    wave: &mut Wave,
    instruction: &Instruction,
    convert: impl Fn(u32) -> f32 + Copy,
    of_sums: impl Fn(f32) -> f32,
) {
    if !is_full(wave, instruction) {
        return;
    }
    let [a, b, c] = &instruction.sources;
    let (Some(a), Some(b)) = (rows_of::<K>(wave, a, convert), rows_of::<K>(wave, b, convert)) else {
        wave.fail(format!("{}: a matrix operand that is not a register", instruction.name));
        return;
    };
    let d = multiply(&a, &b, sums(wave, c, |bits| of_sums(f32::from_bits(bits))));
    write(wave, instruction, |row, column| of_sums(d[row][column]).to_bits());
}

/// The matrix C.
#[inline(always)]
fn sums<T: Copy + Default>(wave: &mut Wave, source: &Source, convert: impl Fn(u32) -> T) -> Tile<T> {
    let mut tile = [[T::default(); TILE]; TILE];
    for (row, numbers) in tile.iter_mut().enumerate() {
        for (column, number) in numbers.iter_mut().enumerate() {
            let lane = column + TILE * (row / DEPTH);
            *number = convert(match source.kind {
                Kind::Vector => *wave.lane64(source.index + (row % DEPTH) as u16, lane),
                _ => source.value,
            });
        }
    }
    tile
}

/// Writes the matrix D.
#[inline(always)]
fn write(wave: &mut Wave, instruction: &Instruction, bits: impl Fn(usize, usize) -> u32) {
    for lane in 0..2 * WAVE {
        for register in 0..DEPTH {
            *wave.lane64(instruction.destination + register as u16, lane) =
                bits(DEPTH * (lane / TILE) + register, lane % TILE);
        }
    }
}

/// The rows of A and the columns of B, of which each has K bytes. `of_byte` takes a word and the number of the byte in it.
/// `None`, and the wave fails, if a lane is inactive or an operand is not in registers.
#[inline(always)]
fn operands_of_bytes<T, const K: usize>(
    wave: &mut Wave,
    instruction: &Instruction,
    of_byte: impl Fn(u32, usize) -> T,
) -> Option<[[[T; K]; TILE]; 2]> {
    let [a, b, _] = &instruction.sources;
    if !is_full(wave, instruction) {
        return None;
    }
    if a.kind != Kind::Vector || b.kind != Kind::Vector {
        wave.fail(format!("{}: a matrix operand that is not a register", instruction.name));
        return None;
    }
    Some([a, b].map(|source| {
        let each = K / GROUPS;
        std::array::from_fn(|row| {
            std::array::from_fn(|k| {
                let (lane, place) = (row + TILE * (k / each), k % each);
                of_byte(*wave.lane64(source.index + (place / 4) as u16, lane), place % 4)
            })
        })
    }))
}

/// A product of bytes. A row of A has K of them.
#[inline(always)]
fn mfma_bytes<const K: usize>(wave: &mut Wave, instruction: &Instruction) {
    let operands = operands_of_bytes(wave, instruction, |word, number| byte(word, number, true));
    let Some::<[[[i32; K]; TILE]; 2]>([a, b]) = operands else { return };
    let d = multiply_bytes(&a, &b, sums(wave, &instruction.sources[2], |bits| bits as i32));
    write(wave, instruction, |row, column| d[row][column] as u32);
}

handler! {
    /// A product of 8-bit floats.
    fn mfma_f32_16x16x32_fp8_fp8(wave, instruction) {
        let of_byte = |word: u32, number: usize| FNUZ.value(word.to_le_bytes()[number]);
        let Some::<[[[f32; 32]; TILE]; 2]>([a, b]) = operands_of_bytes(wave, instruction, of_byte) else { return };
        let d = multiply(&a, &b, sums(wave, &instruction.sources[2], f32::from_bits));
        write(wave, instruction, |row, column| d[row][column].to_bits());
    }
}

/// Whether all lanes are active. If not, the wave fails.
#[inline(always)]
fn is_full(wave: &mut Wave, instruction: &Instruction) -> bool {
    let exec = wave.exec64();
    if exec != u64::MAX {
        wave.fail(format!("{} with inactive lanes: EXEC is {exec:#018x}", instruction.name));
    }
    exec == u64::MAX
}

handler! { fn mfma_f32_16x16x16_f16(wave, instruction) { mfma::<16>(wave, instruction, f16_to_f32, |sum| sum); } }
handler! { fn mfma_f32_16x16x16_bf16(wave, instruction) { mfma::<16>(wave, instruction, bf16_to_f32, |sum| sum); } }
handler! { fn mfma_f32_16x16x8_bf16(wave, instruction) { mfma::<8>(wave, instruction, bf16_to_f32, |sum| sum); } }
handler! { fn mfma_f32_16x16x16_f16_flushed(wave, instruction) {
    mfma::<16>(wave, instruction, flushed_f16_to_f32, flushed);
} }
handler! { fn mfma_f32_16x16x16_bf16_flushed(wave, instruction) {
    mfma::<16>(wave, instruction, flushed_bf16_to_f32, flushed);
} }
handler! { fn mfma_i32_16x16x16_i8(wave, instruction) { mfma_bytes::<16>(wave, instruction); } }
handler! { fn mfma_i32_16x16x32_i8(wave, instruction) { mfma_bytes::<32>(wave, instruction); } }
