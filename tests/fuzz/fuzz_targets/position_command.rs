//! Any text after `position`. The body is shared with the property test `any_input::position_command`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| rukh::fuzzing::position_command(bytes));
