//! Any text as a FEN. The property test `any_input::fen` runs the same body.

#![no_main]

use std::sync::LazyLock;

static TABLES: LazyLock<rukh_chess::tablebase::Tablebases> =
    LazyLock::new(|| rukh::fuzzing::tables(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")));

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| rukh::fuzzing::fen(bytes, &TABLES));
