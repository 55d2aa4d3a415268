//! Bindings to hipBLASLt ([`HipblasLt`]).
//!
//! The library is loaded at run time: a build never needs ROCm, and on a machine without it loading returns an error.
//!
//! The declarations in `bindings.rs` are those of hipBLASLt 1.1 (ROCm 7.1). The functions have had the same signatures
//! since hipBLASLt 0.6 (ROCm 6.0). ROCm 5.7 numbers its data types and compute types differently, so its hipBLASLt must
//! not be used. Some values are newer than the functions: the swish epilogue came with hipBLASLt 1.0 (ROCm 7.0). An
//! older library does not check the epilogue. For one that it does not know it computes the plain GEMM, without bias
//! and activation, and returns success. So ask `hipblasLtGetVersion` before such a value is used.
//!
//! `hipblasLtCreate` ends the process if there is no device, so call `hipGetDeviceCount` first.
//!
//! This crate has only function addresses and types, and does not check how they are used. Each call is `unsafe`: the
//! caller must meet the conditions of hipBLASLt's documentation.
#![allow(unsafe_code, reason = "a table of C functions")]

#[allow(
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "generated from C headers"
)]
mod bindings;

pub use bindings::*;
use hip_runtime_sys::loader::Candidates;

/// The names of hipBLASLt's library.
pub const HIPBLASLT: Candidates = Candidates {
    library: "hipblaslt",
    has_link: true,
    versions: &["1", "0"],
    windows: &["libhipblaslt.dll", "hipblaslt.dll"],
};

hip_runtime_sys::library! {
    /// The functions of hipBLASLt. Loading the library also loads HIP's runtime.
    pub struct HipblasLt(Functions) from HIPBLASLT;
}
