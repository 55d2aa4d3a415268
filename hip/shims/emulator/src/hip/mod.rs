//! HIP's C interface.
//!
//! | module | what |
//! |---|---|
//! | [`for_libraries`] | the functions that only AMD's own rocBLAS and hipBLASLt call |
//! | [`kernel`], [`arguments`] | modules, their kernels, launches; a launch's argument segment |
//! | [`graph`] | stream capture and graphs |
//! | [`memory`], [`transfer`] | allocations; copies and fills |
//! | [`stream`] | streams, events, host functions |
//! | [`device`] | a thread's device, and the devices' properties |
//! | [`call`] | the macros that define functions of the interface |
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

pub(crate) use device::{current_card, current_device};
pub(crate) use stream::stream_of;
