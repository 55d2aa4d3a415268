//! Bindings to rocBLAS ([`Rocblas`]), loaded at run time: a build never needs ROCm, and a machine without it gets an error
//! value.
//!
//! The declarations in `bindings.rs` are those of rocBLAS 4.4 (ROCm 6.4); the functions in the table have had the same
//! signature from ROCm 5.7 to 7.
//!
//! This crate holds addresses and types, nothing that checks how they are used: each call is `unsafe`, and what must
//! hold is what rocBLAS's documentation says.
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

/// Where rocBLAS is found.
pub const ROCBLAS: Candidates =
    Candidates { library: "rocblas", versions: &["5", "4", "3"], windows: &["rocblas.dll"] };

hip_runtime_sys::library! {
    /// rocBLAS's functions. Loading it loads HIP's runtime too.
    pub struct Rocblas(Functions) from ROCBLAS;
}
