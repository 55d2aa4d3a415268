//! The protobuf messages of an ONNX file, written by hand. Their definition is `onnx.proto` (package `onnx`) of the
//! ONNX repository.
//!
//! Each message has the name of the definition without `Proto`. Fields that no network of lc0 has are left out, and
//! prost skips them: subgraphs, sparse and quantized tensors, and functions.
//!
//! As in [`crate::file::proto`], tensors are not copied: [`Tensor::raw_data`] is a view of the buffer that holds
//! the file. [`Model::graph`] is decoded on demand by [`decode_bounded`], which counts the nodes and the initializers
//! first.

use prost::Message;
use prost::bytes::Bytes;

use crate::bounded::Counted;
#[cfg(doc)]
use crate::bounded::decode_bounded;

impl Counted for Model {
    const REPEATED: &'static [u32] = &[8, 14];
}

impl Counted for Graph {
    const REPEATED: &'static [u32] = &[1, 5, 11, 12];
    // The largest networks of lc0 have some 3,000 nodes.
    const LIMIT: usize = 1 << 16;
}

/// Declares numbers of an enumeration of `onnx.proto` as constants: `NAME = number`.
macro_rules! numbers {
    ($(#[$doc:meta])* $module:ident: $($name:ident = $number:literal),+ $(,)?) => {
        $(#[$doc])*
        #[allow(missing_docs, reason = "the names of onnx.proto")]
        pub mod $module { $(pub const $name: i32 = $number;)+ }
    };
}

numbers! {
    /// The types of a tensor's elements (`TensorProto.DataType`).
    data_type: FLOAT = 1, INT32 = 6, INT64 = 7, FLOAT16 = 10, DOUBLE = 11, BFLOAT16 = 16
}

numbers! {
    /// The types of an attribute's value (`AttributeProto.AttributeType`).
    attribute_type: FLOAT = 1, INT = 2, STRING = 3, TENSOR = 4, FLOATS = 6, INTS = 7
}

numbers! {
    /// Where the elements of a tensor are (`TensorProto.DataLocation`).
    data_location: DEFAULT = 0, EXTERNAL = 1
}

/// The whole file (`ModelProto`).
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs, reason = "the fields of onnx.proto")]
pub struct Model {
    #[prost(int64, optional, tag = "1")]
    pub ir_version: Option<i64>,
    /// Free text that is not always UTF-8, as are the next three fields.
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub producer_name: Option<Bytes>,
    #[prost(bytes = "bytes", optional, tag = "3")]
    pub producer_version: Option<Bytes>,
    #[prost(bytes = "bytes", optional, tag = "4")]
    pub domain: Option<Bytes>,
    #[prost(int64, optional, tag = "5")]
    pub model_version: Option<i64>,
    #[prost(bytes = "bytes", optional, tag = "6")]
    pub doc_string: Option<Bytes>,
    /// A [`Graph`]; [`decode_bounded`] decodes it.
    #[prost(bytes = "bytes", optional, tag = "7")]
    pub graph: Option<Bytes>,
    #[prost(message, repeated, tag = "8")]
    pub opset_import: Vec<OperatorSet>,
    #[prost(message, repeated, tag = "14")]
    pub metadata_props: Vec<StringStringEntry>,
}

/// A named text (`StringStringEntryProto`).
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs, reason = "the fields of onnx.proto")]
pub struct StringStringEntry {
    #[prost(string, optional, tag = "1")]
    pub key: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub value: Option<String>,
}

/// A set of operators that the graph uses (`OperatorSetIdProto`). An empty domain is ONNX's own set.
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs, reason = "the fields of onnx.proto")]
pub struct OperatorSet {
    #[prost(bytes = "bytes", optional, tag = "1")]
    pub domain: Option<Bytes>,
    #[prost(int64, optional, tag = "2")]
    pub version: Option<i64>,
}

/// The nodes, in an order in which each follows its inputs, and the constants (`GraphProto`).
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs, reason = "the fields of onnx.proto")]
pub struct Graph {
    #[prost(message, repeated, tag = "1")]
    pub node: Vec<Node>,
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub name: Option<Bytes>,
    #[prost(message, repeated, tag = "5")]
    pub initializer: Vec<Tensor>,
    #[prost(message, repeated, tag = "11")]
    pub input: Vec<ValueInfo>,
    #[prost(message, repeated, tag = "12")]
    pub output: Vec<ValueInfo>,
}

