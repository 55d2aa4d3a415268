//! Tensors on their way to the device: layers as the file has them to layers as the kernels and products read them.
//!
//! Matrices that read a flattened board read it as `[square][channel]`; 3x3 convolutions are transformed for Winograd's
//! products. Matrices and vectors are of the backend's element type, `[outputs][inputs]`.

use super::error::{Result, RocmError};
use super::ffi::gemm::ElementType;
use super::ffi::hip::{Address, Device, DeviceBuffer};
use super::weights::{Convolution, Dense, FeedForward, LayerNorm, SQUARES};
use super::winograd;
use crate::net::weights as file;
use half::{bf16, f16};
use std::sync::Arc;

/// Device memory is taken in pieces of this size, as each has a price.
const CHUNK_BYTES: usize = 8 << 20;

/// Every tensor begins at a multiple of this many bytes.
const ALIGNMENT: usize = 256;

/// Fills device memory, tensor by tensor.
pub(super) struct Uploader {
    device: Device,
    element: ElementType,
    chunks: Vec<Arc<DeviceBuffer>>,
    /// Bytes of the last chunk.
    used: usize,
}

impl Uploader {
    /// Of tensors of this type.
    pub(super) fn new(device: Device, element: ElementType) -> Uploader {
        Uploader { device, element, chunks: Vec::new(), used: 0 }
    }

    /// All that was taken.
    pub(super) fn into_memory(self) -> Vec<Arc<DeviceBuffer>> {
        self.chunks
    }

    /// Memory that begins with these bytes.
    pub(super) fn bytes(&mut self, what: &str, bytes: &[u8]) -> Result<Address> {
        let chunk = match self.chunks.last() {
            Some(chunk) if chunk.bytes() - self.used >= bytes.len() => Arc::clone(chunk),
            _ => {
                let size = bytes.len().max(CHUNK_BYTES);
                let chunk = Arc::new(DeviceBuffer::zeroed(self.device, size, "weights")?);
                self.chunks.push(Arc::clone(&chunk));
                self.used = 0;
                chunk
            }
        };
        chunk.upload(self.used, bytes, what)?;
        let address = chunk.address().offset(self.used);
        self.used = (self.used + bytes.len()).next_multiple_of(ALIGNMENT).min(chunk.bytes());
        Ok(address)
    }

    /// Values of the element type.
    pub(super) fn tensor(&mut self, what: &str, values: &[f32]) -> Result<Address> {
        let bytes = to_bytes(self.element, values)
            .map_err(|value| RocmError::Unsupported(format!("{what}: {value} does not fit fp16")))?;
        self.bytes(what, &bytes)
    }

    /// Values of fp32.
    pub(super) fn fp32(&mut self, what: &str, values: &[f32]) -> Result<Address> {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.bytes(what, &bytes)
    }

    /// Biases that are all zero are none.
    fn bias(&mut self, what: &str, values: &[f32]) -> Result<Address> {
        if values.iter().all(|&value| value == 0.0) {
            return Ok(Address::NULL);
        }
        self.tensor(&format!("{what} bias"), &values.repeat(rows_together(values.len())))
    }

    /// `[outputs][inputs]` and its bias, which may be empty.
    pub(super) fn matrix(
        &mut self,
        what: &str,
        weights: &[f32],
        biases: &[f32],
        inputs: usize,
    ) -> Result<Dense> {
        let outputs = weights.len() / inputs.max(1);
        Ok(Dense { weights: self.tensor(what, weights)?, bias: self.bias(what, biases)?, inputs, outputs })
    }

    /// A dense layer as it is in the file.
    pub(super) fn dense(&mut self, what: &str, layer: &file::Dense) -> Result<Dense> {
        self.matrix(what, &layer.weights, &layer.biases, layer.inputs)
    }

    /// A 1x1 convolution is a dense layer per square.
    pub(super) fn pointwise(&mut self, what: &str, layer: &file::Convolution) -> Result<Dense> {
        self.matrix(what, &layer.weights, &layer.biases, layer.inputs)
    }

    /// A dense layer whose inputs the file flattens as `[channel][square]`.
    pub(super) fn dense_over_channels(&mut self, what: &str, layer: &file::Dense) -> Result<Dense> {
        let weights = squares_first(&layer.weights, layer.inputs);
        self.matrix(what, &weights, &layer.biases, layer.inputs)
    }

    /// Layers of the same input as one, outputs side by side.
    pub(super) fn side_by_side(&mut self, what: &str, layers: &[&file::Dense]) -> Result<Dense> {
        let concatenated = |part: fn(&file::Dense) -> &[f32]| -> Vec<f32> {
            layers.iter().flat_map(|layer| part(layer)).copied().collect()
        };
        let inputs = layers.first().map_or(0, |layer| layer.inputs);
        let (weights, biases) = (concatenated(|layer| &layer.weights), concatenated(|layer| &layer.biases));
        self.matrix(what, &weights, &biases, inputs)
    }

