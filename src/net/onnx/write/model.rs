//! The result of a conversion, and its bytes.

use std::io::{self, Write};

use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint};

use super::settings::Settings;
use crate::architecture::InputFormat;
use crate::onnx::INPUT_FORMAT_KEY;
use crate::onnx::proto::{Graph, Model, OperatorSet, StringStringEntry, Tensor};

/// A network as an ONNX model.
#[derive(Clone, PartialEq, Debug)]
pub struct Converted {
    /// The versions and the metadata. Its field `graph` is empty.
    pub model: Model,
    /// The graph.
    pub graph: Graph,
}

/// The number of the field `graph` in `ModelProto`.
const GRAPH_FIELD: u32 = 7;

/// The number of the field `initializer` in `GraphProto`.
const INITIALIZER_FIELD: u32 = 5;

impl Converted {
    pub(super) fn new(graph: Graph, settings: &Settings, input_format: InputFormat) -> Self {
        let input_format = StringStringEntry {
            key: Some(INPUT_FORMAT_KEY.to_owned()),
            value: Some((input_format as i32).to_string()),
        };
        let model = Model {
            ir_version: Some(settings.ir_version()),
            producer_name: Some("Rukh".into()),
            producer_version: Some(rukh_base::version::version().into()),
            // lc0 gives its models this domain.
            domain: Some("org.lczero.models.*".into()),
            opset_import: vec![OperatorSet { domain: None, version: Some(settings.opset) }],
            metadata_props: vec![input_format],
            ..Model::default()
        };
        Self { model, graph }
    }

    /// Writes the ONNX file. The constants are written one after another, so that the file is never in memory as a
    /// whole.
    ///
    /// # Errors
    /// Those of `output`.
    pub fn write_to(&self, output: &mut (impl Write + ?Sized)) -> io::Result<()> {
        // Protobuf joins the parts of a message that are written one after another.
        let rest = Graph { initializer: Vec::new(), ..self.graph.clone() }.encode_to_vec();
        let length = |tensor: &Tensor| {
            let length = tensor.encoded_len();
            key(INITIALIZER_FIELD).len() + encoded_len_varint(length as u64) + length
        };
        let graph_length = rest.len() + self.graph.initializer.iter().map(length).sum::<usize>();
        output.write_all(&self.model.encode_to_vec())?;
        output.write_all(&message_start(GRAPH_FIELD, graph_length))?;
        output.write_all(&rest)?;
        for tensor in &self.graph.initializer {
            output.write_all(&message_start(INITIALIZER_FIELD, tensor.encoded_len()))?;
            output.write_all(&tensor.encode_to_vec())?;
        }
        Ok(())
    }

    /// The bytes of the ONNX file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        // Writing to a vector cannot fail.
        let _ = self.write_to(&mut bytes);
        bytes
    }
}

/// The key of a field that contains a message.
fn key(field: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_key(field, WireType::LengthDelimited, &mut bytes);
    bytes
}

/// The bytes before a message of this length in a field.
fn message_start(field: u32, length: usize) -> Vec<u8> {
    let mut bytes = key(field);
    encode_varint(length as u64, &mut bytes);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::onnx::proto::Node;

    #[test]
    fn a_file_written_in_parts_is_the_encoded_message() {
        let tensor = |name: &str, length: usize| Tensor {
            name: Some(name.to_owned()),
            dims: vec![length as i64],
            raw_data: Some(vec![7; length].into()),
            ..Tensor::default()
        };
        let graph = Graph {
            node: vec![Node { name: Some("node".to_owned()), ..Node::default() }],
            name: Some("graph".into()),
            initializer: vec![tensor("short", 3), tensor("long", 300)],
            ..Graph::default()
        };
        let onnx = Converted::new(graph.clone(), &Settings::default(), InputFormat::Canonical);
        let mut decoded = Model::decode(onnx.to_bytes().as_slice()).expect("it is a model");
        let decoded_graph =
            Graph::decode(decoded.graph.take().expect("it has a graph")).expect("it is a graph");
        assert_eq!((decoded, decoded_graph), (onnx.model, graph));
    }
}
