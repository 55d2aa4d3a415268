//! The text that `describenet` prints.
//!
//! Sections, labels and values are those of lc0's `describenet`, so that scripts for its output work with Rukh
//! too. There are five differences:
//!
//! - Sizes are correct for layers of 32-bit floats (lc0 assumes two bytes a value).
//! - The policy width of a multihead network is that of its first head (lc0 prints 0).
//! - A line is added with the FLOPs for one position, or with the reason why Rukh cannot use the network.
//! - The section about the weights also describes what is recognised in an ONNX model.
//! - Control characters in texts are printed as spaces.

use std::borrow::Cow;
use std::fmt::{self, Display, Write as _};

use prost::bytes::Bytes;

use super::bounded::decode_bounded;
use super::file::decode::count;
use super::file::proto::{ConvBlock, Layer, OnnxModel, Weights};
use super::file::schema::{
    ActivationFunction, DefaultActivation, InputEmbeddingFormat, InputFormat, MovesLeftFormat,
    NetworkStructure, OnnxDataType, PolicyFormat, ValueFormat, WeightsEncoding,
};
use super::file::{HeadSelection, NetworkFile};
use super::onnx::proto::{Graph, Model, ValueInfo};

/// The width of the column of labels, including the colon and the space after it.
const LABEL_WIDTH: usize = 30;

/// Describes the contents of a network file in sections of lines `label: value`.
pub fn describe(file: &NetworkFile) -> String {
    let mut text = Text::default();
    general(&mut text, file);
    format(&mut text, file);
    training(&mut text, file);
    if file.weights().is_some() {
        text.section("Weights");
        weights(&mut text, file);
    }
    if let Some(model) = &file.header().onnx_model {
        onnx(&mut text, model);
        if file.weights().is_none() {
            recognised(&mut text, file);
        }
    }
    text.0
}

/// Describes an ONNX model: the names of its tensors and, unless the field `model` is empty, what it contains.
pub fn describe_onnx(model: &OnnxModel) -> String {
    let mut text = Text::default();
    onnx(&mut text, model);
    text.0
}

/// Describes the layers that are recognised in an ONNX model.
fn recognised(text: &mut Text, file: &NetworkFile) {
    text.section("Weights");
    match file.with_layers() {
        Ok(layers) => weights(text, &layers),
        Err(error) => text.line("Cannot be used", error.reason),
    }
}

/// The lines about the layers of a file.
fn weights(text: &mut Text, file: &NetworkFile) {
    if let Some(weights) = file.weights() {
        body(text, weights);
        policy(text, file, weights);
        value_and_moves_left(text, file, weights);
        flops(text, file);
    }
}

#[derive(Default)]
struct Text(String);

impl Text {
    fn section(&mut self, title: &str) {
        self.push(format_args!("\n{title}\n{}\n", "~".repeat(title.len())));
    }

    fn line(&mut self, label: &str, value: impl Display) {
        self.push(format_args!("{label:>width$}: {value}\n", width = LABEL_WIDTH - 2));
    }

    fn line_if(&mut self, label: &str, value: Option<impl Display>) {
        if let Some(value) = value {
            self.line(label, value);
        }
    }

    fn push(&mut self, text: fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        let _ = self.0.write_fmt(text);
    }
}

