//! The interface between kernels and instruction sets.

/// The largest number of lanes of all implementations.
pub(crate) const MAX_LANES: usize = 16;

/// Two bf16 numbers, four 8-bit numbers, or a 32-bit sum. The first number in memory order is in the low bits.
pub(crate) type Word = u32;

/// A tile of a product in blocks ([`super::blocks`]): `C = max(start + A B, floor)` for a few rows.
#[cfg(target_arch = "aarch64")]
#[derive(Clone, Copy)]
pub(crate) struct BlockTile {
    /// The first row of A.
    pub a: *const Word,
    /// Words from the start of one row of A to the start of the next.
    pub a_stride: usize,
    /// The panel of B.
    pub panel: *const Word,
    /// The words of a row of A. Even.
    pub steps: usize,
    /// The initial values of the sums of every row, or null if the sums start with C.
    pub bias: *const Word,
    /// The first row of C: fp32 numbers or integers.
    pub c: *mut Word,
    /// Elements from the start of one row of C to the start of the next.
    pub c_stride: usize,
    /// The number of rows: 1 to 6.
    pub rows: usize,
    /// The lower limit of fp32 sums.
    pub floor: f32,
}

/// The operations on fp32 vectors of one instruction set. A vector has [`Simd::LANES`] elements. This number is
/// a power of two and at most [`MAX_LANES`], which [`super::tile`] asserts at compile time.
pub(crate) trait Simd: Copy + Send + Sync + 'static {
    /// The number of elements in a vector.
    const LANES: usize;
    /// The number of rows in the register tile of a matrix product. The tile is two vectors wide.
    const TILE_ROWS: usize;
    /// The number of rows in the register tile if the factors are pairs of bf16.
    const TILE_ROWS_BF16: usize;
    /// The number of rows in the register tile if the factors are 8-bit numbers.
    const TILE_ROWS_INT8: usize;
    /// The largest absolute value of an 8-bit weight for which [`Simd::dot_bytes`] is exact.
    const LARGEST_INT8_WEIGHT: i8;
    /// What [`Simd::store_bytes`] subtracts from a number: 128 if the first factors of [`Simd::dot_bytes`] are signed
    /// bytes, and 0 if they are unsigned.
    const BYTE_OFFSET: u8 = 0;
    /// The number of elements of A that a tile loads together: 4 if an instruction multiplies by one element of a
    /// register, and otherwise 1, which is loaded into all lanes.
    const ELEMENTS: usize = 1;
    /// Whether products of pairs of bf16 are computed in blocks, with [`Simd::tile_of_pairs`].
    #[cfg(target_arch = "aarch64")]
    const BLOCKS_OF_PAIRS: bool = false;
    /// Whether products of bytes are computed in blocks, with [`Simd::tile_of_bytes`].
    #[cfg(target_arch = "aarch64")]
    const BLOCKS_OF_BYTES: bool = false;
    /// `LANES` fp32 numbers.
    type Vector: Copy;
    /// `LANES` words.
    type Words: Copy;

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
    /// The larger of `a` and `b`. NaN if `b` is NaN, and `b` or NaN if only `a` is.
    fn max(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// The smaller of `a` and `b`. NaN if `b` is NaN, and `b` or NaN if only `a` is.
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
    /// The largest lane, if no lane is NaN.
    fn largest(self, a: Self::Vector) -> f32;

    /// Transposes a block of `LANES` x `LANES` numbers. Row `i` of the source starts at
    /// `from[i * from_stride]`, and row `i` of the result at `to[i * to_stride]`. Panics if a slice is too
    /// short.
    fn transpose(self, from: &[f32], from_stride: usize, to: &mut [f32], to_stride: usize);

    /// Rounds `2 * LANES` numbers to bf16 (to nearest, ties to even) and returns them in memory order.
    /// Infinities stay infinities, and the NaNs that arithmetic produces stay NaNs. Subnormal numbers may
    /// become zero.
    fn round_to_bf16(self, first: Self::Vector, second: Self::Vector) -> Self::Words;
    /// Stores `words` in the first `LANES` elements of `to`. Panics if there are fewer.
    fn store_words(self, words: Self::Words, to: &mut [Word]);
    /// Returns `word` in all lanes.
    fn splat_word(self, word: Word) -> Self::Words;
    /// `sum + a.first * b.first + a.second * b.second`, computed in fp32 in each lane.
    fn dot_pairs(self, sum: Self::Vector, a: Self::Words, b: Self::Words) -> Self::Vector;

    /// Rounds each lane to the nearest whole number, ties to even, subtracts [`Simd::BYTE_OFFSET`], and stores the
    /// results as `LANES` bytes in the first `LANES / 4` elements of `to`. The lanes must be between -0.5 and 255.5, or
    /// NaN, whose byte is unspecified. Panics if `to` has fewer elements.
    fn store_bytes(self, v: Self::Vector, to: &mut [Word]);
    /// `sum + a.0 * b.0 + a.1 * b.1 + a.2 * b.2 + a.3 * b.3` in each lane, where `sum` is a 32-bit integer, the bytes
    /// of `a` are unsigned (signed if [`Simd::BYTE_OFFSET`] is 128), and those of `b` are signed and at most
    /// [`Simd::LARGEST_INT8_WEIGHT`] in absolute value.
    fn dot_bytes(self, sum: Self::Words, a: Self::Words, b: Self::Words) -> Self::Words;
    /// Converts signed 32-bit integers to fp32.
    fn to_float(self, integers: Self::Words) -> Self::Vector;
    /// Rounds the numbers to bf16, as [`Simd::round_to_bf16`] does, and returns in each lane the pair of the lane's
    /// two numbers.
    #[cfg_attr(
        not(target_arch = "x86_64"),
        allow(dead_code, reason = "only products in tile registers need it")
    )]
    fn bf16_pairs(self, first: Self::Vector, second: Self::Vector) -> Self::Words;
    /// The upper 16 bits of each number, with zeros below them: a bf16, rounded toward zero.
    #[cfg_attr(
        not(target_arch = "x86_64"),
        allow(dead_code, reason = "only products in tile registers need it")
    )]
    fn upper_half(self, v: Self::Vector) -> Self::Vector;

    /// Loads [`Simd::ELEMENTS`] numbers for [`Simd::mul_add_element`].
    ///
    /// # Safety
    /// `from` must be valid for reading `ELEMENTS` numbers.
    #[inline(always)]
    unsafe fn load_elements(self, from: *const f32) -> Self::Vector {
        // SAFETY: the caller guarantees that the number can be read.
        self.splat(unsafe { *from })
    }
    /// `a[INDEX] * b + c`, where `a` is from [`Simd::load_elements`] and `INDEX` is less than [`Simd::ELEMENTS`].
    #[inline(always)]
    fn mul_add_element<const INDEX: i32>(
        self,
        a: Self::Vector,
        b: Self::Vector,
        c: Self::Vector,
    ) -> Self::Vector {
        self.mul_add(a, b, c)
    }
    /// Loads [`Simd::ELEMENTS`] words for [`Simd::dot_pairs_element`] and [`Simd::dot_bytes_element`].
    ///
    /// # Safety
    /// `from` must be valid for reading `ELEMENTS` words.
    #[inline(always)]
    unsafe fn load_word_elements(self, from: *const Word) -> Self::Words {
        // SAFETY: the caller guarantees that the word can be read.
        self.splat_word(unsafe { *from })
    }
    /// [`Simd::dot_pairs`] with `a[INDEX]` in all lanes.
    #[inline(always)]
    fn dot_pairs_element<const INDEX: i32>(
        self,
        sum: Self::Vector,
        a: Self::Words,
        b: Self::Words,
    ) -> Self::Vector {
        self.dot_pairs(sum, a, b)
    }
    /// [`Simd::dot_bytes`] with `a[INDEX]` in all lanes.
    #[inline(always)]
    fn dot_bytes_element<const INDEX: i32>(
        self,
        sum: Self::Words,
        a: Self::Words,
        b: Self::Words,
    ) -> Self::Words {
        self.dot_bytes(sum, a, b)
    }

    /// Computes a tile of pairs in blocks. The default is never called.
    ///
    /// # Safety
    /// The conditions are those of [`super::blocks::tile_of_pairs`], and [`Simd::BLOCKS_OF_PAIRS`] must be true.
    #[cfg(target_arch = "aarch64")]
    unsafe fn tile_of_pairs(self, _: BlockTile) {}
    /// Computes a tile of bytes in blocks. The default is never called.
    ///
    /// # Safety
    /// The conditions are those of [`super::blocks::tile_of_bytes`], and [`Simd::BLOCKS_OF_BYTES`] must be true.
    #[cfg(target_arch = "aarch64")]
    unsafe fn tile_of_bytes(self, _: BlockTile) {}

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
    /// Loads `LANES` words without a bounds check.
    ///
    /// # Safety
    /// `from` must be valid for reading `LANES` words.
    unsafe fn load_words_unchecked(self, from: *const Word) -> Self::Words;
    /// Stores `LANES` words without a bounds check.
    ///
    /// # Safety
    /// `to` must be valid for writing `LANES` words.
    unsafe fn store_words_unchecked(self, words: Self::Words, to: *mut Word);

    /// Loads the first `LANES` words of `from`. Panics if there are fewer.
    #[inline(always)]
    fn load_words(self, from: &[Word]) -> Self::Words {
        assert!(from.len() >= Self::LANES);
        // SAFETY: `from` has at least `LANES` words.
        unsafe { self.load_words_unchecked(from.as_ptr()) }
    }

    /// Loads the numbers of `from`, at most `LANES`, and fills the other lanes with zeros.
    #[inline(always)]
    fn load_some(self, from: &[f32]) -> Self::Vector {
        if from.len() >= Self::LANES {
            return self.load(from);
        }
        let mut lanes = [0.0; MAX_LANES];
        let count = from.len().min(Self::LANES);
        lanes[..count].copy_from_slice(&from[..count]);
        self.load(&lanes)
    }

    /// Loads the numbers of `from`, at most `2 * LANES`, and fills the other lanes with zeros.
    #[inline(always)]
    fn load_two(self, from: &[f32]) -> (Self::Vector, Self::Vector) {
        if from.len() > Self::LANES {
            (self.load(from), self.load_some(&from[Self::LANES..]))
        } else {
            (self.load_some(from), self.splat(0.0))
        }
    }

    /// Stores as many lanes as `to` has room for.
    #[inline(always)]
    fn store_some(self, v: Self::Vector, to: &mut [f32]) {
        if to.len() >= Self::LANES {
            return self.store(v, to);
        }
        let mut lanes = [0.0; MAX_LANES];
        self.store(v, &mut lanes);
        let count = to.len().min(Self::LANES);
        to[..count].copy_from_slice(&lanes[..count]);
    }
}

/// The number format of the factors that a kernel multiplies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Factors {
    Fp32,
    /// Pairs of bf16, with [`Simd::dot_pairs`] or [`Simd::round_to_bf16`].
    Bf16,
    /// 8-bit numbers, with [`Simd::dot_bytes`].
    Int8,
}

/// A computation that is compiled for every instruction set.
pub(crate) trait Kernel {
    /// The type of the result.
    type Output;
    /// The instructions that the kernel uses beside those for fp32. A kernel is compiled only for those extensions of
    /// an instruction set that it uses.
    #[cfg_attr(
        not(any(target_arch = "x86_64", target_arch = "aarch64")),
        expect(dead_code, reason = "only these processors have extensions")
    )]
    const MULTIPLIES: Factors = Factors::Fp32;
    /// Runs the computation. Implementations, and all functions that they call in their loops, must be
    /// `#[inline(always)]`.
    fn run<S: Simd>(self, simd: S) -> Self::Output;
}

/// Rounds to bf16 (to nearest, ties to even). A NaN stays a NaN.
pub(crate) fn bf16_bits(x: f32) -> u16 {
    half::bf16::from_f32(x).to_bits()
}
