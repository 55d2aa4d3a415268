//! The evaluator on graphics cards: our own kernels, HIP, rocBLAS and hipBLASLt on AMD's cards, NVIDIA's driver and
//! cuBLASLt, through the same functions, on NVIDIA's.
//!
//! The build needs neither ROCm nor CUDA. The libraries are loaded when a backend is made. If a library is missing, the error
//! names the files that were tried.
//!
//! The rooms from the top down; a room uses only those below it:
//!
//! | module | what it answers |
//! |---|---|
//! | [`profile`] | where the time of a pass goes, and what the device can do at most |
//! | [`doctor`] | whether an unknown card works, stage by stage |
//! | [`cases`] | what each kernel must compute, for shapes of all kinds |
//! | [`tune`](mod@tune) | what is fastest, if there is more time than at the first start |
//! | [`backend`] | the [`rukh_backend::Backend`]: makes batches of requests, and gives them to slots |
//! | [`startup`] | how a device becomes slots whose figures are right |
//! | [`tuning`] | which library, kernel, setting and batch size is fastest on this card |
//! | [`options`] | the backend's options |
//! | [`helper`] | a process that asks the libraries, and may die of it |
//! | [`table`] | the file that keeps the measured choices for the next start |
//! | [`measure`] | how long a GEMM takes, and whether its results are right |
//! | [`pass`] | a batch as a list of steps, and the slot that runs it |
//! | [`gemm`] | who computes a GEMM, and in which layout |
//! | [`network`] | a network in the device's memory |
//! | [`runtime`] | what a card and its libraries can do, the number formats, and the calls |
//!
//! [`backend`] gathers a batch; a slot's thread takes it, and the slot in [`pass`] launches its graph. A weight goes
//! from the file through [`rukh_net::prepare`] and [`network`]'s uploader to the device. The tuner's choices are
//! measured in [`measure`] and kept in [`table`]; [`gemm`] applies them, and a step of [`pass`] launches the result.
//! A fault comes out of [`runtime`] as an error of a slot, and [`rukh_backend::wrap`] puts the processor in the device's
//! place.

pub mod cases;
pub mod doctor;
pub mod helper;

mod backend;
mod gemm;
mod measure;
mod network;
mod options;
mod pass;
mod profile;
mod runtime;
mod startup;
mod table;
mod tune;
mod tuning;

pub use backend::GpuBackend;
pub use helper::probe::{HELPER_ARGUMENT, set_helper};
pub use helper::serve::serve_gemms;
pub use options::{GivenOptions, GpuOptions, Tuning};
pub use profile::GpuProfiler;
pub use runtime::choice::GpuChoice;
pub use runtime::ffi::wait::Waiting;
pub use runtime::kernels::AttentionKernel;
pub use runtime::libraries::GemmLibrary;
pub use runtime::maker::Maker;
pub use runtime::occupancy::{KernelOccupancy, OccupancyLimit, architectures, occupancy};
pub use runtime::precision::GpuPrecision;
pub use runtime::shared_launches::SharedLaunches;
pub use runtime::survey::{has_usable_card, makers};
pub use runtime::weight_bits::WeightBits;
pub use table::file::rewritten as rewritten_table;
pub use tune::{TuneOutcome, TuneStage, tune};
pub use tuning::passes::PassTime;
