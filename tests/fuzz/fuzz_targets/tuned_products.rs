//! Any text as a table of tuned products. The property test `any_input::tuned_products` runs the same body.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| rukh::fuzzing::tuned_products(bytes));
