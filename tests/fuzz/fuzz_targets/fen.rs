//! Any text as a FEN. The property test `any_input::fen` runs the same body.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| rukh::fuzzing::fen(bytes));
