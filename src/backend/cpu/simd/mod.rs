//! The vector instructions of the processor, behind one small trait.
//!
//! Every kernel is written once, generic over [`Simd`], and compiled for each instruction set. [`Isa::run`]
//! selects the version at run time. A value of a type that implements [`Simd`] is a proof that the processor
//! has the instructions, because only [`Isa::available`] makes such values, and it checks the processor first.
//! This makes the methods of the trait safe to call, and the kernels that use this module need no `unsafe`.
//!
//! A kernel is a struct that contains its arguments and implements [`Kernel`]. `isa.run(kernel)` calls a
//! function that is compiled with the instruction set enabled. The generic code of the kernel, which is all
//! `#[inline(always)]`, is inlined into that function.
//!
//! This module knows nothing about layers or chess. The innermost loop of the matrix products is in [`tile`].
//!
//! | module | what it holds |
//! |---|---|
//! | `tile` | the innermost loop of the matrix product |
//! | `isa` | the choice of an instruction set at run time |
//! | `avx512`, `avx2`, `neon`, `portable` | the implementations of [`Simd`] |
//! | `amx` | products of whole matrices on processors with AMX |
//! | `blocks` | the innermost loop with ARM's matrix instructions |
//! | `vector` | [`Simd`] and [`Kernel`] |
//! | `aligned` | memory on cache-line boundaries |
#![allow(
    unsafe_code,
    reason = "vector intrinsics and the pointers of the innermost loop; the safe interface checks the bounds"
)]

mod aligned;
#[cfg(target_arch = "x86_64")]
pub(crate) mod amx;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod blocks;
mod isa;
#[cfg(target_arch = "aarch64")]
mod neon;
mod portable;
pub(crate) mod tile;
mod vector;

pub(crate) use aligned::AlignedVec;
pub(crate) use isa::Isa;
pub(crate) use vector::{Factors, Kernel, Simd, Word, bf16_bits};

#[cfg(test)]
mod tests;