/// An operator with its inputs and outputs (`NodeProto`).
#[derive(Clone, PartialEq, Message)]
pub struct Node {
    /// The names of the tensors that it reads. An empty name stands for an optional input that is absent.
    #[prost(string, repeated, tag = "1")]
    pub input: Vec<String>,
    /// The names of the tensors that it computes.
    #[prost(string, repeated, tag = "2")]
    pub output: Vec<String>,
    /// A name for messages.
    #[prost(string, optional, tag = "3")]
    pub name: Option<String>,
    /// The name of the operator, such as `MatMul`.
    #[prost(string, optional, tag = "4")]
    pub op_type: Option<String>,
    /// The settings of the operator.
    #[prost(message, repeated, tag = "5")]
    pub attribute: Vec<Attribute>,
    /// The set that contains the operator. Absent or empty for ONNX's own set.
    #[prost(string, optional, tag = "7")]
    pub domain: Option<String>,
}

/// A setting of an operator (`AttributeProto`). The field that contains the value depends on the type.
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs, reason = "the fields of onnx.proto")]
pub struct Attribute {
    #[prost(string, optional, tag = "1")]
    pub name: Option<String>,
    #[prost(float, optional, tag = "2")]
    pub f: Option<f32>,
    #[prost(int64, optional, tag = "3")]
    pub i: Option<i64>,
    #[prost(bytes = "bytes", optional, tag = "4")]
    pub s: Option<Bytes>,
    #[prost(message, optional, boxed, tag = "5")]
    pub t: Option<Box<Tensor>>,
    #[prost(float, repeated, packed = "false", tag = "7")]
    pub floats: Vec<f32>,
    #[prost(int64, repeated, packed = "false", tag = "8")]
    pub ints: Vec<i64>,
    /// A number of [`attribute_type`].
    #[prost(int32, optional, tag = "20")]
    pub r#type: Option<i32>,
}

/// A constant (`TensorProto`). Its elements are little-endian in [`Self::raw_data`], or else in the field of their
/// type, in row-major order in both cases.
#[derive(Clone, PartialEq, Message)]
pub struct Tensor {
    /// The dimensions. A tensor without dimensions is a scalar.
    #[prost(int64, repeated, packed = "false", tag = "1")]
    pub dims: Vec<i64>,
    /// A number of [`data_type`].
    #[prost(int32, optional, tag = "2")]
    pub data_type: Option<i32>,
    /// The elements of a FLOAT tensor without raw data.
    #[prost(float, repeated, tag = "4")]
    pub float_data: Vec<f32>,
    /// The elements of an INT32 tensor without raw data. For FLOAT16 and BFLOAT16 it contains their bits.
    #[prost(int32, repeated, tag = "5")]
    pub int32_data: Vec<i32>,
    /// The elements of an INT64 tensor without raw data.
    #[prost(int64, repeated, tag = "7")]
    pub int64_data: Vec<i64>,
    /// The name by which nodes refer to it.
    #[prost(string, optional, tag = "8")]
    pub name: Option<String>,
    /// The elements as bytes.
    #[prost(bytes = "bytes", optional, tag = "9")]
    pub raw_data: Option<Bytes>,
    /// The elements of a DOUBLE tensor without raw data.
    #[prost(double, repeated, tag = "10")]
    pub double_data: Vec<f64>,
    /// A number of [`data_location`]. The elements of an external tensor are in another file.
    #[prost(int32, optional, tag = "14")]
    pub data_location: Option<i32>,
}

/// An input or an output of the graph (`ValueInfoProto`).
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs, reason = "the fields of onnx.proto")]
pub struct ValueInfo {
    /// Text that is not always UTF-8, because `describenet` prints it in any case.
    #[prost(bytes = "bytes", optional, tag = "1")]
    pub name: Option<Bytes>,
    #[prost(message, optional, tag = "2")]
    pub r#type: Option<Type>,
    #[prost(bytes = "bytes", optional, tag = "3")]
    pub doc_string: Option<Bytes>,
}

/// The type of a value (`TypeProto`). Only tensors are known.
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs, reason = "the fields of onnx.proto")]
pub struct Type {
    #[prost(message, optional, tag = "1")]
    pub tensor_type: Option<TensorType>,
}

/// The type of a tensor (`TypeProto.Tensor`).
#[derive(Clone, PartialEq, Message)]
pub struct TensorType {
    /// A number of [`data_type`].
    #[prost(int32, optional, tag = "1")]
    pub elem_type: Option<i32>,
    /// Absent if even the number of dimensions is unknown.
    #[prost(message, optional, tag = "2")]
    pub shape: Option<Shape>,
}

/// The dimensions of a value (`TensorShapeProto`).
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs, reason = "the fields of onnx.proto")]
pub struct Shape {
    #[prost(message, repeated, tag = "1")]
    pub dim: Vec<Dimension>,
}

/// A dimension (`TensorShapeProto.Dimension`): its size, or a name if the size is not fixed.
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs, reason = "the fields of onnx.proto")]
pub struct Dimension {
    #[prost(int64, optional, tag = "1")]
    pub dim_value: Option<i64>,
    #[prost(string, optional, tag = "2")]
    pub dim_param: Option<String>,
}
