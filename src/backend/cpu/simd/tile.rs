//! The innermost loop: a small block of a matrix product, held in registers.
//!
//! `C = start + A B` for a few rows of A and one *panel* of B: a panel is `2 * LANES` columns of B, stored
//! step by step (`[steps][2 * LANES]`), so that the loop reads it as one stream. A step is one column of A:
//! one number in fp32, one pair of numbers in bf16.
//!
//! ```text
//!            B panel: 2 vectors wide
//!            +--------+--------+
//!      steps |        |        |   each step: load 2 vectors of B,
//!            +--------+--------+   for each row splat one element of A, multiply, add
//!   A: rows  | sums   | sums   |   12 x 2 registers on AVX-512, 6 x 2 on AVX2
//! ```
//!
//! There is no blocking over steps: a panel of 2048 steps does not fit the first-level cache, but it is read
//! in order at 128 bytes per 12 cycles, which the second level (and nearly the third) supplies.

use super::vector::{Bf16Pair, MAX_LANES, Simd};

/// Widest panel of any instruction set.
pub(crate) const MAX_PANEL: usize = 2 * MAX_LANES;

/// Tallest tile of any instruction set.
const MAX_ROWS: usize = 12;

/// From the start of the first of `rows` (not 0), `stride` apart, to the end of the last, which is `width` wide.
#[inline(always)]
fn extent(rows: usize, stride: usize, width: usize) -> usize {
    // Saturating: what wrapped round would pass for a small number.
    (rows - 1).saturating_mul(stride).saturating_add(width)
}

/// What one step of a product multiplies.
pub(crate) trait Product: Copy + 'static {
    /// One element of A; B's vectors are of the same.
    type Word: Copy + 'static;
    /// A vector of words.
    type Operand<S: Simd>: Copy;
    /// Rows of the register tile.
    fn tile_rows<S: Simd>() -> usize;
    /// All lanes equal `word`.
    fn splat<S: Simd>(simd: S, word: Self::Word) -> Self::Operand<S>;
    /// Loads `LANES` words.
    ///
    /// # Safety
    /// `from` must be valid for reading `LANES` words.
    unsafe fn load<S: Simd>(simd: S, from: *const Self::Word) -> Self::Operand<S>;
    /// `sum + a b`.
    fn multiply<S: Simd>(simd: S, sum: S::Vector, a: Self::Operand<S>, b: Self::Operand<S>) -> S::Vector;
}

/// fp32 times fp32.
#[derive(Clone, Copy)]
pub(crate) struct Fp32;

impl Product for Fp32 {
    type Word = f32;
    type Operand<S: Simd> = S::Vector;

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
        // SAFETY: the caller's promise.
        unsafe { simd.load_unchecked(from) }
    }

    #[inline(always)]
    fn multiply<S: Simd>(simd: S, sum: S::Vector, a: S::Vector, b: S::Vector) -> S::Vector {
        simd.mul_add(a, b, sum)
    }
}

/// Pairs of bf16, summed in fp32.
#[derive(Clone, Copy)]
pub(crate) struct Bf16;

impl Product for Bf16 {
    type Word = Bf16Pair;
    type Operand<S: Simd> = S::Pairs;

    #[inline(always)]
    fn tile_rows<S: Simd>() -> usize {
        S::TILE_ROWS_BF16
    }

    #[inline(always)]
    fn splat<S: Simd>(simd: S, word: Bf16Pair) -> S::Pairs {
        simd.splat_pair(word)
    }

    #[inline(always)]
    unsafe fn load<S: Simd>(simd: S, from: *const Bf16Pair) -> S::Pairs {
        // SAFETY: the caller's promise.
        unsafe { simd.load_pairs_unchecked(from) }
    }

    #[inline(always)]
    fn multiply<S: Simd>(simd: S, sum: S::Vector, a: S::Pairs, b: S::Pairs) -> S::Vector {
        simd.dot_pairs(sum, a, b)
    }
}

/// How A lies in memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Row `i` starts at `i * stride`, its steps are neighbours.
    RowMajor {
        /// Words from a row to the next.
        stride: usize,
    },
    /// Step `k` starts at `k * stride`, its rows are neighbours.
    StepMajor {
        /// Words from a step to the next.
        stride: usize,
    },
}

