//! Networks as ONNX graphs.
//!
//! The graphs have the structure of those that lc0's converter makes (`src/neural/onnx/converter.cc` in lc0), and their
//! nodes and tensors have the same names, because tools that work on such files find layers by these names.
//!
//! | module | what it holds |
//! |---|---|
//! | [`mod@write`] | from a network to a graph |
//! | [`edit`] | changes to models that other programs made |
//! | [`decode`] | from bytes to a graph |
//! | [`proto`] | the messages of an ONNX file |

pub mod decode;
pub mod edit;
pub mod proto;
pub mod write;

/// The entry of a model's metadata that says in which format the graph expects the input planes: a number of
/// [`crate::InputFormat`]. Files of lc0's converter do not have it.
pub const INPUT_FORMAT_KEY: &str = "lc0.input_format";
