//! What the kernels must compute, as plain loops in fp64 over the contract in `hip/kernels/kernels.h`.
//!
//! | module | what it computes |
//! |---|---|
//! | [`boards`] | planes, the transforms of a convolution, squeeze-and-excitation |
//! | [`heads`] | policies, and the last layers of the scalar heads |
//! | [`attention`] | attention |
//! | [`gemms`] | matrix products and what follows them |
//! | [`rows`] | elementwise functions, LayerNorm, softmax |

pub(crate) mod attention;
pub(crate) mod boards;
pub(crate) mod gemms;
pub(crate) mod heads;
pub(crate) mod rows;
