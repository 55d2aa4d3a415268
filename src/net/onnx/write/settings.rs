//! The names, types and versions that the user selects.

use half::{bf16, f16};
use prost::bytes::Bytes;

use crate::net::onnx::proto::data_type;

/// The opsets that can be written. The first is the oldest whose operators broadcast as NumPy does.
pub const OPSETS: std::ops::RangeInclusive<i64> = 7..=22;

/// The versions of the file format that can be written. Before version 4, a graph had to list all constants as inputs.
pub const IR_VERSIONS: std::ops::RangeInclusive<i64> = 4..=10;

/// The first opset whose LayerNormalization is part of ONNX.
pub(super) const LAYER_NORMALIZATION_OPSET: i64 = 17;

/// The first opset with a Mish operator.
pub(super) const MISH_OPSET: i64 = 18;

/// The first opset whose operators all accept bf16. Before it, convolutions and some activations do not.
pub(super) const ALL_BF16_OPSET: i64 = 22;

/// The first opset in which those operators accept bf16 that this module does not avoid.
const BF16_OPSET: i64 = 14;

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

/// The names of the graph's input and of its outputs. The defaults are lc0's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Names {
    /// The input planes, `[batch, 112, 8, 8]`.
    pub planes: String,
    /// The logits of the policy, `[batch, 1858]`.
    pub policy: String,
    /// Win, draw and loss, `[batch, 3]`.
    pub wdl: String,
    /// The value of a network without WDL, `[batch, 1]`.
    pub value: String,
    /// The plies to the end of the game, `[batch, 1]`.
    pub moves_left: String,
}

impl Default for Names {
    fn default() -> Self {
        Self {
            planes: "/input/planes".to_owned(),
            policy: "/output/policy".to_owned(),
            wdl: "/output/wdl".to_owned(),
            value: "/output/value".to_owned(),
            moves_left: "/output/mlh".to_owned(),
        }
    }
}

/// What the user selects. The defaults are lc0's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// The type of the weights, of the input and of the outputs.
    pub data_type: DataType,
    /// The version of ONNX's operators, in [`OPSETS`].
    pub opset: i64,
    /// The version of the file format, in [`IR_VERSIONS`]. `None` is the oldest that knows the opset.
    pub ir_version: Option<i64>,
    /// The number of positions in a batch. `None` leaves it open.
    pub batch_size: Option<usize>,
    /// Whether LayerNorms are written as elementary operators.
    pub elementary_layer_norms: bool,
    /// The names of the input and of the outputs.
    pub names: Names,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            data_type: DataType::F32,
            opset: 17,
            ir_version: None,
            batch_size: None,
            elementary_layer_norms: false,
            names: Names::default(),
        }
    }
}

/// Settings with which no graph can be written.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the variants mean")]
pub enum SettingsError {
    #[error("opset {0} is not supported; choose one from {min} to {max}", min = OPSETS.start(), max = OPSETS.end())]
    Opset(i64),
    #[error(
        "ONNX IR version {0} is not supported; choose one from {min} to {max}",
        min = IR_VERSIONS.start(),
        max = IR_VERSIONS.end()
    )]
    IrVersion(i64),
    #[error("opset {opset} needs ONNX IR version {needed} or newer, not {selected}")]
    OldIrVersion { opset: i64, needed: i64, selected: i64 },
    #[error("opset {0} has no bf16; choose opset {BF16_OPSET} or newer")]
    NoBf16(i64),
    #[error("a batch cannot have {0} positions")]
    BatchSize(usize),
    #[error("the name of an input or output is empty")]
    EmptyName,
}

impl Settings {
    /// Checks that the settings fit together.
    pub(super) fn check(&self) -> Result<(), SettingsError> {
        if !OPSETS.contains(&self.opset) {
            return Err(SettingsError::Opset(self.opset));
        }
        if let Some(selected) = self.ir_version {
            let needed = oldest_ir_version(self.opset);
            if !IR_VERSIONS.contains(&selected) {
                return Err(SettingsError::IrVersion(selected));
            }
            if selected < needed {
                return Err(SettingsError::OldIrVersion { opset: self.opset, needed, selected });
            }
        }
        if self.data_type == DataType::Bf16 && self.opset < BF16_OPSET {
            return Err(SettingsError::NoBf16(self.opset));
        }
        if let Some(positions) = self.batch_size.filter(|positions| !(1..=1 << 20).contains(positions)) {
            return Err(SettingsError::BatchSize(positions));
        }
        let Names { planes, policy, wdl, value, moves_left } = &self.names;
        match [planes, policy, wdl, value, moves_left].into_iter().any(String::is_empty) {
            true => Err(SettingsError::EmptyName),
            false => Ok(()),
        }
    }

    /// The version of the file format to write.
    pub(super) fn ir_version(&self) -> i64 {
        self.ir_version.unwrap_or_else(|| oldest_ir_version(self.opset))
    }
}

/// The oldest version of the file format that ONNX released with this opset or a newer one, but not one before
/// [`IR_VERSIONS`].
fn oldest_ir_version(opset: i64) -> i64 {
    match opset {
        ..=9 => 4,
        10 => 5,
        11 => 6,
        12..=14 => 7,
        15..=18 => 8,
        19..=20 => 9,
        _ => 10,
    }
}
