//! The interface between kernels and instruction sets.

/// Most lanes that any implementation has.
pub(crate) const MAX_LANES: usize = 16;

/// Two bf16 numbers as they lie in memory: the first in the low half.
pub(crate) type Bf16Pair = u32;

/// fp32 vectors of one instruction set. A vector has [`Simd::LANES`] elements, which is a power of two and at
/// most [`MAX_LANES`]; [`super::tile`] checks that when it is compiled.
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
    /// `a * b + c`; rounded once where the machine can, twice on [`super::Portable`].
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

/// Rounds to bf16, nearest, ties to even; a NaN stays a NaN.
pub(crate) fn bf16_bits(x: f32) -> u16 {
    half::bf16::from_f32(x).to_bits()
}
