//! Any text after the UCI command `position`. The property test `any_input::position_command` runs the same body.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| rukh::fuzzing::position_command(bytes));
