//! The implementation in plain Rust, four numbers at a time.
//!
//! The compiler translates these loops to SSE2 on x86-64, which every processor of this architecture has. This is the
//! fallback, and the version that is easiest to read.

use super::vector::{Simd, Word, bf16_bits};

/// The implementation that runs on every processor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Portable;

const LANES: usize = 4;

/// Whether `f32::mul_add` is one instruction on this target. On other targets it is a library call, which is a
/// hundred times slower.
const FUSED: bool = cfg!(any(target_arch = "aarch64", target_feature = "fma"));

#[inline(always)]
fn each(f: impl Fn(usize) -> f32) -> [f32; LANES] {
    [f(0), f(1), f(2), f(3)]
}

impl Simd for Portable {
    const LANES: usize = LANES;
    const TILE_ROWS: usize = 4;
    const TILE_ROWS_BF16: usize = 4;
    const TILE_ROWS_INT8: usize = 4;
    const LARGEST_INT8_WEIGHT: i8 = 127;
    type Vector = [f32; LANES];
    type Words = [Word; LANES];

    #[inline(always)]
    fn splat(self, x: f32) -> Self::Vector {
        [x; LANES]
    }

    #[inline(always)]
    fn load(self, from: &[f32]) -> Self::Vector {
        let from = &from[..LANES];
        each(|i| from[i])
    }

    #[inline(always)]
    fn store(self, v: Self::Vector, to: &mut [f32]) {
        to[..LANES].copy_from_slice(&v);
    }

    #[inline(always)]
    fn add(self, a: Self::Vector, b: Self::Vector) -> Self::Vector {
        each(|i| a[i] + b[i])
    }

    #[inline(always)]
    fn sub(self, a: Self::Vector, b: Self::Vector) -> Self::Vector {
        each(|i| a[i] - b[i])
    }

    #[inline(always)]
    fn mul(self, a: Self::Vector, b: Self::Vector) -> Self::Vector {
        each(|i| a[i] * b[i])
    }

    #[inline(always)]
    fn div(self, a: Self::Vector, b: Self::Vector) -> Self::Vector {
        each(|i| a[i] / b[i])
    }

    #[inline(always)]
    fn mul_add(self, a: Self::Vector, b: Self::Vector, c: Self::Vector) -> Self::Vector {
        if FUSED { each(|i| a[i].mul_add(b[i], c[i])) } else { each(|i| a[i] * b[i] + c[i]) }
    }

    #[inline(always)]
    fn max(self, a: Self::Vector, b: Self::Vector) -> Self::Vector {
        each(|i| if a[i] > b[i] { a[i] } else { b[i] })
    }

    #[inline(always)]
    fn min(self, a: Self::Vector, b: Self::Vector) -> Self::Vector {
        each(|i| if a[i] < b[i] { a[i] } else { b[i] })
    }

    #[inline(always)]
    fn round(self, a: Self::Vector) -> Self::Vector {
        // The sum with 1.5 * 2^23 has no bits for a fraction, so the processor rounds to nearest, ties to even.
        // This is correct for |a| < 2^22; no caller passes larger numbers.
        const SHIFT: f32 = 12_582_912.0;
        each(|i| (a[i] + SHIFT) - SHIFT)
    }

    #[inline(always)]
    fn scale_by_power_of_two(self, a: Self::Vector, n: Self::Vector) -> Self::Vector {
        each(|i| a[i] * f32::from_bits(((n[i] as i32 + 127) as u32) << 23))
    }

    #[inline(always)]
    fn select_positive(
        self,
        x: Self::Vector,
        positive: Self::Vector,
        otherwise: Self::Vector,
    ) -> Self::Vector {
        each(|i| if x[i] > 0.0 { positive[i] } else { otherwise[i] })
    }

    #[inline(always)]
    fn sum(self, a: Self::Vector) -> f32 {
        (a[0] + a[1]) + (a[2] + a[3])
    }

