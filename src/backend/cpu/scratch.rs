//! Memory of the forward pass: intermediate results and outputs.

use super::kernels::attention::AttentionScratch;
use super::simd::{AlignedVec, Isa};
use super::steps::Steps;

/// A thread's memory for the forward pass. Each buffer grows to the largest size that a step needs.
pub(super) struct Scratch {
    pub(super) steps: Steps,
    /// The residual stream, `[T][channels]`.
    pub(super) stream: AlignedVec<f32>,
    /// The policy head's residual stream.
    pub(super) policy_stream: AlignedVec<f32>,
    /// Holds Q, K and V, the hidden layer of a feed-forward, or the result of a convolution.
    pub(super) wide: AlignedVec<f32>,
    /// Holds the result of attention, or of the first layer of a policy or value head.
    pub(super) narrow: AlignedVec<f32>,
    /// The branch that is added to the residual stream, `[T][channels]`.
    pub(super) branch: AlignedVec<f32>,
    /// Attention logits, `[B][head][key][query]`.
    pub(super) logits: AlignedVec<f32>,
    /// Holds smolgen's generated vectors, `[B * heads][generated]`, or the means and factors of squeeze-and-excitation.
    pub(super) generated: AlignedVec<f32>,
    /// Holds hidden layers of smolgen, squeeze-and-excitation and the scalar heads.
    pub(super) hidden: AlignedVec<f32>,
    pub(super) attention: AttentionScratch,
}

impl Scratch {
    /// Empty buffers for steps on `isa`.
    pub(super) fn new(isa: Isa) -> Scratch {
        Scratch {
            steps: Steps::new(isa),
            stream: AlignedVec::default(),
            policy_stream: AlignedVec::default(),
            wide: AlignedVec::default(),
            narrow: AlignedVec::default(),
            branch: AlignedVec::default(),
            logits: AlignedVec::default(),
            generated: AlignedVec::default(),
            hidden: AlignedVec::default(),
            attention: AttentionScratch::default(),
        }
    }
}

/// The outputs of the network for B positions, before any softmax.
#[derive(Default)]
pub(super) struct Outputs {
    /// `[B][policy width]`: see [`super::network::CpuNetwork::policy_width`].
    pub(super) policy: AlignedVec<f32>,
    /// `[B][3]`: logits of win, draw, loss; or `[B][1]`, before the tanh.
    pub(super) value: AlignedVec<f32>,
    /// `[B]`; zeros without a moves-left head.
    pub(super) moves_left: AlignedVec<f32>,
    /// `[B]`; empty without a head for the value's error.
    pub(super) value_error: AlignedVec<f32>,
}