/// What the sums start with.
#[derive(Clone, Copy)]
pub(crate) enum Start<'a> {
    /// A number per column; at least a panel's width of them.
    Bias(&'a [f32]),
    /// What C holds.
    Output,
}

/// One panel's product: `C[rows][width] = max(start + A B, floor)`.
pub(crate) struct PanelProduct<'a, P: Product> {
    /// A.
    pub a: &'a [P::Word],
    /// How A lies.
    pub layout: Layout,
    /// B's panel: `[steps][2 * LANES]`.
    pub panel: &'a [P::Word],
    /// Words from a step of the panel to the next: `2 * LANES` where it has been packed.
    pub panel_stride: usize,
    /// Columns of A.
    pub steps: usize,
    /// C, from its first element that this panel makes.
    pub c: &'a mut [f32],
    /// Elements from a row of C to the next.
    pub c_stride: usize,
    /// Rows of A and C.
    pub rows: usize,
    /// Columns of C that exist: at most `2 * LANES`, less in a matrix's last panel.
    pub width: usize,
    /// What the sums start with.
    pub start: Start<'a>,
    /// Results are not less: 0 is ReLU, minus infinity nothing.
    pub floor: f32,
}

/// What a tile reads; its pointers are valid for all steps of all rows, as [`PanelProduct::run`] has checked.
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
    /// Computes it. Panics if a slice is shorter than the sizes say.
    #[inline(always)]
    pub(crate) fn run<S: Simd>(mut self, simd: S) {
        // What the blocks of `ragged_tile` rely on.
        const { assert!(S::LANES <= MAX_LANES && S::LANES.is_power_of_two()) }
        let panel_width = 2 * S::LANES;
        if self.rows == 0 || self.width == 0 {
            return;
        }
        assert!(self.width <= panel_width, "a panel has {panel_width} columns");
        assert!(self.c.len() >= extent(self.rows, self.c_stride, self.width), "C is short");
        if self.steps > 0 {
            let needed = extent(self.steps, self.panel_stride, panel_width);
            assert!(self.panel.len() >= needed, "the panel is short");
            let needed = match self.layout {
                Layout::RowMajor { stride } => extent(self.rows, stride, self.steps),
                Layout::StepMajor { stride } => extent(self.steps, stride, self.rows),
            };
            assert!(self.a.len() >= needed, "A is short");
        }
        // Tiles of nearly equal height: 64 rows are 4 x 11 and 2 x 10 rather than 5 x 12 and 4.
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

    /// Rows `row .. row + height` of a panel that is `2 * LANES` wide.
    #[inline(always)]
    fn tile<S: Simd>(&mut self, simd: S, row: usize, height: usize) {
        let bias = match self.start {
            Start::Bias(bias) => {
                assert!(bias.len() >= 2 * S::LANES, "the bias is short");
                bias.as_ptr()
            }
            Start::Output => std::ptr::null(),
        };
        let operands = self.operands(row);
        let c = &mut self.c[row * self.c_stride..];
        // SAFETY: `run` has checked that A has all steps of rows up to `rows`, that the panel has all steps,
        // and that C has `rows` rows of `width` = `2 * LANES` columns; `row + height <= rows`. A bias that is
        // not null has `2 * LANES` numbers.
        unsafe { any_height::<S, P>(simd, operands, height, bias, c.as_mut_ptr(), self.c_stride) }
    }

    /// As `tile`, for a panel of which only `width` columns exist.
    #[inline(always)]
    fn ragged_tile<S: Simd>(&mut self, simd: S, row: usize, height: usize) {
        let mut block = [0.0_f32; MAX_ROWS * MAX_PANEL];
        let stride = 2 * S::LANES;
        let mut bias = [0.0_f32; MAX_PANEL];
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
        // SAFETY: A and the panel as in `tile`; `block` has room for `MAX_ROWS` rows of `MAX_PANEL` columns,
        // `any_height` takes no more than `MAX_ROWS` rows, and `2 * LANES <= MAX_PANEL`; `bias` has `MAX_PANEL`
        // numbers.
        unsafe { any_height::<S, P>(simd, self.operands(row), height, from, block.as_mut_ptr(), stride) }
        for i in 0..height {
            let c = &mut self.c[(row + i) * self.c_stride..][..self.width];
            c.copy_from_slice(&block[i * stride..][..self.width]);
        }
    }

    /// The operands, from row `row` of A.
    #[inline(always)]
    fn operands(&self, row: usize) -> Operands<P::Word> {
        let first = match self.layout {
            Layout::RowMajor { stride } => row * stride,
            Layout::StepMajor { .. } => row,
        };
        // `wrapping_add`: with no steps A may be empty, and then the pointer is never read.
        let a = self.a.as_ptr().wrapping_add(first);
        let PanelProduct { layout, panel_stride, steps, floor, .. } = *self;
        Operands { a, layout, panel: self.panel.as_ptr(), panel_stride, steps, floor }
    }
}

