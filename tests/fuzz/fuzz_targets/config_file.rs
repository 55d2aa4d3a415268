//! Any text as configuration file. The body is shared with the property test `any_input::config_file`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| rukh::fuzzing::config_file(bytes));