/// The name of a number in `net.proto`, or the number itself if it has none.
fn named(number: Option<i32>, name: impl Fn(i32) -> Option<&'static str>) -> Option<Cow<'static, str>> {
    number.map(|number| name(number).map_or_else(|| Cow::from(number.to_string()), Cow::from))
}

fn general(text: &mut Text, file: &NetworkFile) {
    let version = file.header().min_version.unwrap_or_default();
    text.section("General");
    text.line(
        "Minimal Lc0 version",
        format_args!("v{}.{}.{}", version.major(), version.minor(), version.patch()),
    );
}

fn format(text: &mut Text, file: &NetworkFile) {
    let format = file.format();
    let encoding = file.header().format.as_ref().and_then(|format| format.weights_encoding);
    let activation =
        |number| named(number, |n| ActivationFunction::from_number(n).map(ActivationFunction::name));
    text.section("Format");
    text.line_if(
        "Weights encoding",
        named(encoding, |n| WeightsEncoding::from_number(n).map(WeightsEncoding::name)),
    );
    text.line_if("Input", named(format.input, |n| InputFormat::from_number(n).map(InputFormat::name)));
    text.line_if(
        "Network",
        named(format.network, |n| NetworkStructure::from_number(n).map(NetworkStructure::name)),
    );
    text.line_if("Policy", named(format.policy, |n| PolicyFormat::from_number(n).map(PolicyFormat::name)));
    text.line_if("Value", named(format.value, |n| ValueFormat::from_number(n).map(ValueFormat::name)));
    text.line_if(
        "MLH",
        named(format.moves_left, |n| MovesLeftFormat::from_number(n).map(MovesLeftFormat::name)),
    );
    text.line_if(
        "Default activation",
        named(format.default_activation, |n| DefaultActivation::from_number(n).map(DefaultActivation::name)),
    );
    text.line_if("Smolgen activation", activation(format.smolgen_activation));
    text.line_if("FFN activation", activation(format.ffn_activation));
    text.line_if(
        "Input embedding",
        named(format.input_embedding, |n| {
            InputEmbeddingFormat::from_number(n).map(InputEmbeddingFormat::name)
        }),
    );
}

fn training(text: &mut Text, file: &NetworkFile) {
    let Some(training) = &file.header().training_params else {
        return;
    };
    text.section("Training Parameters");
    text.line_if("Training steps", training.training_steps);
    text.line_if("Learning rate", training.learning_rate.map(Significant));
    text.line_if("MSE loss", training.mse_loss.map(Significant));
    text.line_if("Policy loss", training.policy_loss.map(Significant));
    text.line_if("Accuracy", training.accuracy.map(Significant));
    text.line_if("Lc0 Params", training.lc0_params.as_ref().map(lossy));
}

fn body(text: &mut Text, weights: &Weights) {
    if let Some(first) = weights.encoder.first() {
        let mha = first.mha.clone().unwrap_or_default();
        let ffn = first.ffn.clone().unwrap_or_default();
        text.line("Encoders", weights.encoder.len());
        text.line("Encoder heads", weights.headcount());
        text.line("Embedding size", size(&weights.ip_emb_b));
        text.line("Dmodel", size(&mha.q_b));
        text.line("Encoder DFF", size(&ffn.dense1_b));
        return;
    }
    let se_blocks = weights.residual.iter().filter(|block| block.se.is_some()).count();
    let input = weights.input.as_ref().map_or(0, |input| size(&input.weights));
    text.line("Blocks", weights.residual.len());
    text.line_if("SE blocks", (se_blocks > 0).then_some(se_blocks));
    text.line("Filters", input / (112 * 9));
}

fn policy(text: &mut Text, file: &NetworkFile, weights: &Weights) {
    let format = file.format();
    if format.policy() != PolicyFormat::Attention as i32 {
        text.line("Policy", if weights.policy1.is_some() { "Convolution" } else { "Dense" });
        text.line("Policy activation", ActivationFunction::Default.name());
        if weights.policy1.is_none() {
            text.line("Policy channels", weights.policy.as_ref().map_or(0, channels));
        }
        return;
    }
    // The attention policy of a residual tower is older than the activations in the header. All its activations
    // are SELU.
    let tower = weights.encoder.is_empty();
    let selu = |activation: Option<&'static str>| match tower {
        true => ActivationFunction::Selu.name(),
        false => activation.unwrap_or(ActivationFunction::Default.name()),
    };
    text.line("Policy", "Attention");
    text.line("Policy activation", selu(None));
    if let Some(first) = weights.pol_encoder.first() {
        let mha = first.mha.clone().unwrap_or_default();
        let ffn = first.ffn.clone().unwrap_or_default();
        let ffn_activation = ActivationFunction::from_number(format.ffn_activation());
        text.line("Policy encoders", weights.pol_encoder.len());
        text.line("Policy encoder heads", weights.pol_headcount());
        text.line("Policy encoder Dmodel", size(&mha.q_b));
        text.line("Policy encoder DFF", size(&ffn.dense1_b));
        text.line("Policy FFN activation", selu(ffn_activation.map(ActivationFunction::name)));
    }
    text.line("Policy Dmodel", size(&file.first_policy_head().and_then(|head| head.ip2_pol_b)));
}

fn value_and_moves_left(text: &mut Text, file: &NetworkFile, weights: &Weights) {
    let wdl = file.format().value() == ValueFormat::Wdl as i32;
    text.line("Value", if wdl { "WDL" } else { "Classical" });
    text.line("MLH", if weights.ip2_mov_w.is_some() { "Present" } else { "Absent" });
}

/// Appends the FLOPs of an evaluation with the first heads of the file, or the reason why the network cannot be
/// used.
fn flops(text: &mut Text, file: &NetworkFile) {
    let first = |names: Vec<&str>, default: String| names.first().map_or(default, |&name| name.to_owned());
    let default = HeadSelection::default();
    let heads = HeadSelection {
        policy: first(file.policy_heads(), default.policy),
        value: first(file.value_heads(), default.value),
        ..HeadSelection::default()
    };
    match file.network(&heads) {
        Ok(network) => text.line("FLOPs per position", Scaled(network.flops().total())),
        Err(error) => text.line("Cannot be used", error.reason),
    }
}

fn onnx(text: &mut Text, onnx: &OnnxModel) {
    text.section("ONNX interface");
    text.line_if(
        "Data type",
        named(onnx.data_type, |n| OnnxDataType::from_number(n).map(OnnxDataType::name)),
    );
    text.line_if("Input planes", onnx.input_planes.as_ref().map(lossy));
    text.line_if("Output value", onnx.output_value.as_ref().map(lossy));
    text.line_if("Output WDL", onnx.output_wdl.as_ref().map(lossy));
    text.line_if("Output Policy", onnx.output_policy.as_ref().map(lossy));
    text.line_if("Output MLH", onnx.output_mlh.as_ref().map(lossy));
    let Some(model) = &onnx.model else { return };
    text.section("ONNX model");
    match decode_bounded(model) {
        Ok(model) => onnx_model(text, &model),
        Err(reason) => text.line("Cannot be shown", reason),
    }
}

