//! Any bytes as UCI input. The body is shared with the property test `any_input::uci_lines`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| rukh::fuzzing::uci_lines(bytes));
