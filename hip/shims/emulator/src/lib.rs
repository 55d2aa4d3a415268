//! A machine with AMD cards that is not there: HIP's runtime, hiprtc, rocBLAS and hipBLASLt for tests.
//!
//! One shared library has the C interfaces of all four, as far as the engine calls them; a folder with links to it under
//! their names ([`install::install`]) is what `RUKH_ROCM_LIBRARY_PATH` is set to. Kernels are the machine code that a card would
//! run (gfx1100 or gfx1151, waves of 32 lanes), decoded once and executed on the CPU; streams are threads; memory is
//! poisoned when it is new, and nothing may touch what is not allocated. Matrix products are computed in fp32.
//!
//! It shows that the host code keeps the interfaces' rules and that the kernels compute what they should. It shows
//! nothing of speed, of caches, or of races between waves that run at the same time.
//!
//! | module | what |
//! |---|---|
//! | `isa` | instructions: decoder, registers, one handler each |
//! | `image`, `code_object`, `launch` | bundles, ELF files of kernels, and grids of workgroups |
//! | `gemm` | matrix products |
//! | `memory`, `stream` | allocations; streams, events, graphs |
//! | `arguments`, `transfer`, `handles` | what a launch, a copy and a handle are made of |
//! | `hip` (with `hip_device`, `hip_errors`), `hiprtc`, `rocblas`, `hipblaslt` | the C interfaces, compared with the bindings by the compiler |
//! | `hip_for_libraries` | what AMD's own libraries need of the interface besides |
//! | `control` | settings, failures that a test asks for, reports |
//! | `install` | the folder of libraries |
#![allow(unsafe_code, reason = "it implements C interfaces and runs foreign machine code")]
#![allow(
    clippy::multiple_unsafe_ops_per_block,
    reason = "an access to a caller's memory is one step, however many reads"
)]
#![allow(
    clippy::neg_cmp_op_on_partial_ord,
    reason = "some comparisons are defined as the negation of another"
)]
#![allow(
    clippy::nonminimal_bool,
    clippy::double_comparisons,
    reason = "as above: NaN is neither less nor greater"
)]
#![allow(clippy::needless_range_loop, reason = "a loop over lanes indexes several registers alike")]
#![allow(clippy::manual_clamp, reason = "the order of minimum and maximum decides what becomes of a NaN")]

mod arguments;
mod code_object;
pub mod control;
mod gemm;
mod handles;
pub mod hip;
pub mod hip_device;
pub mod hip_errors;
pub mod hip_for_libraries;
pub mod hipblaslt;
pub mod hiprtc;
mod image;
pub mod install;
mod isa;
mod launch;
mod memory;
pub mod rocblas;
mod stream;
mod transfer;
