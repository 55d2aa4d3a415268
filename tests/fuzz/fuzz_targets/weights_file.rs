//! Any bytes as a network file. The property test `any_input::weights_file` runs the same body.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| rukh::fuzzing::weights_file(bytes));
