//! The innermost loop of the matrix products: a small tile of the result, whose sums are kept in registers.
//!
//! A tile is `C = start + A B` for a few rows of A and one *panel* of B. A panel consists of `2 * LANES`
//! columns of B. It is stored step by step (`[steps][2 * LANES]`), so the loop reads it sequentially. A step is
//! one column of A and one row of B in fp32, a pair of columns and rows in bf16, and four in int8.
//!
//! ```text
//!            B panel: 2 vectors wide
//!            +--------+--------+
//!      steps |        |        |   each step: load 2 vectors of B,
//!            +--------+--------+   for each row splat one element of A, multiply, add
//!   A: rows  | sums   | sums   |   12 x 2 registers on AVX-512, 6 x 2 on AVX2, 5 x 4 on NEON
//! ```
//!
//! NEON multiplies by one element of a register, so there a tile loads four elements of A at once instead of a splat of
//! each.
//!
//! The loop is not blocked over steps. A panel of 2048 steps does not fit the first-level cache, but it is read
//! sequentially at 128 bytes per 12 cycles, which the second-level cache (and nearly the third) can supply.

#[cfg(target_arch = "aarch64")]
use super::vector::BlockTile;
use super::vector::{MAX_LANES, Simd, Word};

/// The largest number of columns in a panel, over all instruction sets.
pub(crate) const MAX_PANEL: usize = 2 * MAX_LANES;

/// The largest number of rows in a tile, over all instruction sets.
const MAX_ROWS: usize = 12;

/// The number of elements from the start of the first row to the end of the last, for `rows` rows (at least 1)
/// of `width` elements whose starts are `stride` apart.
#[inline(always)]
fn extent(rows: usize, stride: usize, width: usize) -> usize {
    // Saturating, because a wrapped result would be small and the check against a slice's length would pass.
    (rows - 1).saturating_mul(stride).saturating_add(width)
}

/// The number format of the factors of a product.
pub(crate) trait Product: Copy + 'static {
    /// One step of a row of A or of a column of B: one, two or four numbers.
    type Word: Copy + 'static;
    /// A vector of `LANES` words.
    type Operand<S: Simd>: Copy;
    /// An element of C.
    type Element: Copy + Default + 'static;
    /// A vector of `LANES` elements of C.
    type Sum<S: Simd>: Copy;
    /// The number of rows in the register tile.
    fn tile_rows<S: Simd>() -> usize;
    /// Returns a vector with `word` in all lanes.
    fn splat<S: Simd>(simd: S, word: Self::Word) -> Self::Operand<S>;
    /// Loads `LANES` words without a bounds check.
    ///
    /// # Safety
    /// `from` must be valid for reading `LANES` words.
    unsafe fn load<S: Simd>(simd: S, from: *const Self::Word) -> Self::Operand<S>;
    /// `sum + a b`, lane by lane.
    fn multiply<S: Simd>(
        simd: S,
        sum: Self::Sum<S>,
        a: Self::Operand<S>,
        b: Self::Operand<S>,
    ) -> Self::Sum<S>;
    /// Loads [`Simd::ELEMENTS`] words for [`Product::multiply_element`].
    ///
    /// # Safety
    /// `from` must be valid for reading `ELEMENTS` words.
    unsafe fn load_elements<S: Simd>(simd: S, from: *const Self::Word) -> Self::Operand<S>;
    /// `sum + a[INDEX] b`, where `a` is from [`Product::load_elements`].
    fn multiply_element<S: Simd, const INDEX: i32>(
        simd: S,
        sum: Self::Sum<S>,
        a: Self::Operand<S>,
        b: Self::Operand<S>,
    ) -> Self::Sum<S>;
    /// Whether the product is computed in blocks. Then the panel has the words of two steps of a column one after the
    /// other, and the number of steps is even.
    #[cfg(target_arch = "aarch64")]
    fn has_blocks<S: Simd>() -> bool {
        false
    }
    /// Computes a tile in blocks. The default is never called.
    ///
    /// # Safety
    /// The conditions are those of [`Simd::tile_of_pairs`] and [`Simd::tile_of_bytes`].
    #[cfg(target_arch = "aarch64")]
    unsafe fn block_tile<S: Simd>(_: S, _: BlockTile) {}
    /// Loads `LANES` elements of C without a bounds check.
    ///
    /// # Safety
    /// `from` must be valid for reading `LANES` elements.
    unsafe fn load_sum<S: Simd>(simd: S, from: *const Self::Element) -> Self::Sum<S>;
    /// Stores `max(sum, floor)` in `LANES` elements of C without a bounds check. Only fp32 sums have a floor.
    ///
    /// # Safety
    /// `to` must be valid for writing `LANES` elements.
    unsafe fn store_sum<S: Simd>(simd: S, sum: Self::Sum<S>, floor: f32, to: *mut Self::Element);
}

