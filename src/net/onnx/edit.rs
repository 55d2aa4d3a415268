//! Changes an ONNX model in a few places and keeps everything else, even fields that [`super::proto`] does not know.
//!
//! The changes make models of other exporters usable, and are those of lc0's `onnx2leela`: it can divide the counter of
//! moves without progress, and add a softmax to win, draw and loss; and it converts outputs to the type of the input.

use prost::Message;
use prost::bytes::{Buf, Bytes};
use prost::encoding::{
    DecodeContext, WireType, decode_key, decode_varint, encode_key, encode_varint, skip_field,
};

use super::proto::{Attribute, Node, Tensor, ValueInfo, attribute_type, data_type};
use crate::error::Reason;
use crate::input::InputPlanes;

/// The plane that contains the number of moves without progress.
const PROGRESS_PLANE: usize = 109;

/// The number of moves without progress for which the plane is 1 in the networks that need [`scale_progress`].
const PROGRESS_UNIT: f32 = 99.0;

// The numbers of fields in onnx.proto.
const MODEL_GRAPH: u32 = 7;
const GRAPH_NODE: u32 = 1;
const GRAPH_INITIALIZER: u32 = 5;
const GRAPH_OUTPUT: u32 = 12;
const NODE_INPUT: u32 = 1;
const NODE_OUTPUT: u32 = 2;

/// Inserts a multiplication between the input planes and all that read them, which divides the plane with the number of
/// moves without progress by 99.
pub fn scale_progress(model: &Bytes, planes: &str, number_type: i32) -> Result<Bytes, Reason> {
    const NAME: &str = "rule50fix";
    let mut factors = [1.0; InputPlanes::COUNT];
    factors[PROGRESS_PLANE] = 1.0 / PROGRESS_UNIT;
    let bytes: Vec<u8> = match number_type {
        data_type::FLOAT16 => factors.iter().flat_map(|&f| half::f16::from_f32(f).to_le_bytes()).collect(),
        data_type::BFLOAT16 => factors.iter().flat_map(|&f| half::bf16::from_f32(f).to_le_bytes()).collect(),
        _ => factors.iter().flat_map(|f| f.to_le_bytes()).collect(),
    };
    let tensor = Tensor {
        name: Some(format!("{NAME}_weights")),
        dims: vec![InputPlanes::COUNT as i64, 1, 1],
        data_type: Some(number_type),
        raw_data: Some(bytes.into()),
        ..Tensor::default()
    };
    let node = node("Mul", NAME, &[planes, &format!("{NAME}_weights")], NAME);
    rename(model, NODE_INPUT, planes, NAME, |graph| {
        // A node must follow those whose results it reads, so this one is the first.
        let mut first = Vec::new();
        push_field(&mut first, GRAPH_NODE, &node.encode_to_vec());
        graph.splice(0..0, first);
        push_field(graph, GRAPH_INITIALIZER, &tensor.encode_to_vec());
    })
}

/// Inserts a softmax before the output `output`.
pub fn add_softmax(model: &Bytes, output: &str) -> Result<Bytes, Reason> {
    const NAME: &str = "softmax_fix";
    let node = node("Softmax", NAME, &[NAME], output);
    rename(model, NODE_OUTPUT, output, NAME, |graph| push_field(graph, GRAPH_NODE, &node.encode_to_vec()))
}

/// Gives the output `output` the type `number_type`, with a cast before it, unless it has that type. Returns `None` if
/// nothing was changed.
pub fn cast_output(model: &Bytes, output: &str, number_type: i32) -> Result<Option<Bytes>, Reason> {
    let mut is_other = false;
    let retyped = in_graph(model, |graph| {
        rewrite(graph, |field, value| {
            let mut info = ValueInfo::decode(value.clone()).ok()?;
            let is_output = field == GRAPH_OUTPUT && info.name.as_deref() == Some(output.as_bytes());
            let tensor_type = info.r#type.get_or_insert_default().tensor_type.get_or_insert_default();
            if !is_output || tensor_type.elem_type == Some(number_type) {
                return None;
            }
            is_other = true;
            tensor_type.elem_type = Some(number_type);
            Some(info.encode_to_vec())
        })
    })?;
    if !is_other {
        return Ok(None);
    }
    let before = format!("{output}/cast");
    let to = Attribute {
        name: Some("to".to_owned()),
        r#type: Some(attribute_type::INT),
        i: Some(number_type.into()),
        ..Attribute::default()
    };
    let node = Node { attribute: vec![to], ..node("Cast", &before, &[&before], output) };
    let append = |graph: &mut Vec<u8>| push_field(graph, GRAPH_NODE, &node.encode_to_vec());
    rename(&retyped, NODE_OUTPUT, output, &before, append).map(Some)
}

fn node(operator: &str, name: &str, inputs: &[&str], output: &str) -> Node {
    Node {
        name: Some(name.to_owned()),
        op_type: Some(operator.to_owned()),
        input: inputs.iter().map(|&input| input.to_owned()).collect(),
        output: vec![output.to_owned()],
        ..Node::default()
    }
}

