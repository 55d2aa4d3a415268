//! Why a network cannot be converted, and the limits of the settings.

use super::data_type::DataType;
use rukh_base::quote::quoted;

/// The opsets that can be written. The first is the oldest whose operators broadcast as NumPy does.
pub const OPSETS: std::ops::RangeInclusive<i64> = 7..=22;

/// The versions of the file format that can be written. Before version 4, a graph had to list all constants as inputs.
pub const IR_VERSIONS: std::ops::RangeInclusive<i64> = 4..=10;

/// The first opset in which those operators accept bf16 that this module does not avoid.
pub(super) const BF16_OPSET: i64 = 14;

/// Why a network cannot be converted.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// No graph can be written with these settings.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// A weight is larger than the largest number of the data type.
    #[error("{tensor} contains {value}, which is too large for {data_type}; use f32 or bf16")]
    TooLarge {
        /// The name of the constant in the graph.
        tensor: String,
        /// The weight.
        value: f32,
        /// The type that cannot represent it.
        data_type: DataType,
    },
    /// Two tensors of the graph would have the same name.
    #[error("two tensors would be called {}; choose other names for the input and the outputs", quoted(.0))]
    SameName(String),
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
