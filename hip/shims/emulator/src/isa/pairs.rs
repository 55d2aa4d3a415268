//! Vector instructions that only Vega and CDNA have: two fp32 numbers at once, and moves, sums and products of 64 bits.
//! ("AMD Instinct MI200 Instruction Set Architecture" and "AMD Instinct MI300 Instruction Set Architecture", chapters
//! "Vector ALU Operations" and "Instructions".)

use super::compare::wide;
use super::special::write_wide;
use super::table::{Row, handler, special_rows};
use super::wave::{Instruction, Kind, Lanes, Operand, REGISTER_MASK, Source, WAVE, Wave};

special_rows! {
    /// The instructions of VOP3P on pairs of registers.
    PAIRS:
    0x30 v_pk_fma_f32 (Pair, Pair, Pair) -> Pair;
    0x31 v_pk_mul_f32 (Pair, Pair) -> Pair;
    0x32 v_pk_add_f32 (Pair, Pair) -> Pair;
    0x33 v_pk_mov_b32 (Pair, Pair) -> Pair;
}

special_rows! {
    /// The instructions with 64-bit results.
    WIDE_GFX9:
    0x38 v_mov_b64 (B64) -> B64;
    0x208 v_lshl_add_u64 (B64, B32, B64) -> B64;
    0x1e8 mad_u64_u32_with_carry (B32, B32, B64) -> B64;
    0x1e9 mad_i64_i32_with_carry (B32, B32, I64) -> B64;
}

/// One register of a pair in every lane.
#[inline(always)]
fn word(wave: &Wave, source: &Source, second: bool, negate: bool) -> Lanes {
    let number = usize::from(source.index) + usize::from(second);
    let mut bits = match source.kind {
        Kind::Vector => wave.vector[number & REGISTER_MASK],
        Kind::Scalar => Lanes([wave.scalar[number & 127]; WAVE]),
        Kind::Constant | Kind::Scc => Lanes([wave.uniform(source); WAVE]),
    };
    if negate {
        for bits in &mut bits.0 {
            *bits ^= 0x8000_0000;
        }
    }
    bits
}

/// One number of a pair in every lane: the first or, with `second`, the second.
#[inline(always)]
fn number(wave: &Wave, source: &Source, second: bool) -> Lanes {
    let (place, negate) =
        if second { (source.high_for_high, source.negate_high) } else { (source.high, source.negate) };
    word(wave, source, place, negate)
}

/// Defines instructions that compute the same expression for both numbers of a pair. There is no closure in them: a
/// handler is compiled for instructions that the standard library's functions are not compiled for, so that a closure
/// that is passed to one of them would be called for each lane.
macro_rules! pairs {
    ($($name:ident |$a:ident, $b:ident, $c:ident| $body:expr;)*) => {
        $(handler! { fn $name(wave, instruction) {
            let [a, b, c] = &instruction.sources;
            let mut results = [Lanes::ZERO; 2];
            for (second, result) in [false, true].into_iter().zip(&mut results) {
                let (a, b, c) = (number(wave, a, second), number(wave, b, second), number(wave, c, second));
                for lane in 0..WAVE {
                    let ($a, $b, $c) =
                        (f32::from_bits(a.0[lane]), f32::from_bits(b.0[lane]), f32::from_bits(c.0[lane]));
                    result.0[lane] = f32::to_bits($body);
                }
            }
            wave.write(instruction.destination, &results[0]);
            wave.write(instruction.destination + 1, &results[1]);
        } })*
    };
}

pairs! {
    v_pk_fma_f32 |a, b, c| a.mul_add(b, c);
    v_pk_mul_f32 |a, b, _c| a * b;
    v_pk_add_f32 |a, b, _c| a + b;
}

handler! {
    /// Moves a register of the first pair and a register of the second one.
    fn v_pk_mov_b32(wave, instruction) {
        let [a, b, _] = &instruction.sources;
        let (low, high) = (word(wave, a, a.high, false), word(wave, b, b.high, false));
        wave.write(instruction.destination, &low);
        wave.write(instruction.destination + 1, &high);
    }
}

handler! { fn v_mov_b64(wave, instruction) {
    let values = wide(wave, &instruction.sources[0]);
    write_wide(wave, instruction.destination, &values);
} }

/// The largest shift of [`v_lshl_add_u64`] that compilers use.
const MOST_SHIFT: u32 = 4;

handler! {
    /// A shift and a sum. Larger shifts are an error, because compilers never use them.
    fn v_lshl_add_u64(wave, instruction) {
        let mut space = Lanes::ZERO;
        let [a, by, c] = &instruction.sources;
        let (a, by, c) = (wide(wave, a), wave.raw(by, &mut space), wide(wave, c));
        let mut sums = [0; WAVE];
        for lane in 0..WAVE {
            sums[lane] = (a[lane] << by.0[lane].min(MOST_SHIFT)).wrapping_add(c[lane]);
        }
        let exec = wave.exec();
        if let Some(lane) = (0..WAVE).find(|&lane| (exec >> lane) & 1 == 1 && by.0[lane] > MOST_SHIFT) {
            let message = format!("{}: a shift by {:#x}, more than {MOST_SHIFT}", instruction.name, by.0[lane]);
            wave.fail(message);
            return;
        }
        write_wide(wave, instruction.destination, &sums);
    }
}

/// The product of two 32-bit numbers plus a 64-bit number, and the mask of the lanes with a carry.
#[inline(always)]
fn multiply_add(wave: &mut Wave, instruction: &Instruction, product: impl Fn(u32, u32) -> (u64, bool)) {
    let (mut space_a, mut space_b) = (Lanes::ZERO, Lanes::ZERO);
    let [a, b, c] = &instruction.sources;
    let (a, b, c) = (wave.raw(a, &mut space_a), wave.raw(b, &mut space_b), wide(wave, c));
    let (mut sums, mut mask) = ([0; WAVE], 0);
    for lane in 0..WAVE {
        let (product, known) = product(a.0[lane], b.0[lane]);
        let (sum, carry) = product.overflowing_add(c[lane]);
        sums[lane] = sum;
        // Nothing in AMD's document says which carry a signed sum has. A program that used it would see noise here.
        mask |= u32::from(if known { carry } else { lane % 3 == 0 }) << lane;
    }
    write_wide(wave, instruction.destination, &sums);
    wave.write_mask(instruction.scalar, mask);
}

handler! { fn mad_u64_u32_with_carry(wave, instruction) {
    multiply_add(wave, instruction, |a, b| (u64::from(a) * u64::from(b), true));
} }

handler! { fn mad_i64_i32_with_carry(wave, instruction) {
    multiply_add(wave, instruction, |a, b| ((i64::from(a as i32) * i64::from(b as i32)) as u64, false));
} }
