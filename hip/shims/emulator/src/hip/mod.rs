//! HIP's C interface.
//!
//! | module | what |
//! |---|---|
//! | [`for_libraries`] | the functions that only AMD's own rocBLAS and hipBLASLt call |
//! | [`kernel`], [`arguments`] | modules, their kernels, launches; a launch's argument segment |
//! | [`graph`] | captures, and the graphs that they become |
//! | [`memory`], [`transfer`] | allocations; copies and fills |
//! | [`stream`] | streams, events, functions of the host in a stream's order |
//! | [`device`] | devices: which one a thread uses, and their numbers |
//! | [`call`] | how a function of the interface is written |
//! | [`error`] | the last error, and the errors' names |

mod arguments;
mod call;
pub mod device;
pub mod error;
pub mod for_libraries;
pub mod graph;
pub mod kernel;
pub mod memory;
pub mod stream;
mod transfer;

pub(crate) use device::current_device;
pub(crate) use stream::stream_of;