/// Picks the tile compiled for `height` rows.
///
/// # Safety
/// `operands.a` must have all steps of `height` rows, the panel all steps, and `c` be valid for writing (and,
/// with no bias, reading) `2 * LANES` numbers at each of `height` multiples of `c_stride`; `bias` is null or
/// has as many.
#[inline(always)]
unsafe fn any_height<S: Simd, P: Product>(
    simd: S,
    operands: Operands<P::Word>,
    height: usize,
    bias: *const f32,
    c: *mut f32,
    c_stride: usize,
) {
    macro_rules! heights {
        ($($height:literal)*) => {
            match height {
                $($height if $height <= P::tile_rows::<S>() => match operands.layout {
                    // SAFETY: the caller's promise.
                    Layout::RowMajor { stride } => unsafe {
                        tile::<S, P, $height, true>(simd, operands, stride, bias, c, c_stride)
                    },
                    // SAFETY: the caller's promise.
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

/// `ROWS` x `2 * LANES` sums in registers.
///
/// # Safety
/// As [`any_height`]'s, for `ROWS` rows: row `i`, step `k` of A is at `i * a_stride + k` if `ROW_MAJOR`, else
/// at `k * a_stride + i`.
#[inline(always)]
unsafe fn tile<S: Simd, P: Product, const ROWS: usize, const ROW_MAJOR: bool>(
    simd: S,
    operands: Operands<P::Word>,
    a_stride: usize,
    bias: *const f32,
    c: *mut f32,
    c_stride: usize,
) {
    let Operands { a, panel, panel_stride, steps, floor, .. } = operands;
    let mut sums = [[simd.splat(0.0); 2]; ROWS];
    for (i, row) in sums.iter_mut().enumerate() {
        for (half, sum) in row.iter_mut().enumerate() {
            let from = if bias.is_null() { c.wrapping_add(i * c_stride).cast_const() } else { bias };
            // SAFETY: both the bias and C's row have `2 * LANES` numbers.
            *sum = unsafe { simd.load_unchecked(from.wrapping_add(half * S::LANES)) };
        }
    }
    for k in 0..steps {
        let b = panel.wrapping_add(k * panel_stride);
        // SAFETY: step `k` of the panel has `2 * LANES` words.
        let first = unsafe { P::load(simd, b) };
        // SAFETY: as above.
        let second = unsafe { P::load(simd, b.wrapping_add(S::LANES)) };
        for (i, row) in sums.iter_mut().enumerate() {
            let at = if ROW_MAJOR { i * a_stride + k } else { k * a_stride + i };
            // SAFETY: row `i` has a step `k`.
            let word = P::splat(simd, unsafe { *a.wrapping_add(at) });
            row[0] = P::multiply(simd, row[0], word, first);
            row[1] = P::multiply(simd, row[1], word, second);
        }
    }
    // The sum second, so that NaN is not hidden.
    let floor = simd.splat(floor);
    for (i, row) in sums.iter().enumerate() {
        for (half, &sum) in row.iter().enumerate() {
            let to = c.wrapping_add(i * c_stride + half * S::LANES);
            // SAFETY: C's row has `2 * LANES` numbers.
            unsafe { simd.store_unchecked(simd.max(floor, sum), to) };
        }
    }
}
