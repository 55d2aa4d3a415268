//! Any bytes as an ONNX model. The property test `any_input::onnx_model` runs the same body.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| rukh::fuzzing::onnx_model(bytes));
