//! The memory of a slot for intermediate results, divided into regions.

use crate::runtime::error::Result;
use crate::runtime::ffi::hip::{Address, Device, DeviceBuffer};
use std::sync::Arc;

/// A buffer for intermediate results. T = 64 B is the number of squares of a batch of B positions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub(crate) enum Region {
    /// Input planes, `[T][planes]`.
    Planes,
    /// The residual stream, `[T][channels]`.
    Stream,
    /// The policy head's residual stream.
    PolicyStream,
    /// Q, K and V, the hidden layer of a feed-forward network, or the result of a convolution.
    Wide,
    /// The result of attention, or the first layer of a head.
    Narrow,
    /// The branch that is added to the residual stream.
    Branch,
    /// Attention logits, `[B][heads][64][64]`.
    Logits,
    /// Smolgen's compressed squares, `[T][channels]`.
    Compressed,
    /// The hidden layers of smolgen.
    Hidden,
    /// Smolgen's generated vectors, `[B * heads][generated]`.
    Generated,
    /// The rows of a GEMM's x, rounded to 8 bits, `[T][channels]` of bytes.
    Bytes,
    /// What the bytes of a row mean, `[T][2]` of fp32.
    RowScales,
    /// Winograd's components of a convolution's input, `[36][4 B][channels]`.
    Components,
    /// Winograd's sums, `[36][4 B][channels]`.
    Sums,
    /// The mean of each channel over the squares of a board, `[B][channels]` in fp32.
    Means,
    /// The first layer of the value head, then of the value-error head. The heads have buffers of their own because
    /// they may run in parallel to the policy head.
    ValueSquares,
    /// The hidden layer of the value head, then of the value-error head.
    ValueHidden,
    /// The first layer of the moves-left head.
    MovesLeftSquares,
    /// The hidden layer of the moves-left head.
    MovesLeftHidden,
}

const REGIONS: usize = 19;

/// The memory of a slot for intermediate results.
pub(crate) struct Scratch {
    buffer: Arc<DeviceBuffer>,
    starts: [usize; REGIONS],
}

/// The size of each region, in bytes.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct ScratchSizes([usize; REGIONS]);

impl ScratchSizes {
    /// Makes sure that `region` holds `bytes`.
    pub(crate) fn need(&mut self, region: Region, bytes: usize) {
        let size = &mut self.0[region as usize];
        *size = bytes.max(*size);
    }

    /// The total size, in bytes.
    pub(crate) fn total(&self) -> usize {
        self.0.iter().map(|size| size.next_multiple_of(ALIGNMENT)).sum()
    }
}

/// Regions begin at multiples of this many bytes.
const ALIGNMENT: usize = 256;

impl Scratch {
    pub(crate) fn new(device: Device, sizes: &ScratchSizes) -> Result<Scratch> {
        let mut starts = [0; REGIONS];
        let mut end = 0;
        for (start, size) in starts.iter_mut().zip(sizes.0) {
            *start = end;
            end += size.next_multiple_of(ALIGNMENT);
        }
        let buffer = Arc::new(DeviceBuffer::zeroed(device, end, "intermediate results")?);
        Ok(Scratch { buffer, starts })
    }

    /// The address of a region.
    pub(crate) fn address(&self, region: Region) -> Address {
        self.buffer.address().offset(self.starts[region as usize])
    }

    /// The memory, for a program that must keep it allocated.
    pub(crate) fn buffer(&self) -> Arc<DeviceBuffer> {
        Arc::clone(&self.buffer)
    }
}
