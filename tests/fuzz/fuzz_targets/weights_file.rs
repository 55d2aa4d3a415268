//! Any bytes as network file. The body is shared with the property test `any_input::weights_file`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| rukh::fuzzing::weights_file(bytes));
