//! The vector instructions of the processor, behind one small trait.
//!
//! Every kernel is written once, generic over [`Simd`], and compiled for each instruction set. [`Isa::run`]
//! selects the version at run time. A value of a type that implements [`Simd`] is a proof that the processor
//! has the instructions, because only [`Isa::available`] makes such values, and it checks the processor first.
//! This makes the methods of the trait safe to call, and the kernels that use this module need no `unsafe`.
//!
//! A kernel is a struct that contains its arguments and implements [`Kernel`]. `isa.run(kernel)` calls a
//! function that is compiled with the instruction set enabled. The generic code of the kernel, which is all
//! `#[inline(always)]`, is inlined into that function.
//!
//! This module knows nothing about layers or chess. The innermost loop of the matrix products is in [`tile`].
#![allow(
    unsafe_code,
    reason = "vector intrinsics and the pointers of the innermost loop; the safe interface checks the bounds"
)]

mod aligned;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod portable;
pub(crate) mod tile;

pub(crate) use aligned::AlignedVec;
#[cfg(target_arch = "x86_64")]
pub(crate) use avx2::Avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) use avx512::Avx512;
pub(crate) use portable::Portable;

/// The largest number of lanes of all implementations.
pub(crate) const MAX_LANES: usize = 16;

/// Two bf16 numbers. The first in memory order is in the low half.
pub(crate) type Bf16Pair = u32;

/// The operations on fp32 vectors of one instruction set. A vector has [`Simd::LANES`] elements. This number is
/// a power of two and at most [`MAX_LANES`], which [`tile`] asserts at compile time.
pub(crate) trait Simd: Copy + Send + Sync + 'static {
    /// The number of elements in a vector.
    const LANES: usize;
    /// The number of rows in the register tile of a matrix product. Its columns are two vectors.
    const TILE_ROWS: usize;
    /// The number of rows in the register tile if the factors are pairs of bf16.
    const TILE_ROWS_BF16: usize;
    /// `LANES` fp32 numbers.
    type Vector: Copy;
    /// `LANES` pairs of bf16 numbers.
    type Pairs: Copy;

    /// Returns a vector with `x` in all lanes.
    fn splat(self, x: f32) -> Self::Vector;
    /// Loads the first `LANES` numbers of `from`. Panics if there are fewer.
    fn load(self, from: &[f32]) -> Self::Vector;
    /// Stores `v` in the first `LANES` numbers of `to`. Panics if there are fewer.
    fn store(self, v: Self::Vector, to: &mut [f32]);

    /// `a + b`
    fn add(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// `a - b`
    fn sub(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// `a * b`
    fn mul(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// `a / b`
    fn div(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// `a * b + c`. The result is rounded once if the processor has such an instruction. On [`Portable`] it may
    /// be rounded twice.
    fn mul_add(self, a: Self::Vector, b: Self::Vector, c: Self::Vector) -> Self::Vector;
    /// The larger of `a` and `b`, or `b` if either is NaN.
    fn max(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// The smaller of `a` and `b`, or `b` if either is NaN.
    fn min(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// Rounds to the nearest whole number, ties to even.
    fn round(self, a: Self::Vector) -> Self::Vector;
    /// `a * 2^n` for whole numbers `n` in -126…127.
    fn scale_by_power_of_two(self, a: Self::Vector, n: Self::Vector) -> Self::Vector;
    /// Selects in each lane: `if x > 0 { positive } else { otherwise }`.
    fn select_positive(
        self,
        x: Self::Vector,
        positive: Self::Vector,
        otherwise: Self::Vector,
    ) -> Self::Vector;
    /// The sum of all lanes.
    fn sum(self, a: Self::Vector) -> f32;

    /// Transposes a block of `LANES` x `LANES` numbers. Row `i` of the source starts at
    /// `from[i * from_stride]`, and row `i` of the result at `to[i * to_stride]`. Panics if a slice is too
    /// short.
    fn transpose(self, from: &[f32], from_stride: usize, to: &mut [f32], to_stride: usize);

    /// Rounds `2 * LANES` numbers to bf16 (to nearest, ties to even) and returns them in memory order.
    /// Infinities stay infinities, and the NaNs that arithmetic produces stay NaNs. Subnormal numbers may
    /// become zero.
    fn round_to_bf16(self, first: Self::Vector, second: Self::Vector) -> Self::Pairs;
    /// Stores `pairs` in the first `LANES` elements of `to`. Panics if there are fewer.
    fn store_pairs(self, pairs: Self::Pairs, to: &mut [Bf16Pair]);
    /// Returns `pair` in all lanes.
    fn splat_pair(self, pair: Bf16Pair) -> Self::Pairs;
    /// `sum + a.first * b.first + a.second * b.second`, computed in fp32 in each lane.
    fn dot_pairs(self, sum: Self::Vector, a: Self::Pairs, b: Self::Pairs) -> Self::Vector;

    /// Loads `LANES` numbers without a bounds check.
    ///
    /// # Safety
    /// `from` must be valid for reading `LANES` numbers.
    unsafe fn load_unchecked(self, from: *const f32) -> Self::Vector;
    /// Stores `LANES` numbers without a bounds check.
    ///
    /// # Safety
    /// `to` must be valid for writing `LANES` numbers.
    unsafe fn store_unchecked(self, v: Self::Vector, to: *mut f32);
    /// Loads `LANES` pairs without a bounds check.
    ///
    /// # Safety
    /// `from` must be valid for reading `LANES` pairs.
    unsafe fn load_pairs_unchecked(self, from: *const Bf16Pair) -> Self::Pairs;

    /// Loads the numbers of `from`, at most `LANES`, and fills the other lanes with zeros.
    #[inline(always)]
    fn load_some(self, from: &[f32]) -> Self::Vector {
        let mut lanes = [0.0; MAX_LANES];
        let count = from.len().min(Self::LANES);
        lanes[..count].copy_from_slice(&from[..count]);
        self.load(&lanes)
    }

    /// Stores as many lanes as `to` has room for.
    #[inline(always)]
    fn store_some(self, v: Self::Vector, to: &mut [f32]) {
        let mut lanes = [0.0; MAX_LANES];
        self.store(v, &mut lanes);
        let count = to.len().min(Self::LANES);
        to[..count].copy_from_slice(&lanes[..count]);
    }
}

/// A computation that is compiled for every instruction set.
pub(crate) trait Kernel {
    /// The type of the result.
    type Output;
    /// Whether the kernel multiplies pairs of bf16. Only such kernels are also compiled for the bf16
    /// instructions.
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "only x86-64 has such instructions"))]
    const MULTIPLIES_BF16: bool = false;
    /// Runs the computation. Implementations, and all functions that they call in their loops, must be
    /// `#[inline(always)]`.
    fn run<S: Simd>(self, simd: S) -> Self::Output;
}

/// An instruction set that this processor has.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Isa {
    /// Plain Rust on groups of four numbers, which the compiler translates to SSE2 or NEON.
    Portable(Portable),
    /// AVX2 and FMA.
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    /// AVX-512 (F, BW, DQ, VL).
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512<false>),
    /// AVX-512 (F, BW, DQ, VL) with the BF16 extension.
    #[cfg(target_arch = "x86_64")]
    Avx512Bf16(Avx512<true>),
}

