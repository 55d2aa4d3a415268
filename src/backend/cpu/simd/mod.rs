//! The vector instructions of this machine, behind one small trait.
//!
//! Every kernel is written once, generic over [`Simd`], and compiled for each instruction set; [`Isa::run`]
//! picks the version at run time. A value of a type that implements [`Simd`] is a proof that the processor
//! has the instructions: only [`Isa::available`] makes one, after asking. That is what makes the trait's
//! methods safe to call, and why the kernels above this module need no `unsafe`.
//!
//! How the pieces fit: a kernel is a struct with its arguments that implements [`Kernel`];
//! `isa.run(kernel)` enters a function compiled with the instruction set enabled, into which the kernel's
//! generic code, all of it `#[inline(always)]`, is inlined.
//!
//! Not here: anything that knows about layers or chess. The hot path starts in [`tile`].
#![allow(
    unsafe_code,
    reason = "vector intrinsics and the innermost loop's pointers; the safe interface checks the bounds"
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

/// Most lanes that any implementation has.
pub(crate) const MAX_LANES: usize = 16;

/// Two bf16 numbers as they lie in memory: the first in the low half.
pub(crate) type Bf16Pair = u32;

/// fp32 vectors of one instruction set. A vector has [`Simd::LANES`] elements, which is a power of two and at
/// most [`MAX_LANES`]; [`tile`] checks that when it is compiled.
pub(crate) trait Simd: Copy + Send + Sync + 'static {
    /// Elements in a vector.
    const LANES: usize;
    /// Rows of the matrix product's register tile (its columns are two vectors).
    const TILE_ROWS: usize;
    /// As above, where pairs of bf16 are multiplied.
    const TILE_ROWS_BF16: usize;
    /// `LANES` fp32 numbers.
    type Vector: Copy;
    /// `LANES` pairs of bf16 numbers.
    type Pairs: Copy;

    /// All lanes equal `x`.
    fn splat(self, x: f32) -> Self::Vector;
    /// The first `LANES` numbers of `from`; panics if there are fewer.
    fn load(self, from: &[f32]) -> Self::Vector;
    /// Writes the first `LANES` numbers of `to`; panics if there are fewer.
    fn store(self, v: Self::Vector, to: &mut [f32]);

    /// `a + b`
    fn add(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// `a - b`
    fn sub(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// `a * b`
    fn mul(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// `a / b`
    fn div(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// `a * b + c`; rounded once where the machine can, twice on [`Portable`].
    fn mul_add(self, a: Self::Vector, b: Self::Vector, c: Self::Vector) -> Self::Vector;
    /// The larger; `b` if either is NaN.
    fn max(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// The smaller; `b` if either is NaN.
    fn min(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// To the nearest whole number, ties to even.
    fn round(self, a: Self::Vector) -> Self::Vector;
    /// `a * 2^n` for whole `n` in -126…127.
    fn scale_by_power_of_two(self, a: Self::Vector, n: Self::Vector) -> Self::Vector;
    /// Lane by lane: `x > 0 ? positive : otherwise`.
    fn select_positive(
        self,
        x: Self::Vector,
        positive: Self::Vector,
        otherwise: Self::Vector,
    ) -> Self::Vector;
    /// Sum of the lanes.
    fn sum(self, a: Self::Vector) -> f32;

    /// Transposes a block of `LANES` x `LANES`: row `i` of the source starts at `from[i * from_stride]`.
    /// Panics if a slice is too short.
    fn transpose(self, from: &[f32], from_stride: usize, to: &mut [f32], to_stride: usize);

    /// `2 * LANES` numbers rounded to bf16 (nearest, ties to even), in memory order. Infinities and the NaNs
    /// that arithmetic makes stay what they are; subnormal numbers may become zero.
    fn round_to_bf16(self, first: Self::Vector, second: Self::Vector) -> Self::Pairs;
    /// Writes the first `LANES` pairs of `to`; panics if there are fewer.
    fn store_pairs(self, pairs: Self::Pairs, to: &mut [Bf16Pair]);
    /// All lanes equal `pair`.
    fn splat_pair(self, pair: Bf16Pair) -> Self::Pairs;
    /// `sum + a.first * b.first + a.second * b.second` in fp32.
    fn dot_pairs(self, sum: Self::Vector, a: Self::Pairs, b: Self::Pairs) -> Self::Vector;

    /// Loads `LANES` numbers.
    ///
    /// # Safety
    /// `from` must be valid for reading `LANES` numbers.
    unsafe fn load_unchecked(self, from: *const f32) -> Self::Vector;
    /// Stores `LANES` numbers.
    ///
    /// # Safety
    /// `to` must be valid for writing `LANES` numbers.
    unsafe fn store_unchecked(self, v: Self::Vector, to: *mut f32);
    /// Loads `LANES` pairs.
    ///
    /// # Safety
    /// `from` must be valid for reading `LANES` pairs.
    unsafe fn load_pairs_unchecked(self, from: *const Bf16Pair) -> Self::Pairs;

    /// The numbers of `from`, at most `LANES`, zeros after them.
    #[inline(always)]
    fn load_some(self, from: &[f32]) -> Self::Vector {
        let mut lanes = [0.0; MAX_LANES];
        let count = from.len().min(Self::LANES);
        lanes[..count].copy_from_slice(&from[..count]);
        self.load(&lanes)
    }

    /// Writes as many lanes as `to` has room for.
    #[inline(always)]
    fn store_some(self, v: Self::Vector, to: &mut [f32]) {
        let mut lanes = [0.0; MAX_LANES];
        self.store(v, &mut lanes);
        let count = to.len().min(Self::LANES);
        to[..count].copy_from_slice(&lanes[..count]);
    }
}

/// A piece of work compiled for every instruction set.
pub(crate) trait Kernel {
    /// What it returns.
    type Output;
    /// Whether it multiplies bf16 pairs: only then is it compiled for the bf16 instructions too.
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "only x86-64 has such instructions"))]
    const MULTIPLIES_BF16: bool = false;
    /// Does it. Implementations are `#[inline(always)]`, with everything that they call in their loops.
    fn run<S: Simd>(self, simd: S) -> Self::Output;
}

/// An instruction set that this processor has.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Isa {
    /// Plain Rust on groups of four numbers; the compiler makes SSE2 or NEON of it.
    Portable(Portable),
    /// AVX2 and FMA.
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    /// AVX-512 (F, BW, DQ, VL).
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512<false>),
    /// AVX-512 with BF16.
    #[cfg(target_arch = "x86_64")]
    Avx512Bf16(Avx512<true>),
}

impl Isa {
    /// All that this processor has, the best last.
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

    /// The best that this processor has.
    pub(crate) fn best() -> Isa {
        Isa::available().pop().unwrap_or(Isa::Portable(Portable))
    }

    /// For messages.
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

    /// Whether it multiplies bf16 in hardware.
    pub(crate) fn has_bf16(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Bf16(_) => true,
            _ => false,
        }
    }

    /// Numbers in a vector.
    pub(crate) fn lanes(self) -> usize {
        match self {
            Isa::Portable(_) => Portable::LANES,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2(_) => Avx2::LANES,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512(_) | Isa::Avx512Bf16(_) => Avx512::<false>::LANES,
        }
    }

    /// Runs `kernel`, compiled for this instruction set.
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

/// Rounds to bf16, nearest, ties to even; a NaN stays a NaN.
pub(crate) fn bf16_bits(x: f32) -> u16 {
    half::bf16::from_f32(x).to_bits()
}

#[cfg(test)]
mod tests;
