//! Where the backend meets the libraries: the only `unsafe` of it, behind types that own what they made.
//!
//! What these modules promise to the rest: no call with a dangling handle, no buffer freed under a copy, no
//! host memory touched while the device may. What they trust: that a step's addresses were laid out for the
//! shapes it names, which is [`super::forward`]'s business.
#![allow(unsafe_code, reason = "calls into C libraries")]

pub(crate) mod arguments;
pub(crate) mod exchange;
pub(crate) mod gemm;
pub(crate) mod hip;
pub(crate) mod hipblaslt;
pub(crate) mod hiprtc;
pub(crate) mod program;
pub(crate) mod rocblas;
