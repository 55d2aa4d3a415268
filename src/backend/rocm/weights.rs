//! A network's layers in the device's memory, as the forward pass wants them.
//!
//! Made once, shared by all slots: [`super::assemble`] puts it together, [`super::uploader`] converts.

use super::error::Result;
use super::ffi::gemm::ElementType;
use super::ffi::hip::{Address, Device, DeviceBuffer};
use super::uploader::Uploader;
use crate::net::Network;
use crate::net::architecture::Activation;
use std::sync::Arc;

/// Squares of a board.
pub(super) const SQUARES: usize = 64;

/// A dense layer; also a 1x1 convolution, which is one per square.
#[derive(Clone, Copy)]
pub(super) struct Dense {
    /// `[outputs][inputs]`
    pub(super) weights: Address,
    /// `[outputs]`, repeated [`super::uploader::rows_together`] times; null where the file has none, or zeros.
    pub(super) bias: Address,
    pub(super) inputs: usize,
    pub(super) outputs: usize,
}

/// Scale and shift, `[width]` each.
#[derive(Clone, Copy)]
pub(super) struct LayerNorm {
    pub(super) gammas: Address,
    pub(super) betas: Address,
    pub(super) width: usize,
    pub(super) epsilon: f32,
}

/// A 3x3 convolution as 36 products.
#[derive(Clone, Copy)]
pub(super) struct Convolution {
    /// `[36][outputs][inputs]`
    pub(super) weights: Address,
    /// `[outputs]`
    pub(super) bias: Address,
    pub(super) inputs: usize,
    pub(super) outputs: usize,
}

/// Two dense layers.
#[derive(Clone, Copy)]
pub(super) struct FeedForward {
    pub(super) dense1: Dense,
    pub(super) dense2: Dense,
}

/// Squeeze and excitation.
#[derive(Clone, Copy)]
pub(super) struct SqueezeExcitation {
    /// `[hidden][channels]`
    pub(super) squeeze: Address,
    /// `[hidden]`
    pub(super) squeeze_bias: Address,
    /// `[hidden][2 * channels]`: transposed; scales, then shifts.
    pub(super) excite: Address,
    /// `[2 * channels]`
    pub(super) excite_bias: Address,
    pub(super) channels: usize,
    pub(super) hidden: usize,
}

/// A residual block.
pub(super) struct Block {
    pub(super) conv1: Convolution,
    pub(super) conv2: Convolution,
    pub(super) se: Option<SqueezeExcitation>,
}

/// The body.
pub(super) enum Body {
    Tower { input: Convolution, blocks: Vec<Block> },
    Attention { embedding: Box<Embedding>, stack: EncoderStack },
}

/// What stands before the encoders.
pub(super) struct Embedding {
    /// Constants after each square's planes, `[64][extra]`, and how many.
    pub(super) table: (Address, usize),
    /// PE_DENSE's layer over the newest pieces, and the embedding's part that reads its result.
    pub(super) position: Option<(Dense, Dense)>,
    pub(super) dense: Dense,
    pub(super) ln: Option<LayerNorm>,
    /// Multiplying and adding gate, `[64][embedding]`.
    pub(super) gates: Option<(Address, Address)>,
    pub(super) ffn: Option<(FeedForward, LayerNorm)>,
}

/// Encoders of one stack and what they share.
pub(super) struct EncoderStack {
    pub(super) encoders: Vec<Encoder>,
    pub(super) heads: usize,
    /// Factor on each branch.
    pub(super) alpha: f32,
    pub(super) ffn_activation: Activation,
    pub(super) smolgen_activation: Activation,
}

/// One encoder.
pub(super) struct Encoder {
    /// Queries, keys, values.
    pub(super) qkv: Dense,
    pub(super) output: Dense,
    pub(super) smolgen: Option<Smolgen>,
    pub(super) ln1: LayerNorm,
    pub(super) ffn: FeedForward,
    pub(super) ln2: LayerNorm,
}

/// One encoder's smolgen.
pub(super) struct Smolgen {
    pub(super) compress: Dense,
    pub(super) dense1: Dense,
    pub(super) ln1: LayerNorm,
    pub(super) dense2: Dense,
    pub(super) ln2: LayerNorm,
    /// Shared by all encoders.
    pub(super) global: Dense,
}

/// The policy head.
pub(super) enum Policy {
    Classical { input: Dense, dense: Dense },
    Convolution { first: Convolution, last: Convolution },
    Attention(Box<AttentionPolicy>),
}

/// A policy head of queries and keys.
pub(super) struct AttentionPolicy {
    pub(super) embedding: Dense,
    pub(super) embedding_activation: Activation,
    pub(super) stack: EncoderStack,
    /// Queries and keys.
    pub(super) query_key: Dense,
    /// Columns of queries, and of keys.
    pub(super) depth: usize,
    /// `[3][depth]`: what a key adds to a promotion to queen, rook, bishop.
    pub(super) promotions: Address,
}

/// Value, value-error or moves-left head.
#[derive(Clone, Copy)]
pub(super) struct ScalarHead {
    pub(super) input: Dense,
    pub(super) hidden: Dense,
    pub(super) output: Dense,
}

/// A network on a device.
pub(super) struct DeviceNetwork {
    pub(super) body: Body,
    pub(super) policy: Policy,
    /// Where each of the 1858 policy indices lies among the policy head's logits, `[1858]` of 16 bits.
    pub(super) places: Address,
    pub(super) value: ScalarHead,
    /// Where the value's error is wanted; with the value head's own layers where it is another output of that.
    pub(super) value_error: Option<ScalarHead>,
    pub(super) moves_left: Option<ScalarHead>,
    pub(super) wdl: bool,
    /// Wherever a layer has none of its own.
    pub(super) activation: Activation,
    pub(super) element: ElementType,
    /// All of it.
    pub(super) memory: Vec<Arc<DeviceBuffer>>,
}

impl DeviceNetwork {
    /// Bytes of device memory.
    pub(super) fn bytes(&self) -> usize {
        self.memory.iter().map(|buffer| buffer.bytes()).sum()
    }

    /// Converts and uploads.
    ///
    /// # Errors
    /// A layer that the kernels cannot run, by name; a weight beyond the element type; the device's memory.
    pub(super) fn new(device: Device, network: &Network, element: ElementType) -> Result<DeviceNetwork> {
        let mut uploader = Uploader::new(device, element);
        let body = uploader.body(network)?;
        let policy = uploader.policy(network)?;
        let places = uploader.places(&policy)?;
        let value = uploader.scalar_head("value head", &network.value)?;
        let value_error = match &network.value_error {
            Some(head) if head.shares_hidden_layer(&network.value) => {
                Some(ScalarHead { output: uploader.head_output("value-error head", &head.output)?, ..value })
            }
            Some(head) => Some(uploader.scalar_head("value-error head", head)?),
            None => None,
        };
        let moves_left = match &network.moves_left {
            Some(head) => Some(uploader.scalar_head("moves-left head", head)?),
            None => None,
        };
        Ok(DeviceNetwork {
            body,
            policy,
            places,
            value,
            value_error,
            moves_left,
            wdl: network.architecture.wdl,
            activation: network.architecture.default_activation,
            element,
            memory: uploader.into_memory(),
        })
    }
}
