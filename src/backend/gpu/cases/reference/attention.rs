//! Attention over the 64 squares of a board.

use super::rows::softmax;
use crate::network::layers::SQUARES;

/// The layout of queries, keys, values and outputs, as `AttentionArguments` in kernels.h describes it.
#[derive(Clone, Copy)]
pub(crate) struct Layout {
    pub(crate) positions: usize,
    pub(crate) heads: usize,
    pub(crate) depth: usize,
    pub(crate) stride: usize,
    pub(crate) key_offset: usize,
    pub(crate) value_offset: usize,
    pub(crate) output_stride: usize,
}

/// Scores are limited to fp16's range, so that no overflow of a GEMM becomes a NaN.
const LARGEST_SCORE: f64 = 65504.0;

/// `softmax(clamp(scale * Q K^T + logits)) V`. Elements between the rows of the output are not a number.
pub(crate) fn attention(qkv: &[f64], logits: Option<&[f64]>, layout: Layout, scale: f64) -> Vec<f64> {
    let Layout { positions, heads, depth, stride, key_offset, value_offset, output_stride } = layout;
    let mut output = vec![f64::NAN; positions * SQUARES * output_stride];
    for position in 0..positions {
        for head in 0..heads {
            let row = |square: usize, offset: usize| {
                &qkv[(SQUARES * position + square) * stride + head * depth + offset..][..depth]
            };
            for query in 0..SQUARES {
                let score = |key: usize| {
                    let dot: f64 = row(query, 0).iter().zip(row(key, key_offset)).map(|(q, k)| q * k).sum();
                    let place = ((position * heads + head) * SQUARES + query) * SQUARES + key;
                    let score = scale * dot + logits.map_or(0.0, |logits| logits[place]);
                    score.clamp(-LARGEST_SCORE, LARGEST_SCORE)
                };
                let weights = softmax(&(0..SQUARES).map(score).collect::<Vec<_>>(), 1.0);
                let start = (SQUARES * position + query) * output_stride + head * depth;
                for (column, output) in output[start..start + depth].iter_mut().enumerate() {
                    *output = (0..SQUARES).map(|key| weights[key] * row(key, value_offset)[column]).sum();
                }
            }
        }
    }
    output
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: Layout = Layout {
        positions: 2,
        heads: 2,
        depth: 1,
        stride: 8,
        key_offset: 2,
        value_offset: 4,
        output_stride: 3,
    };

    #[test]
    fn equal_scores_average_the_values() {
        let mut qkv = vec![0.0; 2 * 64 * 8];
        // The values of the second position's second head are the numbers of the squares.
        (0..64).for_each(|square| qkv[(64 + square) * 8 + 5] = square as f64);
        let output = attention(&qkv, None, LAYOUT, 1.0);
        assert!((output[(64 + 7) * 3 + 1] - 31.5).abs() < 1e-9);
        assert_eq!(output[(64 + 7) * 3], 0.0);
        assert!(output[(64 + 7) * 3 + 2].is_nan());
    }

    #[test]
    fn scores_and_logits_choose_the_value() {
        let mut qkv = vec![0.0; 2 * 64 * 8];
        (0..64).for_each(|square| qkv[square * 8 + 4] = square as f64);
        // Query 3 of the first head likes key 9, and the logits make query 5 like key 11.
        (qkv[3 * 8], qkv[9 * 8 + 2]) = (10.0, 10.0);
        let mut logits = vec![0.0; 2 * 2 * 64 * 64];
        logits[5 * 64 + 11] = 1000.0;
        let output = attention(&qkv, Some(&logits), LAYOUT, 2.0);
        assert!((output[3 * 3] - 9.0).abs() < 1e-9 && (output[5 * 3] - 11.0).abs() < 1e-9);
    }
}
