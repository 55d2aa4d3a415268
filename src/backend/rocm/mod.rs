//! The AMD GPU evaluator: HIP, rocBLAS, hipBLASLt and our own kernels.
//!
//! Nothing of ROCm is needed to build it. The libraries are looked for when a backend is made; what is missing
//! is an error that says what was tried.
//!
//! | module | what it holds |
//! |---|---|
//! | [`backend`] | requests to batches, batches to slots: the [`crate::backend::Backend`] |
//! | [`options`] | what a user may set |
//! | [`slot`] | one batch in flight: stream, memory, BLAS handles, a graph per bucket |
//! | [`buckets`] | the batch sizes that a forward pass is laid out for |
//! | [`forward`], [`encoder`], [`tower`], [`heads`] | the forward pass as a list of steps, with shapes |
//! | [`steps`] | what a step needs to be laid out: memory, kernels, products |
//! | [`gemm`] | which library multiplies what, and how |
//! | [`tuning`], [`tuning_file`], [`cache`] | measuring that, and keeping what was found |
//! | [`weights`], [`assemble`], [`uploader`], [`winograd`] | a network's layers as the device wants them |
//! | [`kernels`], [`code_objects`] | our kernels' names and arguments, and their code for a device |
//! | [`device`], [`blas_files`] | finding a device, and the libraries that have kernels for it |
//! | [`timing`] | where a forward pass spends its time |
//! | [`ffi`] | the libraries' objects, owned; the only `unsafe` here |
//!
//! The hot path of a batch: [`backend`]'s batch, a slot's thread, [`slot`], a graph launch.
#![allow(rustdoc::private_intra_doc_links, reason = "the map above is for readers of the source")]

mod backend;
mod blas_files;
mod buckets;
mod cache;
mod code_objects;
mod device;
mod embedding;
mod encoder;
mod error;
mod ffi;
mod forward;
mod gemm;
mod heads;
mod kernels;
mod layers;
mod network;
mod options;
mod pass;
mod planes;
mod slot;
mod steps;
mod timing;
mod tower;
mod tuning;
mod tuning_file;
mod uploader;
mod winograd;

pub use backend::RocmBackend;
pub use device::GemmLibrary;
pub use ffi::exchange::Waiting;
pub use options::{RocmOptions, RocmPrecision, Tuning};
