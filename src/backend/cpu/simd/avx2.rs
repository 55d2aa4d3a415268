//! The implementation with AVX2 and FMA: eight numbers in a vector, sixteen registers.

use super::vector::{Bf16Pair, Kernel, Simd};
use std::arch::x86_64::*;

/// A proof that the processor has AVX2 and FMA: only [`Avx2::detect`] makes a value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx2(());

const LANES: usize = 8;

impl Avx2 {
    /// Returns a value if the processor has AVX2 and FMA.
    pub(super) fn detect() -> Option<Avx2> {
        (is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")).then_some(Avx2(()))
    }
}

/// Runs the version of a kernel that is compiled for AVX2 and FMA.
#[inline]
pub(super) fn enter<K: Kernel>(simd: Avx2, kernel: K) -> K::Output {
    #[target_feature(enable = "avx2,fma")]
    fn compiled<K: Kernel>(simd: Avx2, kernel: K) -> K::Output {
        kernel.run(simd)
    }
    // SAFETY: an `Avx2` exists only where the processor has the features.
    unsafe { compiled(simd, kernel) }
}

/// Rounds each lane to bf16 (to nearest, ties to even), in the low half of its 32 bits. The NaN that arithmetic
/// produces (quiet, with no other bit of the mantissa set) stays a NaN. Other NaNs do not occur, because
/// weights are checked when they are loaded.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn bf16_halves(v: __m256) -> __m256i {
    let bits = _mm256_castps_si256(v);
    let odd = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), _mm256_set1_epi32(1));
    let rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    _mm256_srli_epi32::<16>(rounded)
}

