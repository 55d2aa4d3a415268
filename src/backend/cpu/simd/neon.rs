//! The implementation with NEON, which every 64-bit ARM processor has, and with its extensions: eight numbers in two of
//! thirty-two registers.
//!
//! The instructions of the extensions are written in assembly, because Rust's functions for them are not stable.

use super::blocks;
use super::vector::{BlockTile, Kernel, Simd, Word};
use std::arch::aarch64::*;
use std::arch::{asm, is_aarch64_feature_detected};

/// A proof that the processor has DotProd if `DOT`, I8MM if `I8MM`, and BF16 if `BF16`: only [`Neon::detect`] makes a
/// value. Every processor has the rest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Neon<const DOT: bool, const I8MM: bool, const BF16: bool>(());

impl<const DOT: bool, const I8MM: bool, const BF16: bool> Neon<DOT, I8MM, BF16> {
    /// Returns a value if the processor has all these extensions.
    pub(super) fn detect() -> Option<Self> {
        let dot = !DOT || is_aarch64_feature_detected!("dotprod");
        let i8mm = !I8MM || is_aarch64_feature_detected!("i8mm");
        let bf16 = !BF16 || is_aarch64_feature_detected!("bf16");
        (dot && i8mm && bf16).then_some(Neon(()))
    }
}

/// Runs the version of a kernel that is compiled for NEON.
#[inline]
pub(super) fn enter<K: Kernel>(simd: Neon<false, false, false>, kernel: K) -> K::Output {
    kernel.run(simd)
}

/// Runs the version of a kernel that is compiled for NEON and DotProd.
#[inline]
pub(super) fn enter_dot<K: Kernel>(simd: Neon<true, false, false>, kernel: K) -> K::Output {
    #[target_feature(enable = "neon,dotprod")]
    fn compiled<K: Kernel>(simd: Neon<true, false, false>, kernel: K) -> K::Output {
        kernel.run(simd)
    }
    // SAFETY: a `Neon<true, _, _>` exists only where the processor has the features.
    unsafe { compiled(simd, kernel) }
}

/// Runs the version of a kernel that is compiled for NEON, DotProd and I8MM.
#[inline]
pub(super) fn enter_i8mm<K: Kernel>(simd: Neon<true, true, false>, kernel: K) -> K::Output {
    #[target_feature(enable = "neon,dotprod,i8mm")]
    fn compiled<K: Kernel>(simd: Neon<true, true, false>, kernel: K) -> K::Output {
        kernel.run(simd)
    }
    // SAFETY: a `Neon<true, true, _>` exists only where the processor has the features.
    unsafe { compiled(simd, kernel) }
}

/// Runs the version of a kernel that is compiled for NEON and BF16.
#[inline]
pub(super) fn enter_bf16<K: Kernel>(simd: Neon<false, false, true>, kernel: K) -> K::Output {
    #[target_feature(enable = "neon,bf16")]
    fn compiled<K: Kernel>(simd: Neon<false, false, true>, kernel: K) -> K::Output {
        kernel.run(simd)
    }
    // SAFETY: a `Neon<_, _, true>` exists only where the processor has the features.
    unsafe { compiled(simd, kernel) }
}

/// The fp32 numbers in a register.
const WIDTH: usize = 4;
const LANES: usize = 2 * WIDTH;
/// `SDOT` and `SMMLA` multiply signed bytes. Their variants for unsigned bytes belong to I8MM.
const BYTE_OFFSET: u8 = 128;

/// Computes both registers of a vector.
#[inline(always)]
fn both<V>(f: impl Fn(usize) -> V) -> [V; 2] {
    [f(0), f(1)]
}

/// `a * 2^n`
#[inline]
#[target_feature(enable = "neon")]
fn scale(a: float32x4_t, n: float32x4_t) -> float32x4_t {
    let exponent = vaddq_s32(vcvtq_s32_f32(n), vdupq_n_s32(127));
    vmulq_f32(a, vreinterpretq_f32_s32(vshlq_n_s32::<23>(exponent)))
}

#[inline]
#[target_feature(enable = "neon")]
fn transpose4([a, b, c, d]: [float32x4_t; 4]) -> [float32x4_t; 4] {
    let [ab_even, ab_odd] = [vtrn1q_f32(a, b), vtrn2q_f32(a, b)].map(|v| vreinterpretq_f64_f32(v));
    let [cd_even, cd_odd] = [vtrn1q_f32(c, d), vtrn2q_f32(c, d)].map(|v| vreinterpretq_f64_f32(v));
    [
        vtrn1q_f64(ab_even, cd_even),
        vtrn1q_f64(ab_odd, cd_odd),
        vtrn2q_f64(ab_even, cd_even),
        vtrn2q_f64(ab_odd, cd_odd),
    ]
    .map(|v| vreinterpretq_f32_f64(v))
}

