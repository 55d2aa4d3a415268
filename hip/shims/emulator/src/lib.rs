//! An emulator of AMD cards for tests: HIP's runtime, hiprtc, rocBLAS and hipBLASLt on the CPU.
//!
//! One shared library implements all functions of the four libraries that the engine calls. A test sets
//! `RUKH_ROCM_LIBRARY_PATH` to a folder that has a link to this library under each of the four names
//! ([`install::install`]). The emulator decodes the machine code for a card once, and then executes it on the CPU. The
//! cards are those of RDNA 2 to 4, of Vega, and of CDNA 1 to 3. Streams are threads. New memory is poisoned, and an
//! access outside of live allocations is an error. The BLAS libraries' GEMMs are summed in fp32, and those of 8-bit
//! integers in int32.
//!
//! The emulator shows that the host code keeps the interfaces' rules and that the kernels compute what they should. It
//! says nothing about speed, about caches, or about races between waves that run at the same time.
//!
//! | module | what |
//! |---|---|
//! | [`test_interface`] | C functions by which a test makes calls fail and asks what happened |
//! | [`hipblaslt`], [`rocblas`], [`hiprtc`] | the libraries' C interfaces, type-checked against the bindings |
//! | [`hip`] | the runtime's C interface, type-checked against the bindings too |
//! | [`stream`] | streams, events, graphs |
//! | [`launch`] | runs a kernel's grid of workgroups |
//! | [`code_object`], [`image`] | ELF files with kernels; bundles of such files |
//! | [`gemm`] | GEMMs |
//! | [`isa`] | the instruction set: the decoder, the registers, and a handler for each instruction |
//! | [`memory`] | allocations, guards, poison |
//! | [`c_interface`], [`handles`] | helpers that the C interfaces share |
//! | [`calls`] | counts of calls, failures that a test asks for, reports |
//! | [`settings`] | the emulated machine, from environment variables |
//! | [`install`] | makes the folder of links for `RUKH_ROCM_LIBRARY_PATH` |
//! | [`sync`] | locks a mutex even if another thread has panicked |
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
