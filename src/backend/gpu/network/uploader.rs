//! Converts layers to the element type and writes them to the device's memory.
//!
//! [`rukh_net::prepare`] passes the layers of a network to [`Uploader`] one by one.

use super::layers::{
    ByteKind, ByteWeights, Convolution, Dense, LayerNorm, PlaneEmbedding, SQUARES, SquareTable,
    component_type, rows_together,
};
use super::winograd;
use crate::runtime::error::{GpuError, Result};
use crate::runtime::ffi::gemm::ElementType;
use crate::runtime::ffi::hip::{Address, Device, DeviceBuffer};
use crate::runtime::ffi::pinned::Staging;
use crate::runtime::fp8::Fp8Format;
use crate::runtime::kernels::VECTOR;
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use rukh_base::parallel;
use rukh_cpu::{DeviceRounder, Quantised};
use rukh_net::network::Layers;
use rukh_net::prepare::{DenseRole, LayerStore, ScoreOrder};
use rukh_net::weights as file;
use std::sync::Arc;

/// The widest head that the fused attention kernels and the tests cover. `attention_any` would take a wider one.
const LARGEST_HEAD: usize = 128;

/// The most channels that the squeeze-and-excitation kernel has room for.
const LARGEST_SE_CHANNELS: usize = 1024;
/// The most hidden units that the squeeze-and-excitation kernel has room for.
const LARGEST_SE_HIDDEN: usize = 512;

/// The kernels for 8-bit numbers load so many of a row at a time.
const BYTES_TOGETHER: usize = 16;

/// Device memory is allocated in pieces of at least this size, because each allocation costs time.
const CHUNK_BYTES: usize = 8 << 20;

/// Every tensor begins at a multiple of this many bytes.
const ALIGNMENT: usize = 256;

/// How weights are rounded to 8 bits.
pub(crate) enum Rounding {
    /// To integers, by what the inputs of the layers are on some positions.
    Integers(DeviceRounder),
    /// To e4m3.
    Floats(Fp8Format),
}

/// Writes tensors to device memory, one after another.
pub(crate) struct Uploader {
    device: Device,
    element: ElementType,
    /// The memory that tensors are uploaded through. It is made for the first tensor.
    staging: Option<Staging>,
    chunks: Vec<Arc<DeviceBuffer>>,
    /// The number of bytes of the last piece that are in use.
    used: usize,
    /// How the layers of encoders are rounded to 8 bits; `None` if they have the element type.
    rounding: Option<Rounding>,
    /// The number of calls of [`LayerStore::dense`].
    dense_layers: usize,
}

impl Uploader {
    /// An uploader that converts weights to `element`, or with a `rounding` those of encoders to 8 bits.
    pub(crate) fn new(device: Device, element: ElementType, rounding: Option<Rounding>) -> Uploader {
        let (staging, chunks) = (None, Vec::new());
        Uploader { device, element, staging, chunks, used: 0, rounding, dense_layers: 0 }
    }

    /// Returns all memory that was allocated. The network must be complete: how its weights were rounded to integers is
    /// kept for the next start.
    pub(crate) fn finish(self) -> Vec<Arc<DeviceBuffer>> {
        if let Some(Rounding::Integers(rounder)) = self.rounding {
            rounder.keep();
        }
        self.chunks
    }

    /// Writes `bytes` to unused memory and returns their address.
    pub(crate) fn bytes(&mut self, name: &str, bytes: &[u8]) -> Result<Address> {
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
        let staging = match &mut self.staging {
            Some(staging) => staging,
            none => none.insert(Staging::new(self.device)?),
        };
        staging.upload(&chunk, self.used, bytes, name)?;
        let address = chunk.address().offset(self.used);
        self.used = (self.used + bytes.len()).next_multiple_of(ALIGNMENT).min(chunk.bytes());
        Ok(address)
    }

    /// Converts `values` to the element type, writes them and returns their address.
    pub(crate) fn tensor(&mut self, name: &str, values: &[f32]) -> Result<Address> {
        let bytes = to_bytes(self.element, values).map_err(|value| overflow(name, value))?;
        self.bytes(name, &bytes)
    }

    /// Writes `values` as fp32 and returns their address.
    pub(crate) fn fp32(&mut self, name: &str, values: &[f32]) -> Result<Address> {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.bytes(name, &bytes)
    }

