//! The innermost loop of products with ARM's matrix instructions, which multiply a block of two rows of A by one of two
//! columns of B, over two words.
//!
//! ```text
//!              B panel: 8 registers, each with two words of two columns
//!              +----+----+----+----+
//!   two steps  |    |    |    |    |    each iteration: load two words of each row of A,
//!              +----+----+----+----+    for each register of B: load, multiply by each pair of rows, add
//!   A: rows    |sums|sums|sums|sums|    3 x 8 registers, each with the sums of two rows and two columns
//! ```
//!
//! The panel has the two words of a column one after the other: `[steps / 2][columns][2]`.

use super::vector::BlockTile;
use std::arch::aarch64::*;
use std::arch::asm;

/// The largest number of rows in a tile: 24 sums, a register for each pair of rows and two for B use 29 of 32 registers.
pub(super) const ROWS: usize = 6;
/// The number of columns of a panel.
pub(super) const COLUMNS: usize = 16;
/// The words of a register.
const WIDTH: usize = 4;
/// The registers of a row of C.
const REGISTERS: usize = COLUMNS / WIDTH;

/// The row of a pair of rows, or the last row if there is no such row.
fn row_of(tile: &BlockTile, pair: usize, second: usize) -> usize {
    (2 * pair + second).min(tile.rows - 1)
}

/// Exchanges the upper half of `a` with the lower half of `b`: two rows of two columns each become two blocks of two rows
/// and two columns, and the reverse.
#[inline]
#[target_feature(enable = "neon")]
fn exchange(a: uint32x4_t, b: uint32x4_t) -> [uint32x4_t; 2] {
    let (a, b) = (vreinterpretq_u64_u32(a), vreinterpretq_u64_u32(b));
    [vreinterpretq_u32_u64(vzip1q_u64(a, b)), vreinterpretq_u32_u64(vzip2q_u64(a, b))]
}

/// Defines the function `$run`, which computes a tile with `$instruction`. `$limit` limits the sums to the floor.
macro_rules! tile_with {
    ($(#[$doc:meta])* $run:ident, $tile:ident, $features:literal, $instruction:literal, $limit:expr) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// A must be valid for reading `steps` words of each of `rows` rows, the panel for reading `steps * COLUMNS`
        /// words, and the bias, if it is not null, for reading `COLUMNS` words. C must be valid for writing `COLUMNS`
        /// words of each of `rows` rows, and for reading them if the bias is null.
        #[inline]
        #[target_feature(enable = $features)]
        pub(super) unsafe fn $run(tile: BlockTile) {
            match tile.rows.div_ceil(2) {
                // SAFETY: the caller guarantees the same conditions.
                1 => unsafe { $tile::<1>(tile) },
                // SAFETY: the caller guarantees the same conditions.
                2 => unsafe { $tile::<2>(tile) },
                // SAFETY: the caller guarantees the same conditions.
                3 => unsafe { $tile::<3>(tile) },
                _ => unreachable!("a tile has 1 to {ROWS} rows"),
            }
        }

        /// Computes a tile of `PAIRS` pairs of rows. In the last pair, both rows may be the same.
        ///
        /// # Safety
        /// The same conditions.
        #[target_feature(enable = $features)]
        unsafe fn $tile<const PAIRS: usize>(tile: BlockTile) {
            /// Adds the product of two rows of `a` and two columns of `b` to the sums.
            #[inline]
            #[target_feature(enable = $features)]
            fn multiply(mut sums: uint32x4_t, a: uint32x4_t, b: uint32x4_t) -> uint32x4_t {
                // SAFETY: the instruction computes a register from registers.
                unsafe {
                    asm!(
                        $instruction,
                        sums = inout(vreg) sums,
                        a = in(vreg) a,
                        b = in(vreg) b,
                        options(pure, nomem, nostack, preserves_flags),
                    );
                }
                sums
            }
            let BlockTile { a, a_stride, panel, steps, bias, c, c_stride, rows, floor } = tile;
            let mut sums = [[vdupq_n_u32(0); 2 * REGISTERS]; PAIRS];
            for (pair, sums) in sums.iter_mut().enumerate() {
                for at in 0..REGISTERS {
                    let start = |second: usize| {
                        let row = c.wrapping_add(row_of(&tile, pair, second) * c_stride).cast_const();
                        let from = if bias.is_null() { row } else { bias };
                        // SAFETY: the bias or the row of C has `COLUMNS` words.
                        unsafe { vld1q_u32(from.wrapping_add(at * WIDTH)) }
                    };
                    [sums[2 * at], sums[2 * at + 1]] = exchange(start(0), start(1));
                }
            }
            let mut row_starts = [[a; 2]; PAIRS];
            for (pair, starts) in row_starts.iter_mut().enumerate() {
                for (second, start) in starts.iter_mut().enumerate() {
                    *start = a.wrapping_add(row_of(&tile, pair, second) * a_stride);
                }
            }
            for step in (0..steps).step_by(2) {
                let mut factors = [vdupq_n_u32(0); PAIRS];
                for (factor, [first, second]) in factors.iter_mut().zip(&row_starts) {
                    // SAFETY: the row has the words `step` and `step + 1`, because the number of steps is even.
                    let first = unsafe { vld1_u32(first.wrapping_add(step)) };
                    // SAFETY: the same holds for this row.
                    let second = unsafe { vld1_u32(second.wrapping_add(step)) };
                    *factor = vcombine_u32(first, second);
                }
                for columns in 0..2 * REGISTERS {
                    let at = step * COLUMNS + columns * WIDTH;
                    // SAFETY: two steps of the panel have `2 * COLUMNS` words.
                    let b = unsafe { vld1q_u32(panel.wrapping_add(at)) };
                    for (sums, factor) in sums.iter_mut().zip(factors) {
                        sums[columns] = multiply(sums[columns], factor, b);
                    }
                }
            }
            for (pair, sums) in sums.iter().enumerate() {
                for at in 0..REGISTERS {
                    let both = exchange(sums[2 * at], sums[2 * at + 1]);
                    for (second, sums) in both.into_iter().enumerate().take(rows - 2 * pair) {
                        let to = c.wrapping_add((2 * pair + second) * c_stride + at * WIDTH);
                        // SAFETY: row `2 * pair + second` of C exists, and has `COLUMNS` words.
                        unsafe { vst1q_u32(to, $limit(sums, floor)) }
                    }
                }
            }
        }
    };
}

tile_with! {
    /// Computes a tile whose words are pairs of bf16, with fp32 sums. The processor must have BF16.
    tile_of_pairs, pairs_of_rows_of_pairs, "neon,bf16", "bfmmla {sums:v}.4s, {a:v}.8h, {b:v}.8h",
    |sums, floor| vreinterpretq_u32_f32(vmaxq_f32(vdupq_n_f32(floor), vreinterpretq_f32_u32(sums)))
}

tile_with! {
    /// Computes a tile whose words are four signed bytes, with sums in 32-bit integers. The processor must have I8MM.
    tile_of_bytes, pairs_of_rows_of_bytes, "neon,i8mm", "smmla {sums:v}.4s, {a:v}.16b, {b:v}.16b",
    |sums, _: f32| sums
}
