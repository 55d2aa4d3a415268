//! A network in the device's memory. It is made once, and all slots share it.

use super::uploader::{Rounding, Uploader};
use crate::runtime::device::Gpu;
use crate::runtime::error::{GpuError, Result};
use crate::runtime::ffi::gemm::ElementType;
use crate::runtime::ffi::hip::{Address, DeviceBuffer};
use crate::runtime::fp8::Fp8Format;
use crate::runtime::precision::GpuPrecision;
use rukh_cpu::DeviceRounder;
use rukh_net as net;
use rukh_net::network;
use rukh_net::prepare::PreparedNetwork;
use std::sync::Arc;

pub(crate) type Network = network::Network<Uploader>;
pub(crate) type Body = network::Body<Uploader>;
pub(crate) type ResidualBlock = network::ResidualBlock<Uploader>;
pub(crate) type SqueezeExcitation = network::SqueezeExcitation<Uploader>;
pub(crate) type Embedding = network::Embedding<Uploader>;
pub(crate) type EncoderStack = network::EncoderStack<Uploader>;
pub(crate) type Encoder = network::Encoder<Uploader>;
pub(crate) type Smolgen = network::Smolgen<Uploader>;
pub(crate) type FeedForward = network::FeedForward<Uploader>;
pub(crate) type PolicyHead = network::PolicyHead<Uploader>;
pub(crate) type AttentionPolicy = network::AttentionPolicy<Uploader>;
pub(crate) type ScalarHead = network::ScalarHead<Uploader>;
pub(crate) type ValueError = network::ValueError<Uploader>;

/// A network on a device.
pub(crate) struct DeviceNetwork {
    pub(crate) layers: Network,
    /// The place of each of the 1858 policy indices among the policy head's logits, `[1858]` of 16 bits.
    pub(crate) policy_places: Address,
    pub(crate) precision: GpuPrecision,
    /// The type of activations, and of weights that do not have 8 bits.
    pub(crate) element: ElementType,
    /// The floating-point operations of an evaluation.
    pub(crate) flops: u64,
    /// The memory behind all addresses.
    memory: Vec<Arc<DeviceBuffer>>,
}

impl DeviceNetwork {
    /// The network's device memory, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.memory.iter().map(|buffer| buffer.bytes()).sum()
    }

    /// Converts and uploads the network. Drops each layer's host memory as soon as the layer is on the device. For
    /// GEMMs of 8-bit integers the processor evaluates some positions first, unless an earlier start has kept the
    /// result.
    ///
    /// # Errors
    /// The kernels do not support a layer, which the error names; the element type cannot hold a weight; the device does
    /// not multiply numbers in this format; or it has too little memory.
    pub(crate) fn new(gpu: &Gpu, network: net::Network, precision: GpuPrecision) -> Result<DeviceNetwork> {
        let precision = precision.for_network(&network);
        let element = precision.element();
        let rounding = match precision {
            GpuPrecision::Int8 => Some(Rounding::Integers(DeviceRounder::new(&network))),
            GpuPrecision::Fp8 => Some(Rounding::Floats(fp8_format(gpu)?)),
            _ => None,
        };
        let flops = network.flops().total();
        let mut uploader = Uploader::new(gpu.device, element, rounding);
        let PreparedNetwork { network, policy_places, .. } = network.prepare(&mut uploader)?;
        let bytes: Vec<u8> = policy_places.iter().flat_map(|place| place.to_le_bytes()).collect();
        let policy_places = uploader.bytes("policy places", &bytes)?;
        Ok(DeviceNetwork {
            layers: network,
            policy_places,
            precision,
            element,
            flops,
            memory: uploader.finish(),
        })
    }
}

/// The variant of e4m3 that the device multiplies.
fn fp8_format(gpu: &Gpu) -> Result<Fp8Format> {
    let Gpu { name, architecture, .. } = gpu;
    gpu.facts.fp8.ok_or_else(|| {
        GpuError::Unsupported(format!(
            "{name} ({architecture}) has no instructions that multiply 8-bit floating-point numbers"
        ))
    })
}
