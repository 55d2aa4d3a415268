//! The implementation with AVX2 and FMA, with or without the AVX-VNNI extension: eight numbers in a vector, sixteen
//! registers.

use super::vector::{Kernel, Simd, Word};
use std::arch::x86_64::*;

/// A proof that the processor has AVX2 and FMA, and AVX-VNNI if `VNNI`: only [`Avx2::detect`] makes a value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx2<const VNNI: bool>(());

const LANES: usize = 8;

impl<const VNNI: bool> Avx2<VNNI> {
    /// Returns a value if the processor has all these extensions.
    pub(super) fn detect() -> Option<Self> {
        let base = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
        (base && (!VNNI || is_x86_feature_detected!("avxvnni"))).then_some(Avx2(()))
    }
}

/// Runs the version of a kernel that is compiled for AVX2 and FMA.
#[inline]
pub(super) fn enter<K: Kernel>(simd: Avx2<false>, kernel: K) -> K::Output {
    #[target_feature(enable = "avx2,fma")]
    fn compiled<K: Kernel>(simd: Avx2<false>, kernel: K) -> K::Output {
        kernel.run(simd)
    }
    // SAFETY: an `Avx2` exists only where the processor has the features.
    unsafe { compiled(simd, kernel) }
}

/// Runs the version of a kernel that is compiled for AVX2, FMA and AVX-VNNI.
#[inline]
pub(super) fn enter_vnni<K: Kernel>(simd: Avx2<true>, kernel: K) -> K::Output {
    #[target_feature(enable = "avx2,fma,avxvnni")]
    fn compiled<K: Kernel>(simd: Avx2<true>, kernel: K) -> K::Output {
        kernel.run(simd)
    }
    // SAFETY: an `Avx2<true>` exists only where the processor has the features.
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

// A value of `Avx2` exists only if the processor has the extensions; the blocks below refer to this.
impl<const VNNI: bool> Simd for Avx2<VNNI> {
    const LANES: usize = LANES;
    /// 6 x 2 sums, 2 vectors of B and a splat of A use 15 of 16 registers.
    const TILE_ROWS: usize = 6;
    /// The emulated product of pairs needs more registers in addition to the sums.
    const TILE_ROWS_BF16: usize = 4;
    /// Without AVX-VNNI, two of the sixteen registers hold ones and an intermediate product.
    const TILE_ROWS_INT8: usize = if VNNI { 6 } else { 5 };
    /// Without AVX-VNNI, the processor adds two products of bytes in 16 bits: 2 * 255 * 63 does not overflow.
    const LARGEST_INT8_WEIGHT: i8 = if VNNI { 127 } else { 63 };
    type Vector = __m256;
    type Words = __m256i;

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
    fn largest(self, a: __m256) -> f32 {
        #[inline]
        #[target_feature(enable = "avx2,fma")]
        fn largest(a: __m256) -> f32 {
            let four = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
            let two = _mm_max_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps::<1>(two, two)))
        }
        // SAFETY: `self` proves AVX2.
        unsafe { largest(a) }
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
    fn store_words(self, words: __m256i, to: &mut [Word]) {
        assert!(to.len() >= LANES);
        // SAFETY: `to` has at least eight words.
        unsafe { self.store_words_unchecked(words, to.as_mut_ptr()) }
    }

    #[inline(always)]
    fn splat_word(self, word: Word) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_set1_epi32(word as i32) }
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
    fn store_bytes(self, v: __m256, to: &mut [Word]) {
        #[inline]
        #[target_feature(enable = "avx2,fma")]
        fn bytes(v: __m256) -> i64 {
            let integers = _mm256_cvtps_epi32(v);
            let (low, high) = (_mm256_castsi256_si128(integers), _mm256_extracti128_si256::<1>(integers));
            let shorts = _mm_packus_epi32(low, high);
            _mm_cvtsi128_si64(_mm_packus_epi16(shorts, shorts))
        }
        // SAFETY: `self` proves AVX2.
        let bytes = unsafe { bytes(v) };
        // A copy of a slice would be a call.
        let to = &mut to[..2];
        to[0] = bytes as Word;
        to[1] = (bytes >> 32) as Word;
    }

    #[inline(always)]
    fn dot_bytes(self, sum: __m256i, a: __m256i, b: __m256i) -> __m256i {
        #[inline]
        #[target_feature(enable = "avx2,avxvnni")]
        fn extension(sum: __m256i, a: __m256i, b: __m256i) -> __m256i {
            _mm256_dpbusd_avx_epi32(sum, a, b)
        }
        #[inline]
        #[target_feature(enable = "avx2")]
        fn base(sum: __m256i, a: __m256i, b: __m256i) -> __m256i {
            let pairs = _mm256_maddubs_epi16(a, b);
            _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)))
        }
        if VNNI {
            // SAFETY: `self` proves AVX2 and AVX-VNNI.
            unsafe { extension(sum, a, b) }
        } else {
            // SAFETY: `self` proves AVX2.
            unsafe { base(sum, a, b) }
        }
    }

    #[inline(always)]
    fn to_float(self, integers: __m256i) -> __m256 {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_cvtepi32_ps(integers) }
    }

    #[inline(always)]
    fn bf16_pairs(self, first: __m256, second: __m256) -> __m256i {
        #[inline]
        #[target_feature(enable = "avx2,fma")]
        fn pairs(first: __m256, second: __m256) -> __m256i {
            _mm256_or_si256(bf16_halves(first), _mm256_slli_epi32::<16>(bf16_halves(second)))
        }
        // SAFETY: `self` proves AVX2.
        unsafe { pairs(first, second) }
    }

    #[inline(always)]
    fn upper_half(self, v: __m256) -> __m256 {
        #[inline]
        #[target_feature(enable = "avx2,fma")]
        fn upper(v: __m256) -> __m256 {
            _mm256_and_ps(v, _mm256_castsi256_ps(_mm256_set1_epi32(0xffff_0000_u32 as i32)))
        }
        // SAFETY: `self` proves AVX2.
        unsafe { upper(v) }
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
    unsafe fn load_words_unchecked(self, from: *const Word) -> __m256i {
        // SAFETY: the caller guarantees that eight words can be read. The load needs no alignment.
        unsafe { _mm256_loadu_si256(from.cast()) }
    }

    #[inline(always)]
    unsafe fn store_words_unchecked(self, words: __m256i, to: *mut Word) {
        // SAFETY: the caller guarantees that eight words can be written. The store needs no alignment.
        unsafe { _mm256_storeu_si256(to.cast(), words) }
    }
}
