//! The AMD GPU evaluator: HIP, rocBLAS, hipBLASLt and our own kernels.
//!
//! The build does not need ROCm. The libraries are loaded when a backend is made. If a library is missing, the error
//! names the files that were tried.
//!
//! | module | what it does or holds |
//! |---|---|
//! | [`backend`] | the [`crate::backend::Backend`]: makes batches of requests, and gives them to slots |
//! | [`tuning`] | measures which library computes each product fastest |
//! | [`slot`] | one batch in flight: stream, memory, BLAS handles, a graph per bucket |
//! | [`buckets`] | the batch sizes that a forward pass is laid out for |
//! | [`forward`] | the forward pass as a list of steps, with shapes |
//! | [`embedding`], [`tower`], [`heads`] | the stages before the encoders, instead of them, and after them |
//! | [`encoder`] | the encoders of a body or of a policy head |
//! | [`planes`] | the steps that expand bitboards to matrices |
//! | [`pass`] | the arguments of a pass: the network, and the layout of input and output |
//! | [`steps`] | appends the steps of one operation: memory, kernels, products |
//! | [`network`] | a network in the device's memory |
//! | [`uploader`], [`winograd`] | converts layers from [`crate::net::prepare`], and writes them to the device |
//! | [`layers`] | a layer in the device's memory: addresses and sizes |
//! | [`tuning_file`] | the file that keeps the measured choices for the next start |
//! | [`gemm`] | chooses the library and the algorithm for each product |
//! | [`kernels`] | our kernels' names and grids |
//! | [`options`] | the backend's options |
//! | [`device`] | opens the best device that can be used |
//! | [`choice`] | chooses among the devices that HIP finds |
//! | [`libraries`], [`blas_files`] | loads HIP and the BLAS libraries; finds out whether those have kernels for a device |
//! | [`driver_hint`] | says why HIP may find no device |
//! | [`code_objects`] | our kernels' code for a device |
//! | [`cache`] | files in the user's cache folder |
//! | [`timing`] | a table of the time that each kind of step takes |
//! | [`ffi`] | owning wrappers of the libraries' objects; the only `unsafe` code of this module |
//!
//! The hot path of a batch goes through [`backend`]'s batch, a slot's thread and [`slot`] to a graph launch.
#![allow(rustdoc::private_intra_doc_links, reason = "the map above is for readers of the source")]

mod backend;
mod blas_files;
mod buckets;
mod cache;
mod choice;
mod code_objects;
mod device;
mod driver_hint;
mod embedding;
mod encoder;
mod error;
mod ffi;
mod forward;
mod gemm;
mod heads;
mod kernels;
mod layers;
mod libraries;
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
pub use choice::GpuChoice;
pub use ffi::wait::Waiting;
pub use libraries::GemmLibrary;
pub use options::{RocmOptions, RocmPrecision, Tuning};
