//! Attention over the 64 squares of one position. Heads are computed one after another, so that the data of a
//! head stays in the first-level cache.
//!
//! The logits are stored **transposed**, `[key][query]`. A vector then holds several queries for one key, and
//! the softmax over the keys needs no sum across lanes. The result is computed transposed as well, so that its
//! vectors are full even if a head has few columns. The division of the softmax is applied to the result, which
//! is smaller than the logits.
//!
//! ```text
//! per head:   Q^T                                 [depth][64]           transposed copy of the head's queries
//!             S^T = K Q^T (+ logits)              [64 keys][64 queries]
//!             E = exp(S^T - maximum over keys)    [64 keys][64 queries]
//!             O^T = (V^T E) / sum of E over keys  [depth][64]           transposed into the output
//! ```
//!
//! The factor 1/sqrt(depth) is not applied here; it is multiplied into the query weights when they are packed.
//!
//! | module | what it holds |
//! |---|---|
//! | `tiles` | the computation in the tile registers of AMX |
//! | [`vectors`] | the computation in vector registers |
//! | [`operands`] | the operands and the working memory |

mod operands;
#[cfg(target_arch = "x86_64")]
mod tiles;
mod vectors;

pub(crate) use operands::{Attention, AttentionScratch};
pub(crate) use vectors::QueryKey;

use crate::simd::Isa;

impl Attention<'_> {
    /// Computes attention in fp32 or, if `in_bf16` and the processor multiplies whole matrices of bf16, with factors
    /// that are rounded to bf16.
    pub(crate) fn compute(self, isa: Isa, in_bf16: bool) {
        #[cfg(target_arch = "x86_64")]
        if let Some(amx) = isa.amx()
            && in_bf16
        {
            return isa.run(tiles::TileAttention { attention: self, amx });
        }
        let _ = in_bf16;
        isa.run(self);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::matrix::tests::noise;

    fn check(isa: Isa, in_bf16: bool, heads: usize, depth: usize, with_logits: bool) {
        let what =
            format!("{} {heads} heads of {depth}, logits {with_logits}, in bf16 {in_bf16}", isa.name());
        let width = heads * depth;
        let stride = 3 * width + 2;
        let qkv: Vec<f32> = noise(64 * stride, 7).iter().map(|x| 2.0 * x).collect();
        let logits: Vec<f32> = noise(heads * 4096, 8).iter().map(|x| 5.0 * x).collect();
        let mut given = logits.clone();
        let mut output = vec![f32::NAN; 64 * width];
        let mut scratch = AttentionScratch::default();
        for _ in 0..2 {
            // The second call gets working memory with old contents.
            given.copy_from_slice(&logits);
            Attention {
                qkv: &qkv,
                stride,
                keys_at: width,
                values_at: 2 * width,
                heads,
                depth,
                logits: with_logits.then_some(&mut given[..]),
                output: &mut output,
                scratch: &mut scratch,
            }
            .compute(isa, in_bf16);
        }
        let at = |square: usize, column: usize| f64::from(qkv[square * stride + column]);
        for head in 0..heads {
            for query in 0..64 {
                let score = |key: usize| {
                    let product: f64 = (0..depth)
                        .map(|d| at(query, head * depth + d) * at(key, width + head * depth + d))
                        .sum();
                    let given = f64::from(logits[(head * 64 + key) * 64 + query]);
                    product + if with_logits { given } else { 0.0 }
                };
                let weights: Vec<f64> = (0..64).map(|key| score(key).exp()).collect();
                let total: f64 = weights.iter().sum();
                for d in 0..depth {
                    let right: f64 =
                        (0..64).map(|key| weights[key] / total * at(key, 2 * width + head * depth + d)).sum();
                    let got = f64::from(output[query * width + head * depth + d]);
                    let allowed = if in_bf16 { 0.1 } else { 1e-4 };
                    assert!((got - right).abs() < allowed, "{what}: {got}, expected {right}");
                }
            }
        }
    }

    #[test]
    fn heads_of_any_depth_match_the_definition() {
        for isa in Isa::tested() {
            for depth in [1, 4, 8, 15, 16, 17, 32, 33, 64] {
                for in_bf16 in [false, true] {
                    check(isa, in_bf16, 2, depth, false);
                    check(isa, in_bf16, 2, depth, true);
                }
            }
        }
    }
}
