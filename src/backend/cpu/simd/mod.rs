//! The vector instructions of this machine, behind one small trait.
//!
//! Every kernel is written once, generic over [`Simd`], and compiled for each instruction set; [`Isa::run`]
//! picks the version at run time. A value of a type that implements [`Simd`] is a proof that the processor
//! has the instructions: only [`Isa::available`] makes one, after asking. That is what makes the trait's
//! methods safe to call, and why the kernels above this module need no `unsafe`.
//!
//! How the pieces fit: a kernel is a struct with its arguments that implements [`Kernel`];
//! `isa.run(kernel)` enters a function compiled with the instruction set enabled, into which the kernel's
//! generic code, all of it `#[inline(always)]`, is inlined.
//!
//! Nothing here knows about layers or chess. The hot path starts in [`tile`].
//!
//! | module | what it holds |
//! |---|---|
//! | `tile` | the innermost loop of the matrix product |
//! | `isa` | the choice of an instruction set at run time |
//! | `avx512`, `avx2`, `portable` | the implementations of [`Simd`] |
//! | `vector` | [`Simd`] and [`Kernel`] |
//! | `aligned` | memory on cache-line boundaries |
#![allow(
    unsafe_code,
    reason = "vector intrinsics and the innermost loop's pointers; the safe interface checks the bounds"
)]

mod aligned;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod isa;
mod portable;
pub(crate) mod tile;
mod vector;

pub(crate) use aligned::AlignedVec;
pub(crate) use isa::Isa;
pub(crate) use vector::{Bf16Pair, Kernel, Simd, bf16_bits};

#[cfg(test)]
mod tests;
