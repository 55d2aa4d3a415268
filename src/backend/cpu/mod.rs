//! The CPU evaluator, in fp32 or bf16, for every kind of network.
//!
//! No library is linked: the kernels are ours, written once over a small vector trait and compiled for
//! portable Rust, AVX2, AVX-512 and AVX-512 with BF16; the best that the processor has is chosen at run time.
//! On one core the matrix products run at 90 % of what the processor can do, so there is little left to win
//! but fewer operations.
//!
//! | module | what it holds |
//! |---|---|
//! | [`backend`] | requests to planes, logits to priors: the [`crate::backend::Backend`] |
//! | [`pool`] | threads that share a batch |
//! | [`forward`] | the forward pass, step by step, with shapes |
//! | [`tower`], [`encoder`], [`heads`] | its stages |
//! | [`mod@reference`] | the same network in plain loops: the tests' oracle |
//! | [`network`] | a network packed for this processor |
//! | [`layers`] | how each layer is packed: the store that [`crate::net::prepare`] fills |
//! | [`scratch`] | memory for intermediate results and outputs |
//! | [`steps`] | one step of the pass: a dense layer, a LayerNorm |
//! | [`kernels`] | the arithmetic |
//! | [`simd`] | the instructions; the only `unsafe` here |
//!
//! The hot path of a batch: [`CpuBackend`]'s ticket, [`forward`], [`kernels::matrix`], [`simd::tile`].
//!
//! Not here: reading a network ([`crate::net`]), caching, splitting of batches larger than the maximum.
#![allow(rustdoc::private_intra_doc_links, reason = "the map above is for readers of the source")]

mod backend;
mod encoder;
mod forward;
mod heads;
mod kernels;
mod layers;
mod network;
mod pool;
pub mod reference;
mod scratch;
mod simd;
mod steps;
mod tower;

pub use backend::{CpuBackend, CpuOptions};
pub use network::{CpuNetwork, InstructionSet, Precision, RawEvaluation};