/// Loads and stores sums in fp32.
macro_rules! fp32_sums {
    () => {
        type Element = f32;
        type Sum<S: Simd> = S::Vector;

        #[inline(always)]
        unsafe fn load_sum<S: Simd>(simd: S, from: *const f32) -> S::Vector {
            // SAFETY: the caller guarantees the same conditions.
            unsafe { simd.load_unchecked(from) }
        }

        #[inline(always)]
        unsafe fn store_sum<S: Simd>(simd: S, sum: S::Vector, floor: f32, to: *mut f32) {
            // The sum is the second argument, so that a NaN in it stays.
            let limited = simd.max(simd.splat(floor), sum);
            // SAFETY: the caller guarantees the same conditions.
            unsafe { simd.store_unchecked(limited, to) }
        }
    };
}

/// Factors that are words of several numbers.
macro_rules! word_factors {
    () => {
        type Word = Word;
        type Operand<S: Simd> = S::Words;

        #[inline(always)]
        fn splat<S: Simd>(simd: S, word: Word) -> S::Words {
            simd.splat_word(word)
        }

        #[inline(always)]
        unsafe fn load<S: Simd>(simd: S, from: *const Word) -> S::Words {
            // SAFETY: the caller guarantees the same conditions.
            unsafe { simd.load_words_unchecked(from) }
        }

        #[inline(always)]
        unsafe fn load_elements<S: Simd>(simd: S, from: *const Word) -> S::Words {
            // SAFETY: the caller guarantees the same conditions.
            unsafe { simd.load_word_elements(from) }
        }
    };
}

/// The factors are fp32 numbers.
#[derive(Clone, Copy)]
pub(crate) struct Fp32;

impl Product for Fp32 {
    type Word = f32;
    type Operand<S: Simd> = S::Vector;
    fp32_sums!();

    #[inline(always)]
    fn tile_rows<S: Simd>() -> usize {
        S::TILE_ROWS
    }

    #[inline(always)]
    fn splat<S: Simd>(simd: S, word: f32) -> S::Vector {
        simd.splat(word)
    }

    #[inline(always)]
    unsafe fn load<S: Simd>(simd: S, from: *const f32) -> S::Vector {
        // SAFETY: the caller guarantees the same conditions.
        unsafe { simd.load_unchecked(from) }
    }

    #[inline(always)]
    fn multiply<S: Simd>(simd: S, sum: S::Vector, a: S::Vector, b: S::Vector) -> S::Vector {
        simd.mul_add(a, b, sum)
    }

    #[inline(always)]
    unsafe fn load_elements<S: Simd>(simd: S, from: *const f32) -> S::Vector {
        // SAFETY: the caller guarantees the same conditions.
        unsafe { simd.load_elements(from) }
    }

    #[inline(always)]
    fn multiply_element<S: Simd, const INDEX: i32>(
        simd: S,
        sum: S::Vector,
        a: S::Vector,
        b: S::Vector,
    ) -> S::Vector {
        simd.mul_add_element::<INDEX>(a, b, sum)
    }
}

/// The factors are pairs of bf16 numbers. The sums are fp32.
#[derive(Clone, Copy)]
pub(crate) struct Bf16;

impl Product for Bf16 {
    word_factors!();
    fp32_sums!();

    #[inline(always)]
    fn tile_rows<S: Simd>() -> usize {
        S::TILE_ROWS_BF16
    }

    #[inline(always)]
    fn multiply<S: Simd>(simd: S, sum: S::Vector, a: S::Words, b: S::Words) -> S::Vector {
        simd.dot_pairs(sum, a, b)
    }

    #[inline(always)]
    fn multiply_element<S: Simd, const INDEX: i32>(
        simd: S,
        sum: S::Vector,
        a: S::Words,
        b: S::Words,
    ) -> S::Vector {
        simd.dot_pairs_element::<INDEX>(sum, a, b)
    }

