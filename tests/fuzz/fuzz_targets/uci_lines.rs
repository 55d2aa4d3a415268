//! Any bytes as UCI input. The property test `any_input::uci_lines` runs the same body.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| rukh::fuzzing::uci_lines(bytes));
