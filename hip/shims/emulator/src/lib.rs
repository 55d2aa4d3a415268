//! An emulator of AMD cards for tests: HIP's runtime, hiprtc, rocBLAS and hipBLASLt on the CPU.
//!
//! One shared library has the C interfaces of all four libraries, as far as the engine calls them. A test sets
//! `RUKH_ROCM_LIBRARY_PATH` to a folder with links to it under their names ([`install::install`]). Kernels are the machine
//! code that a card would run (gfx1100 or gfx1151, waves of 32 lanes), decoded once and executed on the CPU. Streams
//! are threads. New memory is poisoned, and an access outside of live allocations is an error. Matrix products are
//! computed in fp32.
//!
//! The emulator shows that the host code keeps the interfaces' rules and that the kernels compute what they should. It
//! says nothing about speed, about caches, or about races between waves that run at the same time.
//!
//! | module | what |
//! |---|---|
//! | [`test_interface`] | C functions by which a test makes calls fail and asks what happened |
//! | [`hipblaslt`], [`rocblas`], [`hiprtc`] | the libraries' C interfaces, compared with the bindings by the compiler |
//! | [`hip`] | the runtime's C interface, compared in the same way |
//! | [`stream`] | streams, events, graphs |
//! | [`launch`] | a grid of workgroups |
//! | [`code_object`], [`image`] | ELF files of kernels; bundles of them |
//! | [`gemm`] | matrix products |
//! | [`isa`] | instructions: decoder, registers, a handler for each |
//! | [`memory`] | allocations, guards, poison |
//! | [`c_interface`], [`handles`] | what the C interfaces share |
//! | [`calls`] | counts of calls, failures that a test asks for, reports |
//! | [`settings`] | what the emulator pretends to be |
//! | [`install`] | the folder of libraries |
//! | [`sync`] | locking |
#![allow(rustdoc::private_intra_doc_links, reason = "the table above is for readers of the source")]
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

mod c_interface;
mod calls;
mod code_object;
mod gemm;
mod handles;
pub mod hip;
pub mod hipblaslt;
pub mod hiprtc;
mod image;
pub mod install;
mod isa;
mod launch;
mod memory;
pub mod rocblas;
mod settings;
mod stream;
mod sync;
pub mod test_interface;