    #[cfg(target_arch = "aarch64")]
    #[inline(always)]
    fn has_blocks<S: Simd>() -> bool {
        S::BLOCKS_OF_PAIRS
    }

    #[cfg(target_arch = "aarch64")]
    #[inline(always)]
    unsafe fn block_tile<S: Simd>(simd: S, tile: BlockTile) {
        // SAFETY: the caller guarantees the same conditions.
        unsafe { simd.tile_of_pairs(tile) }
    }
}

/// The factors are groups of four bytes, of which those of B are signed. The sums are 32-bit integers.
#[derive(Clone, Copy)]
pub(crate) struct Int8;

impl Product for Int8 {
    word_factors!();
    type Element = Word;
    type Sum<S: Simd> = S::Words;

    #[inline(always)]
    fn tile_rows<S: Simd>() -> usize {
        S::TILE_ROWS_INT8
    }

    #[inline(always)]
    fn multiply<S: Simd>(simd: S, sum: S::Words, a: S::Words, b: S::Words) -> S::Words {
        simd.dot_bytes(sum, a, b)
    }

    #[inline(always)]
    fn multiply_element<S: Simd, const INDEX: i32>(
        simd: S,
        sum: S::Words,
        a: S::Words,
        b: S::Words,
    ) -> S::Words {
        simd.dot_bytes_element::<INDEX>(sum, a, b)
    }

    #[cfg(target_arch = "aarch64")]
    #[inline(always)]
    fn has_blocks<S: Simd>() -> bool {
        S::BLOCKS_OF_BYTES
    }

    #[cfg(target_arch = "aarch64")]
    #[inline(always)]
    unsafe fn block_tile<S: Simd>(simd: S, tile: BlockTile) {
        // SAFETY: the caller guarantees the same conditions.
        unsafe { simd.tile_of_bytes(tile) }
    }

    #[inline(always)]
    unsafe fn load_sum<S: Simd>(simd: S, from: *const Word) -> S::Words {
        // SAFETY: the caller guarantees the same conditions.
        unsafe { simd.load_words_unchecked(from) }
    }

    #[inline(always)]
    unsafe fn store_sum<S: Simd>(simd: S, sum: S::Words, _: f32, to: *mut Word) {
        // SAFETY: the caller guarantees the same conditions.
        unsafe { simd.store_words_unchecked(sum, to) }
    }
}

/// The memory layout of A.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Row `i` starts at `i * stride` and its steps are consecutive.
    RowMajor {
        /// Words from the start of one row to the start of the next.
        stride: usize,
    },
    /// Step `k` starts at `k * stride` and its rows are consecutive.
    StepMajor {
        /// Words from the start of one step to the start of the next.
        stride: usize,
    },
}

/// The initial values of the sums.
#[derive(Clone, Copy)]
pub(crate) enum Start<'a, E> {
    /// One number for each column. There must be as many as a panel has columns.
    Bias(&'a [E]),
    /// The old contents of C.
    Output,
}

/// The product for one panel of B: `C[rows][width] = max(start + A B, floor)`.
pub(crate) struct PanelProduct<'a, P: Product> {
    pub a: &'a [P::Word],
    /// The layout of A.
    pub layout: Layout,
    /// The panel of B: `[steps][2 * LANES]`.
    pub panel: &'a [P::Word],
    /// Words from the start of one step of the panel to the start of the next: `2 * LANES` if the panel is
    /// packed.
    pub panel_stride: usize,
    /// The number of steps in A and B.
    pub steps: usize,
    /// C, beginning with the first element of this panel's columns.
    pub c: &'a mut [P::Element],
    /// Elements from the start of one row of C to the start of the next.
    pub c_stride: usize,
    /// The number of rows of A and C.
    pub rows: usize,
    /// The number of columns of C: at most `2 * LANES`; the last panel of a matrix may have fewer.
    pub width: usize,
    /// The initial values of the sums.
    pub start: Start<'a, P::Element>,
    /// The lower limit of the results: 0 for ReLU, negative infinity for no limit.
    pub floor: f32,
}

/// The operands of a tile. The pointers are valid for all steps of all rows, as [`PanelProduct::run`] has
/// checked.
#[derive(Clone, Copy)]
struct Operands<W> {
    a: *const W,
    layout: Layout,
    panel: *const W,
    panel_stride: usize,
    steps: usize,
    floor: f32,
}

