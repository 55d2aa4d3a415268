//! Decodes an ONNX model. A graph may contain any number of nodes with any number of inputs each, so both are counted
//! first.

use prost::bytes::{Buf, Bytes};
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

use super::proto::{Graph, Model};
use crate::bounded::decode_bounded;
use crate::error::Reason;

/// How many repeated fields the nodes of a graph may have together. The largest networks of lc0 have some 10,000.
const MAXIMUM_NODE_FIELDS: usize = 1 << 18;

/// The model, whose field `graph` is empty, and its graph.
///
/// # Errors
/// The bytes are not an ONNX model, or the graph has more nodes than any network.
pub fn decode_model(bytes: &Bytes) -> Result<(Model, Graph), Reason> {
    let mut model: Model = decode_bounded(bytes)?;
    let graph = model.graph.take().unwrap_or_default();
    check_node_fields(&graph)?;
    Ok((model, decode_bounded(&graph)?))
}

/// Counts the inputs, outputs and attributes of all nodes before any memory is allocated for them.
fn check_node_fields(graph: &Bytes) -> Result<(), Reason> {
    const NODE: u32 = 1;
    let mut fields = 0;
    let mut rest = graph.clone();
    while rest.has_remaining() {
        let (field, wire_type) = decode_key(&mut rest)?;
        if field != NODE || wire_type != WireType::LengthDelimited {
            skip_field(wire_type, field, &mut rest, DecodeContext::default())?;
            continue;
        }
        let length = decode_varint(&mut rest)?;
        let length = usize::try_from(length).ok().filter(|&length| length <= rest.remaining());
        let Some(length) = length else {
            // The message is truncated, and decoding it gives the error.
            return Ok(());
        };
        let mut node = rest.split_to(length);
        while node.has_remaining() {
            let (field, wire_type) = decode_key(&mut node)?;
            skip_field(wire_type, field, &mut node, DecodeContext::default())?;
            fields += 1;
            if fields > MAXIMUM_NODE_FIELDS {
                return Err(Reason::Repeats { field, limit: MAXIMUM_NODE_FIELDS });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::onnx::proto::Node;
    use prost::Message;

    #[test]
    fn a_node_with_too_many_inputs_is_refused() {
        let with_inputs = |inputs: usize| {
            let node = Node { input: vec![String::new(); inputs], ..Node::default() };
            let graph = Graph { node: vec![node], ..Graph::default() };
            let model = Model { graph: Some(graph.encode_to_vec().into()), ..Model::default() };
            decode_model(&model.encode_to_vec().into()).map(|(_, graph)| graph.node[0].input.len())
        };
        assert!(matches!(with_inputs(MAXIMUM_NODE_FIELDS), Ok(MAXIMUM_NODE_FIELDS)));
        assert!(matches!(with_inputs(MAXIMUM_NODE_FIELDS + 1), Err(Reason::Repeats { field: 1, .. })));
    }
}
