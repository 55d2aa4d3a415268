//! Networks as ONNX graphs.
//!
//! | module | what it holds |
//! |---|---|
//! | [`proto`] | the messages of an ONNX file |
//!
//! The graphs have the structure, and their tensors the names, of those that lc0's converter makes
//! (`src/neural/onnx/converter.cc` in lc0), because programs that read such files know them by these names.

pub mod proto;
