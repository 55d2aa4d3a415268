//! Products of 16 x 16 matrices by a whole wave (WMMA) on gfx11. See "RDNA3 Instruction Set Architecture", section "Wave
//! Matrix Multiply Accumulate (WMMA)".
//!
//! Lanes l and l + 16 both hold row l of A and column l of B. Each of these has 16 elements, with k ascending from the
//! low half of the first register. Element (row, column) of C and D lies in register row / 2 of lane column + 16 (row %
//! 2). The hardware requires that all lanes are active and that both copies are equal; the emulator reports anything
//! else as a fault.

use super::float::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16};
use super::table::{Row, handler, special_rows};
use super::vector::byte;
use super::wave::{Instruction, Kind, Lanes, Operand, REGISTER_MASK, Source, WAVE, Wave};

special_rows! {
    /// The matrix instructions of VOP3P.
    MATRIX:
    0x40 v_wmma_f32_16x16x16_f16 (Packed, Packed, B32) -> B32;
    0x41 v_wmma_f32_16x16x16_bf16 (Packed, Packed, B32) -> B32;
    0x42 v_wmma_f16_16x16x16_f16 (Packed, Packed, Packed) -> Packed;
    0x43 v_wmma_bf16_16x16x16_bf16 (Packed, Packed, Packed) -> Packed;
    0x44 v_wmma_i32_16x16x16_iu8 (B32, B32, B32) -> B32;
}

/// The number of rows and of columns of a matrix, and the length of the dot products.
pub(super) const TILE: usize = 16;

pub(super) type Tile<T> = [[T; TILE]; TILE];

/// The 16 elements of each of the lanes 0 to 15. It is an error if the lanes 16 to 31 do not hold the same elements.
#[inline(always)]
fn rows_of(wave: &Wave, source: &Source, convert: impl Fn(u32) -> f32) -> Result<Tile<f32>, String> {
    let mut tile = [[0.0; TILE]; TILE];
    if source.kind != Kind::Vector || source.high || !source.high_for_high {
        return Err("a matrix operand that is not a vector register with default selectors".to_owned());
    }
    for register in 0..TILE / 2 {
        let bits = &wave.vector[usize::from(source.index) + register].0;
        if bits[..TILE] != bits[TILE..] {
            return Err(format!(
                "v{}: the two halves of a matrix operand differ",
                usize::from(source.index) + register
            ));
        }
        let flip = u32::from(source.negate) << 15 | u32::from(source.negate_high) << 31;
        for lane in 0..TILE {
            let word = bits[lane] ^ flip;
            tile[lane][2 * register] = convert(word & 0xffff);
            tile[lane][2 * register + 1] = convert(word >> 16);
        }
    }
    Ok(tile)
}

/// The matrix C. `read` takes a register's number and a lane, and returns the element there.
#[inline(always)]
fn accumulator<T: Copy + Default>(read: impl Fn(usize, usize) -> T) -> Tile<T> {
    let mut tile = [[T::default(); TILE]; TILE];
    for (row, numbers) in tile.iter_mut().enumerate() {
        for (column, number) in numbers.iter_mut().enumerate() {
            *number = read(row / 2, column + TILE * (row % 2));
        }
    }
    tile
}

/// C + A B. `b` holds the columns of B.
#[inline(always)]
pub(super) fn multiply<const DEPTH: usize>(
    a: &[[f32; DEPTH]; TILE],
    b: &[[f32; DEPTH]; TILE],
    mut c: Tile<f32>,
) -> Tile<f32> {
    let mut b_rows = [[0.0; TILE]; DEPTH];
    for (column, numbers) in b.iter().enumerate() {
        for (k, &number) in numbers.iter().enumerate() {
            b_rows[k][column] = number;
        }
    }
    for (row, sums) in c.iter_mut().enumerate() {
        for (k, b_row) in b_rows.iter().enumerate() {
            for column in 0..TILE {
                sums[column] = a[row][k].mul_add(b_row[column], sums[column]);
            }
        }
    }
    c
}

/// C + A B for bytes. `b` holds the columns of B.
#[inline(always)]
pub(super) fn multiply_bytes<const DEPTH: usize>(
    a: &[[i32; DEPTH]; TILE],
    b: &[[i32; DEPTH]; TILE],
    mut c: Tile<i32>,
) -> Tile<i32> {
    for (row, sums) in c.iter_mut().enumerate() {
        for (column, sum) in sums.iter_mut().enumerate() {
            let products = a[row].iter().zip(&b[column]).map(|(a, b)| a * b);
            *sum = products.fold(*sum, i32::wrapping_add);
        }
    }
    c
}

/// Whether all lanes are active. If not, the wave fails.
#[inline(always)]
pub(super) fn full(wave: &mut Wave, instruction: &Instruction) -> bool {
    if wave.exec() != u32::MAX {
        wave.fail(format!("{} with inactive lanes: EXEC is {:#010x}", instruction.name, wave.exec()));
        return false;
    }
    true
}

