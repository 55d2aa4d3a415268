//! The rows of x in the format of the weights.

use super::pack::{PackedMatrix, Storage};
use crate::kernels::SQUARES;
use crate::simd::{AlignedVec, Factors, Isa, Kernel, Simd, Word};

/// Rows of x, rounded to the format of the weights. The memory is used again for the next product.
#[derive(Default, Debug)]
pub(crate) struct RoundedRows {
    /// `[rows][stride]`, with room for a whole number of 16 rows.
    pub(super) words: AlignedVec<Word>,
    /// Words from the start of one row to the start of the next: at least the steps of the product.
    pub(super) stride: usize,
    /// The number of places from which a row's words are taken: 1, or 3 for a board of a convolution.
    pub(super) pieces: usize,
    /// Words from one of these places to the next.
    piece_offset: usize,
    /// For `Int8`, `[rows]`: the number that 1 stands for. An element of x, multiplied by the factor of its column if
    /// there are factors, is `scale * byte + minimum`.
    pub(super) scales: AlignedVec<f32>,
    /// For `Int8`, `[rows]`: the number that 0 stands for. It is the least element of the row if bytes are unsigned.
    pub(super) minima: AlignedVec<f32>,
    /// For `Int8`: a row of x, multiplied by the factors of its columns, and padded to whole vectors.
    multiplied: AlignedVec<f32>,
    /// The sums of a part of a product in vector registers, before they are converted.
    pub(super) sums: AlignedVec<Word>,
    /// The sums of two parts of a product in tile registers.
    #[cfg(target_arch = "x86_64")]
    pub(super) blocks: Blocks,
}

/// The sums of two parts of y in tile registers.
#[cfg(target_arch = "x86_64")]
#[derive(Debug, Default)]
pub(super) struct Blocks {
    pub(super) now: Sums,
    pub(super) before: Sums,
}

/// The sums of a part of y, `[32][32]`. A product uses one of the two.
#[cfg(target_arch = "x86_64")]
#[derive(Debug, Default)]
pub(super) struct Sums {
    pub(super) floats: AlignedVec<f32>,
    pub(super) integers: AlignedVec<Word>,
}

/// Memory for the rows of a board, which are rounded to bytes elsewhere.
pub(crate) struct BoardRows<'a> {
    /// `[10 ranks][8 files][stride]`: a row for each square, and eight more on either side.
    pub(crate) words: &'a mut [Word],
    /// Words from the start of one row to the start of the next: a third of the product's steps.
    pub(crate) stride: usize,
    /// `[64]`: see [`RoundedRows`].
    pub(crate) scales: &'a mut [f32],
    /// `[64]`: see [`RoundedRows`].
    pub(crate) minima: &'a mut [f32],
}

impl RoundedRows {
    /// Memory for a board's product with `weights`, which must be `Int8`: its row of factors for a square is the row of
    /// the square below, its own row, and that of the square above. The caller fills all of it before
    /// [`super::MatrixProduct::run_rounded`].
    pub(crate) fn board(&mut self, isa: Isa, weights: &PackedMatrix) -> BoardRows<'_> {
        self.pieces = 3;
        self.stride = weights.steps() / self.pieces;
        assert!(self.stride.is_multiple_of(isa.lanes()), "a row is a whole number of vectors");
        self.piece_offset = 8 * self.stride;
        self.words.grow_to(10 * 8 * self.stride);
        self.scales.grow_to(SQUARES);
        self.minima.grow_to(SQUARES);
        BoardRows {
            words: &mut self.words[..10 * 8 * self.stride],
            stride: self.stride,
            scales: &mut self.scales[..SQUARES],
            minima: &mut self.minima[..SQUARES],
        }
    }

    /// The words of the rows from `row` on, and the words of the panel, which has `width` columns, for the piece `piece`
    /// of the product's steps.
    #[inline(always)]
    pub(super) fn piece<'a>(
        &'a self,
        piece: usize,
        row: usize,
        panel: &'a [Word],
        width: usize,
    ) -> (&'a [Word], &'a [Word]) {
        let steps = panel.len() / width / self.pieces;
        let a = &self.words[row * self.stride + piece * self.piece_offset..];
        (a, &panel[piece * steps * width..][..steps * width])
    }

    /// Rounds rows whose starts are `x_stride` numbers apart.
    pub(super) fn fill(
        &mut self,
        isa: Isa,
        weights: &PackedMatrix,
        (x, x_stride): (&[f32], usize),
        rows: usize,
    ) {
        if weights.storage() == Storage::Fp32 {
            // The product reads x itself.
            return;
        }
        // Only whole vectors are stored, so the rows have room for a whole number of them.
        self.stride = weights.steps().next_multiple_of(isa.lanes());
        self.pieces = 1;
        self.words.grow_to(rows.next_multiple_of(16) * self.stride);
        let x = Rows { x, x_stride, rows, inputs: weights.inputs() };
        match weights.storage() {
            Storage::Fp32 => {}
            Storage::Bf16 => isa.run(ToBf16(x, self)),
            Storage::Int8 => {
                self.scales.grow_to(rows);
                self.minima.grow_to(rows);
                match weights.factors() {
                    None => isa.run(ToInt8(x, self)),
                    Some(factors) => {
                        self.multiplied.grow_to(factors.len());
                        isa.run(MultipliedToInt8(x, factors, self));
                    }
                }
            }
            #[cfg(target_arch = "x86_64")]
            Storage::Split => isa.run(ToTerms(x, self)),
        }
    }
}

/// The rows to round.
#[derive(Clone, Copy)]
struct Rows<'a> {
    x: &'a [f32],
    x_stride: usize,
    rows: usize,
    inputs: usize,
}

