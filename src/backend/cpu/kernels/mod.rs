//! The arithmetic of a network. Each operation is written once, generic over [`super::simd::Simd`].
//!
//! | module | what it computes |
//! |---|---|
//! | [`planes`] | the first layers, whose inputs are the bits of the planes |
//! | [`convolution`] | 3x3 convolutions on the 8x8 board |
//! | [`attention`] | softmax(Q K^T + logits) V for all heads of a position |
//! | [`scale`] | the last step of squeeze-and-excitation, and the gates of an embedding |
//! | [`norm`] | LayerNorm with the residual added |
//! | [`matrix`] | dense layers: `y = act(x W^T + b)` with packed weights |
//! | [`elementary`] | exp, tanh and the activation functions; softmax of a row |
//!
//! All matrices are row-major. The layout of activations is always `[position][square][channel]`, so a vector
//! holds neighbouring channels of one square.

pub(crate) mod attention;
pub(crate) mod convolution;
pub(crate) mod elementary;
pub(crate) mod matrix;
pub(crate) mod norm;
pub(crate) mod planes;
pub(crate) mod scale;

pub(crate) const SQUARES: usize = 64;