impl<P: Product> PanelProduct<'_, P> {
    /// Computes the product. Panics if a slice is too short for the sizes.
    #[inline(always)]
    pub(crate) fn run<S: Simd>(mut self, simd: S) {
        // The sizes of the arrays in `ragged_tile` depend on this.
        const { assert!(S::LANES <= MAX_LANES && S::LANES.is_power_of_two()) }
        let panel_width = 2 * S::LANES;
        if self.rows == 0 || self.width == 0 {
            return;
        }
        assert!(self.width <= panel_width, "a panel has {panel_width} columns");
        assert!(self.c.len() >= extent(self.rows, self.c_stride, self.width), "C is too short");
        if self.steps > 0 {
            let needed = extent(self.steps, self.panel_stride, panel_width);
            assert!(self.panel.len() >= needed, "the panel is too short");
            let needed = match self.layout {
                Layout::RowMajor { stride } => extent(self.rows, stride, self.steps),
                Layout::StepMajor { stride } => extent(self.steps, stride, self.rows),
            };
            assert!(self.a.len() >= needed, "A is too short");
        }
        #[cfg(target_arch = "aarch64")]
        if P::has_blocks::<S>() {
            assert!(self.steps.is_multiple_of(2), "blocks have two steps");
            assert!(matches!(self.layout, Layout::RowMajor { .. }), "blocks have two words of a row");
            assert_eq!(self.panel_stride, panel_width, "a panel of blocks is packed");
        }
        // The tiles have nearly equal heights: with at most 12 rows, 64 rows become 4 x 11 + 2 x 10 instead of
        // 5 x 12 + 4.
        let tiles = self.rows.div_ceil(P::tile_rows::<S>());
        let mut row = 0;
        for tile in 0..tiles {
            let next = self.rows * (tile + 1) / tiles;
            if self.width == panel_width {
                self.tile(simd, row, next - row);
            } else {
                self.ragged_tile(simd, row, next - row);
            }
            row = next;
        }
    }

    /// Computes the rows `row .. row + height` for a panel with all its `2 * LANES` columns.
    #[inline(always)]
    fn tile<S: Simd>(&mut self, simd: S, row: usize, height: usize) {
        let bias = match self.start {
            Start::Bias(bias) => {
                assert!(bias.len() >= 2 * S::LANES, "the bias is too short");
                bias.as_ptr()
            }
            Start::Output => std::ptr::null(),
        };
        let operands = self.operands(row);
        let c = &mut self.c[row * self.c_stride..];
        // SAFETY: `run` has checked that A has all steps of `rows` rows, that the panel has all steps, and that
        // C has `rows` rows of `width` = `2 * LANES` columns; and `row + height <= rows`. A bias that is not
        // null has `2 * LANES` numbers.
        unsafe { any_height::<S, P>(simd, operands, height, bias, c.as_mut_ptr(), self.c_stride) }
    }

    /// Computes the rows `row .. row + height` for the last panel of a matrix, which has only `width` columns.
    #[inline(always)]
    fn ragged_tile<S: Simd>(&mut self, simd: S, row: usize, height: usize) {
        let mut block = [P::Element::default(); MAX_ROWS * MAX_PANEL];
        let stride = 2 * S::LANES;
        let mut bias = [P::Element::default(); MAX_PANEL];
        let from = match self.start {
            Start::Bias(values) => {
                let count = values.len().min(stride);
                bias[..count].copy_from_slice(&values[..count]);
                bias.as_ptr()
            }
            Start::Output => {
                for i in 0..height {
                    let c = &self.c[(row + i) * self.c_stride..][..self.width];
                    block[i * stride..][..self.width].copy_from_slice(c);
                }
                std::ptr::null()
            }
        };
        // SAFETY: A and the panel are valid for the same reasons as in `tile`. `block` has room for `MAX_ROWS`
        // rows of `MAX_PANEL` columns; `any_height` accepts at most `MAX_ROWS` rows, and a panel has at most
        // `MAX_PANEL` columns. `bias` has `MAX_PANEL` numbers.
        unsafe { any_height::<S, P>(simd, self.operands(row), height, from, block.as_mut_ptr(), stride) }
        for i in 0..height {
            let c = &mut self.c[(row + i) * self.c_stride..][..self.width];
            c.copy_from_slice(&block[i * stride..][..self.width]);
        }
    }

    /// The operands of a tile whose first row is `row`.
    #[inline(always)]
    fn operands(&self, row: usize) -> Operands<P::Word> {
        let first = match self.layout {
            Layout::RowMajor { stride } => row * stride,
            Layout::StepMajor { .. } => row,
        };
        // The addition may wrap, because A may be empty if there are no steps. The pointer is not read in that
        // case.
        let a = self.a.as_ptr().wrapping_add(first);
        let PanelProduct { layout, panel_stride, steps, floor, .. } = *self;
        Operands { a, layout, panel: self.panel.as_ptr(), panel_stride, steps, floor }
    }
}

