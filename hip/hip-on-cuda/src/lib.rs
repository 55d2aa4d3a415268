//! HIP's and hipBLASLt's functions over NVIDIA's driver and cuBLASLt, in this program.
//!
//! [`hip`] and [`hipblaslt`] return tables of the same types as those that `hip-runtime-sys` and `hipblaslt-sys` fill from
//! AMD's libraries. So
//! the same code runs on the cards of both makers. Nearly every function makes one call of NVIDIA's, and handles are
//! NVIDIA's own. Flags, modes, errors and attributes of functions have the same numbers in HIP and CUDA, unless they are
//! translated here. Errors have the driver's names.
//!
//! Only the display driver is needed: `libcuda.so.1` or `nvcuda.dll`. It is looked up at run time, so a build does not
//! need it. [`compile`](fn@compile) has the driver translate PTX for a card; there is no CUDA toolkit and no run-time
//! compiler. cuBLASLt is used where the user has it.
//!
//! | module | what |
//! |---|---|
//! | [`hipblaslt`](mod@hipblaslt), [`cublaslt`] | hipBLASLt's interface, type-checked against the bindings; cuBLASLt's functions |
//! | [`hip`](mod@hip) | the same for HIP's runtime |
//! | [`compile`](mod@compile) | machine code from PTX |
//! | [`driver`] | the driver's functions, and a thread's current device |

#![allow(
    clippy::multiple_unsafe_ops_per_block,
    reason = "these are C interfaces: one call needs several unsafe operations"
)]
#![allow(unsafe_code, reason = "it implements C interfaces over C interfaces")]
#![allow(non_upper_case_globals, reason = "HIP's names")]
#![allow(rustdoc::private_intra_doc_links, reason = "the table above is for readers of the source")]

mod compile;
mod cublaslt;
mod driver;
mod hip;
mod hipblaslt;

pub use compile::compile;
pub use driver::{DRIVER, driver_version};
pub use hip::hip;
pub use hipblaslt::{hipblaslt, hipblaslt_file};
