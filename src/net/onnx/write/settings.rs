//! The names, types and versions that the user selects.

use super::data_type::DataType;
use super::error::{BF16_OPSET, IR_VERSIONS, OPSETS, SettingsError};

/// The first opset whose LayerNormalization is part of ONNX.
pub(super) const LAYER_NORMALIZATION_OPSET: i64 = 17;

/// The first opset with a Mish operator.
pub(super) const MISH_OPSET: i64 = 18;

/// The first opset whose operators all accept bf16. Before it, convolutions and some activations do not.
pub(super) const ALL_BF16_OPSET: i64 = 22;

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