    /// Scale and shift.
    pub(super) fn layer_norm(
        &mut self,
        what: &str,
        layer: &file::LayerNorm,
        epsilon: f32,
    ) -> Result<LayerNorm> {
        Ok(LayerNorm {
            gammas: self.tensor(&format!("{what} gammas"), &layer.gammas)?,
            betas: self.tensor(&format!("{what} betas"), &layer.betas)?,
            width: layer.gammas.len(),
            epsilon,
        })
    }

    /// A 3x3 convolution as 36 products.
    pub(super) fn convolution(&mut self, what: &str, layer: &file::Convolution) -> Result<Convolution> {
        check_width(what, layer.inputs)?;
        check_width(what, layer.outputs)?;
        let components = winograd::transform_weights(layer);
        let bytes = to_bytes(component_type(self.element), &components)
            .map_err(|value| RocmError::Unsupported(format!("{what}: {value} does not fit fp16")))?;
        Ok(Convolution {
            weights: self.bytes(what, &bytes)?,
            bias: self.tensor(&format!("{what} bias"), &layer.biases)?,
            inputs: layer.inputs,
            outputs: layer.outputs,
        })
    }

    /// Two dense layers.
    pub(super) fn feed_forward(&mut self, what: &str, layers: &file::FeedForward) -> Result<FeedForward> {
        check_width(&format!("{what} hidden layer"), layers.dense1.outputs)?;
        Ok(FeedForward {
            dense1: self.dense(&format!("{what} dense1"), &layers.dense1)?,
            dense2: self.dense(&format!("{what} dense2"), &layers.dense2)?,
        })
    }
}

/// The type of Winograd's components and their weights: in bf16 they would cost four times the error of a
/// direct convolution.
pub(super) fn component_type(element: ElementType) -> ElementType {
    match element {
        ElementType::Fp32 => ElementType::Fp32,
        ElementType::Fp16 | ElementType::Bf16 => ElementType::Fp16,
    }
}

/// How many rows of this width an elementwise kernel takes as one, so that it reads 8 elements at a time.
pub(super) fn rows_together(width: usize) -> usize {
    1 << 3_u32.saturating_sub(width.trailing_zeros())
}

/// Kernels read 8 elements at a time.
pub(super) fn check_width(what: &str, width: usize) -> Result<()> {
    if width.is_multiple_of(8) && width > 0 {
        return Ok(());
    }
    Err(RocmError::Unsupported(format!("{what}: {width} channels, but the kernels need a multiple of 8")))
}

/// Rows of `[channel][square]` as `[square][channel]`.
pub(super) fn squares_first(values: &[f32], row: usize) -> Vec<f32> {
    let channels = row / SQUARES;
    let from = |i: usize| {
        let (start, within) = (i / row * row, i % row);
        start + within % channels * SQUARES + within / channels
    };
    (0..values.len()).map(|i| values[from(i)]).collect()
}

/// Rounds to the element type, nearest even; the error is a value that is beyond it.
fn to_bytes(element: ElementType, values: &[f32]) -> std::result::Result<Vec<u8>, f32> {
    let mut bytes = Vec::with_capacity(values.len() * element.bytes());
    for &value in values {
        match element {
            ElementType::Fp32 => bytes.extend(value.to_le_bytes()),
            ElementType::Bf16 => bytes.extend(bf16::from_f32(value).to_le_bytes()),
            ElementType::Fp16 => {
                let rounded = f16::from_f32(value);
                if !rounded.is_finite() {
                    return Err(value);
                }
                bytes.extend(rounded.to_le_bytes());
            }
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flattened_boards_are_read_square_by_square() {
        // Two rows of two channels: the file's [channel][square] is counted through.
        let row = 2 * SQUARES;
        let values: Vec<f32> = (0..2 * row).map(|i| i as f32).collect();
        let turned = squares_first(&values, row);
        assert_eq!(turned[..4], [0.0, 64.0, 1.0, 65.0]);
        assert_eq!(turned[row..row + 4], [128.0, 192.0, 129.0, 193.0]);
    }

    #[test]
    fn elements_are_rounded_to_nearest_and_never_to_infinity() {
        assert_eq!(to_bytes(ElementType::Bf16, &[1.0 + 1.0 / 256.0]).unwrap(), [0x80, 0x3f]);
        assert_eq!(to_bytes(ElementType::Fp16, &[65504.0]).unwrap(), [0xff, 0x7b]);
        assert_eq!(to_bytes(ElementType::Fp16, &[1e5]), Err(1e5));
        assert_eq!(to_bytes(ElementType::Fp32, &[1e5]).unwrap().len(), 4);
    }

    #[test]
    fn narrow_rows_are_taken_together() {
        for (width, rows) in [(8, 1), (768, 1), (4, 2), (12, 2), (6, 4), (1, 8), (3, 8)] {
            assert_eq!(rows_together(width), rows, "{width}");
            assert!((width * rows).is_multiple_of(8));
        }
    }

    #[test]
    fn widths_that_the_kernels_cannot_read_are_named() {
        assert!(check_width("embedding", 768).is_ok());
        let error = check_width("embedding", 20).unwrap_err().to_string();
        assert_eq!(error, "embedding: 20 channels, but the kernels need a multiple of 8");
    }
}
