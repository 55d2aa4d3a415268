//! The rows of a convolution in bytes: the neighbourhood of each square of a board.
//!
//! A row holds the three squares of a neighbourhood's middle rank. The other two ranks are the rows of the squares below
//! and above, which are eight rows before and behind. So each input is stored three times instead of nine times, and the
//! product takes each row of factors from three places. Bytes beyond the edges of the board stand for zero.
//!
//! ```text
//! x [64][channels] -> rows [10 ranks][8 files][3 files][segment]
//! ```

use crate::kernels::SQUARES;
use crate::kernels::matrix::BoardRows;
use crate::simd::{Kernel, Simd, Word};

/// A board whose numbers are nearer to each other is zero. The inverse of a smaller number could be infinite.
const SMALLEST_EXTENT: f32 = 1e-30;

/// Rounds a board to bytes, and stores the neighbourhoods of its squares.
pub(super) struct Neighbourhoods<'a> {
    /// `[64][channels]`
    pub(super) x: &'a [f32],
    pub(super) channels: usize,
    /// `[channels]`, padded to whole vectors: the inputs are multiplied by these numbers first. Empty if they are all 1.
    pub(super) factors: &'a [f32],
    /// The words of a square. Each vector of channels takes `LANES` bytes.
    pub(super) segment: usize,
    pub(super) rows: BoardRows<'a>,
}

impl Kernel for Neighbourhoods<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        if self.factors.is_empty() {
            self.round::<S, false>(simd);
        } else {
            self.round::<S, true>(simd);
        }
    }
}

/// The least and the largest numbers and the sums of some vectors. All begin with zero.
struct Limits<S: Simd> {
    least: [S::Vector; 2],
    most: [S::Vector; 2],
    total: [S::Vector; 2],
}

impl Neighbourhoods<'_> {
    #[inline(always)]
    fn round<S: Simd, const FACTORS: bool>(mut self, simd: S) {
        let whole = self.channels / S::LANES * S::LANES;
        let zero = simd.splat(0.0);
        let mut limits = Limits::<S> { least: [zero; 2], most: [zero; 2], total: [zero; 2] };
        for channel in (0..whole).step_by(S::LANES) {
            self.add_limits::<S, FACTORS, true>(simd, channel, &mut limits);
        }
        if whole < self.channels {
            self.add_limits::<S, FACTORS, false>(simd, whole, &mut limits);
        }
        let (least, most) = bounds(simd, &limits);
        let extent = most - least;
        // Zero must be a byte, because it is what is beyond the edges. Without negative inputs it is the byte 0. Otherwise
        // it may be rounded by a half, for which the range is one byte narrower.
        let inverse = match (extent > SMALLEST_EXTENT, least < 0.0) {
            (true, false) => 255.0 / extent,
            (true, true) => 254.0 / extent,
            (false, _) => 0.0,
        };
        let zero = (-least * inverse).round_ties_even();
        self.fill_edges(Word::from_ne_bytes([(zero as u8).wrapping_sub(S::BYTE_OFFSET); 4]));
        let (inverse_vector, offset) = (simd.splat(inverse), simd.splat(zero));
        for channel in (0..whole).step_by(S::LANES) {
            self.store::<S, FACTORS, true>(simd, channel, inverse_vector, offset);
        }
        if whole < self.channels {
            self.store::<S, FACTORS, false>(simd, whole, inverse_vector, offset);
        }
        // Numbers that are not finite make the scale NaN, and with it the results.
        let scale = if inverse > 0.0 { 1.0 / inverse } else { extent };
        self.rows.scales.fill(scale);
        self.rows.minima.fill(scale * (f32::from(S::BYTE_OFFSET) - zero));
    }

    /// Loads a vector of channels of a square, a whole one if `WHOLE`, and multiplies it by `factors` if `FACTORS`.
    #[inline(always)]
    fn load<S: Simd, const FACTORS: bool, const WHOLE: bool>(
        &self,
        simd: S,
        square: usize,
        channel: usize,
        factors: S::Vector,
    ) -> S::Vector {
        let from = &self.x[square * self.channels + channel..];
        let v = if WHOLE { simd.load(from) } else { simd.load_some(&from[..self.channels - channel]) };
        if FACTORS { simd.mul(v, factors) } else { v }
    }

    /// The factors of a vector of channels.
    #[inline(always)]
    fn factors<S: Simd, const FACTORS: bool>(&self, simd: S, channel: usize) -> S::Vector {
        if FACTORS { simd.load(&self.factors[channel..]) } else { simd.splat(1.0) }
    }

    /// Adds a vector of channels of all squares to the limits.
    #[inline(always)]
    fn add_limits<S: Simd, const FACTORS: bool, const WHOLE: bool>(
        &self,
        simd: S,
        channel: usize,
        limits: &mut Limits<S>,
    ) {
        let factors = self.factors::<S, FACTORS>(simd, channel);
        let Limits { mut least, mut most, mut total } = *limits;
        for square in (0..SQUARES).step_by(2) {
            for which in 0..2 {
                let v = self.load::<S, FACTORS, WHOLE>(simd, square + which, channel, factors);
                least[which] = simd.min(v, least[which]);
                most[which] = simd.max(v, most[which]);
                total[which] = simd.add(v, total[which]);
            }
        }
        *limits = Limits { least, most, total };
    }

    /// Rounds a vector of channels of all squares, and stores it in the rows of the square and of its neighbours.
    #[inline(always)]
    fn store<S: Simd, const FACTORS: bool, const WHOLE: bool>(
        &mut self,
        simd: S,
        channel: usize,
        inverse: S::Vector,
        offset: S::Vector,
    ) {
        let factors = self.factors::<S, FACTORS>(simd, channel);
        let (segment, stride) = (self.segment, self.rows.stride);
        for rank in 0..8 {
            for file in 0..8 {
                let v = self.load::<S, FACTORS, WHOLE>(simd, rank * 8 + file, channel, factors);
                let v = simd.mul_add(v, inverse, offset);
                let row = ((rank + 1) * 8 + file) * stride + channel / 4;
                simd.store_bytes(v, &mut self.rows.words[row + segment..]);
                if file > 0 {
                    simd.store_bytes(v, &mut self.rows.words[row - stride + 2 * segment..]);
                }
                if file < 7 {
                    simd.store_bytes(v, &mut self.rows.words[row + stride..]);
                }
            }
        }
    }

    /// Fills what is beyond the edges of the board.
    #[inline(always)]
    fn fill_edges(&mut self, word: Word) {
        let (segment, stride) = (self.segment, self.rows.stride);
        let (first, rest) = self.rows.words.split_at_mut(8 * stride);
        first.fill(word);
        rest[8 * 8 * stride..9 * 8 * stride].fill(word);
        for rank in rest.chunks_exact_mut(8 * stride).take(8) {
            rank[..segment].fill(word);
            rank[7 * stride + 2 * segment..][..segment].fill(word);
        }
    }
}

/// The least and the largest number of a board and zero. Both are NaN unless all numbers are finite.
#[inline(always)]
fn bounds<S: Simd>(simd: S, limits: &Limits<S>) -> (f32, f32) {
    let Limits { least, most, total } = limits;
    if !simd.sum(simd.add(total[0], total[1])).is_finite() {
        return (f32::NAN, f32::NAN);
    }
    let least = simd.sub(simd.splat(0.0), simd.min(least[0], least[1]));
    (-simd.largest(least), simd.largest(simd.max(most[0], most[1])))
}
