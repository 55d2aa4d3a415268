//! Attention in vector registers, in fp32.

use super::operands::{Attention, AttentionScratch};
use crate::kernels::SQUARES;
use crate::kernels::elementary::exp;
use crate::kernels::matrix::NO_BIAS;
use crate::simd::tile::{Fp32, Layout, PanelProduct, Start};
use crate::simd::{Kernel, Simd};

/// Computes `scores = K Q^T` or, with `accumulate`, `scores += K Q^T` for one head of one position.
pub(crate) struct QueryKey<'a> {
    /// Q: 64 rows of `depth` numbers whose starts are `stride` elements apart.
    pub queries: &'a [f32],
    /// K, in the same layout.
    pub keys: &'a [f32],
    pub stride: usize,
    pub depth: usize,
    /// `[64 keys][64 queries]`
    pub scores: &'a mut [f32],
    /// Whether to add to `scores` instead of overwriting it.
    pub accumulate: bool,
    pub scratch: &'a mut AttentionScratch,
}

impl Kernel for QueryKey<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let panel_width = 2 * S::LANES;
        self.scratch.queries.grow_to(self.depth * SQUARES);
        transpose_queries(simd, self.queries, self.stride, self.depth, &mut self.scratch.queries);
        for panel in 0..SQUARES / panel_width {
            PanelProduct::<Fp32> {
                a: self.keys,
                layout: Layout::RowMajor { stride: self.stride },
                panel: &self.scratch.queries[panel * self.depth * panel_width..],
                panel_stride: panel_width,
                steps: self.depth,
                c: &mut self.scores[panel * panel_width..],
                c_stride: SQUARES,
                rows: SQUARES,
                width: panel_width,
                start: if self.accumulate { Start::Output } else { Start::Bias(&NO_BIAS) },
                floor: f32::NEG_INFINITY,
            }
            .run(simd);
        }
    }
}

/// Writes Q^T as panels: element `d` of row `query` goes to panel `query / width`, row `d`, column
/// `query % width`.
#[inline(always)]
fn transpose_queries<S: Simd>(simd: S, queries: &[f32], stride: usize, depth: usize, to: &mut [f32]) {
    let width = 2 * S::LANES;
    for query in (0..SQUARES).step_by(width) {
        transpose(simd, &queries[query * stride..], stride, (width, depth), &mut to[query * depth..], width);
    }
}

/// Transposes a matrix of any size: `to[column][row] = from[row][column]`.
#[inline(always)]
pub(super) fn transpose<S: Simd>(
    simd: S,
    from: &[f32],
    from_stride: usize,
    (rows, columns): (usize, usize),
    to: &mut [f32],
    to_stride: usize,
) {
    let whole = |size: usize| size / S::LANES * S::LANES;
    for row in (0..whole(rows)).step_by(S::LANES) {
        for column in (0..whole(columns)).step_by(S::LANES) {
            let from = &from[row * from_stride + column..];
            simd.transpose(from, from_stride, &mut to[column * to_stride + row..], to_stride);
        }
    }
    for row in 0..rows {
        let first = if row < whole(rows) { whole(columns) } else { 0 };
        for column in first..columns {
            to[column * to_stride + row] = from[row * from_stride + column];
        }
    }
}

impl Kernel for Attention<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        let mut own_scores = std::mem::take(&mut self.scratch.scores);
        own_scores.grow_to(SQUARES * SQUARES);
        let mut logits = self.logits.take();
        let accumulate = logits.is_some();
        for head in 0..self.heads {
            let scores = match logits.as_deref_mut() {
                Some(logits) => &mut logits[head * SQUARES * SQUARES..][..SQUARES * SQUARES],
                None => &mut own_scores[..],
            };
            let column = head * self.depth;
            QueryKey {
                queries: &self.qkv[column..],
                keys: &self.qkv[self.keys_at + column..],
                stride: self.stride,
                depth: self.depth,
                scores: &mut *scores,
                accumulate,
                scratch: &mut *self.scratch,
            }
            .run(simd);
            let mut reciprocals = [0.0; SQUARES];
            exponentials(simd, scores, &mut reciprocals);
            self.weigh_values(simd, column, scores, &reciprocals);
        }
        self.scratch.scores = own_scores;
    }
}

/// Replaces each score with `exp(score - maximum)`, where the maximum is over all keys of the query. Writes the
/// reciprocal of the query's sum of these exponentials to `reciprocals[query]`.
#[inline(always)]
fn exponentials<S: Simd>(simd: S, scores: &mut [f32], reciprocals: &mut [f32; SQUARES]) {
    /// How many vectors of queries are processed together: enough to hide the latencies of max and add.
    const GROUP: usize = 4;
    let width = GROUP * S::LANES;
    for first in (0..SQUARES).step_by(width) {
        let mut largest = [simd.splat(f32::NEG_INFINITY); GROUP];
        for row in scores.chunks_exact(SQUARES) {
            for (g, best) in largest.iter_mut().enumerate() {
                *best = simd.max(*best, simd.load(&row[first + g * S::LANES..]));
            }
        }
        let mut sums = [simd.splat(0.0); GROUP];
        for row in scores.chunks_exact_mut(SQUARES) {
            for g in 0..GROUP {
                let place = &mut row[first + g * S::LANES..];
                let e = exp(simd, simd.sub(simd.load(place), largest[g]));
                simd.store(e, place);
                sums[g] = simd.add(sums[g], e);
            }
        }
        for (g, sum) in sums.into_iter().enumerate() {
            let reciprocal = simd.div(simd.splat(1.0), sum);
            simd.store(reciprocal, &mut reciprocals[first + g * S::LANES..]);
        }
    }
}

impl Attention<'_> {
    /// Computes `O^T = (V^T E) reciprocals` and transposes it into the output of the head whose columns start
    /// at `column`.
    #[inline(always)]
    fn weigh_values<S: Simd>(
        &mut self,
        simd: S,
        column: usize,
        scores: &[f32],
        reciprocals: &[f32; SQUARES],
    ) {
        let panel_width = 2 * S::LANES;
        let output_stride = self.heads * self.depth;
        self.scratch.weighted_values.grow_to(self.depth * panel_width);
        let weighted_values = &mut self.scratch.weighted_values[..self.depth * panel_width];
        for query in (0..SQUARES).step_by(panel_width) {
            PanelProduct::<Fp32> {
                a: &self.qkv[self.values_at + column..],
                layout: Layout::StepMajor { stride: self.stride },
                panel: &scores[query..],
                panel_stride: SQUARES,
                steps: SQUARES,
                c: &mut *weighted_values,
                c_stride: panel_width,
                rows: self.depth,
                width: panel_width,
                start: Start::Bias(&NO_BIAS),
                floor: f32::NEG_INFINITY,
            }
            .run(simd);
            for half in (0..panel_width).step_by(S::LANES) {
                let reciprocal = simd.load(&reciprocals[query + half..]);
                for row in weighted_values.chunks_exact_mut(panel_width) {
                    let place = &mut row[half..];
                    simd.store(simd.mul(simd.load(place), reciprocal), place);
                }
            }
            let to = &mut self.output[query * output_stride + column..];
            transpose(simd, weighted_values, panel_width, (self.depth, panel_width), to, output_stride);
        }
    }
}
