//! HIP's C interface. The compiler compares each function with its signature in `hip-runtime-sys`.
//!
//! Flags, modes and attributes of functions have the same numbers in HIP and CUDA, unless they are translated here.
//!
//! | module | what |
//! |---|---|
//! | [`kernel`] | modules, kernels, launches |
//! | [`graph`] | stream capture and graphs |
//! | [`stream`] | streams, events, host functions |
//! | [`memory`] | allocations, copies, fills |
//! | [`device`] | a thread's device, and the devices' properties |
//! | [`overlap`] | programmatic dependent launch |
//! | [`call`] | the macro that defines functions of the interface |
//! | [`error`] | the last error, and the errors' names |

mod call;
pub mod device;
pub mod error;
pub mod graph;
pub mod kernel;
pub mod memory;
mod overlap;
pub mod stream;
