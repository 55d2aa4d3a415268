//! Any text as a table of tuned GEMMs. The property test `any_input::tuned_gemms` runs the same body.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| rukh::fuzzing::tuned_gemms(bytes));
