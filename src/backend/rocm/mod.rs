//! The AMD GPU evaluator: HIP, rocBLAS, hipBLASLt and our own kernels.
//!
//! Nothing of ROCm is needed to build it. The libraries are looked for when a backend is made; what is missing
//! is an error that says what was tried.
//!
//! | module | what it holds |
//! |---|---|
//! | [`backend`] | requests to batches, batches to slots: the [`crate::backend::Backend`] |
//! | [`tuning`] | measuring which library computes each product fastest |
//! | [`slot`] | one batch in flight: stream, memory, BLAS handles, a graph per bucket |
//! | [`buckets`] | the batch sizes that a forward pass is laid out for |
//! | [`forward`] | the forward pass as a list of steps, with shapes |
//! | [`embedding`], [`tower`], [`heads`] | its stages before, instead of and after the encoders |
//! | [`encoder`] | the encoders of a body or of a policy head |
//! | [`planes`] | the steps that expand bitboards to matrices |
//! | [`pass`] | what a pass is laid out for: the network, input and output |
//! | [`steps`] | laying out one step: memory, kernels, products |
//! | [`network`] | a network in the device's memory |
//! | [`uploader`], [`winograd`] | layers converted and written to the device: the store that [`crate::net::prepare`] fills |
//! | [`layers`] | a layer in the device's memory: addresses and sizes |
//! | [`tuning_file`] | measured choices, kept for the next start |
//! | [`gemm`] | which library computes a product, and how |
//! | [`kernels`], [`code_objects`] | our kernels' names and arguments, and their code for a device |
//! | [`cache`] | files in the user's cache folder |
//! | [`options`] | what a user may set |
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