/// An element of an fp32 accumulator, with its modifiers applied. For this operand `negate_high` means the absolute
/// value.
#[inline(always)]
pub(super) fn element_f32(wave: &Wave, source: &Source, register: usize, lane: usize) -> f32 {
    let bits = match source.kind {
        Kind::Vector => wave.vector[(usize::from(source.index) + register) & REGISTER_MASK].0[lane],
        _ => source.value,
    };
    let value = f32::from_bits(bits);
    let value = if source.negate_high { value.abs() } else { value };
    if source.negate { -value } else { value }
}

/// An element of an accumulator of integers.
#[inline(always)]
pub(super) fn element_i32(wave: &Wave, source: &Source, register: usize, lane: usize) -> i32 {
    let bits = match source.kind {
        Kind::Vector => wave.vector[(usize::from(source.index) + register) & REGISTER_MASK].0[lane],
        _ => source.value,
    };
    bits as i32
}

#[inline(always)]
fn wmma_f32(wave: &mut Wave, instruction: &Instruction, convert: impl Fn(u32) -> f32 + Copy) {
    if !full(wave, instruction) {
        return;
    }
    let [a, b, c] = &instruction.sources;
    match (rows_of(wave, a, convert), rows_of(wave, b, convert)) {
        (Ok(a), Ok(b)) => {
            let d = multiply(&a, &b, accumulator(|register, lane| element_f32(wave, c, register, lane)));
            for register in 0..TILE / 2 {
                let out =
                    &mut wave.vector[(usize::from(instruction.destination) + register) & REGISTER_MASK].0;
                for lane in 0..WAVE {
                    out[lane] = d[2 * register + lane / TILE][lane % TILE].to_bits();
                }
            }
        }
        (Err(message), _) | (_, Err(message)) => wave.fail(format!("{}: {message}", instruction.name)),
    }
}

handler! { fn v_wmma_f32_16x16x16_f16(wave, instruction) { wmma_f32(wave, instruction, f16_to_f32); } }
handler! { fn v_wmma_f32_16x16x16_bf16(wave, instruction) { wmma_f32(wave, instruction, bf16_to_f32); } }

/// A product with 16-bit results. They are written to the half of each register that the third operand's selector
/// names.
#[inline(always)]
fn wmma_half(
    wave: &mut Wave,
    instruction: &Instruction,
    convert: impl Fn(u32) -> f32 + Copy,
    back: impl Fn(f32) -> u32,
) {
    if !full(wave, instruction) {
        return;
    }
    let [a, b, c] = &instruction.sources;
    let shift = u32::from(c.high) * 16;
    let start = accumulator(|register, lane| match c.kind {
        Kind::Vector => convert(
            (wave.vector[(usize::from(c.index) + register) & REGISTER_MASK].0[lane] >> shift) & 0xffff,
        ),
        _ => convert(c.value & 0xffff),
    });
    match (rows_of(wave, a, convert), rows_of(wave, b, convert)) {
        (Ok(a), Ok(b)) => {
            let d = multiply(&a, &b, start);
            for register in 0..TILE / 2 {
                let mut out = Lanes::ZERO;
                for lane in 0..WAVE {
                    out.0[lane] = back(d[2 * register + lane / TILE][lane % TILE]);
                }
                wave.write_half(instruction.destination + register as u16, c.high, &out);
            }
        }
        (Err(message), _) | (_, Err(message)) => wave.fail(format!("{}: {message}", instruction.name)),
    }
}

handler! { fn v_wmma_f16_16x16x16_f16(wave, instruction) {
    wmma_half(wave, instruction, f16_to_f32, f32_to_f16);
} }
handler! { fn v_wmma_bf16_16x16x16_bf16(wave, instruction) {
    wmma_half(wave, instruction, bf16_to_f32, f32_to_bf16);
} }

handler! {
    /// Products of 8-bit integers, four of which are in a word. The sign modifiers say which operands are signed.
    fn v_wmma_i32_16x16x16_iu8(wave, instruction) {
        if !full(wave, instruction) {
            return;
        }
        let [a, b, c] = &instruction.sources;
        let bytes = |source: &Source| -> Tile<i32> {
            let of_lane = |lane: usize, k: usize| {
                let word = wave.vector[(usize::from(source.index) + k / 4) & REGISTER_MASK].0[lane];
                byte(word, k % 4, source.negate)
            };
            std::array::from_fn(|lane| std::array::from_fn(|k| of_lane(lane, k)))
        };
        let start = accumulator(|register, lane| element_i32(wave, c, register, lane));
        let d = multiply_bytes(&bytes(a), &bytes(b), start);
        for register in 0..TILE / 2 {
            let out = &mut wave.vector[(usize::from(instruction.destination) + register) & REGISTER_MASK].0;
            for lane in 0..WAVE {
                out[lane] = d[2 * register + lane / TILE][lane % TILE] as u32;
            }
        }
    }
}
