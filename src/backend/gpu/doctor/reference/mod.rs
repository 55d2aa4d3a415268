//! What the kernels and the products must compute, as plain loops in fp64 over the contract in `hip/kernels/kernels.h`.
//!
//! | module | what it computes |
//! |---|---|
//! | [`boards`] | planes, the transforms of a convolution, squeeze-and-excitation |
//! | [`heads`] | policies, and the last layers of the scalar heads |
//! | [`attention`] | attention |
//! | [`rows`] | elementwise functions, LayerNorm, softmax |

pub(super) mod attention;
pub(super) mod boards;
pub(super) mod heads;
pub(super) mod rows;
