//! The matrices of timed GEMMs, in the device's memory, and what they hold.
//!
//! There is memory for the largest GEMM, and all GEMMs use it in turn. The layers of a shape lie one after
//! another. Every matrix holds the same pattern of numbers, so transposed weights are the same bytes, read in another
//! way.

use super::samples::{PATTERN_BYTES, byte_scale, pattern};
use crate::gemm::gemms::{GemmProblem, Gemms};
use crate::network::layers::SQUARES;
use crate::network::{byte_weights, preshuffle, transposed};
use crate::runtime::error::Result;
use crate::runtime::ffi::gemm::{ElementType, Epilogue, GateOperands, GemmOperands, GemmShape};
use crate::runtime::ffi::hip::{Address, Device, DeviceBuffer};
use crate::runtime::ffi::pinned::Staging;
use serde::{Deserialize, Serialize};

/// The most memory for the weights of the layers of one shape, in bytes.
const MOST_WEIGHTS: usize = 256 << 20;

/// Every layer's weights begin at a multiple of this many bytes.
const ALIGNMENT: usize = 256;

/// A GEMM to measure.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Wanted {
    pub(crate) shape: GemmShape,
    /// The number of the network's layers with this shape.
    pub(crate) layers: usize,
}

/// The memory.
pub(crate) struct Matrices {
    weights: DeviceBuffer,
    /// Room for the preshuffled weights of all layers of a shape; `None` if they are not tried.
    preshuffled: Option<DeviceBuffer>,
    /// The same for weights of 8 bits.
    bytes: Option<DeviceBuffer>,
    x: DeviceBuffer,
    y: DeviceBuffer,
    /// The scales of x and of the weights of GEMMs of 8-bit numbers, of fp32; `None` without such GEMMs.
    scales: Option<[DeviceBuffer; 2]>,
}

impl Matrices {
    /// Memory for the largest of `wanted`.
    ///
    /// # Errors
    /// There is too little memory.
    pub(crate) fn new(
        device: Device,
        gemms: &Gemms,
        element: ElementType,
        wanted: &[Wanted],
    ) -> Result<Matrices> {
        let pattern = pattern(element);
        let most = wanted
            .iter()
            .map(bytes)
            .fold([0; 3], |most, some| std::array::from_fn(|index| most[index].max(some[index])));
        // Without this memory, preshuffled weights are not tried.
        let copies = wanted.iter().filter(|gemm| gemms.preshuffler(&gemm.shape).is_some());
        let copies = copies.map(|gemm| layer_count(gemm) * preshuffle::bytes(&gemm.shape)).max();
        let preshuffled =
            copies.and_then(|bytes| DeviceBuffer::zeroed(device, bytes, "preshuffled weights").ok());
        let rounded = wanted.iter().filter(|gemm| gemms.may_use_bytes(&gemm.shape));
        let rounded = rounded.map(|gemm| layer_count(gemm) * byte_weights::bytes(&gemm.shape)).max();
        let rounded = rounded.and_then(|bytes| DeviceBuffer::zeroed(device, bytes, "weights of 8 bits").ok());
        let buffer = |bytes: usize| -> Result<DeviceBuffer> {
            let buffer = DeviceBuffer::zeroed(device, bytes, "the matrices of timed GEMMs")?;
            fill(device, &buffer, &pattern)?;
            Ok(buffer)
        };
        let scales = byte_scales(wanted).map(|contents| -> Result<[DeviceBuffer; 2]> {
            let [x, weights] = contents.map(|scales| uploaded(device, &scales));
            Ok([x?, weights?])
        });
        Ok(Matrices {
            weights: buffer(most[0])?,
            preshuffled,
            bytes: rounded,
            x: buffer(most[1])?,
            y: buffer(most[2])?,
            scales: scales.transpose()?,
        })
    }

    /// The addresses of the scales of x and of the weights; null without GEMMs of 8-bit numbers.
    pub(crate) fn scales(&self) -> [Address; 2] {
        self.scales.as_ref().map_or([Address::NULL; 2], |scales| [scales[0].address(), scales[1].address()])
    }

    /// The results of GEMMs.
    pub(crate) fn y(&self) -> &DeviceBuffer {
        &self.y
    }

    /// The address of numbers that can be a bias.
    pub(crate) fn bias(&self) -> Address {
        self.weights.address()
    }

    /// The addresses of numbers that can be the gates of a GEMM; `None` if the shape has no gates.
    pub(crate) fn gates(&self, shape: &GemmShape) -> Option<GateOperands> {
        shape.is_gated.then_some(GateOperands { multiply: self.bias(), add: self.bias() })
    }

    /// Writes the weights of 8 bits of so many layers: those of the first layer, rounded, for each. `pattern` is what
    /// the matrices are filled with. Returns whether there is memory for them.
    ///
    /// # Errors
    /// The device fails.
    pub(crate) fn round_weights(
        &self,
        staging: &mut Staging,
        shape: &GemmShape,
        layers: usize,
        pattern: &[u8],
    ) -> Result<bool> {
        let Some(buffer) = &self.bytes else { return Ok(false) };
        let plain: Vec<u8> = pattern.iter().copied().cycle().take(transposed::plain_bytes(shape)).collect();
        let rounded = byte_weights::rounded(shape, &plain);
        for layer in 0..layers {
            staging.upload(buffer, layer * rounded.len(), &rounded, "weights of 8 bits")?;
        }
        Ok(true)
    }