/// Rounds each lane to bf16 (to nearest, ties to even). The NaN that arithmetic produces (quiet, with no other bit of the
/// mantissa set) stays a NaN. Other NaNs do not occur, because weights are checked when they are loaded.
#[inline]
#[target_feature(enable = "neon")]
fn bf16_halves(v: float32x4_t) -> uint16x4_t {
    let bits = vreinterpretq_u32_f32(v);
    let odd = vandq_u32(vshrq_n_u32::<16>(bits), vdupq_n_u32(1));
    vaddhn_u32(bits, vaddq_u32(odd, vdupq_n_u32(0x7fff)))
}

/// Rounds eight numbers to bf16, in memory order.
#[inline]
#[target_feature(enable = "neon")]
fn round_to_bf16(v: [float32x4_t; 2]) -> uint32x4_t {
    vreinterpretq_u32_u16(vcombine_u16(bf16_halves(v[0]), bf16_halves(v[1])))
}

/// [`round_to_bf16`] with the BF16 extension.
#[inline]
#[target_feature(enable = "neon,bf16")]
fn convert_to_bf16(v: [float32x4_t; 2]) -> uint32x4_t {
    let words;
    // SAFETY: the instructions compute a register from registers.
    unsafe {
        asm!(
            "bfcvtn {words:v}.4h, {first:v}.4s",
            "bfcvtn2 {words:v}.8h, {second:v}.4s",
            words = out(vreg) words,
            first = in(vreg) v[0],
            second = in(vreg) v[1],
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    words
}

/// Rounds to bf16 and returns the pairs of the lanes' numbers.
#[inline]
#[target_feature(enable = "neon")]
fn bf16_pairs(first: float32x4_t, second: float32x4_t) -> uint32x4_t {
    vsliq_n_u32::<16>(vmovl_u16(bf16_halves(first)), vmovl_u16(bf16_halves(second)))
}

/// The upper 16 bits of each word as a number.
#[inline]
#[target_feature(enable = "neon")]
fn upper_half(words: uint32x4_t) -> float32x4_t {
    vreinterpretq_f32_u32(vandq_u32(words, vdupq_n_u32(0xffff_0000)))
}

#[inline]
#[target_feature(enable = "neon")]
fn dot_pairs(sum: float32x4_t, a: uint32x4_t, b: uint32x4_t) -> float32x4_t {
    let first = |pairs| vreinterpretq_f32_u32(vshlq_n_u32::<16>(pairs));
    vfmaq_f32(vfmaq_f32(sum, first(a), first(b)), upper_half(a), upper_half(b))
}

/// Rounds eight numbers to bytes and subtracts [`BYTE_OFFSET`].
#[inline]
#[target_feature(enable = "neon")]
fn bytes(v: [float32x4_t; 2]) -> [Word; 2] {
    let shorts = vcombine_s16(vmovn_s32(vcvtnq_s32_f32(v[0])), vmovn_s32(vcvtnq_s32_f32(v[1])));
    let bytes = veor_u8(vqmovun_s16(shorts), vdup_n_u8(BYTE_OFFSET));
    let words = vreinterpret_u32_u8(bytes);
    [vget_lane_u32::<0>(words), vget_lane_u32::<1>(words)]
}

#[inline]
#[target_feature(enable = "neon")]
fn dot_bytes(sum: uint32x4_t, a: uint32x4_t, b: uint32x4_t) -> uint32x4_t {
    let (a, b) = (vreinterpretq_s8_u32(a), vreinterpretq_s8_u32(b));
    // The sum of two products is at most 2 * 128 * 127, which does not overflow 16 bits.
    let first = vmull_s8(vget_low_s8(a), vget_low_s8(b));
    let pairs = vpaddq_s16(first, vmull_high_s8(a, b));
    vreinterpretq_u32_s32(vpadalq_s16(vreinterpretq_s32_u32(sum), pairs))
}

/// [`dot_bytes`] with DotProd.
#[inline]
#[target_feature(enable = "neon,dotprod")]
fn extended_dot_bytes(mut sum: uint32x4_t, a: uint32x4_t, b: uint32x4_t) -> uint32x4_t {
    // SAFETY: the instruction computes a register from registers.
    unsafe {
        asm!(
            "sdot {sum:v}.4s, {a:v}.16b, {b:v}.16b",
            sum = inout(vreg) sum,
            a = in(vreg) a,
            b = in(vreg) b,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    sum
}

/// [`extended_dot_bytes`] with `a[INDEX]` in all lanes.
#[inline]
#[target_feature(enable = "neon,dotprod")]
fn extended_dot_bytes_element<const INDEX: i32>(
    mut sum: uint32x4_t,
    a: uint32x4_t,
    b: uint32x4_t,
) -> uint32x4_t {
    // SAFETY: the instruction computes a register from registers.
    unsafe {
        asm!(
            "sdot {sum:v}.4s, {b:v}.16b, {a:v}.4b[{index}]",
            sum = inout(vreg) sum,
            a = in(vreg) a,
            b = in(vreg) b,
            index = const INDEX,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    sum
}

// NEON is a part of this architecture, and a value of `Neon` exists only if the processor has the extensions; the SAFETY
// comments below rely on this.
impl<const DOT: bool, const I8MM: bool, const BF16: bool> Simd for Neon<DOT, I8MM, BF16> {
    const LANES: usize = LANES;
    /// 5 x 4 sums, a register for each row of A and four for B use 29 of 32. The 20 sums are independent; four FMA units
    /// need 16 independent sums to stay busy. With 6 rows the compiler moves sums to memory.
    const TILE_ROWS: usize = 5;
    /// The emulated product of pairs needs more registers in addition to the sums.
    const TILE_ROWS_BF16: usize = if BF16 { blocks::ROWS } else { 4 };
    const TILE_ROWS_INT8: usize = if I8MM { blocks::ROWS } else { 5 };
    const BLOCKS_OF_PAIRS: bool = BF16;
    const BLOCKS_OF_BYTES: bool = I8MM;
    const LARGEST_INT8_WEIGHT: i8 = 127;
    const BYTE_OFFSET: u8 = BYTE_OFFSET;
    const ELEMENTS: usize = WIDTH;
    type Vector = [float32x4_t; 2];
    type Words = [uint32x4_t; 2];

    #[inline(always)]
    fn splat(self, x: f32) -> Self::Vector {
        // SAFETY: the processor has NEON.
        [unsafe { vdupq_n_f32(x) }; 2]
    }

    #[inline(always)]
    fn load(self, from: &[f32]) -> Self::Vector {
        assert!(from.len() >= LANES);
        // SAFETY: `from` has at least eight numbers.
        unsafe { self.load_unchecked(from.as_ptr()) }
    }

    #[inline(always)]
    fn store(self, v: Self::Vector, to: &mut [f32]) {
        assert!(to.len() >= LANES);
        // SAFETY: `to` has at least eight numbers.
        unsafe { self.store_unchecked(v, to.as_mut_ptr()) }
    }

    #[inline(always)]
    fn add(self, a: Self::Vector, b: Self::Vector) -> Self::Vector {
        // SAFETY: the processor has NEON.
        both(|i| unsafe { vaddq_f32(a[i], b[i]) })
    }

    #[inline(always)]
    fn sub(self, a: Self::Vector, b: Self::Vector) -> Self::Vector {
        // SAFETY: the processor has NEON.
        both(|i| unsafe { vsubq_f32(a[i], b[i]) })
    }

    #[inline(always)]
    fn mul(self, a: Self::Vector, b: Self::Vector) -> Self::Vector {
        // SAFETY: the processor has NEON.
        both(|i| unsafe { vmulq_f32(a[i], b[i]) })
    }

    #[inline(always)]
    fn div(self, a: Self::Vector, b: Self::Vector) -> Self::Vector {
        // SAFETY: the processor has NEON.
        both(|i| unsafe { vdivq_f32(a[i], b[i]) })
    }

    #[inline(always)]
    fn mul_add(self, a: Self::Vector, b: Self::Vector, c: Self::Vector) -> Self::Vector {
        // SAFETY: the processor has NEON.
        both(|i| unsafe { vfmaq_f32(c[i], a[i], b[i]) })
    }

    #[inline(always)]
    fn max(self, a: Self::Vector, b: Self::Vector) -> Self::Vector {
        // SAFETY: the processor has NEON.
        both(|i| unsafe { vmaxq_f32(a[i], b[i]) })
    }

    #[inline(always)]
    fn min(self, a: Self::Vector, b: Self::Vector) -> Self::Vector {
        // SAFETY: the processor has NEON.
        both(|i| unsafe { vminq_f32(a[i], b[i]) })
    }

    #[inline(always)]
    fn round(self, a: Self::Vector) -> Self::Vector {
        // SAFETY: the processor has NEON.
        both(|i| unsafe { vrndnq_f32(a[i]) })
    }

    #[inline(always)]
    fn scale_by_power_of_two(self, a: Self::Vector, n: Self::Vector) -> Self::Vector {
        // SAFETY: the processor has NEON.
        both(|i| unsafe { scale(a[i], n[i]) })
    }

    #[inline(always)]
    fn select_positive(
        self,
        x: Self::Vector,
        positive: Self::Vector,
        otherwise: Self::Vector,
    ) -> Self::Vector {
        #[inline]
        #[target_feature(enable = "neon")]
        fn select(x: float32x4_t, positive: float32x4_t, otherwise: float32x4_t) -> float32x4_t {
            vbslq_f32(vcgtzq_f32(x), positive, otherwise)
        }
        // SAFETY: the processor has NEON.
        both(|i| unsafe { select(x[i], positive[i], otherwise[i]) })
    }

    #[inline(always)]
    fn sum(self, a: Self::Vector) -> f32 {
        #[inline]
        #[target_feature(enable = "neon")]
        fn sum(a: [float32x4_t; 2]) -> f32 {
            vaddvq_f32(vaddq_f32(a[0], a[1]))
        }
        // SAFETY: the processor has NEON.
        unsafe { sum(a) }
    }

    #[inline(always)]
    fn largest(self, a: Self::Vector) -> f32 {
        #[inline]
        #[target_feature(enable = "neon")]
        fn largest(a: [float32x4_t; 2]) -> f32 {
            vmaxvq_f32(vmaxq_f32(a[0], a[1]))
        }
        // SAFETY: the processor has NEON.
        unsafe { largest(a) }
    }

    #[inline(always)]
    fn transpose(self, from: &[f32], from_stride: usize, to: &mut [f32], to_stride: usize) {
        let mut rows = [self.splat(0.0); LANES];
        for (i, row) in rows.iter_mut().enumerate() {
            *row = self.load(&from[i * from_stride..]);
        }
        let [a, b, c, d, e, f, g, h] = rows;
        for half in 0..2 {
            // SAFETY: the processor has NEON.
            let top = unsafe { transpose4([a[half], b[half], c[half], d[half]]) };
            // SAFETY: the processor has NEON.
            let bottom = unsafe { transpose4([e[half], f[half], g[half], h[half]]) };
            for i in 0..WIDTH {
                self.store([top[i], bottom[i]], &mut to[(half * WIDTH + i) * to_stride..]);
            }
        }
    }

    #[inline(always)]
    fn round_to_bf16(self, first: Self::Vector, second: Self::Vector) -> Self::Words {
        if BF16 {
            // SAFETY: `self` proves BF16.
            [first, second].map(|v| unsafe { convert_to_bf16(v) })
        } else {
            // SAFETY: the processor has NEON.
            [first, second].map(|v| unsafe { round_to_bf16(v) })
        }
    }

    #[inline(always)]
    fn store_words(self, words: Self::Words, to: &mut [Word]) {
        assert!(to.len() >= LANES);
        // SAFETY: `to` has at least eight words.
        unsafe { self.store_words_unchecked(words, to.as_mut_ptr()) }
    }

    #[inline(always)]
    fn splat_word(self, word: Word) -> Self::Words {
        // SAFETY: the processor has NEON.
        [unsafe { vdupq_n_u32(word) }; 2]
    }

    #[inline(always)]
    fn dot_pairs(self, sum: Self::Vector, a: Self::Words, b: Self::Words) -> Self::Vector {
        // SAFETY: the processor has NEON.
        both(|i| unsafe { dot_pairs(sum[i], a[i], b[i]) })
    }

    #[inline(always)]
    fn store_bytes(self, v: Self::Vector, to: &mut [Word]) {
        // SAFETY: the processor has NEON.
        to[..2].copy_from_slice(&unsafe { bytes(v) });
    }

    #[inline(always)]
    fn dot_bytes(self, sum: Self::Words, a: Self::Words, b: Self::Words) -> Self::Words {
        if DOT {
            // SAFETY: `self` proves DotProd.
            both(|i| unsafe { extended_dot_bytes(sum[i], a[i], b[i]) })
        } else {
            // SAFETY: the processor has NEON.
            both(|i| unsafe { dot_bytes(sum[i], a[i], b[i]) })
        }
    }

    #[inline(always)]
    fn to_float(self, integers: Self::Words) -> Self::Vector {
        #[inline]
        #[target_feature(enable = "neon")]
        fn float(integers: uint32x4_t) -> float32x4_t {
            vcvtq_f32_s32(vreinterpretq_s32_u32(integers))
        }
        // SAFETY: the processor has NEON.
        both(|i| unsafe { float(integers[i]) })
    }

    #[inline(always)]
    fn bf16_pairs(self, first: Self::Vector, second: Self::Vector) -> Self::Words {
        // SAFETY: the processor has NEON.
        both(|i| unsafe { bf16_pairs(first[i], second[i]) })
    }

    #[inline(always)]
    fn upper_half(self, v: Self::Vector) -> Self::Vector {
        #[inline]
        #[target_feature(enable = "neon")]
        fn upper(v: float32x4_t) -> float32x4_t {
            upper_half(vreinterpretq_u32_f32(v))
        }
        // SAFETY: the processor has NEON.
        both(|i| unsafe { upper(v[i]) })
    }

    #[inline(always)]
    unsafe fn load_elements(self, from: *const f32) -> Self::Vector {
        // SAFETY: the caller guarantees that four numbers can be read.
        [unsafe { vld1q_f32(from) }; 2]
    }

    #[inline(always)]
    fn mul_add_element<const INDEX: i32>(
        self,
        a: Self::Vector,
        b: Self::Vector,
        c: Self::Vector,
    ) -> Self::Vector {
        // SAFETY: the processor has NEON.
        both(|i| unsafe { vfmaq_laneq_f32::<INDEX>(c[i], b[i], a[0]) })
    }

    #[inline(always)]
    unsafe fn load_word_elements(self, from: *const Word) -> Self::Words {
        // SAFETY: the caller guarantees that four words can be read.
        [unsafe { vld1q_u32(from) }; 2]
    }

    #[inline(always)]
    fn dot_pairs_element<const INDEX: i32>(
        self,
        sum: Self::Vector,
        a: Self::Words,
        b: Self::Words,
    ) -> Self::Vector {
        // SAFETY: the processor has NEON.
        let word = unsafe { vdupq_laneq_u32::<INDEX>(a[0]) };
        self.dot_pairs(sum, [word; 2], b)
    }

    #[inline(always)]
    fn dot_bytes_element<const INDEX: i32>(
        self,
        sum: Self::Words,
        a: Self::Words,
        b: Self::Words,
    ) -> Self::Words {
        if DOT {
            // SAFETY: `self` proves DotProd.
            return both(|i| unsafe { extended_dot_bytes_element::<INDEX>(sum[i], a[0], b[i]) });
        }
        // SAFETY: the processor has NEON.
        let word = unsafe { vdupq_laneq_u32::<INDEX>(a[0]) };
        self.dot_bytes(sum, [word; 2], b)
    }

    #[inline(always)]
    unsafe fn tile_of_pairs(self, tile: BlockTile) {
        // SAFETY: the caller guarantees the same conditions, and `self` proves BF16, because it has blocks of pairs.
        unsafe { blocks::tile_of_pairs(tile) }
    }

    #[inline(always)]
    unsafe fn tile_of_bytes(self, tile: BlockTile) {
        // SAFETY: the caller guarantees the same conditions, and `self` proves I8MM, because it has blocks of bytes.
        unsafe { blocks::tile_of_bytes(tile) }
    }

    #[inline(always)]
    unsafe fn load_unchecked(self, from: *const f32) -> Self::Vector {
        // SAFETY: the caller guarantees that eight numbers can be read. The loads need no alignment.
        both(|i| unsafe { vld1q_f32(from.wrapping_add(i * WIDTH)) })
    }

    #[inline(always)]
    unsafe fn store_unchecked(self, v: Self::Vector, to: *mut f32) {
        for (i, half) in v.into_iter().enumerate() {
            // SAFETY: the caller guarantees that eight numbers can be written. The stores need no alignment.
            unsafe { vst1q_f32(to.wrapping_add(i * WIDTH), half) }
        }
    }

    #[inline(always)]
    unsafe fn load_words_unchecked(self, from: *const Word) -> Self::Words {
        // SAFETY: the caller guarantees that eight words can be read. The loads need no alignment.
        both(|i| unsafe { vld1q_u32(from.wrapping_add(i * WIDTH)) })
    }

    #[inline(always)]
    unsafe fn store_words_unchecked(self, words: Self::Words, to: *mut Word) {
        for (i, half) in words.into_iter().enumerate() {
            // SAFETY: the caller guarantees that eight words can be written. The stores need no alignment.
            unsafe { vst1q_u32(to.wrapping_add(i * WIDTH), half) }
        }
    }
}
