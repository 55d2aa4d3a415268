//! ROCm's libraries over CUDA's: the engine's AMD evaluator, unchanged, on an NVIDIA card.
//!
//! One shared library has the C interfaces of HIP's runtime, hiprtc, rocBLAS and hipBLASLt, as far as the engine calls
//! them; a folder with links to it under their names is what `RUKH_ROCM_LIBRARY_PATH` is set to
//! (`scripts/checks/cuda.sh` makes one). A handle of HIP's is CUDA's own, and nearly every call is one call of
//! CUDA's driver, NVRTC, cuBLAS or cuBLASLt: what is measured through it is the card, not the shim. The kernels
//! are compiled by NVRTC from the engine's own source, with its NVIDIA branch.
//!
//! It shows that the host code and the kernels' logic are right on a real, parallel machine, and lets their speed be
//! compared with lc0's CUDA backend on the same card. It says nothing of the speed of an AMD card.
//!
//! CUDA's libraries are looked for at run time: building needs none of them, and without them `hipGetDeviceCount`
//! answers that there is no device.
//!
//! | module | what |
//! |---|---|
//! | [`hipblaslt`], [`rocblas`], [`hiprtc`], [`hip`] | ROCm's C interfaces, compared with the bindings by the compiler |
//! | [`profile`] | the time of each operation, for tables |
//! | [`cublas`], [`nvrtc`], [`driver`] | CUDA's functions that are called, with their types |
//! | [`status`] | CUDA's error numbers as HIP's |
//! | [`library`] | finds CUDA's libraries |
//!
//! | environment variable | what it does |
//! |---|---|
//! | `RUKH_CUDA_SHIM_PATH` | folders to look for CUDA's libraries in first, separated by colons |
//! | `RUKH_CUDA_SHIM_NVRTC_OPTIONS` | more options for NVRTC, separated by spaces, such as `-lineinfo` |
//! | `RUKH_CUDA_SHIM_SPIN` | 1: who waits for an event does not sleep |
//! | `RUKH_CUDA_SHIM_OVERLAP` | 1: kernels of ours are launched before the one before them has ended (`griddepcontrol`, sm_90 on) |
//! | `RUKH_CUDA_SHIM_PROFILE` | a file for the time of each operation; results are then not to be trusted |
//! | `RUKH_CUDA_SHIM_LOG` | 1: says on stderr which libraries were found, and which calls failed |

#![allow(
    clippy::multiple_unsafe_ops_per_block,
    reason = "a C interface is implemented here: a call is several"
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
