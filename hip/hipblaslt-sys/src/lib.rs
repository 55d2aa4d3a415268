//! Bindings to hipBLASLt ([`HipblasLt`]), loaded at run time: a build never needs ROCm, and a machine without it gets an error
//! value.
//!
//! The declarations in `bindings.rs` are those of hipBLASLt 1.1 (ROCm 7.1). The functions have the same signature from
//! ROCm 6.0 on; ROCm 5.7 counted its data types and compute types differently, so that hipBLASLt must not be used
//! there. Some values are newer than the functions (the swish epilogue came with ROCm 7): an older library answers
//! them with a status.
//!
//! `hipblasLtCreate` ends the process where there is no device: ask `hipGetDeviceCount` first.
//!
//! This crate holds addresses and types, nothing that checks how they are used: each call is `unsafe`, and what must
//! hold is what hipBLASLt's documentation says.
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

/// Where hipBLASLt is found.
pub const HIPBLASLT: Candidates = Candidates {
    library: "hipblaslt",
    versions: &["1", "0"],
    windows: &["libhipblaslt.dll", "hipblaslt.dll"],
};

hip_runtime_sys::library! {
    /// hipBLASLt's functions. Loading it loads HIP's runtime too.
    pub struct HipblasLt(Functions) from HIPBLASLT;
}
