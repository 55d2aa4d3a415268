//! Bindings to rocBLAS ([`Rocblas`]), and to those of its functions that are still in test ([`RocblasBeta`]).
//!
//! The library is loaded at run time: a build never needs ROCm, and on a machine without it loading returns an error.
//!
//! The declarations in `bindings.rs` are those of rocBLAS 4.4 (ROCm 6.4). The functions in the table have had the same
//! signatures from ROCm 5.7 to 7.
//!
//! This crate has only function addresses and types, and does not check how they are used. Each call is `unsafe`: the
//! caller must meet the conditions of rocBLAS's documentation.
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

/// The functions that rocBLAS calls beta features.
#[allow(
    missing_docs,
    non_snake_case,
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "generated from C headers"
)]
pub mod beta_bindings;

pub use bindings::*;
use hip_runtime_sys::loader::Candidates;
use std::ffi::CStr;

/// The names of rocBLAS's library.
pub const ROCBLAS: Candidates = Candidates {
    library: "rocblas",
    has_link: true,
    versions: &["6", "5", "4", "3"],
    windows: &["rocblas.dll"],
};

hip_runtime_sys::library! {
    /// The functions of rocBLAS. Loading it loads HIP's runtime, too.
    pub struct Rocblas(Functions) from ROCBLAS;
}

hip_runtime_sys::library! {
    /// The functions of rocBLAS that are beta features. A library may lack them.
    pub struct RocblasBeta(beta_bindings::Functions) from ROCBLAS;
}

/// The name of a status, as `rocblas_status_to_string` returns it, for shims of rocBLAS.
#[allow(non_upper_case_globals, reason = "rocBLAS's names")]
pub const fn status_name(status: rocblas_status) -> &'static CStr {
    match status {
        rocblas_status_success => c"rocblas_status_success",
        rocblas_status_invalid_handle => c"rocblas_status_invalid_handle",
        rocblas_status_not_implemented => c"rocblas_status_not_implemented",
        rocblas_status_invalid_pointer => c"rocblas_status_invalid_pointer",
        rocblas_status_invalid_size => c"rocblas_status_invalid_size",
        rocblas_status_memory_error => c"rocblas_status_memory_error",
        rocblas_status_internal_error => c"rocblas_status_internal_error",
        rocblas_status_invalid_value => c"rocblas_status_invalid_value",
        rocblas_status_arch_mismatch => c"rocblas_status_arch_mismatch",
        _ => c"<undefined rocblas_status value>",
    }
}
