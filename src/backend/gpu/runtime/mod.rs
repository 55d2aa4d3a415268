//! What a card and its libraries can do, and the calls.
//!
//! | module | what it does or holds |
//! |---|---|
//! | [`occupancy`] | the waves of each kernel that fit on a card |
//! | [`survey`] | which maker's cards are tried first |
//! | [`precision`], [`weight_bits`] | the number formats, and how far results in them may be off; the user's choice of the weights' bits |
//! | [`kernels`] | our kernels' names, grids and alignment |
//! | [`device`] | opens the best device that can be used |
//! | [`matrix_units`] | whether a card that may lack them has units for matrices |
//! | [`choice`] | chooses among the devices that a driver finds |
//! | [`libraries`], [`blas_files`] | loads the driver's and the BLAS libraries; finds out whether those have kernels for a device |
//! | [`driver_hint`], [`nvidia_hint`], [`linux`] | say why a driver may find no device; what Linux knows of cards |
//! | [`code_objects`] | finds our kernels' code for a device |
//! | [`numbers`], [`activations`] | numbers of the element types, and elementwise functions, in fp64 |
//! | [`ffi`] | owning wrappers of the libraries' objects; the only `unsafe` code of the backend |
//! | [`kernel_code`], [`ptx`] | our kernels' code; that for NVIDIA's cards, which the driver translates |
//! | [`facts`], [`fp8`] | what follows from a card's architecture; numbers of 8 bits with an exponent |
//! | [`shared_launches`] | which GEMMs share a launch with the steps around them |
//! | [`maker`] | the makers of cards |
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
pub(crate) mod kernel_code;
pub(crate) mod kernels;
pub(crate) mod libraries;
pub(crate) mod linux;
pub(crate) mod maker;
pub(crate) mod matrix_units;
pub(crate) mod numbers;
pub(crate) mod nvidia_hint;
pub(crate) mod occupancy;
pub(crate) mod precision;
pub(crate) mod ptx;
pub(crate) mod shared_launches;
pub(crate) mod survey;
pub(crate) mod weight_bits;