/// Computes a tile of `height` rows with the function that is compiled for this height.
///
/// # Safety
/// `operands.a` must be valid for reading all steps of `height` rows, and the panel for reading all steps. `c`
/// must be valid for writing `2 * LANES` numbers at each of the first `height` multiples of `c_stride`. `bias`
/// must be null or valid for reading `2 * LANES` numbers; if it is null, `c` must be valid for reading too.
#[inline(always)]
unsafe fn any_height<S: Simd, P: Product>(
    simd: S,
    operands: Operands<P::Word>,
    height: usize,
    bias: *const P::Element,
    c: *mut P::Element,
    c_stride: usize,
) {
    #[cfg(target_arch = "aarch64")]
    if P::has_blocks::<S>()
        && let Layout::RowMajor { stride } = operands.layout
    {
        let tile = BlockTile {
            a: operands.a.cast(),
            a_stride: stride,
            panel: operands.panel.cast(),
            steps: operands.steps,
            bias: bias.cast(),
            c: c.cast(),
            c_stride,
            rows: height,
            floor: operands.floor,
        };
        // SAFETY: the caller guarantees the same conditions. The words and the elements of products that have blocks are
        // 32 bits wide, and their panels are packed, as `run` has checked.
        return unsafe { P::block_tile(simd, tile) };
    }
    macro_rules! heights {
        ($($height:literal)*) => {
            match height {
                $($height if $height <= P::tile_rows::<S>() => match operands.layout {
                    // SAFETY: the caller guarantees the same conditions.
                    Layout::RowMajor { stride } => unsafe {
                        tile::<S, P, $height, true>(simd, operands, stride, bias, c, c_stride)
                    },
                    // SAFETY: the caller guarantees the same conditions.
                    Layout::StepMajor { stride } => unsafe {
                        tile::<S, P, $height, false>(simd, operands, stride, bias, c, c_stride)
                    },
                },)*
                _ => unreachable!("a tile has 1 to {} rows", P::tile_rows::<S>()),
            }
        };
    }
    heights!(1 2 3 4 5 6 7 8 9 10 11 12)
}

