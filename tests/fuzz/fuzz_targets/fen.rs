//! Any text as FEN. The body is shared with the property test `any_input::fen`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| rukh::fuzzing::fen(bytes));
