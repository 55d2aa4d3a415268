//! The flags of `onnx2leela`: lc0's, and one that selects what is written.

use clap::ArgAction::Set;
use clap::Args;
use clap::builder::PossibleValuesParser;
use rukh_net::file::schema;
use rukh_net::file::wrap::Interface;
use std::path::PathBuf;

/// What `onnx2leela` writes.
#[derive(clap::ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WeightsFormat {
    /// The ONNX model itself, as lc0 does
    Onnx,
    /// The layers that are recognised in it, which older versions of lc0 and other backends read too
    Native,
}

/// Flags of `onnx2leela`.
#[derive(Args, Debug, Clone)]
pub(super) struct Onnx2leelaArgs {
    /// The ONNX file to read
    #[arg(short, long, value_name = "FILE")]
    pub input: PathBuf,
    /// The network file to write, compressed with gzip
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// Format of the input planes; by default the one in the model's metadata, or else INPUT_CLASSICAL_112_PLANE
    #[arg(long, value_parser = named(schema::InputFormat::ALL, schema::InputFormat::name))]
    input_format: Option<String>,
    /// Format of the policy [default: POLICY_CLASSICAL]
    #[arg(long, value_parser = named(schema::PolicyFormat::ALL, schema::PolicyFormat::name))]
    policy_format: Option<String>,
    /// Format of the value; by default it follows from the output
    #[arg(long, value_parser = named(schema::ValueFormat::ALL, schema::ValueFormat::name))]
    value_format: Option<String>,
    /// Format of the moves left [default: MOVES_LEFT_V1]
    #[arg(long, value_parser = named(schema::MovesLeftFormat::ALL, schema::MovesLeftFormat::name))]
    moves_left_format: Option<String>,
    /// Name of the input of planes; by default /input/planes if the model has it
    #[arg(long, value_name = "NAME")]
    onnx_input: Option<String>,
    /// Name of the policy output; by default /output/policy if the model has it
    #[arg(long, value_name = "NAME")]
    onnx_output_policy: Option<String>,
    /// Name of the output of a value without draws; by default /output/value if the model has it
    #[arg(long, value_name = "NAME")]
    onnx_output_value: Option<String>,
    /// Name of the output of win, draw and loss; by default /output/wdl if the model has it
    #[arg(long, value_name = "NAME")]
    onnx_output_wdl: Option<String>,
    /// Name of the moves-left output; by default /output/mlh if the model has it
    #[arg(long, value_name = "NAME")]
    onnx_output_mlh: Option<String>,
    /// Checks that the model has these inputs and outputs
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = Set,
          default_value_t = true, hide_default_value = true, value_name = "true|false",
          overrides_with = "no_validate_weights")]
    validate_weights: bool,
    #[arg(long, hide = true, overrides_with = "validate_weights")]
    no_validate_weights: bool,
    /// Divides the counter of moves without progress by 99, for models that were trained so
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = Set,
          default_value_t = false, hide_default_value = true, value_name = "true|false",
          overrides_with = "no_fix_rule50")]
    pub fix_rule50: bool,
    #[arg(long, hide = true, overrides_with = "fix_rule50")]
    no_fix_rule50: bool,
    /// Adds a softmax to win, draw and loss, for models without it
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = Set,
          default_value_t = false, hide_default_value = true, value_name = "true|false",
          overrides_with = "no_fix_wdl_softmax")]
    pub fix_wdl_softmax: bool,
    #[arg(long, hide = true, overrides_with = "fix_wdl_softmax")]
    no_fix_wdl_softmax: bool,
    /// What to write
    #[arg(long, value_enum, default_value_t = WeightsFormat::Onnx)]
    pub weights_format: WeightsFormat,
    /// Prints the description of the file as JSON
    #[arg(long)]
    pub json: bool,
}

/// A parser of a variant's name in `net.proto`.
fn named<T: Copy>(variants: &[T], name: fn(T) -> &'static str) -> PossibleValuesParser {
    PossibleValuesParser::new(variants.iter().map(|&variant| name(variant)))
}

impl Onnx2leelaArgs {
    /// What the flags say about the model.
    pub(super) fn interface(&self) -> Interface {
        fn variant<T: Copy>(text: &Option<String>, variants: &[T], name: fn(T) -> &'static str) -> Option<T> {
            let text = text.as_deref()?;
            variants.iter().copied().find(|&variant| name(variant) == text)
        }
        use schema::{InputFormat, MovesLeftFormat, PolicyFormat, ValueFormat};
        Interface {
            input_format: variant(&self.input_format, InputFormat::ALL, InputFormat::name),
            policy_format: variant(&self.policy_format, PolicyFormat::ALL, PolicyFormat::name),
            value_format: variant(&self.value_format, ValueFormat::ALL, ValueFormat::name),
            moves_left_format: variant(&self.moves_left_format, MovesLeftFormat::ALL, MovesLeftFormat::name),
            planes: self.onnx_input.clone(),
            policy: self.onnx_output_policy.clone(),
            value: self.onnx_output_value.clone(),
            wdl: self.onnx_output_wdl.clone(),
            moves_left: self.onnx_output_mlh.clone(),
        }
    }

    /// Whether the names of inputs and outputs are checked.
    pub(super) fn validates(&self) -> bool {
        self.validate_weights && !self.no_validate_weights
    }
}
