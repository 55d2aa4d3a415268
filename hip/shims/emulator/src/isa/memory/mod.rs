//! The instructions that read and write memory.
//!
//! | module | what |
//! |---|---|
//! | [`buffer`] | accesses through a descriptor, which leave out what is out of range |
//! | [`global`] | global and flat memory, atomics among them |
//! | [`lds`] | a workgroup's shared memory, and the exchange between lanes |
//! | [`scalar`] | loads into scalar registers |
//! | [`access`] | one lane's access: the range check, and the bytes |
//! | [`atomic`] | what atomic instructions compute |

mod access;
mod atomic;
pub(super) mod buffer;
pub(super) mod global;
pub(super) mod lds;
pub(super) mod scalar;
