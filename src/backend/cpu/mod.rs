//! The CPU evaluator: fp32 and bf16.

mod kernels;
mod simd;
