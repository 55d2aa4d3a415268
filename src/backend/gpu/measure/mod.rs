//! How long a GEMM takes, and whether its results are right.
//!
//! | module | what it does or holds |
//! |---|---|
//! | [`measurer`] | asks the libraries for GEMMs and times them |
//! | [`matrices`] | the matrices of timed GEMMs |
//! | [`samples`] | some elements of a GEMM's result, as they must be |

pub(crate) mod matrices;
pub(crate) mod measurer;
pub(crate) mod samples;
