//! The implementation with AVX-512, with or without the VNNI or the BF16 extension: sixteen numbers in a vector,
//! thirty-two registers.

use super::vector::{Kernel, Simd, Word};
use std::arch::x86_64::*;
use std::mem::transmute;

/// A proof that the processor has AVX2, FMA, AVX-512 F, BW, DQ and VL, VNNI if `VNNI`, and BF16 if `BF16`: only
/// [`Avx512::detect`] makes a value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx512<const VNNI: bool, const BF16: bool>(());

const LANES: usize = 16;

impl<const VNNI: bool, const BF16: bool> Avx512<VNNI, BF16> {
    /// Returns a value if the processor has all these extensions.
    pub(super) fn detect() -> Option<Self> {
        let base = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma");
        let vnni = !VNNI || is_x86_feature_detected!("avx512vnni");
        let bf16 = !BF16 || is_x86_feature_detected!("avx512bf16");
        (base && vnni && bf16).then_some(Avx512(()))
    }
}

/// Runs the version of a kernel that is compiled for AVX-512.
#[inline]
pub(super) fn enter<K: Kernel>(simd: Avx512<false, false>, kernel: K) -> K::Output {
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
    fn compiled<K: Kernel>(simd: Avx512<false, false>, kernel: K) -> K::Output {
        kernel.run(simd)
    }
    // SAFETY: an `Avx512` exists only where the processor has the features.
    unsafe { compiled(simd, kernel) }
}

/// Runs the version of a kernel that is compiled for AVX-512 and BF16.
#[inline]
pub(super) fn enter_bf16<K: Kernel>(simd: Avx512<false, true>, kernel: K) -> K::Output {
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma")]
    fn compiled<K: Kernel>(simd: Avx512<false, true>, kernel: K) -> K::Output {
        kernel.run(simd)
    }
    // SAFETY: an `Avx512<_, true>` exists only where the processor has the features.
    unsafe { compiled(simd, kernel) }
}

/// Runs the version of a kernel that is compiled for AVX-512 and VNNI.
#[inline]
pub(super) fn enter_vnni<K: Kernel>(simd: Avx512<true, false>, kernel: K) -> K::Output {
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma")]
    fn compiled<K: Kernel>(simd: Avx512<true, false>, kernel: K) -> K::Output {
        kernel.run(simd)
    }
    // SAFETY: an `Avx512<true, _>` exists only where the processor has the features.
    unsafe { compiled(simd, kernel) }
}

/// Rounds each lane to bf16 (to nearest, ties to even) without the BF16 extension. The NaN that arithmetic
/// produces (quiet, with no other bit of the mantissa set) stays a NaN. Other NaNs do not occur, because
/// weights are checked when they are loaded.
#[inline]
#[target_feature(enable = "avx512f")]
fn bf16_halves(v: __m512) -> __m256i {
    let bits = _mm512_castps_si512(v);
    let odd = _mm512_and_si512(_mm512_srli_epi32::<16>(bits), _mm512_set1_epi32(1));
    let rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    _mm512_cvtepi32_epi16(_mm512_srli_epi32::<16>(rounded))
}

