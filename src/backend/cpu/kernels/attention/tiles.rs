//! Attention in the tile registers of AMX. The factors of the two products are rounded to bf16; sums and the softmax are
//! fp32.
//!
//! Both products read one factor by rows of pairs and the other by panels of pairs ([`crate::simd::amx`]):
//!
//! ```text
//! S^T = K Q^T      A: K    [64 keys][pairs of depth]      B: Q^T  [2 panels][pairs of depth][32 queries]
//! O^T = V^T E      A: V^T  [depth][pairs of keys]         B: E    [2 panels][pairs of keys][32 queries]
//! ```

use super::operands::{Attention, TileScratch};
use super::vectors::transpose;
use crate::kernels::SQUARES;
use crate::kernels::elementary::short_exp;
use crate::kernels::matrix::round_row;
use crate::simd::amx::{Amx, Block, BlockFactors, COLUMNS, ROWS, STEPS};
use crate::simd::{Factors, Kernel, Simd, Word};
use zerocopy::{FromBytes, IntoBytes};

/// The number of pairs of keys.
const KEY_PAIRS: usize = SQUARES / 2;

/// [`Attention`] with products in tile registers.
pub(super) struct TileAttention<'a> {
    pub attention: Attention<'a>,
    pub amx: Amx,
}

impl Kernel for TileAttention<'_> {
    type Output = ();
    const MULTIPLIES: Factors = Factors::Bf16;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        assert_eq!(S::LANES, STEPS, "a vector has the steps of a tile");
        let TileAttention { mut attention, amx } = self;
        let Attention { qkv, stride, keys_at, values_at, heads, depth, .. } = attention;
        let mut scratch = std::mem::take(&mut attention.scratch.tiles);
        let mut own_scores = std::mem::take(&mut attention.scratch.scores);
        own_scores.grow_to(SQUARES * SQUARES);
        // The steps of the first product and the columns of V are rounded up to whole tiles.
        let steps = depth.div_ceil(2).next_multiple_of(STEPS);
        let columns = depth.next_multiple_of(16);
        scratch.grow(steps, columns);
        let tiles = amx.tiles();
        for head in 0..heads {
            let column = head * depth;
            let (scores, accumulate) = match attention.logits.as_deref_mut() {
                Some(logits) => (&mut logits[head * SQUARES * SQUARES..][..SQUARES * SQUARES], true),
                None => (&mut own_scores[..], false),
            };
            scratch.round_keys_and_queries(
                simd,
                (&qkv[keys_at + column..], &qkv[column..]),
                stride,
                depth,
                steps,
            );
            for (key, query) in [(0, 0), (0, COLUMNS), (ROWS, 0), (ROWS, COLUMNS)] {
                let factors = BlockFactors {
                    a: &scratch.keys[key * steps..],
                    a_stride: steps,
                    panel: &words(&scratch.query_panels)[query * steps..],
                    steps,
                    rows: ROWS,
                };
                let c = &mut scores[key * SQUARES + query..];
                tiles.multiply_bf16(factors, Block { c, stride: SQUARES, accumulate });
            }
            scratch.round_values(simd, &qkv[values_at + column..], stride, depth, columns);
            let mut reciprocals = [0.0; SQUARES];
            scratch.exponentials(simd, scores, &mut reciprocals);
            for query in (0..SQUARES).step_by(COLUMNS) {
                for first in (0..depth).step_by(ROWS) {
                    let rows = ROWS.min(depth - first);
                    let factors = BlockFactors {
                        a: &words(&scratch.value_columns)[first * KEY_PAIRS..],
                        a_stride: KEY_PAIRS,
                        panel: &scratch.weights[query * KEY_PAIRS..],
                        steps: KEY_PAIRS,
                        rows,
                    };
                    let c = &mut scratch.output[..];
                    tiles.multiply_bf16(factors, Block { c, stride: COLUMNS, accumulate: false });
                    multiply_columns(simd, &mut c[..rows * COLUMNS], &reciprocals[query..][..COLUMNS]);
                    let width = heads * depth;
                    let to = &mut attention.output[query * width + column + first..];
                    transpose(simd, &scratch.output, COLUMNS, (rows, COLUMNS), to, width);
                }
            }
        }
        attention.scratch.scores = own_scores;
        attention.scratch.tiles = scratch;
    }
}

/// The bits of fp32 numbers.
#[inline(always)]
fn words(numbers: &[f32]) -> &[Word] {
    // Both types have the same size and alignment, so the conversion succeeds.
    <[Word]>::ref_from_bytes(numbers.as_bytes()).unwrap_or_default()
}

/// The bits of fp32 numbers, to write.
#[inline(always)]
fn words_mut(numbers: &mut [f32]) -> &mut [Word] {
    <[Word]>::mut_from_bytes(numbers.as_mut_bytes()).unwrap_or_default()
}

