//! The number formats of the ROCm backend.

use super::ffi::gemm::ElementType;
use crate::net::Network;
use crate::net::network::Body;

/// The allowed difference of the moves left, in plies, as a multiple of the other figures' one.
pub(super) const MOVES_LEFT: f32 = 100.0;

/// The number format of weights, activations and the factors of products. Sums, the statistics of LayerNorm, and
/// softmax are always fp32.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
#[allow(missing_docs, reason = "the formats are standard")]
pub enum RocmPrecision {
    Fp32,
    Fp16,
    Bf16,
    /// The products of encoders in 8-bit integers, and all else in fp16.
    Int8,
    /// The products of encoders in 8-bit floating-point numbers (e4m3), and all else in fp16. Only some cards have it.
    Fp8,
    /// The fastest format that is accurate enough: fp16.
    Auto,
}

impl RocmPrecision {
    /// This format, or fp16 instead of 8 bits for a network whose body has no encoders.
    pub(super) fn for_network(self, network: &Network) -> RocmPrecision {
        match (self, &network.body) {
            (RocmPrecision::Int8 | RocmPrecision::Fp8, Body::Convolution { .. }) => RocmPrecision::Fp16,
            _ => self,
        }
    }

    /// The type of the matrices' elements.
    pub(super) fn element(self) -> ElementType {
        match self {
            RocmPrecision::Fp32 => ElementType::Fp32,
            RocmPrecision::Fp16 | RocmPrecision::Int8 | RocmPrecision::Fp8 | RocmPrecision::Auto => {
                ElementType::Fp16
            }
            RocmPrecision::Bf16 => ElementType::Bf16,
        }
    }

    /// The name in the cache folder's files.
    pub(super) fn key(self) -> &'static str {
        match self {
            RocmPrecision::Int8 => "i8",
            RocmPrecision::Fp8 => "f8",
            other => other.element().name(),
        }
    }

    /// The name for users.
    pub(super) fn name(self) -> &'static str {
        match self {
            RocmPrecision::Fp32 => "fp32",
            RocmPrecision::Fp16 | RocmPrecision::Auto => "fp16",
            RocmPrecision::Bf16 => "bf16",
            RocmPrecision::Int8 => "int8",
            RocmPrecision::Fp8 => "fp8",
        }
    }
}
