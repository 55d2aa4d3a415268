//! The CPU evaluator: fp32 and bf16.
