//! Any text as a configuration file. The property test `any_input::config_file` runs the same body.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| rukh::fuzzing::config_file(bytes));
