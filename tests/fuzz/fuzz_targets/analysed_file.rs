//! Any bytes as a file that is analysed. The property test `any_input::analysed_file` runs the same body.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| rukh::fuzzing::analysed_file(bytes));
