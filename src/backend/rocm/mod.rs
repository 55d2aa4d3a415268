//! The AMD GPU evaluator: HIP, rocBLAS, hipBLASLt and our own kernels.
//!
//! The build does not need ROCm. The libraries are loaded when a backend is made. If a library is missing, the error
//! names the files that were tried.
//!
//! | module | what it does or holds |
//! |---|---|
//! | [`profile`] | times the steps of a pass, and what the device can do at most |
//! | [`doctor`] | examines an unknown card, stage by stage |
//! | [`tune`](mod@tune) | measures what the first start has no time for |
//! | [`backend`] | the [`crate::backend::Backend`]: makes batches of requests, and gives them to slots |
//! | [`startup`] | prepares a device for a network |
//! | [`trial`] | lets another process open the device first |
//! | [`settings`] | the settings of passes that `rukh tune` measures |
//! | [`rungs`], [`self_check`] | gives up graphs or libraries until the figures are those of the CPU backend |
//! | [`defaults`] | compares whole evaluations with the tuned products and with the default's |
//! | [`passes`] | the time of whole passes, and the ladder of batch sizes that follows from it |
//! | [`load`] | batches in several slots at once, and their speed |
//! | [`winners`](mod@winners) | who computes a network's products, according to a table |
//! | [`tuning`] | finds which library computes each product fastest |
//! | [`kept_tables`] | the tables of products from earlier starts and from the user |
//! | [`tuning_notices`] | what tuning says about libraries that misbehave |
//! | [`two_ways`] | the rows of the tuned products and of the default's, and which of them to keep |
//! | [`options`] | the backend's options |
//! | [`probe`], [`helper`] | starts a process that asks the libraries and may die of it; that process |
//! | [`report`] | the text that the two processes exchange |
//! | [`tuning_file`] | the file that keeps the measured choices for the next start |
//! | [`tuning_row`], [`cells`], [`left_out`] | a row of that file; its cells; why rows of it are left out |
//! | [`slot`] | one batch in flight: stream, memory, BLAS handles, a graph per bucket |
//! | [`buckets`] | the batch sizes that a forward pass is laid out for |
//! | [`forward`] | the forward pass as a list of steps, with shapes |
//! | [`embedding`], [`tower`], [`heads`] | the stages before the encoders, instead of them, and after them |
//! | [`encoder`] | the encoders of a body or of a policy head |
//! | [`planes`] | the steps that expand bitboards to matrices |
//! | [`pass`] | the arguments of a pass: the network, and the layout of input and output |
//! | [`measure`] | asks the libraries for products and times them |
//! | [`matrices`] | the matrices of timed products |
//! | [`samples`] | some elements of a matrix product, as they must be |
//! | [`steps`] | appends the steps of one operation: memory, kernels, products |
//! | [`bytes`] | the launches of a product of 8-bit numbers |
//! | [`scratch`] | the memory for intermediate results |
//! | [`norm`] | the operands of a LayerNorm |
//! | [`network`] | a network in the device's memory |
//! | [`uploader`], [`winograd`] | converts layers from [`crate::net::prepare`], and writes them to the device |
//! | [`kernel_work`] | the operations and bytes of each kernel |
//! | [`layers`] | a layer in the device's memory: addresses and sizes |
//! | [`gemm_steps`] | makes the steps of products |
//! | [`gemm`] | chooses the library, or our own kernel, and the algorithm for each product |
//! | [`hipblaslt_steps`] | hipBLASLt's steps for products |
//! | [`chain`] | several products, LayerNorms of their results, or a whole convolution in one launch |
//! | [`layouts`] | which layout of its weights a product reads |
//! | [`thresholds`](mod@thresholds) | from which number of rows on a layer's weights are preshuffled |
//! | [`measured`] | what is known of measured products |
//! | [`own`] | our own kernels for products |
//! | [`copies`] | copies of weights in other layouts |
//! | [`byte_weights`] | weights of 8 bits for products of few rows |
//! | [`numbers`], [`activations`] | numbers of the element types, and elementwise functions, in fp64 |
//! | [`preshuffle`], [`transposed`](mod@transposed) | the weights of products in the order in which our kernels read them; transposed weights, for the libraries |
//! | [`kernels`] | our kernels' names and grids |
//! | [`avoided`], [`shape_text`] | the products that ended a process; the text form of a product's shape |
//! | [`weight_bits`] | the user's choice of the weights' bits |
//! | [`precision`] | the number formats |
//! | [`device`] | opens the best device that can be used |
//! | [`choice`] | chooses among the devices that HIP finds |
//! | [`libraries`], [`blas_files`] | loads HIP and the BLAS libraries; finds out whether those have kernels for a device |
//! | [`driver_hint`] | says why HIP may find no device |
//! | [`occupancy`] | the waves of each kernel that fit on a card |
//! | [`code_objects`] | our kernels' code for a device |
//! | [`child`] | a process that may die, and the lines that it writes |
//! | [`timing`] | a table of the time that each kind of step takes |
//! | [`ffi`] | owning wrappers of the libraries' objects; the only `unsafe` code of this module |
//! | [`fp8`] | numbers of 8 bits with an exponent |
//!
//! The hot path of a batch goes through [`backend`]'s batch, a slot's thread and [`slot`] to a graph launch.
#![allow(rustdoc::private_intra_doc_links, reason = "the map above is for readers of the source")]

mod activations;
mod avoided;
mod backend;
mod blas_files;
mod buckets;
mod byte_weights;
mod bytes;
mod cells;
mod chain;
pub(crate) mod child;
mod choice;
mod code_objects;
mod copies;
mod defaults;
mod device;
pub mod doctor;
mod driver_hint;
mod embedding;
mod encoder;
mod error;
mod ffi;
mod forward;
mod fp8;
mod gemm;
mod gemm_steps;
mod heads;
mod helper;
mod hipblaslt_steps;
mod kept_tables;
mod kernel_work;
mod kernels;
mod layers;
mod layouts;
mod left_out;
mod libraries;
mod load;
mod matrices;
mod measure;
mod measured;
mod network;
mod norm;
mod numbers;
mod occupancy;
mod options;
mod own;
mod pass;
mod passes;
mod planes;
mod precision;
mod preshuffle;
mod probe;
mod profile;
mod report;
mod rungs;
mod samples;
mod scratch;
mod self_check;
mod settings;
mod shape_text;
mod slot;
mod startup;
mod steps;
mod thresholds;
mod timing;
mod tower;
mod transposed;
mod trial;
mod tune;
mod tuning;
mod tuning_file;
mod tuning_notices;
mod tuning_row;
mod two_ways;
mod uploader;
mod weight_bits;
mod winners;
mod winograd;

pub use backend::RocmBackend;
pub use choice::GpuChoice;
pub use ffi::wait::Waiting;
pub use helper::serve_products;
pub use kernels::AttentionKernel;
pub use libraries::GemmLibrary;
pub use occupancy::{KernelOccupancy, OccupancyLimit, architectures, occupancy};
pub use options::{RocmOptions, Tuning};
pub use passes::PassTime;
pub use precision::RocmPrecision;
pub use probe::{HELPER_ARGUMENT, set_helper};
pub use profile::RocmProfiler;
pub use tune::{TuneOutcome, TuneStage, tune};
pub(crate) use tuning_file::rewritten as rewritten_table;
pub use weight_bits::WeightBits;