impl<'a> Rows<'a> {
    #[inline(always)]
    fn row(&self, row: usize) -> &'a [f32] {
        &self.x[row * self.x_stride..][..self.inputs]
    }
}

struct ToBf16<'a>(Rows<'a>, &'a mut RoundedRows);

impl Kernel for ToBf16<'_> {
    type Output = ();
    const MULTIPLIES: Factors = Factors::Bf16;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let ToBf16(rows, rounded) = self;
        for row in 0..rows.rows {
            round_row(simd, rows.row(row), &mut rounded.words[row * rounded.stride..][..rounded.stride]);
        }
    }
}

/// Rounds a row to pairs of bf16. `to` has room for a whole number of vectors; its end is filled with zeros.
#[inline(always)]
pub(crate) fn round_row<S: Simd>(simd: S, row: &[f32], to: &mut [Word]) {
    let mut places = to.chunks_exact_mut(S::LANES);
    for (part, place) in row.chunks(2 * S::LANES).zip(&mut places) {
        let (first, second) = simd.load_two(part);
        simd.store_words(simd.round_to_bf16(first, second), place);
    }
    clear(places);
}

/// Fills the end of a row with zeros. The memory may hold a wider row of an earlier product.
#[inline(always)]
fn clear(places: std::slice::ChunksExactMut<'_, Word>) {
    for place in places {
        place.fill(0);
    }
}

struct ToInt8<'a>(Rows<'a>, &'a mut RoundedRows);

impl Kernel for ToInt8<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let ToInt8(rows, rounded) = self;
        for row in 0..rows.rows {
            let places = &mut rounded.words[row * rounded.stride..][..rounded.stride];
            (rounded.scales[row], rounded.minima[row]) = round_to_bytes(simd, rows.row(row), places);
        }
    }
}

/// Rows whose numbers are multiplied by factors before they are rounded.
struct MultipliedToInt8<'a>(Rows<'a>, &'a [f32], &'a mut RoundedRows);

impl Kernel for MultipliedToInt8<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let MultipliedToInt8(rows, factors, rounded) = self;
        for row in 0..rows.rows {
            let factors = factors.chunks_exact(S::LANES);
            let products = rounded.multiplied.chunks_exact_mut(S::LANES);
            for ((x, factors), product) in rows.row(row).chunks(S::LANES).zip(factors).zip(products) {
                simd.store(simd.mul(simd.load_some(x), simd.load(factors)), product);
            }
            let places = &mut rounded.words[row * rounded.stride..][..rounded.stride];
            let product = &rounded.multiplied[..rows.inputs];
            (rounded.scales[row], rounded.minima[row]) = round_to_bytes(simd, product, places);
        }
    }
}

/// Rounds a row to bytes. Returns the number that 1 stands for, and the number that 0 stands for.
#[inline(always)]
fn round_to_bytes<S: Simd>(simd: S, x: &[f32], to: &mut [Word]) -> (f32, f32) {
    let (least, most) = if x.is_empty() { (0.0, 0.0) } else { range(simd, x) };
    let extent = most - least;
    let inverse = if extent > 0.0 { 255.0 / extent } else { 0.0 };
    // x * inverse + offset is between 0 and 255.
    let (inverse, offset) = (simd.splat(inverse), simd.splat(-least * inverse));
    for (part, place) in x.chunks(S::LANES).zip(to.chunks_exact_mut(S::LANES / 4)) {
        simd.store_bytes(simd.mul_add(simd.load_some(part), inverse, offset), place);
    }
    // What follows the row is multiplied by weights of zero.
    let scale = extent * (1.0 / 255.0);
    (scale, least + f32::from(S::BYTE_OFFSET) * scale)
}

/// The least and the largest number of a row. They are infinite if all numbers are NaN.
#[inline(always)]
fn range<S: Simd>(simd: S, x: &[f32]) -> (f32, f32) {
    let mut least = [simd.splat(f32::INFINITY); 2];
    let mut most = [simd.splat(f32::NEG_INFINITY); 2];
    let mut pairs = x.chunks_exact(2 * S::LANES);
    for pair in &mut pairs {
        for half in 0..2 {
            let v = simd.load(&pair[half * S::LANES..]);
            least[half] = simd.min(v, least[half]);
            most[half] = simd.max(v, most[half]);
        }
    }
    let least = simd.min(least[0], least[1]);
    let most = simd.max(most[0], most[1]);
    let least = -simd.largest(simd.sub(simd.splat(0.0), least));
    pairs
        .remainder()
        .iter()
        .fold((least, simd.largest(most)), |(least, most), x| (least.min(*x), most.max(*x)))
}

#[cfg(target_arch = "x86_64")]
struct ToTerms<'a>(Rows<'a>, &'a mut RoundedRows);

#[cfg(target_arch = "x86_64")]
impl Kernel for ToTerms<'_> {
    type Output = ();
    const MULTIPLIES: Factors = Factors::Bf16;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        use crate::simd::amx::STEPS;
        let ToTerms(rows, rounded) = self;
        assert_eq!(S::LANES, STEPS, "a vector has the steps of a tile");
        for row in 0..rows.rows {
            let mut places =
                rounded.words[row * rounded.stride..][..rounded.stride].chunks_exact_mut(3 * STEPS);
            for (part, place) in rows.row(row).chunks(2 * S::LANES).zip(&mut places) {
                let (mut first, mut second) = simd.load_two(part);
                for term in 0..3 {
                    let (upper_first, upper_second) = (simd.upper_half(first), simd.upper_half(second));
                    simd.store_words(
                        simd.round_to_bf16(upper_first, upper_second),
                        &mut place[term * STEPS..],
                    );
                    first = simd.sub(first, upper_first);
                    second = simd.sub(second, upper_second);
                }
            }
            clear(places);
        }
    }
}
