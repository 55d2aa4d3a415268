//! The arithmetic of a network. Each operation is written once, generic over [`super::simd::Simd`].
//!
//! | module | what it computes |
//! |---|---|
//! | [`planes`] | layers whose input is the planes' bits |
//! | [`winograd`] | 3x3 convolutions on the 8x8 board |
//! | [`attention`] | one head: softmax(Q K^T + logits) V |
//! | [`scale`] | squeeze-and-excitation's last step, gates |
//! | [`norm`] | LayerNorm with the residual added |
//! | [`matrix`] | `y = act(x W^T + b)`, weights packed beforehand |
//! | [`elementary`] | exp, tanh and the activation functions; softmax of a row |
//!
//! All matrices are row-major. The layout of activations is always `[position][square][channel]`, so a vector
//! holds neighbouring channels of one square.

pub(crate) mod attention;
pub(crate) mod elementary;
pub(crate) mod matrix;
pub(crate) mod norm;
pub(crate) mod planes;
pub(crate) mod scale;
pub(crate) mod winograd;

pub(crate) const SQUARES: usize = 64;