    #[inline(always)]
    fn largest(self, a: Self::Vector) -> f32 {
        a[0].max(a[1]).max(a[2].max(a[3]))
    }

    #[inline(always)]
    fn transpose(self, from: &[f32], from_stride: usize, to: &mut [f32], to_stride: usize) {
        for i in 0..LANES {
            for j in 0..LANES {
                to[j * to_stride + i] = from[i * from_stride + j];
            }
        }
    }

    #[inline(always)]
    fn round_to_bf16(self, first: Self::Vector, second: Self::Vector) -> Self::Words {
        let pair = |a: f32, b: f32| u32::from(bf16_bits(a)) | u32::from(bf16_bits(b)) << 16;
        [
            pair(first[0], first[1]),
            pair(first[2], first[3]),
            pair(second[0], second[1]),
            pair(second[2], second[3]),
        ]
    }

    #[inline(always)]
    fn store_words(self, words: Self::Words, to: &mut [Word]) {
        to[..LANES].copy_from_slice(&words);
    }

    #[inline(always)]
    fn splat_word(self, word: Word) -> Self::Words {
        [word; LANES]
    }

    #[inline(always)]
    fn dot_pairs(self, sum: Self::Vector, a: Self::Words, b: Self::Words) -> Self::Vector {
        let first = |p: Word| f32::from_bits(p << 16);
        let second = |p: Word| f32::from_bits(p & 0xffff_0000);
        each(|i| (sum[i] + first(a[i]) * first(b[i])) + second(a[i]) * second(b[i]))
    }

    #[inline(always)]
    fn store_bytes(self, v: Self::Vector, to: &mut [Word]) {
        to[0] = u32::from_le_bytes(self.round(v).map(|x| x as u8));
    }

    #[inline(always)]
    fn dot_bytes(self, sum: Self::Words, a: Self::Words, b: Self::Words) -> Self::Words {
        let dot = |i: usize| -> u32 {
            let (a, b) = (a[i].to_le_bytes(), b[i].to_le_bytes());
            let product = |k: usize| i32::from(a[k]) * i32::from(b[k] as i8);
            (product(0) + product(1) + product(2) + product(3)) as u32
        };
        std::array::from_fn(|i| sum[i].wrapping_add(dot(i)))
    }

    #[inline(always)]
    fn to_float(self, integers: Self::Words) -> Self::Vector {
        each(|i| integers[i] as i32 as f32)
    }

    #[inline(always)]
    fn bf16_pairs(self, first: Self::Vector, second: Self::Vector) -> Self::Words {
        std::array::from_fn(|i| u32::from(bf16_bits(first[i])) | u32::from(bf16_bits(second[i])) << 16)
    }

    #[inline(always)]
    fn upper_half(self, v: Self::Vector) -> Self::Vector {
        v.map(|x| f32::from_bits(x.to_bits() & 0xffff_0000))
    }

    #[inline(always)]
    unsafe fn load_unchecked(self, from: *const f32) -> Self::Vector {
        // SAFETY: the caller guarantees that `LANES` numbers can be read. The read needs no alignment.
        unsafe { from.cast::<Self::Vector>().read_unaligned() }
    }

    #[inline(always)]
    unsafe fn store_unchecked(self, v: Self::Vector, to: *mut f32) {
        // SAFETY: the caller guarantees that `LANES` numbers can be written. The write needs no alignment.
        unsafe { to.cast::<Self::Vector>().write_unaligned(v) }
    }

    #[inline(always)]
    unsafe fn load_words_unchecked(self, from: *const Word) -> Self::Words {
        // SAFETY: the caller guarantees that `LANES` words can be read. The read needs no alignment.
        unsafe { from.cast::<Self::Words>().read_unaligned() }
    }

    #[inline(always)]
    unsafe fn store_words_unchecked(self, words: Self::Words, to: *mut Word) {
        // SAFETY: the caller guarantees that `LANES` words can be written. The write needs no alignment.
        unsafe { to.cast::<Self::Words>().write_unaligned(words) }
    }
}