impl Isa {
    /// All instruction sets that this processor has. The fastest is the last.
    pub(crate) fn available() -> Vec<Isa> {
        let all = [
            Some(Isa::Portable(Portable)),
            #[cfg(target_arch = "x86_64")]
            Avx2::detect().map(Isa::Avx2),
            #[cfg(target_arch = "x86_64")]
            Avx512::<false>::detect().map(Isa::Avx512),
            #[cfg(target_arch = "x86_64")]
            Avx512::<true>::detect().map(Isa::Avx512Bf16),
        ];
        all.into_iter().flatten().collect()
    }

    /// The fastest instruction set that this processor has.
    pub(crate) fn best() -> Isa {
        Isa::available().pop().unwrap_or(Isa::Portable(Portable))
    }

    /// The name for messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Isa::Portable(_) => "portable",
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2(_) => "AVX2",
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512(_) => "AVX-512",
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Bf16(_) => "AVX-512 BF16",
        }
    }

    /// Whether it has instructions that multiply bf16.
    pub(crate) fn has_bf16(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Bf16(_) => true,
            _ => false,
        }
    }

    /// The number of fp32 elements in a vector.
    pub(crate) fn lanes(self) -> usize {
        match self {
            Isa::Portable(_) => Portable::LANES,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2(_) => Avx2::LANES,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512(_) | Isa::Avx512Bf16(_) => Avx512::<false>::LANES,
        }
    }

    /// Runs the version of `kernel` that is compiled for this instruction set.
    #[inline]
    pub(crate) fn run<K: Kernel>(self, kernel: K) -> K::Output {
        match self {
            Isa::Portable(simd) => kernel.run(simd),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2(simd) => avx2::enter(simd, kernel),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512(simd) => avx512::enter(simd, kernel),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Bf16(simd) => {
                if K::MULTIPLIES_BF16 {
                    avx512::enter_bf16(simd, kernel)
                } else {
                    avx512::enter(simd.without_bf16(), kernel)
                }
            }
        }
    }
}

/// Rounds to bf16 (to nearest, ties to even). A NaN stays a NaN.
pub(crate) fn bf16_bits(x: f32) -> u16 {
    half::bf16::from_f32(x).to_bits()
}

#[cfg(test)]
mod tests;
