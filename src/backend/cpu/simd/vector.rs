//! The interface between kernels and instruction sets.

/// The largest number of lanes of all implementations.
pub(crate) const MAX_LANES: usize = 16;

/// Two bf16 numbers. The first in memory order is in the low half.
pub(crate) type Bf16Pair = u32;

/// The operations on fp32 vectors of one instruction set. A vector has [`Simd::LANES`] elements. This number is
/// a power of two and at most [`MAX_LANES`], which [`super::tile`] asserts at compile time.
pub(crate) trait Simd: Copy + Send + Sync + 'static {
    /// The number of elements in a vector.
    const LANES: usize;
    /// The number of rows in the register tile of a matrix product. The tile is two vectors wide.
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
    /// `a * b + c`. The result is rounded once if the processor has such an instruction. On `Portable` it may
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

/// Rounds to bf16 (to nearest, ties to even). A NaN stays a NaN.
pub(crate) fn bf16_bits(x: f32) -> u16 {
    half::bf16::from_f32(x).to_bits()
}