#[inline]
#[target_feature(enable = "avx2,fma")]
fn transpose8(rows: [__m256; 8]) -> [__m256; 8] {
    let [a, b, c, d, e, f, g, h] = rows;
    // Interleave pairs of rows, then pairs of pairs, and then exchange the 128-bit halves.
    let (ab_low, ab_high) = (_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
    let (cd_low, cd_high) = (_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
    let (ef_low, ef_high) = (_mm256_unpacklo_ps(e, f), _mm256_unpackhi_ps(e, f));
    let (gh_low, gh_high) = (_mm256_unpacklo_ps(g, h), _mm256_unpackhi_ps(g, h));
    let top = [
        _mm256_shuffle_ps::<0x44>(ab_low, cd_low),
        _mm256_shuffle_ps::<0xee>(ab_low, cd_low),
        _mm256_shuffle_ps::<0x44>(ab_high, cd_high),
        _mm256_shuffle_ps::<0xee>(ab_high, cd_high),
    ];
    let bottom = [
        _mm256_shuffle_ps::<0x44>(ef_low, gh_low),
        _mm256_shuffle_ps::<0xee>(ef_low, gh_low),
        _mm256_shuffle_ps::<0x44>(ef_high, gh_high),
        _mm256_shuffle_ps::<0xee>(ef_high, gh_high),
    ];
    [
        _mm256_permute2f128_ps::<0x20>(top[0], bottom[0]),
        _mm256_permute2f128_ps::<0x20>(top[1], bottom[1]),
        _mm256_permute2f128_ps::<0x20>(top[2], bottom[2]),
        _mm256_permute2f128_ps::<0x20>(top[3], bottom[3]),
        _mm256_permute2f128_ps::<0x31>(top[0], bottom[0]),
        _mm256_permute2f128_ps::<0x31>(top[1], bottom[1]),
        _mm256_permute2f128_ps::<0x31>(top[2], bottom[2]),
        _mm256_permute2f128_ps::<0x31>(top[3], bottom[3]),
    ]
}

// A value of `Avx2` exists only if the processor has AVX2 and FMA; the blocks below refer to this.
impl Simd for Avx2 {
    const LANES: usize = LANES;
    /// 6 x 2 sums, 2 vectors of B and a splat of A use 15 of 16 registers.
    const TILE_ROWS: usize = 6;
    /// The emulated product of pairs needs more registers in addition to the sums.
    const TILE_ROWS_BF16: usize = 4;
    type Vector = __m256;
    type Pairs = __m256i;

    #[inline(always)]
    fn splat(self, x: f32) -> __m256 {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_set1_ps(x) }
    }

    #[inline(always)]
    fn load(self, from: &[f32]) -> __m256 {
        assert!(from.len() >= LANES);
        // SAFETY: `from` has at least eight numbers.
        unsafe { self.load_unchecked(from.as_ptr()) }
    }

    #[inline(always)]
    fn store(self, v: __m256, to: &mut [f32]) {
        assert!(to.len() >= LANES);
        // SAFETY: `to` has at least eight numbers.
        unsafe { self.store_unchecked(v, to.as_mut_ptr()) }
    }

    #[inline(always)]
    fn add(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_add_ps(a, b) }
    }

    #[inline(always)]
    fn sub(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_sub_ps(a, b) }
    }

    #[inline(always)]
    fn mul(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_mul_ps(a, b) }
    }

    #[inline(always)]
    fn div(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_div_ps(a, b) }
    }

    #[inline(always)]
    fn mul_add(self, a: __m256, b: __m256, c: __m256) -> __m256 {
        // SAFETY: `self` proves FMA.
        unsafe { _mm256_fmadd_ps(a, b, c) }
    }

    #[inline(always)]
    fn max(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_max_ps(a, b) }
    }

    #[inline(always)]
    fn min(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_min_ps(a, b) }
    }

    #[inline(always)]
    fn round(self, a: __m256) -> __m256 {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(a) }
    }

    #[inline(always)]
    fn scale_by_power_of_two(self, a: __m256, n: __m256) -> __m256 {
        #[inline]
        #[target_feature(enable = "avx2,fma")]
        fn scale(a: __m256, n: __m256) -> __m256 {
            let exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
            _mm256_mul_ps(a, _mm256_castsi256_ps(_mm256_slli_epi32::<23>(exponent)))
        }
        // SAFETY: `self` proves AVX2.
        unsafe { scale(a, n) }
    }

    #[inline(always)]
    fn select_positive(self, x: __m256, positive: __m256, otherwise: __m256) -> __m256 {
        #[inline]
        #[target_feature(enable = "avx2,fma")]
        fn select(x: __m256, positive: __m256, otherwise: __m256) -> __m256 {
            _mm256_blendv_ps(otherwise, positive, _mm256_cmp_ps::<_CMP_GT_OQ>(x, _mm256_setzero_ps()))
        }
        // SAFETY: `self` proves AVX2.
        unsafe { select(x, positive, otherwise) }
    }

    #[inline(always)]
    fn sum(self, a: __m256) -> f32 {
        #[inline]
        #[target_feature(enable = "avx2,fma")]
        fn sum(a: __m256) -> f32 {
            let four = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
            let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps::<1>(two, two)))
        }
        // SAFETY: `self` proves AVX2.
        unsafe { sum(a) }
    }

    #[inline(always)]
    fn transpose(self, from: &[f32], from_stride: usize, to: &mut [f32], to_stride: usize) {
        let mut rows = [self.splat(0.0); LANES];
        for (i, row) in rows.iter_mut().enumerate() {
            *row = self.load(&from[i * from_stride..]);
        }
        // SAFETY: `self` proves AVX2.
        let columns = unsafe { transpose8(rows) };
        for (i, column) in columns.into_iter().enumerate() {
            self.store(column, &mut to[i * to_stride..]);
        }
    }

    #[inline(always)]
    fn round_to_bf16(self, first: __m256, second: __m256) -> __m256i {
        #[inline]
        #[target_feature(enable = "avx2,fma")]
        fn round(first: __m256, second: __m256) -> __m256i {
            let packed = _mm256_packus_epi32(bf16_halves(first), bf16_halves(second));
            // The pack works within 128-bit halves, so the 64-bit quarters must be put back in order.
            _mm256_permute4x64_epi64::<0b11_01_10_00>(packed)
        }
        // SAFETY: `self` proves AVX2.
        unsafe { round(first, second) }
    }

    #[inline(always)]
    fn store_pairs(self, pairs: __m256i, to: &mut [Bf16Pair]) {
        assert!(to.len() >= LANES);
        // SAFETY: `to` has at least eight pairs. The store needs no alignment.
        unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), pairs) }
    }

    #[inline(always)]
    fn splat_pair(self, pair: Bf16Pair) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_set1_epi32(pair as i32) }
    }

    #[inline(always)]
    fn dot_pairs(self, sum: __m256, a: __m256i, b: __m256i) -> __m256 {
        #[inline]
        #[target_feature(enable = "avx2,fma")]
        fn dot(sum: __m256, a: __m256i, b: __m256i) -> __m256 {
            let first = |pairs| _mm256_castsi256_ps(_mm256_slli_epi32::<16>(pairs));
            let upper = _mm256_set1_epi32(0xffff_0000_u32 as i32);
            let second = |pairs| _mm256_castsi256_ps(_mm256_and_si256(pairs, upper));
            _mm256_fmadd_ps(second(a), second(b), _mm256_fmadd_ps(first(a), first(b), sum))
        }
        // SAFETY: `self` proves AVX2 and FMA.
        unsafe { dot(sum, a, b) }
    }

    #[inline(always)]
    unsafe fn load_unchecked(self, from: *const f32) -> __m256 {
        // SAFETY: the caller guarantees that eight numbers can be read. The load needs no alignment.
        unsafe { _mm256_loadu_ps(from) }
    }

    #[inline(always)]
    unsafe fn store_unchecked(self, v: __m256, to: *mut f32) {
        // SAFETY: the caller guarantees that eight numbers can be written. The store needs no alignment.
        unsafe { _mm256_storeu_ps(to, v) }
    }

    #[inline(always)]
    unsafe fn load_pairs_unchecked(self, from: *const Bf16Pair) -> __m256i {
        // SAFETY: the caller guarantees that eight pairs can be read. The load needs no alignment.
        unsafe { _mm256_loadu_si256(from.cast()) }
    }
}