fn onnx_model(text: &mut Text, model: &Model) {
    text.line_if("IR version", model.ir_version);
    text.line_if("Producer Name", model.producer_name.as_ref().map(lossy));
    text.line_if("Producer Version", model.producer_version.as_ref().map(lossy));
    text.line_if("Domain", model.domain.as_ref().map(lossy));
    text.line_if("Model Version", model.model_version);
    text.line_if("Doc String", model.doc_string.as_ref().map(lossy));
    let graph: Graph = model.graph.as_ref().and_then(|graph| decode_bounded(graph).ok()).unwrap_or_default();
    for (label, tensors) in [("Input", &graph.input), ("Output", &graph.output)] {
        tensors.iter().for_each(|tensor| text.line(label, onnx_tensor(tensor)));
    }
    for opset in &model.opset_import {
        let domain = opset.domain.as_ref().map(|domain| format!("{} ", lossy(domain))).unwrap_or_default();
        text.line("Opset", format_args!("{domain}{}", opset.version()));
    }
}

fn onnx_tensor(tensor: &ValueInfo) -> String {
    let name = tensor.name.as_ref().map(lossy).unwrap_or_default();
    match &tensor.doc_string {
        Some(doc) => format!("{name} ({})", lossy(doc)),
        None => name.into_owned(),
    }
}

/// The number of values in a layer; 0 for an invalid layer. `flops` reports what is wrong with the layer.
fn size(layer: &Option<Layer>) -> usize {
    count("", layer).unwrap_or(0)
}

/// The output channels of a convolution, from the size of its biases or of its batch normalisation.
fn channels(block: &ConvBlock) -> usize {
    match size(&block.biases) {
        0 => size(&block.bn_means),
        channels => channels,
    }
}

/// Text from a file that may be invalid UTF-8. Control characters become spaces, so that a file cannot send
/// escape sequences to the terminal.
fn lossy(bytes: &Bytes) -> Cow<'_, str> {
    let text = String::from_utf8_lossy(bytes);
    match text.chars().any(char::is_control) {
        true => Cow::Owned(text.replace(char::is_control, " ")),
        false => text,
    }
}

/// A number that is printed with six significant digits, like `%g` of C's `printf`.
struct Significant(f32);

impl Display for Significant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = f64::from(self.0);
        if value == 0.0 || !value.is_finite() {
            return write!(f, "{value}");
        }
        // The rounded number determines the exponent: 9.999999 is printed as 10.
        let rounded = format!("{value:.5e}");
        let (mantissa, exponent) = rounded.split_once('e').unwrap_or((&rounded, "0"));
        let exponent: i32 = exponent.parse().unwrap_or(0);
        if (-4..6).contains(&exponent) {
            let decimals = usize::try_from(5 - exponent).unwrap_or(0);
            return f.write_str(without_trailing_zeros(&format!("{value:.decimals$}")));
        }
        let sign = if exponent < 0 { '-' } else { '+' };
        write!(f, "{}e{sign}{:02}", without_trailing_zeros(mantissa), exponent.abs())
    }
}

fn without_trailing_zeros(number: &str) -> &str {
    match number.contains('.') {
        true => number.trim_end_matches('0').trim_end_matches('.'),
        false => number,
    }
}

/// A count that is printed with a unit: `917.00 k`, `8.912 M`, `16.40 G`.
struct Scaled(u64);

impl Display for Scaled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(1e9, "G"), (1e6, "M"), (1e3, "k")];
        let (scale, unit) = units.into_iter().find(|(scale, _)| self.0 as f64 >= *scale).unwrap_or((1.0, ""));
        let value = self.0 as f64 / scale;
        let decimals = if value < 10.0 { 3 } else { 2 };
        write!(f, "{value:.decimals$} {unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::{Scaled, Significant};

    #[test]
    fn numbers_are_printed_as_lc0_prints_them() {
        let cases = [
            (0.0, "0"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (0.195343, "0.195343"),
            (50.2643, "50.2643"),
            (1.5741, "1.5741"),
            (400000.0, "400000"),
            (1234567.0, "1.23457e+06"),
            (999999.9, "1e+06"),
            (-2.5, "-2.5"),
            (f32::INFINITY, "inf"),
        ];
        for (value, text) in cases {
            assert_eq!(Significant(value).to_string(), text);
        }
    }

    #[test]
    fn a_count_is_printed_with_a_unit() {
        assert_eq!(Scaled(918_000_000).to_string(), "918.00 M");
        assert_eq!(Scaled(16_400_000_000).to_string(), "16.40 G");
        assert_eq!(Scaled(8_912_345).to_string(), "8.912 M");
    }
}
