//! Any bytes as training data. The property test `any_input::training_chunk` runs the same body.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| rukh::fuzzing::training_chunk(bytes));