    /// Writes a bias. If all its values are zero it is not written, and the address is null. The bias of a narrow row
    /// is repeated, because the kernels treat several such rows as one ([`rows_together`]).
    fn bias(&mut self, name: &str, values: &[f32]) -> Result<Address> {
        if values.iter().all(|&value| value == 0.0) {
            return Ok(Address::NULL);
        }
        self.tensor(&format!("{name} bias"), &values.repeat(rows_together(values.len())))
    }

    /// Rounds the weights of the layer with this number to 8 bits and writes them; `None` if they have the element type.
    fn rounded(&mut self, name: &str, number: usize, layer: &file::Dense) -> Result<Option<ByteWeights>> {
        let file::Dense { weights, inputs, .. } = layer;
        Ok(match &mut self.rounding {
            None => None,
            Some(Rounding::Integers(rounder)) => {
                let rounded = rounder.round(number, layer);
                Some(self.integers(name, &rounded, *inputs)?)
            }
            Some(Rounding::Floats(format)) => {
                let format = *format;
                let (codes, mut scales) = format.quantise(weights, *inputs);
                scales.resize(scales.len().next_multiple_of(VECTOR), 0.0);
                Some(ByteWeights {
                    kind: ByteKind::Floats(format),
                    weights: self.bytes(name, &codes)?,
                    scales: self.fp32(&format!("{name} scales"), &scales)?,
                    factors: Address::NULL,
                })
            }
        })
    }

    /// Writes weights that are 8-bit integers.
    fn integers(&mut self, name: &str, rounded: &Quantised, inputs: usize) -> Result<ByteWeights> {
        let Quantised { bytes, scales, factors } = rounded;
        let width = scales.len().next_multiple_of(VECTOR);
        let mut output_scales = vec![0.0; 2 * width];
        let rows = scales.iter().zip(bytes.chunks(inputs.max(1)));
        for (output, (scale, row)) in rows.enumerate() {
            let sum: i32 = row.iter().map(|&byte| i32::from(byte)).sum();
            (output_scales[output], output_scales[width + output]) = (*scale, scale * sum as f32);
        }
        let bytes: Vec<u8> = bytes.iter().map(|byte| byte.to_le_bytes()[0]).collect();
        Ok(ByteWeights {
            kind: ByteKind::Integers,
            weights: self.bytes(name, &bytes)?,
            scales: self.fp32(&format!("{name} scales"), &output_scales)?,
            factors: match factors.is_empty() {
                true => Address::NULL,
                false => self.fp32(&format!("{name} factors"), factors)?,
            },
        })
    }

    /// Writes a layer in the element type.
    fn matrix(&mut self, name: &str, role: DenseRole, layer: &file::Dense) -> Result<Dense> {
        let file::Dense { weights, inputs, outputs, .. } = layer;
        let weights = match role {
            DenseRole::Excite => self.transposed(name, layer)?,
            _ => self.tensor(name, weights)?,
        };
        let bias = self.bias_of(name, role, layer)?;
        let may_round = matches!(role, DenseRole::Encoder | DenseRole::Smolgen);
        Ok(Dense { weights, bytes: None, bias, inputs: *inputs, outputs: *outputs, may_round })
    }

    fn bias_of(&mut self, name: &str, role: DenseRole, layer: &file::Dense) -> Result<Address> {
        let biases = &layer.biases;
        match role {
            DenseRole::Encoder
            | DenseRole::Smolgen
            | DenseRole::Product
            | DenseRole::ScalarHead
            | DenseRole::Promotion => self.bias(name, biases),
            DenseRole::Squeeze | DenseRole::Excite => self.tensor(&format!("{name} bias"), biases),
            // The kernel adds this bias to the final sums, which are fp32.
            DenseRole::ScalarOutput => self.fp32(&format!("{name} bias"), biases),
        }
    }

    /// Transposes and writes the weights of squeeze-and-excitation's second layer. The kernel reads the weights of a
    /// hidden unit for all channels together.
    fn transposed(&mut self, name: &str, layer: &file::Dense) -> Result<Address> {
        let file::Dense { weights, inputs, outputs, .. } = layer;
        let values: Vec<f32> =
            (0..inputs * outputs).map(|i| weights[i % outputs * inputs + i / outputs]).collect();
        self.tensor(name, &values)
    }
}

