//! ROCm's libraries over CUDA's. With them the engine's ROCm backend runs, unchanged, on an NVIDIA card.
//!
//! One shared library implements all functions of HIP's runtime, hiprtc, rocBLAS and hipBLASLt that the engine calls.
//! `RUKH_ROCM_LIBRARY_PATH` must name a folder that has a link to this library under each of the four names
//! (`scripts/checks/cuda.sh` makes such a folder). HIP's handles are CUDA's own. Nearly every call makes one call of
//! CUDA's driver, NVRTC, cuBLAS or cuBLASLt, so that a measurement measures the card and not the shim. NVRTC compiles
//! the kernels from the engine's own source.
//!
//! The shim shows that the host code and the kernels' logic are right on a real, parallel machine. It allows a
//! comparison of their speed with lc0's CUDA backend on the same card. It says nothing about the speed of an AMD card.
//!
//! CUDA's libraries are looked up at run time, so a build does not need them. Without the driver
//! `hipGetDeviceCount` returns the error that there is no device.
//!
//! | module | what |
//! |---|---|
//! | [`hipblaslt`], [`rocblas`], [`hiprtc`], [`hip`] | ROCm's C interfaces, type-checked against the bindings |
//! | [`profile`] | measures the time of each operation |
//! | [`cublas`], [`nvrtc`], [`driver`] | the functions of CUDA that the shim calls, with their types |
//! | [`status`] | translates CUDA's error numbers to HIP's |
//! | [`library`] | finds CUDA's libraries |
//!
//! | environment variable | meaning |
//! |---|---|
//! | `RUKH_CUDA_SHIM_PATH` | folders with CUDA's libraries, separated by colons, searched before all others |
//! | `RUKH_CUDA_SHIM_NVRTC_OPTIONS` | more options for NVRTC, separated by spaces, such as `-lineinfo` |
//! | `RUKH_CUDA_SHIM_SPIN` | 1: a thread that waits for an event spins instead of sleeping |
//! | `RUKH_CUDA_SHIM_OVERLAP` | 1: programmatic dependent launch: the engine's kernels begin before their predecessors have ended (sm_90 and later) |
//! | `RUKH_CUDA_SHIM_PROFILE` | a file for the time of each operation; if it is set, the engine's results are wrong |
//! | `RUKH_CUDA_SHIM_LOG` | 1: prints on stderr which libraries were found and which calls failed |

#![allow(rustdoc::private_intra_doc_links, reason = "the table above is for readers of the source")]
#![allow(
    clippy::multiple_unsafe_ops_per_block,
    reason = "these are C interfaces: one call needs several unsafe operations"
)]
#![allow(unsafe_code, reason = "it implements C interfaces over C interfaces")]
#![allow(non_upper_case_globals, reason = "HIP's names")]

mod cublas;
mod driver;
pub mod hip;
pub mod hipblaslt;
pub mod hiprtc;
mod library;
mod nvrtc;
mod profile;
pub mod rocblas;
mod status;
