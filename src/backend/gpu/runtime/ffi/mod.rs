//! The calls into ROCm's libraries. All `unsafe` code of the backend is here, behind types that own their handles.
//!
//! These modules guarantee that no call gets a dangling handle, that no buffer is freed during a copy, and that the
//! host does not access memory while the device may use it. After a hang of the device they leak what it may still use,
//! and wait for nothing ([`wait`]). They trust [`crate::pass::forward`] to give each step addresses
//! that match the step's shapes.
#![allow(unsafe_code, reason = "calls into C libraries")]

pub(crate) mod arguments;
pub(crate) mod copies;
pub(crate) mod exchange;
pub(crate) mod gemm;
pub(crate) mod hip;
pub(crate) mod hipblaslt;
pub(crate) mod hiprtc;
pub(crate) mod module;
pub(crate) mod pinned;
pub(crate) mod program;
pub(crate) mod rocblas;
pub(crate) mod stream;
pub(crate) mod wait;
