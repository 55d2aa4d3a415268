//! The CPU evaluator, in fp32 or bf16, for every kind of network.
//!
//! This module links no library. Each kernel is written once over a small vector trait, and is compiled for
//! portable Rust, AVX2, AVX-512, NEON and their extensions. The best version for the processor is chosen at run
//! time. On one core the matrix products reach 90 % of the processor's peak, so only fewer operations could
//! make them much faster.
//!
//! | module | what it holds |
//! |---|---|
//! | [`choice`] | the fastest number format that is accurate enough for a network |
//! | [`backend`] | the [`rukh_backend::Backend`]: turns requests into planes, and logits into priors |
//! | [`profile`], [`ceilings`] | the time of each step; what the processor can do at most |
//! | [`device_rounder`] | rounds the layers of a network for a GPU |
//! | [`kept_rounding`] | keeps for the next start how a network was rounded to 8 bits |
//! | [`calibration`] | packs a network for 8-bit products, by what its layers compute on real positions |
//! | [`pool`] | threads that share a batch |
//! | [`forward`] | the forward pass, step by step, with shapes |
//! | [`tower`], [`encoder`], [`heads`] | its stages |
//! | [`mod@reference`] | the same network in plain loops, with which the tests compare |
//! | [`network`] | a network packed for this processor |
//! | [`layers`] | packs each layer; [`rukh_net::prepare`] passes the layers to it |
//! | [`rounding_file`] | the file that keeps it |
//! | [`rounder`] | rounds the layers to 8 bits |
//! | [`scratch`] | memory for intermediate results and outputs |
//! | [`steps`] | one step of the pass: a dense layer, a LayerNorm |
//! | [`recorder`] | the time that each step takes |
//! | [`kernels`] | the arithmetic |
//! | [`simd`] | the instructions; the only `unsafe` here |
//!
//! The hot path of a batch leads from [`CpuBackend`]'s ticket through [`forward`] and [`kernels::matrix`] to
//! [`simd::tile`].
//!
//! Other modules read networks ([`rukh_net`]), cache evaluations, and split batches larger than the maximum.

mod backend;
mod calibration;
mod ceilings;
mod choice;
mod device_rounder;
mod encoder;
mod forward;
mod heads;
mod kept_rounding;
mod kernels;
mod layers;
mod network;
mod pool;
mod profile;
mod recorder;
pub mod reference;
mod rounder;
mod rounding_file;
mod scratch;
mod simd;
mod steps;
mod tower;

pub use backend::{CpuBackend, CpuOptions};
pub use choice::Choice;
pub use device_rounder::DeviceRounder;
pub use kernels::matrix::Quantised;
pub use network::{CpuNetwork, InstructionSet, Precision, RawEvaluation};
