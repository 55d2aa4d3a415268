//! The CPU evaluator: fp32 and bf16.

mod backend;
mod forward;
mod kernels;
mod layers;
mod network;
mod pool;
pub mod reference;
mod simd;

pub use backend::{CpuBackend, CpuOptions};
pub use network::{CpuNetwork, InstructionSet, Precision, RawEvaluation};
