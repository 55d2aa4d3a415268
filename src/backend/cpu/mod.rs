//! The CPU evaluator: fp32 and bf16.

mod forward;
mod kernels;
mod layers;
mod network;
pub mod reference;
mod simd;

pub use network::{CpuNetwork, InstructionSet, Precision, RawEvaluation};
