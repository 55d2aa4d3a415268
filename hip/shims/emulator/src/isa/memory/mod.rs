//! The instructions that read and write memory.
//!
//! | module | what |
//! |---|---|
//! | [`buffer`] | accesses through a descriptor with a range |
//! | [`global`] | global and flat memory, atomics among them |
//! | [`lds`] | a workgroup's shared memory, and exchanges between lanes |
//! | [`scalar`] | loads into scalar registers |
//! | [`access`] | one lane's access: the range check and the transfer |
//! | [`atomic`] | the operations of atomic instructions |

mod access;
mod atomic;
pub(super) mod buffer;
pub(super) mod global;
pub(super) mod lds;
pub(super) mod scalar;
