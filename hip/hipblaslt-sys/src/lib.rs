//! Bindings to hipBLASLt ([`LIBRARY`]), loaded at run time, so that a build never needs ROCm.
//!
//! No backend uses it: so far it holds the name of the library and no function.

/// The shared library's name without prefix and suffix, as the dynamic linker knows it.
pub const LIBRARY: &str = "hipblaslt";
