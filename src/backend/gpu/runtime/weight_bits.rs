//! The user's choice of how many bits the weights of GEMMs with few rows have.

use serde::{Deserialize, Serialize};

/// How many bits the weights of GEMMs with few rows have. Arithmetic has 16 bits with any of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum WeightBits {
    /// All weights have 16 bits.
    Sixteen,
    /// The weights have 8 bits, where our own kernels have such GEMMs.
    Eight,
    /// The weights of a GEMM have 8 bits where it was measured to be faster, if the figures stay as near to the
    /// processor's as the number format allows with 16 bits.
    Auto,
}

impl WeightBits {
    pub(crate) const ALL: [WeightBits; 3] = [WeightBits::Sixteen, WeightBits::Eight, WeightBits::Auto];

    /// The choice's name in the options.
    pub(crate) fn key(self) -> &'static str {
        match self {
            WeightBits::Sixteen => "16",
            WeightBits::Eight => "8",
            WeightBits::Auto => "auto",
        }
    }
}