/// Replaces the tensor `from` by `to` among the inputs or outputs (`field`) of all nodes, and then changes the graph.
fn rename(
    model: &Bytes,
    field: u32,
    from: &str,
    to: &str,
    change: impl Fn(&mut Vec<u8>),
) -> Result<Bytes, Reason> {
    in_graph(model, |graph| {
        let mut renamed = rewrite(graph, |in_graph, node| {
            if in_graph != GRAPH_NODE {
                return None;
            }
            let replaced = |in_node, name: &Bytes| (in_node == field && name == from).then(|| to.into());
            rewrite(node, replaced).ok()
        })?;
        change(&mut renamed);
        Ok(renamed)
    })
}

/// The model with another graph.
fn in_graph(
    model: &Bytes,
    mut change: impl FnMut(&Bytes) -> Result<Vec<u8>, Reason>,
) -> Result<Bytes, Reason> {
    let mut error = None;
    let changed = rewrite(model, |field, graph| {
        let changed = (field == MODEL_GRAPH).then(|| change(graph))?;
        changed.map_err(|reason| error = Some(reason)).ok()
    })?;
    match error {
        None => Ok(changed.into()),
        Some(reason) => Err(reason),
    }
}

/// A copy of a message in which `replace` may replace the values of fields that contain bytes.
fn rewrite(
    message: &Bytes,
    mut replace: impl FnMut(u32, &Bytes) -> Option<Vec<u8>>,
) -> Result<Vec<u8>, Reason> {
    let mut copy = Vec::with_capacity(message.len());
    let mut rest = message.clone();
    while rest.has_remaining() {
        let start = rest.clone();
        let (field, wire_type) = decode_key(&mut rest)?;
        let value = match wire_type {
            WireType::LengthDelimited => {
                let length = decode_varint(&mut rest)?;
                let is_whole = |length: &usize| *length <= rest.remaining();
                // A value that is cut off is skipped, which gives the error of a truncated message.
                usize::try_from(length).ok().filter(is_whole).map(|length| rest.split_to(length))
            }
            _ => None,
        };
        match value.as_ref().and_then(|value| replace(field, value)) {
            Some(replaced) => push_field(&mut copy, field, &replaced),
            None => {
                rest = start.clone();
                decode_key(&mut rest)?;
                skip_field(wire_type, field, &mut rest, DecodeContext::default())?;
                copy.extend_from_slice(&start[..start.len() - rest.len()]);
            }
        }
    }
    Ok(copy)
}

fn push_field(message: &mut Vec<u8>, field: u32, value: &[u8]) {
    encode_key(field, WireType::LengthDelimited, message);
    encode_varint(value.len() as u64, message);
    message.extend_from_slice(value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::onnx::proto::{Graph, Model};

    /// A model of two nodes from `planes` to `wdl`, with a field that [`Model`] does not have.
    fn model() -> Bytes {
        let output = ValueInfo { name: Some("wdl".into()), ..ValueInfo::default() };
        let graph = Graph {
            node: vec![node("Relu", "a", &["planes"], "a"), node("Tanh", "b", &["a"], "wdl")],
            output: vec![output],
            ..Graph::default()
        };
        let mut bytes = Vec::new();
        push_field(&mut bytes, 1000, b"unknown");
        push_field(&mut bytes, MODEL_GRAPH, &graph.encode_to_vec());
        bytes.into()
    }

    /// The nodes of a model, as `operator(inputs) = output`.
    fn nodes(model: &Bytes) -> Vec<String> {
        assert!(model.windows(7).any(|window| window == b"unknown"));
        let graph = Model::decode(model.clone()).expect("it is a model").graph.expect("it has a graph");
        let graph = Graph::decode(graph).expect("it is a graph");
        let text =
            |node: &Node| format!("{}({}) = {}", node.op_type(), node.input.join(","), node.output.join(","));
        graph.node.iter().map(text).collect()
    }

    #[test]
    fn nodes_are_inserted() {
        let scaled = scale_progress(&model(), "planes", data_type::FLOAT).expect("it is a model");
        let expected = ["Mul(planes,rule50fix_weights) = rule50fix", "Relu(rule50fix) = a", "Tanh(a) = wdl"];
        assert_eq!(nodes(&scaled), expected);
        let with_softmax = add_softmax(&model(), "wdl").expect("it is a model");
        let expected = ["Relu(planes) = a", "Tanh(a) = softmax_fix", "Softmax(softmax_fix) = wdl"];
        assert_eq!(nodes(&with_softmax), expected);
        let cast =
            cast_output(&model(), "wdl", data_type::FLOAT16).expect("it is a model").expect("it changed");
        assert_eq!(nodes(&cast), ["Relu(planes) = a", "Tanh(a) = wdl/cast", "Cast(wdl/cast) = wdl"]);
        assert_eq!(cast_output(&cast, "wdl", data_type::FLOAT16).expect("it is a model"), None);
    }

    #[test]
    fn a_damaged_model_is_an_error() {
        let whole = model();
        for length in 1..whole.len() {
            let _ = scale_progress(&whole.slice(..length), "planes", data_type::FLOAT);
        }
        assert!(add_softmax(&whole.slice(..whole.len() - 1), "wdl").is_err());
    }
}