/// Multiplies each column of a block, `[rows][32]`, by its factor.
#[inline(always)]
fn multiply_columns<S: Simd>(simd: S, block: &mut [f32], factors: &[f32]) {
    for half in (0..COLUMNS).step_by(S::LANES) {
        let factor = simd.load(&factors[half..]);
        for row in block.chunks_exact_mut(COLUMNS) {
            let place = &mut row[half..];
            simd.store(simd.mul(simd.load(place), factor), place);
        }
    }
}

impl TileScratch {
    /// Makes room for a head. What lies beyond the head's columns is zero or left from another head; it is multiplied
    /// with zeros, or its results are not read.
    fn grow(&mut self, steps: usize, columns: usize) {
        self.keys.grow_to(SQUARES * steps);
        self.queries.grow_to(SQUARES * steps);
        self.query_panels.grow_to(SQUARES * steps);
        self.values.grow_to(KEY_PAIRS * columns);
        self.value_columns.grow_to(columns.next_multiple_of(ROWS) * KEY_PAIRS);
        self.weights.grow_to(SQUARES * KEY_PAIRS);
        self.output.grow_to(ROWS * COLUMNS);
    }

    /// Rounds a head's keys and queries, and transposes the queries into panels.
    #[inline(always)]
    fn round_keys_and_queries<S: Simd>(
        &mut self,
        simd: S,
        (keys, queries): (&[f32], &[f32]),
        stride: usize,
        depth: usize,
        steps: usize,
    ) {
        for square in 0..SQUARES {
            round_row(simd, &keys[square * stride..][..depth], &mut self.keys[square * steps..][..steps]);
            let to = &mut self.queries[square * steps..][..steps];
            round_row(simd, &queries[square * stride..][..depth], words_mut(to));
        }
        for query in (0..SQUARES).step_by(COLUMNS) {
            let to = &mut self.query_panels[query * steps..];
            transpose(simd, &self.queries[query * steps..], steps, (COLUMNS, steps), to, COLUMNS);
        }
    }

    /// Rounds a head's values to pairs of keys, and transposes them.
    #[inline(always)]
    fn round_values<S: Simd>(
        &mut self,
        simd: S,
        values: &[f32],
        stride: usize,
        depth: usize,
        columns: usize,
    ) {
        for pair in 0..KEY_PAIRS {
            let first = &values[2 * pair * stride..][..depth];
            let second = &values[(2 * pair + 1) * stride..][..depth];
            let to = words_mut(&mut self.values[pair * columns..][..columns]);
            for at in (0..depth).step_by(S::LANES) {
                let words = simd.bf16_pairs(simd.load_some(&first[at..]), simd.load_some(&second[at..]));
                simd.store_words(words, &mut to[at..]);
            }
        }
        transpose(simd, &self.values, columns, (KEY_PAIRS, columns), &mut self.value_columns, KEY_PAIRS);
    }

    /// Stores `exp(score - maximum)` for each score, where the maximum is over all keys of the query, rounded to pairs of
    /// keys. Writes the reciprocal of the query's sum of these exponentials to `reciprocals[query]`.
    #[inline(always)]
    fn exponentials<S: Simd>(&mut self, simd: S, scores: &[f32], reciprocals: &mut [f32; SQUARES]) {
        for panel in (0..SQUARES).step_by(COLUMNS) {
            let mut largest = [simd.splat(f32::NEG_INFINITY); 2];
            for row in scores.chunks_exact(SQUARES) {
                largest[0] = simd.max(largest[0], simd.load(&row[panel..]));
                largest[1] = simd.max(largest[1], simd.load(&row[panel + S::LANES..]));
            }
            let mut sums = [simd.splat(0.0); 2];
            let words = &mut self.weights[panel * KEY_PAIRS..][..KEY_PAIRS * COLUMNS];
            for (rows, words) in scores.chunks_exact(2 * SQUARES).zip(words.chunks_exact_mut(COLUMNS)) {
                for half in 0..2 {
                    let query = panel + half * S::LANES;
                    let first = short_exp(simd, simd.sub(simd.load(&rows[query..]), largest[half]));
                    let second =
                        short_exp(simd, simd.sub(simd.load(&rows[SQUARES + query..]), largest[half]));
                    sums[half] = simd.add(sums[half], simd.add(first, second));
                    simd.store_words(simd.bf16_pairs(first, second), &mut words[half * S::LANES..]);
                }
            }
            for half in 0..2 {
                let reciprocal = simd.div(simd.splat(1.0), sums[half]);
                simd.store(reciprocal, &mut reciprocals[panel + half * S::LANES..]);
            }
        }
    }
}
