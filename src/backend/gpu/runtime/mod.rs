//! What a card and its libraries can do, and the calls.
//!
//! | module | what it does or holds |
//! |---|---|
//! | [`occupancy`] | the waves of each kernel that fit on a card |
//! | [`kernels`] | our kernels' names, grids and alignment |
//! | [`device`], [`choice`] | opens the best device that can be used; chooses among those that HIP finds |
//! | [`libraries`], [`blas_files`] | loads HIP and the BLAS libraries; finds out whether those have kernels for a device |
//! | [`survey`] | which maker's cards are tried first |
//! | [`driver_hint`], [`nvidia_hint`], [`pci`] | say why a driver may find no device; the cards on the PCI bus |
//! | [`code_objects`], [`ptx`] | our kernels' code for a device; that for NVIDIA's cards, which the driver translates |
//! | [`facts`], [`maker`] | what follows from a card's architecture; the makers |
//! | [`numbers`], [`activations`] | numbers of the element types, and elementwise functions, in fp64 |
//! | [`precision`], [`weight_bits`] | the number formats, and how far results in them may be off; the user's choice of the weights' bits |
//! | [`ffi`] | owning wrappers of the libraries' objects; the only `unsafe` code of the backend |
//! | [`fp8`] | numbers of 8 bits with an exponent |
//! | [`error`] | the errors of libraries and devices |

pub(crate) mod activations;
pub(crate) mod blas_files;
pub(crate) mod choice;
pub(crate) mod code_objects;
pub(crate) mod device;
pub(crate) mod driver_hint;
pub(crate) mod error;
pub(crate) mod facts;
pub(crate) mod ffi;
pub(crate) mod fp8;
pub(crate) mod kernels;
pub(crate) mod libraries;
pub(crate) mod maker;
pub(crate) mod numbers;
pub(crate) mod nvidia_hint;
pub(crate) mod occupancy;
pub(crate) mod pci;
pub(crate) mod precision;
pub(crate) mod ptx;
pub(crate) mod survey;
pub(crate) mod weight_bits;
