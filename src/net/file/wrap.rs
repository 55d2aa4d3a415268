//! Makes the message of a network file for an ONNX model.
//!
//! A model does not say which of its outputs is the policy, nor in which format it expects the planes. The caller says
//! it, or the names that lc0's converter gives to inputs and outputs, and the metadata that `rukh leela2onnx` writes.

use prost::bytes::Bytes;

use super::proto::{EngineVersion, Format, MAGIC, Net, NetworkFormat, OnnxModel};
use super::schema::{
    InputFormat, MovesLeftFormat, NetworkStructure, OnnxDataType, PolicyFormat, ValueFormat,
};
use crate::error::Reason;
use crate::onnx::INPUT_FORMAT_KEY;
use crate::onnx::decode::decode_model;
use crate::onnx::proto::{ValueInfo, data_type};

/// The first version of lc0 that reads files with ONNX models.
const ONNX_VERSION: EngineVersion = EngineVersion { major: Some(0), minor: Some(28), patch: None };

/// The names that lc0's converter gives to the input and to the outputs.
const PLANES: &str = "/input/planes";
const POLICY: &str = "/output/policy";
const WDL: &str = "/output/wdl";
const VALUE: &str = "/output/value";
const MOVES_LEFT: &str = "/output/mlh";

/// What a network file says about its ONNX model. Names are those of inputs and outputs of the graph.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Interface {
    /// The format in which the graph expects the planes.
    pub input_format: Option<InputFormat>,
    /// The format of the policy; classical by default, because the graph computes the 1858 logits in their order.
    pub policy_format: Option<PolicyFormat>,
    /// The format of the value. By default it follows from the outputs.
    pub value_format: Option<ValueFormat>,
    /// The format of the moves left. By default it follows from the outputs.
    pub moves_left_format: Option<MovesLeftFormat>,
    /// The input.
    pub planes: Option<String>,
    /// The logits of the policy.
    pub policy: Option<String>,
    /// The value of a network without WDL.
    pub value: Option<String>,
    /// Win, draw and loss.
    pub wdl: Option<String>,
    /// The moves left.
    pub moves_left: Option<String>,
}

/// What can be seen of a model from outside.
#[derive(Clone, Debug)]
pub struct Outline {
    /// Whether the model has a version of ONNX's file format.
    pub has_version: bool,
    /// The names of the graph's inputs. In old files these include the constants.
    pub inputs: Vec<String>,
    /// The names of the graph's outputs.
    pub outputs: Vec<String>,
    /// The types of the inputs: numbers of [`data_type`], 0 if a type is not given.
    pub input_types: Vec<i32>,
    /// The format of the planes, if the metadata names it.
    pub input_format: Option<InputFormat>,
}

impl Outline {
    /// Reads the outline of a model.
    ///
    /// # Errors
    /// The bytes are not an ONNX model.
    pub fn of(model: &Bytes) -> Result<Self, Reason> {
        let (model, graph) = decode_model(model)?;
        let name =
            |info: &ValueInfo| String::from_utf8_lossy(info.name.as_deref().unwrap_or_default()).into_owned();
        let number_type = |info: &ValueInfo| {
            info.r#type.as_ref().and_then(|of| of.tensor_type.as_ref()?.elem_type).unwrap_or_default()
        };
        let format = model.metadata_props.iter().find(|entry| entry.key() == INPUT_FORMAT_KEY);
        Ok(Self {
            has_version: model.ir_version.is_some(),
            inputs: graph.input.iter().map(name).collect(),
            outputs: graph.output.iter().map(name).collect(),
            input_types: graph.input.iter().map(number_type).collect(),
            input_format: format.and_then(|entry| InputFormat::from_number(entry.value().parse().ok()?)),
        })
    }

    /// The type of the input called `name`; f32 if the model does not name it.
    pub fn input_type(&self, name: &str) -> i32 {
        let index = self.inputs.iter().position(|input| input == name);
        match index.and_then(|index| self.input_types.get(index)) {
            None | Some(0) => data_type::FLOAT,
            Some(&number) => number,
        }
    }
}

impl Interface {
    /// Fills in what is not set from the names and the metadata of a model.
    pub fn complete(&mut self, outline: &Outline) {
        let has =
            |names: &[String], name: &str| names.iter().any(|known| known == name).then(|| name.to_owned());
        let output = |name| has(&outline.outputs, name);
        self.input_format = self.input_format.or(outline.input_format);
        self.planes = self.planes.take().or_else(|| has(&outline.inputs, PLANES));
        self.policy = self.policy.take().or_else(|| output(POLICY));
        if self.wdl.is_none() && self.value.is_none() {
            self.wdl = output(WDL);
            self.value = if self.wdl.is_none() { output(VALUE) } else { None };
        }
        self.moves_left = self.moves_left.take().or_else(|| output(MOVES_LEFT));
    }

    /// The message of a file that contains `model`. Its input has the type `number_type`.
    pub fn wrap(&self, model: Bytes, number_type: i32) -> Net {
        let name = |name: &Option<String>| name.clone().map(Bytes::from);
        let value_format = match self.wdl.is_some() {
            true => ValueFormat::Wdl,
            false => ValueFormat::Classical,
        };
        let format = NetworkFormat {
            input: Some(self.input_format.unwrap_or(InputFormat::Classical112) as i32),
            output: Some(if self.wdl.is_some() { 2 } else { 1 }),
            network: Some(NetworkStructure::Onnx as i32),
            policy: Some(self.policy_format.unwrap_or(PolicyFormat::Classical) as i32),
            value: Some(self.value_format.unwrap_or(value_format) as i32),
            moves_left: self
                .moves_left
                .is_some()
                .then(|| self.moves_left_format.unwrap_or(MovesLeftFormat::V1) as i32),
            ..NetworkFormat::default()
        };
        Net {
            magic: Some(MAGIC),
            min_version: Some(ONNX_VERSION),
            format: Some(Format { weights_encoding: None, network_format: Some(format) }),
            onnx_model: Some(OnnxModel {
                model: Some(model),
                // ONNX's numbers of the types are those of net.proto.
                data_type: Some(OnnxDataType::from_number(number_type).unwrap_or(OnnxDataType::Float) as i32),
                input_planes: name(&self.planes),
                output_value: name(&self.value),
                output_wdl: name(&self.wdl),
                output_policy: name(&self.policy),
                output_mlh: name(&self.moves_left),
            }),
            ..Net::default()
        }
    }
}

/// Whether a file that begins with `head` is an ONNX model: it begins with the version of the file format, a small
/// number, and one of the fields that may follow.
pub(super) fn is_onnx(head: &[u8]) -> bool {
    const VERSION: u8 = 0x08;
    // Producer, producer's version, domain, model version, text, graph, operator sets, metadata.
    const NEXT: [u8; 8] = [0x12, 0x1a, 0x22, 0x28, 0x32, 0x3a, 0x42, 0x72];
    matches!(head, [VERSION, 1..=31, next, ..] if NEXT.contains(next))
}

/// The message of a network file for an ONNX model whose metadata and names say everything.
pub(super) fn wrap_bare(model: Bytes) -> Result<Net, Reason> {
    let outline = Outline::of(&model)?;
    let mut interface = Interface::default();
    interface.complete(&outline);
    match (&interface.planes, interface.input_format) {
        (Some(planes), Some(_)) => {
            let number_type = outline.input_type(planes);
            Ok(interface.wrap(model, number_type))
        }
        _ => Err(Reason::BareOnnx),
    }
}
