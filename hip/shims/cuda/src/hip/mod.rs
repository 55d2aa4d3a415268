//! HIP's C interface, each function checked against the signature of `hip-runtime-sys`.
//!
//! Flags, modes and attributes of functions have the same numbers in HIP and CUDA, unless they are translated here.
//!
//! | module | what |
//! |---|---|
//! | [`kernel`] | modules, their kernels, launches |
//! | [`graph`] | captures, and the graphs that they become |
//! | [`stream`] | streams, events, functions of the host in a stream's order |
//! | [`memory`] | allocations, copies, fills |
//! | [`device`] | devices: which one a thread uses, and their numbers |
//! | [`overlap`] | kernels that begin before the kernel before them has ended |
//! | [`call`] | how a function of the interface is written |
//! | [`error`] | the last error, and the errors' names |

mod call;
pub mod device;
pub mod error;
pub mod graph;
pub mod kernel;
pub mod memory;
mod overlap;
pub mod stream;
