//! Who computes a GEMM, and in which layout of its weights.
//!
//! | module | what it does or holds |
//! |---|---|
//! | [`gemms`] | chooses the library, or our own kernel, and the algorithm for each GEMM |
//! | [`layouts`], [`thresholds`] | which layout of its weights a GEMM reads; from how many rows on it reads the preshuffled copy |
//! | [`hipblaslt_steps`] | hipBLASLt's steps |
//! | [`chain`] | several GEMMs, LayerNorms of their results, or a whole convolution in one launch |
//! | [`bytes`] | the launches of a GEMM of 8-bit numbers |
//! | [`measured`] | what is known of measured GEMMs |
//! | [`own`] | our own kernels: tiles, split-K, arguments |
//! | [`avoided`], [`shape_text`] | the GEMMs that ended a process; the text form of a GEMM's shape |

pub(crate) mod avoided;
pub(crate) mod bytes;
pub(crate) mod chain;
pub(crate) mod gemms;
pub(crate) mod hipblaslt_steps;
pub(crate) mod layouts;
pub(crate) mod measured;
pub(crate) mod own;
pub(crate) mod shape_text;
pub(crate) mod thresholds;