impl Layers for Uploader {
    type Dense = Dense;
    type Convolution = Convolution;
    type LayerNorm = LayerNorm;
    type Gate = Address;
    type InputConvolution = Convolution;
    type PlaneEmbedding = PlaneEmbedding;
    type BoardEmbedding = Dense;
    type QueryKeyValue = Dense;
    type QueryKey = Dense;
    type HeadInput = Dense;
}

impl LayerStore for Uploader {
    type Error = GpuError;

    const SCORE_ORDER: ScoreOrder = ScoreOrder::QueryFirst;

    /// The attention kernels scale the scores themselves, in fp32.
    const SCALES_QUERIES: bool = false;

    /// Kernels read 8 elements at a time.
    fn check_width(&self, name: &str, channels: usize) -> Result<()> {
        check_width(name, channels)
    }

    fn check_attention(&self, name: &str, width: usize, heads: usize) -> Result<()> {
        check_width(&format!("{name} heads together"), width)?;
        match width / heads {
            0..=LARGEST_HEAD => Ok(()),
            depth => Err(GpuError::Unsupported(format!(
                "{name}: heads of {depth} channels, but at most {LARGEST_HEAD} are supported"
            ))),
        }
    }

    fn dense(&mut self, name: &str, role: DenseRole, layer: file::Dense) -> Result<Dense> {
        let file::Dense { inputs, outputs, .. } = layer;
        if role == DenseRole::Squeeze {
            check_squeeze(name, inputs, outputs)?;
        }
        let number = self.dense_layers;
        self.dense_layers += 1;
        let is_byte_layer = role == DenseRole::Encoder && inputs.is_multiple_of(BYTES_TOGETHER);
        let bytes = if is_byte_layer { self.rounded(name, number, &layer)? } else { None };
        if bytes.is_none() {
            return self.matrix(name, role, &layer);
        }
        let bias = self.bias_of(name, role, &layer)?;
        Ok(Dense { weights: Address::NULL, bytes, bias, inputs, outputs, may_round: false })
    }

    fn convolution(&mut self, name: &str, layer: file::Convolution) -> Result<Convolution> {
        check_width(name, layer.inputs)?;
        check_width(name, layer.outputs)?;
        let components = winograd::transform_weights(&layer);
        let bytes =
            to_bytes(component_type(self.element), &components).map_err(|value| overflow(name, value))?;
        Ok(Convolution {
            weights: self.bytes(name, &bytes)?,
            bias: self.tensor(&format!("{name} bias"), &layer.biases)?,
            inputs: layer.inputs,
            outputs: layer.outputs,
        })
    }

    /// An earlier step expands the planes to rows of elements, so the input convolution needs no special treatment.
    fn input_convolution(&mut self, name: &str, layer: file::Convolution) -> Result<Convolution> {
        self.convolution(name, layer)
    }

    fn plane_embedding(
        &mut self,
        name: &str,
        layer: file::Dense,
        table: Option<Vec<f32>>,
    ) -> Result<PlaneEmbedding> {
        let table = match table {
            Some(values) => SquareTable {
                values: self.tensor("positional table", &values)?,
                width: values.len() / SQUARES,
            },
            None => SquareTable::EMPTY,
        };
        Ok(PlaneEmbedding { dense: self.matrix(name, DenseRole::Product, &layer)?, table })
    }

    fn board_embedding(&mut self, name: &str, layer: file::Dense) -> Result<Dense> {
        self.matrix(name, DenseRole::Product, &layer)
    }

    fn layer_norm(&mut self, name: &str, layer: file::LayerNorm) -> Result<LayerNorm> {
        Ok(LayerNorm {
            gammas: self.tensor(&format!("{name} gammas"), &layer.gammas)?,
            betas: self.tensor(&format!("{name} betas"), &layer.betas)?,
            width: layer.gammas.len(),
            epsilon: layer.epsilon,
        })
    }

    fn gate(&mut self, name: &str, values: Vec<f32>) -> Result<Address> {
        self.tensor(name, &values)
    }
}

fn overflow(name: &str, value: f32) -> GpuError {
    GpuError::Unsupported(format!("{name}: the value {value} is too large for fp16"))
}