/// Computes a tile of `ROWS` x `2 * LANES` sums, which are kept in registers. Step `k` of row `i` of A is at
/// `i * a_stride + k` if `ROW_MAJOR`, and at `k * a_stride + i` otherwise.
///
/// # Safety
/// The conditions of [`any_height`] must hold for `ROWS` rows.
#[inline(always)]
unsafe fn tile<S: Simd, P: Product, const ROWS: usize, const ROW_MAJOR: bool>(
    simd: S,
    operands: Operands<P::Word>,
    a_stride: usize,
    bias: *const P::Element,
    c: *mut P::Element,
    c_stride: usize,
) {
    let Operands { a, panel, panel_stride, steps, floor, .. } = operands;
    let start = |i: usize| if bias.is_null() { c.wrapping_add(i * c_stride).cast_const() } else { bias };
    // SAFETY: the bias and the row of C both have `2 * LANES` numbers.
    let mut sums = [[unsafe { P::load_sum(simd, start(0)) }; 2]; ROWS];
    for (i, row) in sums.iter_mut().enumerate() {
        for (half, sum) in row.iter_mut().enumerate() {
            // SAFETY: the bias and the row of C both have `2 * LANES` numbers.
            *sum = unsafe { P::load_sum(simd, start(i).wrapping_add(half * S::LANES)) };
        }
    }
    let b_of_step = |k: usize| panel.wrapping_add(k * panel_stride);
    const { assert!(S::ELEMENTS == 1 || S::ELEMENTS == 4) }
    // The elements that a tile loads together are steps of a row or rows of a step, whichever are consecutive.
    let mut step = 0;
    if ROW_MAJOR && S::ELEMENTS == 4 {
        while step + 4 <= steps {
            // SAFETY: A has the steps `step .. step + 4` of row `i`.
            let elements: [_; ROWS] = std::array::from_fn(|i| unsafe {
                P::load_elements(simd, a.wrapping_add(i * a_stride + step))
            });
            // SAFETY: the panel has step `step`.
            unsafe { rows_by_element::<S, P, ROWS, 0>(simd, &mut sums, &elements, b_of_step(step)) }
            // SAFETY: the panel has step `step + 1`.
            unsafe { rows_by_element::<S, P, ROWS, 1>(simd, &mut sums, &elements, b_of_step(step + 1)) }
            // SAFETY: the panel has step `step + 2`.
            unsafe { rows_by_element::<S, P, ROWS, 2>(simd, &mut sums, &elements, b_of_step(step + 2)) }
            // SAFETY: the panel has step `step + 3`.
            unsafe { rows_by_element::<S, P, ROWS, 3>(simd, &mut sums, &elements, b_of_step(step + 3)) }
            step += 4;
        }
    }
    for k in step..steps {
        // SAFETY: the panel has step `k`.
        let b = unsafe { load_step::<S, P>(simd, b_of_step(k)) };
        let mut first = 0;
        if !ROW_MAJOR && S::ELEMENTS == 4 {
            for four in sums.as_chunks_mut::<4>().0 {
                // SAFETY: A has step `k` of the rows `first .. first + 4`.
                let elements = unsafe { P::load_elements(simd, a.wrapping_add(k * a_stride + first)) };
                for half in 0..2 {
                    four[0][half] = P::multiply_element::<S, 0>(simd, four[0][half], elements, b[half]);
                    four[1][half] = P::multiply_element::<S, 1>(simd, four[1][half], elements, b[half]);
                    four[2][half] = P::multiply_element::<S, 2>(simd, four[2][half], elements, b[half]);
                    four[3][half] = P::multiply_element::<S, 3>(simd, four[3][half], elements, b[half]);
                }
                first += 4;
            }
        }
        for (i, row) in sums.iter_mut().enumerate().skip(first) {
            let at = if ROW_MAJOR { i * a_stride + k } else { k * a_stride + i };
            // SAFETY: A has step `k` of row `i`.
            let word = P::splat(simd, unsafe { *a.wrapping_add(at) });
            row[0] = P::multiply(simd, row[0], word, b[0]);
            row[1] = P::multiply(simd, row[1], word, b[1]);
        }
    }
    for (i, row) in sums.iter().enumerate() {
        for (half, &sum) in row.iter().enumerate() {
            let to = c.wrapping_add(i * c_stride + half * S::LANES);
            // SAFETY: the row of C has `2 * LANES` numbers.
            unsafe { P::store_sum(simd, sum, floor, to) };
        }
    }
}

/// Loads a step of a panel.
///
/// # Safety
/// `b` must be valid for reading `2 * LANES` words.
#[inline(always)]
unsafe fn load_step<S: Simd, P: Product>(simd: S, b: *const P::Word) -> [P::Operand<S>; 2] {
    // SAFETY: the caller guarantees that `2 * LANES` words can be read.
    let first = unsafe { P::load(simd, b) };
    // SAFETY: the caller guarantees that `2 * LANES` words can be read.
    let second = unsafe { P::load(simd, b.wrapping_add(S::LANES)) };
    [first, second]
}

/// Adds the step `b` of the panel to the sums. `elements[row]` has `ELEMENTS` steps of the row, of which this one is
/// `INDEX`.
///
/// # Safety
/// `b` must be valid for reading `2 * LANES` words.
#[inline(always)]
unsafe fn rows_by_element<S: Simd, P: Product, const ROWS: usize, const INDEX: i32>(
    simd: S,
    sums: &mut [[P::Sum<S>; 2]; ROWS],
    elements: &[P::Operand<S>; ROWS],
    b: *const P::Word,
) {
    // SAFETY: the caller guarantees the same conditions.
    let [first, second] = unsafe { load_step::<S, P>(simd, b) };
    for (row, elements) in sums.iter_mut().zip(elements) {
        row[0] = P::multiply_element::<S, INDEX>(simd, row[0], *elements, first);
        row[1] = P::multiply_element::<S, INDEX>(simd, row[1], *elements, second);
    }
}
