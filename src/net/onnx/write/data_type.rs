//! The type of the weights and its bytes.

use half::{bf16, f16};
use prost::bytes::Bytes;

use crate::onnx::proto::data_type;

/// The type of all weights and activations of a graph.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "these are the usual names of the types")]
pub enum DataType {
    F32,
    F16,
    Bf16,
}

impl DataType {
    /// ONNX's number for the type, which lc0's network file has too.
    pub fn number(self) -> i32 {
        match self {
            DataType::F32 => data_type::FLOAT,
            DataType::F16 => data_type::FLOAT16,
            DataType::Bf16 => data_type::BFLOAT16,
        }
    }

    /// The bytes of a tensor.
    ///
    /// # Errors
    /// The first value that is too large for the type.
    pub(super) fn encode(self, values: impl Iterator<Item = f32>) -> Result<Bytes, f32> {
        let mut bytes = Vec::new();
        for value in values {
            match self {
                DataType::F32 => bytes.extend(value.to_le_bytes()),
                DataType::F16 => {
                    bytes.extend(finite(value, f16::from_f32(value), f16::is_finite)?.to_le_bytes())
                }
                DataType::Bf16 => {
                    bytes.extend(finite(value, bf16::from_f32(value), bf16::is_finite)?.to_le_bytes());
                }
            }
        }
        Ok(bytes.into())
    }
}

fn finite<T>(value: f32, converted: T, is_finite: impl Fn(T) -> bool) -> Result<T, f32>
where
    T: Copy,
{
    if is_finite(converted) { Ok(converted) } else { Err(value) }
}

impl std::fmt::Display for DataType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            DataType::F32 => "f32",
            DataType::F16 => "f16",
            DataType::Bf16 => "bf16",
        })
    }
}