    /// The GEMM with the weights of layer `layer`. The preshuffled ones, and those of 8 bits, must be made before they
    /// are read.
    pub(crate) fn problem(&self, gemms: &Gemms, shape: &GemmShape, layer: usize) -> GemmProblem {
        let weights = self.weights.address().offset(layer * weight_bytes(shape));
        let bias = if shape.epilogue == Epilogue::None { Address::NULL } else { self.bias() };
        let plain = GemmOperands::plain(weights, self.x.address(), self.y.address());
        let operands = GemmOperands { gates: self.gates(shape), ..plain };
        let copy = self.preshuffled.as_ref().filter(|_| gemms.preshuffler(shape).is_some());
        let preshuffled =
            copy.map_or(Address::NULL, |copy| copy.address().offset(layer * preshuffle::bytes(shape)));
        let copy = self.bytes.as_ref().filter(|_| gemms.may_use_bytes(shape));
        let bytes =
            copy.map_or(Address::NULL, |copy| copy.address().offset(layer * byte_weights::bytes(shape)));
        GemmProblem { shape: *shape, operands, bias, preshuffled, transposed: weights, bytes }
    }

    /// The GEMM with the weights of each layer, as far as there is memory for them.
    pub(crate) fn layers(&self, gemms: &Gemms, gemm: &Wanted) -> Vec<GemmProblem> {
        (0..layer_count(gemm)).map(|layer| self.problem(gemms, &gemm.shape, layer)).collect()
    }
}

/// The bytes that the weights, x and y of a shape take. `layers` layers lie one after another.
fn bytes(gemm: &Wanted) -> [usize; 3] {
    let shape = &gemm.shape;
    let [_, x, y] = shape.batch_strides.map(|stride| (shape.batch - 1) * stride);
    let rows = |rows: usize, stride: usize, width: usize| rows.saturating_sub(1) * stride + width;
    let (input, output) = (shape.input_type.bytes(), shape.output_type.bytes());
    [
        weight_bytes(shape) * layer_count(gemm),
        (x + rows(shape.rows, shape.x_stride, shape.inputs)) * input,
        (y + rows(shape.rows, shape.y_stride, shape.outputs)) * output,
    ]
}

/// The number of layers whose weights are in memory.
fn layer_count(Wanted { shape, layers }: &Wanted) -> usize {
    (MOST_WEIGHTS / weight_bytes(shape)).clamp(1, (*layers).max(1))
}

/// The bytes of a layer's weights, plain or transposed. The bias and the gates lie in the same memory.
fn weight_bytes(shape: &GemmShape) -> usize {
    let gates = if shape.is_gated { SQUARES * shape.y_stride * shape.output_type.bytes() } else { 0 };
    let vectors = gates.max(shape.outputs * 4);
    let bytes = transposed::plain_bytes(shape).max(transposed::bytes(shape)).max(vectors);
    bytes.next_multiple_of(ALIGNMENT)
}

/// The scales for the largest GEMMs of 8-bit numbers: those of the rows of x, and of the outputs. Integers have two
/// numbers for each row of x, of which the second one is zero here, and then whatever the second number of an output is
/// counts for nothing.
fn byte_scales(wanted: &[Wanted]) -> Option<[Vec<f32>; 2]> {
    let of_bytes = || wanted.iter().map(|gemm| gemm.shape).filter(GemmShape::is_of_bytes);
    let is_of_integers = of_bytes().next()?.input_type == ElementType::Int8;
    let rows = of_bytes().map(|shape| shape.rows).max()?;
    let outputs = of_bytes().map(|shape| shape.outputs.next_multiple_of(8)).max()?;
    let row = |index: usize| match is_of_integers {
        true => vec![byte_scale(index), 0.0],
        false => vec![byte_scale(index)],
    };
    Some([(0..rows).flat_map(row).collect(), (0..2 * outputs).map(byte_scale).collect()])
}

/// Numbers in a buffer of their own.
fn uploaded(device: Device, numbers: &[f32]) -> Result<DeviceBuffer> {
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    let buffer = DeviceBuffer::zeroed(device, bytes.len(), "the scales of timed GEMMs")?;
    Staging::new(device)?.upload(&buffer, 0, &bytes, "the scales of timed GEMMs")?;
    Ok(buffer)
}

/// Fills a buffer with the pattern, which has [`PATTERN_BYTES`] at most.
pub(crate) fn fill(device: Device, buffer: &DeviceBuffer, pattern: &[u8]) -> Result<()> {
    let mut staging = Staging::new(device)?;
    for start in (0..buffer.bytes()).step_by(PATTERN_BYTES) {
        let count = pattern.len().min(buffer.bytes() - start);
        staging.upload(buffer, start, &pattern[..count], "the matrices of timed GEMMs")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matrices_get_the_memory_that_their_strides_need() {
        let shape = GemmShape::plain(3, 5, 7, ElementType::Fp16);
        // 5 x 7 weights and 5 biases of four bytes, rounded up; 3 x 7 inputs; 3 x 5 outputs.
        assert_eq!(bytes(&Wanted { shape, layers: 2 }), [512, 42, 30]);
        let wide = GemmShape { x_stride: 10, batch: 2, batch_strides: [35, 100, 15], ..shape };
        assert_eq!(bytes(&Wanted { shape: wide, layers: 1 }), [256, 254, 60]);
        // Gates of 64 x 5 elements need more than the weights.
        let gated = GemmShape { is_gated: true, ..shape };
        assert_eq!(bytes(&Wanted { shape: gated, layers: 1 }), [768, 42, 30]);
    }
}
