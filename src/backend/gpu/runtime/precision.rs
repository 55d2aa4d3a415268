//! The number formats of the backends on graphics cards.

use super::device::Gpu;
use super::error::{GpuError, Result};
use super::facts::Facts;
use super::ffi::gemm::ElementType;
use rukh_net::Network;
use rukh_net::network::Body;
use rukh_options::BackendName;

/// The allowed difference of the moves left, in plies, as a multiple of [`tolerance`].
pub(crate) const MOVES_LEFT: f32 = 100.0;

/// The number format of weights, activations and the factors of GEMMs. Sums, the statistics of LayerNorm, and
/// softmax are always fp32.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
#[allow(missing_docs, reason = "the formats are standard")]
pub enum GpuPrecision {
    Fp32,
    Fp16,
    Bf16,
    /// The GEMMs of encoders in 8-bit integers, and all else in fp16.
    Int8,
    /// The GEMMs of encoders in 8-bit floating-point numbers (e4m3), and all else in fp16. Only some cards have it.
    Fp8,
    /// The fastest format that is accurate enough: fp16, or fp32 on a card whose kernels compute in nothing else.
    Auto,
}

impl GpuPrecision {
    /// The format of a backend on graphics cards; `None` if the backend with this name is another one.
    pub fn of_backend(name: BackendName) -> Option<GpuPrecision> {
        match name {
            BackendName::Rocm | BackendName::Cuda => Some(GpuPrecision::Fp32),
            BackendName::RocmFp16 | BackendName::CudaFp16 => Some(GpuPrecision::Fp16),
            BackendName::RocmBf16 | BackendName::CudaBf16 => Some(GpuPrecision::Bf16),
            BackendName::RocmInt8 | BackendName::CudaInt8 => Some(GpuPrecision::Int8),
            BackendName::RocmFp8 | BackendName::CudaFp8 => Some(GpuPrecision::Fp8),
            BackendName::RocmAuto | BackendName::CudaAuto => Some(GpuPrecision::Auto),
            _ => None,
        }
    }

    /// The format on a card.
    ///
    /// # Errors
    /// The card's kernels do not compute in this format.
    pub(crate) fn on(self, gpu: &Gpu) -> Result<GpuPrecision> {
        let Facts { has_fp16, has_bf16, fp8, .. } = gpu.facts;
        let is_there = match self {
            GpuPrecision::Auto => return Ok(if has_fp16 { GpuPrecision::Fp16 } else { GpuPrecision::Fp32 }),
            GpuPrecision::Fp32 => true,
            GpuPrecision::Fp16 | GpuPrecision::Int8 => has_fp16,
            GpuPrecision::Bf16 => has_bf16,
            GpuPrecision::Fp8 => fp8.is_some(),
        };
        if is_there {
            return Ok(self);
        }
        let numbers = match self {
            GpuPrecision::Fp8 => "8-bit floating-point numbers".to_owned(),
            other => format!("matrices in {}", other.name()),
        };
        Err(GpuError::Unsupported(format!(
            "{} ({}) has no instructions that multiply {numbers}",
            gpu.name, gpu.architecture
        )))
    }

    /// This format, or fp16 instead of 8 bits for a network whose body has no encoders.
    pub(crate) fn for_network(self, network: &Network) -> GpuPrecision {
        match (self, &network.body) {
            (GpuPrecision::Int8 | GpuPrecision::Fp8, Body::Convolution { .. }) => GpuPrecision::Fp16,
            _ => self,
        }
    }

    /// The type of the matrices' elements.
    pub(crate) fn element(self) -> ElementType {
        match self {
            GpuPrecision::Fp32 => ElementType::Fp32,
            GpuPrecision::Fp16 | GpuPrecision::Int8 | GpuPrecision::Fp8 | GpuPrecision::Auto => {
                ElementType::Fp16
            }
            GpuPrecision::Bf16 => ElementType::Bf16,
        }
    }

    /// The name in the cache folder's files.
    pub(crate) fn key(self) -> &'static str {
        match self {
            GpuPrecision::Int8 => "i8",
            GpuPrecision::Fp8 => "f8",
            other => other.element().name(),
        }
    }

    /// The name for users.
    pub(crate) fn name(self) -> &'static str {
        match self {
            GpuPrecision::Fp32 => "fp32",
            GpuPrecision::Fp16 | GpuPrecision::Auto => "fp16",
            GpuPrecision::Bf16 => "bf16",
            GpuPrecision::Int8 => "int8",
            GpuPrecision::Fp8 => "fp8",
        }
    }
}

/// The largest difference that docs/gpu.md allows for q and for priors.
pub(crate) fn tolerance(precision: GpuPrecision) -> f32 {
    match precision {
        GpuPrecision::Fp32 => 1e-4,
        GpuPrecision::Fp16 | GpuPrecision::Auto => 1e-2,
        GpuPrecision::Bf16 => 5e-2,
        GpuPrecision::Int8 => 1e-1,
        // On 10,000 positions of the embedded network, the largest difference of q was 0.31, the 99th percentile 0.11.
        GpuPrecision::Fp8 => 3e-1,
    }
}
