//! Bindings to rocBLAS ([`LIBRARY`]), loaded at run time, so that a build never needs ROCm.
//!
//! This crate is the place of the bindings; the function table arrives with the ROCm evaluator.

/// The shared library's name without prefix and suffix, as the dynamic linker knows it.
pub const LIBRARY: &str = "rocblas";