fn check_squeeze(name: &str, channels: usize, hidden: usize) -> Result<()> {
    if channels <= LARGEST_SE_CHANNELS && hidden <= LARGEST_SE_HIDDEN {
        return Ok(());
    }
    Err(GpuError::Unsupported(format!(
        "{name}: {channels} channels and {hidden} hidden units, but the kernel takes at most \
         {LARGEST_SE_CHANNELS} and {LARGEST_SE_HIDDEN}"
    )))
}

/// Kernels read 8 elements at a time.
pub(crate) fn check_width(name: &str, width: usize) -> Result<()> {
    if width.is_multiple_of(8) && width > 0 {
        return Ok(());
    }
    Err(GpuError::Unsupported(format!("{name}: {width} channels, but the kernels need a multiple of 8")))
}

/// Rounds to the element type (nearest, ties to even). The error is a value that fp16 cannot hold. bf16 has the range
/// of fp32, so its values are not checked.
fn to_bytes(element: ElementType, values: &[f32]) -> std::result::Result<Vec<u8>, f32> {
    let mut bytes = vec![0; values.len() * element.bytes()];
    parallel::fill(&mut bytes, element.bytes(), |start, piece| {
        let values = &values[start / element.bytes()..][..piece.len() / element.bytes()];
        match element {
            ElementType::Fp16 => round::<f16>(values, piece, |bits| bits & FP16_EXPONENT != FP16_EXPONENT),
            ElementType::Bf16 => round::<bf16>(values, piece, |_| true),
            _ => {
                let mut rounded = Vec::with_capacity(piece.len());
                values.iter().for_each(|&value| element.append(value, &mut rounded));
                piece.copy_from_slice(&rounded);
                Ok(())
            }
        }
    })?;
    Ok(bytes)
}

/// The bits of the exponent of fp16, all of which are set in infinities and NaNs.
const FP16_EXPONENT: u16 = 0x7c00;

/// Rounds to a type of 16 bits, many values at a time. The error is the first value whose bits are not `right` afterwards.
fn round<T: Copy + Default>(
    values: &[f32],
    bytes: &mut [u8],
    right: impl Fn(u16) -> bool,
) -> std::result::Result<(), f32>
where
    [T]: HalfFloatSliceExt,
{
    const TOGETHER: usize = 1024;
    let mut block = [T::default(); TOGETHER];
    for (values, bytes) in values.chunks(TOGETHER).zip(bytes.chunks_mut(2 * TOGETHER)) {
        let block = &mut block[..values.len()];
        block.convert_from_f32_slice(values);
        let bits = block.reinterpret_cast();
        if !bits.iter().fold(true, |all, &bits| all & right(bits)) {
            let wrong = values.iter().zip(bits).find(|&(_, &bits)| !right(bits));
            return Err(wrong.map_or(f32::NAN, |(value, _)| *value));
        }
        bytes.as_chunks_mut::<2>().0.iter_mut().zip(bits).for_each(|(two, bits)| *two = bits.to_le_bytes());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_rounded_to_nearest_and_never_to_infinity() {
        assert_eq!(to_bytes(ElementType::Bf16, &[1.0 + 1.0 / 256.0]).unwrap(), [0x80, 0x3f]);
        assert_eq!(to_bytes(ElementType::Fp16, &[65504.0]).unwrap(), [0xff, 0x7b]);
        assert_eq!(to_bytes(ElementType::Fp16, &[1e5]), Err(1e5));
        let many: Vec<f32> = (0..3_000_000).map(|i| i as f32 / 64.0).collect();
        let bytes = to_bytes(ElementType::Fp16, &many).unwrap();
        let rounded = |value: f32| f16::from_f32(value).to_le_bytes();
        assert!(bytes.as_chunks::<2>().0.iter().zip(&many).all(|(two, &value)| *two == rounded(value)));
        assert_eq!(to_bytes(ElementType::Fp16, &[&many[..], &[7e4, 8e4]].concat()), Err(7e4));
        assert_eq!(to_bytes(ElementType::Fp32, &[1e5]).unwrap().len(), 4);
    }

    #[test]
    fn widths_that_the_kernels_cannot_read_are_named() {
        assert!(check_width("embedding", 768).is_ok());
        let error = check_width("embedding", 20).unwrap_err().to_string();
        assert_eq!(error, "embedding: 20 channels, but the kernels need a multiple of 8");
    }
}
