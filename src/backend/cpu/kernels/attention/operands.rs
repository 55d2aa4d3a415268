//! The operands of attention, and its working memory.

use crate::simd::AlignedVec;
#[cfg(target_arch = "x86_64")]
use crate::simd::Word;

/// Computes attention for all heads of one position: `output = softmax(Q K^T + logits) V`.
pub(crate) struct Attention<'a> {
    /// 64 rows whose starts are `stride` elements apart. A row has the queries of all heads (`[head][depth]`)
    /// from column 0 on, the keys from column `keys_at` on, and the values from column `values_at` on.
    pub qkv: &'a [f32],
    pub stride: usize,
    pub keys_at: usize,
    pub values_at: usize,
    pub heads: usize,
    /// The number of columns of one head.
    pub depth: usize,
    /// `[head][64 keys][64 queries]`: numbers that are added to `Q K^T`. The kernel overwrites them.
    pub logits: Option<&'a mut [f32]>,
    /// 64 rows of `heads * depth` numbers.
    pub output: &'a mut [f32],
    pub scratch: &'a mut AttentionScratch,
}

/// Working memory of the kernels in this module. Reusing it avoids allocations.
#[derive(Default, Debug)]
pub(crate) struct AttentionScratch {
    /// Q^T as panels: `[64 / panel][depth][panel]`.
    pub(super) queries: AlignedVec<f32>,
    /// One panel of O^T: `[depth][panel]`.
    pub(super) weighted_values: AlignedVec<f32>,
    /// S^T and then E, if the caller gives no logits: `[64 keys][64 queries]`.
    pub(super) scores: AlignedVec<f32>,
    #[cfg(target_arch = "x86_64")]
    pub(super) tiles: TileScratch,
}

/// Working memory of [`super::tiles`]. Words that are transposed are kept in fp32 numbers with their bits.
#[cfg(target_arch = "x86_64")]
#[derive(Default, Debug)]
pub(super) struct TileScratch {
    /// K: `[64][steps]`.
    pub(super) keys: AlignedVec<Word>,
    /// Q: `[64][steps]`.
    pub(super) queries: AlignedVec<f32>,
    /// Q^T: `[2 panels][steps][32 queries]`.
    pub(super) query_panels: AlignedVec<f32>,
    /// V: `[32 pairs of keys][columns]`.
    pub(super) values: AlignedVec<f32>,
    /// V^T: `[columns][32 pairs of keys]`.
    pub(super) value_columns: AlignedVec<f32>,
    /// E: `[2 panels][32 pairs of keys][32 queries]`.
    pub(super) weights: AlignedVec<Word>,
    /// A block of O^T: `[32 of depth][32 queries]`.
    pub(super) output: AlignedVec<f32>,
}