#[inline]
#[target_feature(enable = "avx512f")]
fn transpose16(rows: [__m512; 16]) -> [__m512; 16] {
    // For each four rows, transpose the 4 x 4 blocks within the 128-bit lanes.
    let mut quads = [_mm512_setzero_ps(); 16];
    for q in 0..4 {
        let [a, b, c, d] = [rows[4 * q], rows[4 * q + 1], rows[4 * q + 2], rows[4 * q + 3]];
        let (ab_low, ab_high) = (_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
        let (cd_low, cd_high) = (_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
        quads[4 * q] = _mm512_shuffle_ps::<0x44>(ab_low, cd_low);
        quads[4 * q + 1] = _mm512_shuffle_ps::<0xee>(ab_low, cd_low);
        quads[4 * q + 2] = _mm512_shuffle_ps::<0x44>(ab_high, cd_high);
        quads[4 * q + 3] = _mm512_shuffle_ps::<0xee>(ab_high, cd_high);
    }
    // Then transpose the 4 x 4 matrix of the 128-bit lanes.
    let mut columns = [_mm512_setzero_ps(); 16];
    for i in 0..4 {
        let (a, b, c, d) = (quads[i], quads[4 + i], quads[8 + i], quads[12 + i]);
        let ab_even = _mm512_shuffle_f32x4::<0x88>(a, b);
        let ab_odd = _mm512_shuffle_f32x4::<0xdd>(a, b);
        let cd_even = _mm512_shuffle_f32x4::<0x88>(c, d);
        let cd_odd = _mm512_shuffle_f32x4::<0xdd>(c, d);
        columns[i] = _mm512_shuffle_f32x4::<0x88>(ab_even, cd_even);
        columns[4 + i] = _mm512_shuffle_f32x4::<0x88>(ab_odd, cd_odd);
        columns[8 + i] = _mm512_shuffle_f32x4::<0xdd>(ab_even, cd_even);
        columns[12 + i] = _mm512_shuffle_f32x4::<0xdd>(ab_odd, cd_odd);
    }
    columns
}

// A value of `Avx512` exists only if the processor has the extensions; the SAFETY comments below rely on this.
impl<const VNNI: bool, const BF16: bool> Simd for Avx512<VNNI, BF16> {
    const LANES: usize = LANES;
    /// 12 x 2 sums, 2 vectors of B and a splat of A use 27 of 32 registers. The 24 sums are independent; the
    /// two FMA units need 8 independent sums to stay busy.
    const TILE_ROWS: usize = 12;
    /// The instruction for pairs overwrites its sum. With more rows the compiler would copy the sums between
    /// registers; 12 rows are a third slower.
    const TILE_ROWS_BF16: usize = 8;
    /// The same holds for VNNI's instruction.
    const TILE_ROWS_INT8: usize = if VNNI { 8 } else { 12 };
    /// Without VNNI, the processor adds two products of bytes in 16 bits: 2 * 255 * 63 does not overflow.
    const LARGEST_INT8_WEIGHT: i8 = if VNNI { 127 } else { 63 };
    type Vector = __m512;
    type Words = __m512i;

    #[inline(always)]
    fn splat(self, x: f32) -> __m512 {
        // SAFETY: `self` proves AVX-512.
        unsafe { _mm512_set1_ps(x) }
    }

    #[inline(always)]
    fn load(self, from: &[f32]) -> __m512 {
        assert!(from.len() >= LANES);
        // SAFETY: `from` has at least sixteen numbers.
        unsafe { self.load_unchecked(from.as_ptr()) }
    }

    #[inline(always)]
    fn store(self, v: __m512, to: &mut [f32]) {
        assert!(to.len() >= LANES);
        // SAFETY: `to` has at least sixteen numbers.
        unsafe { self.store_unchecked(v, to.as_mut_ptr()) }
    }

    #[inline(always)]
    fn add(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: `self` proves AVX-512.
        unsafe { _mm512_add_ps(a, b) }
    }

    #[inline(always)]
    fn sub(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: `self` proves AVX-512.
        unsafe { _mm512_sub_ps(a, b) }
    }

    #[inline(always)]
    fn mul(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: `self` proves AVX-512.
        unsafe { _mm512_mul_ps(a, b) }
    }

    #[inline(always)]
    fn div(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: `self` proves AVX-512.
        unsafe { _mm512_div_ps(a, b) }
    }

    #[inline(always)]
    fn mul_add(self, a: __m512, b: __m512, c: __m512) -> __m512 {
        // SAFETY: `self` proves AVX-512.
        unsafe { _mm512_fmadd_ps(a, b, c) }
    }

    #[inline(always)]
    fn max(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: `self` proves AVX-512.
        unsafe { _mm512_max_ps(a, b) }
    }

    #[inline(always)]
    fn min(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: `self` proves AVX-512.
        unsafe { _mm512_min_ps(a, b) }
    }

    #[inline(always)]
    fn round(self, a: __m512) -> __m512 {
        // SAFETY: `self` proves AVX-512. The immediate 0 means: to nearest, ties to even, without fractional
        // bits.
        unsafe { _mm512_roundscale_ps::<0>(a) }
    }

    #[inline(always)]
    fn scale_by_power_of_two(self, a: __m512, n: __m512) -> __m512 {
        // SAFETY: `self` proves AVX-512.
        unsafe { _mm512_scalef_ps(a, n) }
    }

    #[inline(always)]
    fn select_positive(self, x: __m512, positive: __m512, otherwise: __m512) -> __m512 {
        #[inline]
        #[target_feature(enable = "avx512f")]
        fn select(x: __m512, positive: __m512, otherwise: __m512) -> __m512 {
            let mask = _mm512_cmp_ps_mask::<_CMP_GT_OQ>(x, _mm512_setzero_ps());
            _mm512_mask_blend_ps(mask, otherwise, positive)
        }
        // SAFETY: `self` proves AVX-512.
        unsafe { select(x, positive, otherwise) }
    }

    #[inline(always)]
    fn sum(self, a: __m512) -> f32 {
        // SAFETY: `self` proves AVX-512.
        unsafe { _mm512_reduce_add_ps(a) }
    }

    #[inline(always)]
    fn largest(self, a: __m512) -> f32 {
        // SAFETY: `self` proves AVX-512.
        unsafe { _mm512_reduce_max_ps(a) }
    }

    #[inline(always)]
    fn transpose(self, from: &[f32], from_stride: usize, to: &mut [f32], to_stride: usize) {
        let mut rows = [self.splat(0.0); LANES];
        for (i, row) in rows.iter_mut().enumerate() {
            *row = self.load(&from[i * from_stride..]);
        }
        // SAFETY: `self` proves AVX-512.
        let columns = unsafe { transpose16(rows) };
        for (i, column) in columns.into_iter().enumerate() {
            self.store(column, &mut to[i * to_stride..]);
        }
    }

    #[inline(always)]
    fn round_to_bf16(self, first: __m512, second: __m512) -> __m512i {
        #[inline]
        #[target_feature(enable = "avx512f,avx512bf16")]
        fn extension(first: __m512, second: __m512) -> __m512i {
            let pairs = _mm512_cvtne2ps_pbh(second, first);
            // SAFETY: both types are 512 plain bits.
            unsafe { transmute::<__m512bh, __m512i>(pairs) }
        }
        #[inline]
        #[target_feature(enable = "avx512f")]
        fn base(first: __m512, second: __m512) -> __m512i {
            let low = _mm512_castsi256_si512(bf16_halves(first));
            _mm512_inserti64x4::<1>(low, bf16_halves(second))
        }
        if BF16 {
            // SAFETY: `self` proves AVX-512 and BF16.
            unsafe { extension(first, second) }
        } else {
            // SAFETY: `self` proves AVX-512.
            unsafe { base(first, second) }
        }
    }

    #[inline(always)]
    fn store_words(self, words: __m512i, to: &mut [Word]) {
        assert!(to.len() >= LANES);
        // SAFETY: `to` has at least sixteen words.
        unsafe { self.store_words_unchecked(words, to.as_mut_ptr()) }
    }

    #[inline(always)]
    fn splat_word(self, word: Word) -> __m512i {
        // SAFETY: `self` proves AVX-512.
        unsafe { _mm512_set1_epi32(word as i32) }
    }

    #[inline(always)]
    fn dot_pairs(self, sum: __m512, a: __m512i, b: __m512i) -> __m512 {
        #[inline]
        #[target_feature(enable = "avx512f,avx512bf16")]
        fn extension(sum: __m512, a: __m512i, b: __m512i) -> __m512 {
            // SAFETY: both types are 512 plain bits.
            let pairs = |v| unsafe { transmute::<__m512i, __m512bh>(v) };
            _mm512_dpbf16_ps(sum, pairs(a), pairs(b))
        }
        #[inline]
        #[target_feature(enable = "avx512f")]
        fn base(sum: __m512, a: __m512i, b: __m512i) -> __m512 {
            let first = |pairs| _mm512_castsi512_ps(_mm512_slli_epi32::<16>(pairs));
            let upper = _mm512_set1_epi32(0xffff_0000_u32 as i32);
            let second = |pairs| _mm512_castsi512_ps(_mm512_and_si512(pairs, upper));
            _mm512_fmadd_ps(second(a), second(b), _mm512_fmadd_ps(first(a), first(b), sum))
        }
        if BF16 {
            // SAFETY: `self` proves AVX-512 and BF16.
            unsafe { extension(sum, a, b) }
        } else {
            // SAFETY: `self` proves AVX-512.
            unsafe { base(sum, a, b) }
        }
    }

    #[inline(always)]
    fn store_bytes(self, v: __m512, to: &mut [Word]) {
        #[inline]
        #[target_feature(enable = "avx512f")]
        fn bytes(v: __m512) -> __m128i {
            _mm512_cvtusepi32_epi8(_mm512_cvtps_epi32(v))
        }
        assert!(to.len() >= 4);
        // SAFETY: `self` proves AVX-512.
        let bytes = unsafe { bytes(v) };
        // SAFETY: `to` has at least four words, which are sixteen bytes. The store needs no alignment.
        unsafe { _mm_storeu_si128(to.as_mut_ptr().cast(), bytes) }
    }

    #[inline(always)]
    fn dot_bytes(self, sum: __m512i, a: __m512i, b: __m512i) -> __m512i {
        #[inline]
        #[target_feature(enable = "avx512f,avx512vnni")]
        fn extension(sum: __m512i, a: __m512i, b: __m512i) -> __m512i {
            _mm512_dpbusd_epi32(sum, a, b)
        }
        #[inline]
        #[target_feature(enable = "avx512f,avx512bw")]
        fn base(sum: __m512i, a: __m512i, b: __m512i) -> __m512i {
            let pairs = _mm512_maddubs_epi16(a, b);
            _mm512_add_epi32(sum, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)))
        }
        if VNNI {
            // SAFETY: `self` proves AVX-512 and VNNI.
            unsafe { extension(sum, a, b) }
        } else {
            // SAFETY: `self` proves AVX-512.
            unsafe { base(sum, a, b) }
        }
    }

    #[inline(always)]
    fn to_float(self, integers: __m512i) -> __m512 {
        // SAFETY: `self` proves AVX-512.
        unsafe { _mm512_cvtepi32_ps(integers) }
    }

    #[inline(always)]
    fn bf16_pairs(self, first: __m512, second: __m512) -> __m512i {
        #[inline]
        #[target_feature(enable = "avx512f")]
        fn base(first: __m512, second: __m512) -> __m512i {
            let high = _mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(bf16_halves(second)));
            _mm512_or_si512(_mm512_cvtepu16_epi32(bf16_halves(first)), high)
        }
        #[inline]
        #[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
        fn extension(first: __m512, second: __m512) -> __m512i {
            let interleave = _mm512_set_epi16(
                31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21, 5, 20, 4, 19,
                3, 18, 2, 17, 1, 16, 0,
            );
            let halves = _mm512_cvtne2ps_pbh(second, first);
            // SAFETY: both types are 512 plain bits.
            let halves = unsafe { transmute::<__m512bh, __m512i>(halves) };
            _mm512_permutexvar_epi16(interleave, halves)
        }
        if BF16 {
            // SAFETY: `self` proves AVX-512 and BF16.
            unsafe { extension(first, second) }
        } else {
            // SAFETY: `self` proves AVX-512.
            unsafe { base(first, second) }
        }
    }

    #[inline(always)]
    fn upper_half(self, v: __m512) -> __m512 {
        #[inline]
        #[target_feature(enable = "avx512f,avx512dq")]
        fn upper(v: __m512) -> __m512 {
            _mm512_and_ps(v, _mm512_castsi512_ps(_mm512_set1_epi32(0xffff_0000_u32 as i32)))
        }
        // SAFETY: `self` proves AVX-512.
        unsafe { upper(v) }
    }

    #[inline(always)]
    unsafe fn load_unchecked(self, from: *const f32) -> __m512 {
        // SAFETY: the caller guarantees that sixteen numbers can be read. The load needs no alignment.
        unsafe { _mm512_loadu_ps(from) }
    }

    #[inline(always)]
    unsafe fn store_unchecked(self, v: __m512, to: *mut f32) {
        // SAFETY: the caller guarantees that sixteen numbers can be written. The store needs no alignment.
        unsafe { _mm512_storeu_ps(to, v) }
    }

    #[inline(always)]
    unsafe fn load_words_unchecked(self, from: *const Word) -> __m512i {
        // SAFETY: the caller guarantees that sixteen words can be read. The load needs no alignment.
        unsafe { _mm512_loadu_si512(from.cast()) }
    }

    #[inline(always)]
    unsafe fn store_words_unchecked(self, words: __m512i, to: *mut Word) {
        // SAFETY: the caller guarantees that sixteen words can be written. The store needs no alignment.
        unsafe { _mm512_storeu_si512(to.cast(), words) }
    }
}
