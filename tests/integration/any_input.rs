//! Runs the bodies of the fuzz targets on generated input: random bytes, and known words in random order.

use proptest::prelude::*;
use rukh::fuzzing;
use rukh::selfplay::training::record::{RECORD_BYTES, Record};
use rukh_chess::tablebase::Tablebases;
use rukh_net::InputFormat;
use std::sync::LazyLock;
use zerocopy::IntoBytes;

/// Positions are looked up in these tables, of which the repository has some.
static TABLES: LazyLock<Tablebases> = LazyLock::new(|| fuzzing::tables(env!("CARGO_MANIFEST_DIR")));

/// A folder for a table that has been damaged.
static DAMAGED: LazyLock<tempfile::TempDir> = LazyLock::new(|| tempfile::tempdir().unwrap());

/// A folder for a file of a profiler that has been damaged.
static DAMAGED_PROFILE: LazyLock<tempfile::TempDir> = LazyLock::new(|| tempfile::tempdir().unwrap());

/// Words that UCI lines are made of, and some that they should not contain.
const UCI_WORDS: &[&str] = &[
    "uci",
    "isready",
    "setoption",
    "name",
    "value",
    "ucinewgame",
    "position",
    "startpos",
    "fen",
    "moves",
    "go",
    "infinite",
    "ponder",
    "wtime",
    "btime",
    "movestogo",
    "depth",
    "mate",
    "nodes",
    "movetime",
    "searchmoves",
    "stop",
    "ponderhit",
    "quit",
    "wait",
    "debug",
    "on",
    "Threads",
    "MultiPV",
    "CPuct",
    "WeightsFile",
    "ClearTree",
    "true",
    "e2e4",
    "e7e8q",
    "e1h1",
    "0000",
    "-1",
    "0",
    "1.5",
    "18446744073709551616",
    "\n",
    "\t",
    "  ",
    "ä",
    "\u{202e}",
];

/// Words that FENs are made of, and some that they should not contain.
const FEN_WORDS: &[&str] = &[
    "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR",
    "r3k2r/8/8/8/8/8/8/R3K2R",
    "4k3/8/8/3Pp3/8/8/8/4K3",
    "8/8",
    "k7/8/8/8/8/8/8/K7",
    "4k3/8/8/8/8/8/4R3/4K3",
    "rkr5/8/8/8/8/8/8/RKR5",
    "w",
    "b",
    "-",
    "KQkq",
    "HAha",
    "Kq",
    "AC",
    "e6",
    "e3",
    "d6",
    "0",
    "1",
    "99",
    "100",
    "65535",
    "70000",
    "-1",
    "4294967296",
    "+3+3",
    "moves",
    "a1a2",
    "e1g1",
    "d5e6",
];

fn sentence(words: &'static [&'static str]) -> impl Strategy<Value = String> {
    proptest::collection::vec(proptest::sample::select(words), 0..12).prop_map(|words| words.join(" "))
}

/// Tokens of PGN games.
const PGN_WORDS: &[&str] = &[
    "[Event \"x\"]\n",
    "[FEN \"4k3/8/8/8/8/8/4P3/4K3 w - - 0 1\"]\n",
    "[Variant \"Chess960\"]\n",
    "[White \"a\\\"b\\\\\"]\n",
    "1.",
    "12...",
    "e4",
    "e5",
    "Nf3",
    "Nc6",
    "Ke2",
    "O-O",
    "0-0-0",
    "exd5",
    "e8=Q",
    "--",
    "Z0",
    "Nf3+",
    "$1",
    "$300",
    "!?",
    "??",
    "(",
    ")",
    "{",
    "}",
    "{ comment }",
    "; rest\n",
    "\n",
    "\n\n",
    "\n% escaped\n",
    "*",
    "1-0",
    "1/2-1/2",
    "\u{bd}",
    "[%eval 1.0]",
    "\u{0}",
    "Bb5",
    "a6",
];

/// The first field of a FEN with two kings and at most three other pieces, on any squares. Some of these boards are not
/// legal.
fn any_few_pieces() -> impl Strategy<Value = String> {
    let others =
        proptest::collection::vec((0..64_usize, proptest::sample::select(b"PNBRQpnbrq".to_vec())), 0..4);
    (0..64_usize, 0..64_usize, others).prop_map(|(white, black, others)| {
        let mut squares = [b'1'; 64];
        for (square, piece) in others {
            squares[square] = piece;
        }
        squares[white] = b'K';
        squares[black] = b'k';
        let ranks: Vec<_> =
            squares.chunks(8).map(|rank| String::from_utf8_lossy(rank).into_owned()).collect();
        ranks.join("/")
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn uci_lines(bytes in proptest::collection::vec(any::<u8>(), 0..300), sentence in sentence(UCI_WORDS)) {
        fuzzing::uci_lines(&bytes, &TABLES);
        fuzzing::uci_lines(sentence.as_bytes(), &TABLES);
    }

    #[test]
    fn fen(text in ".{0,100}", sentence in sentence(FEN_WORDS)) {
        fuzzing::fen(text.as_bytes(), &TABLES);
        fuzzing::fen(sentence.as_bytes(), &TABLES);
    }

    #[test]
    fn few_pieces(board in any_few_pieces(), fields in sentence(FEN_WORDS)) {
        for turn in ["w", "b"] {
            fuzzing::fen(format!("{board} {turn} - - 0 1").as_bytes(), &TABLES);
            fuzzing::fen(format!("{board} {turn} {fields}").as_bytes(), &TABLES);
        }
    }

    #[test]
    fn position_command(text in ".{0,100}", sentence in sentence(FEN_WORDS)) {
        fuzzing::position_command(text.as_bytes(), &TABLES);
        fuzzing::position_command(format!("startpos moves {text}").as_bytes(), &TABLES);
        fuzzing::position_command(format!("fen {sentence}").as_bytes(), &TABLES);
    }

    #[test]
    fn syzygy_file(
        number in 0..fuzzing::SYZYGY_FILES.len(),
        damage in proptest::collection::vec((0.0..1.0, 1..255u8), 0..8),
        kept in 0.0..2.0,
    ) {
        let table = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/syzygy/");
        let mut bytes = std::fs::read(format!("{table}{}", fuzzing::SYZYGY_FILES[number])).unwrap();
        for (place, change) in damage {
            // Half of the damage is in the header, where a length or an index may change.
            let length = if change % 2 == 0 { bytes.len() } else { 64 };
            bytes[(place * length as f64) as usize] ^= change;
        }
        bytes.truncate((kept * bytes.len() as f64) as usize);
        bytes.insert(0, number as u8);
        fuzzing::syzygy_file(&bytes, DAMAGED.path(), env!("CARGO_MANIFEST_DIR"));
    }

    #[test]
    fn analysed_file(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        sentence in sentence(PGN_WORDS),
        kind in 0..3_usize,
    ) {
        fuzzing::analysed_file(&bytes);
        fuzzing::analysed_file(sentence.as_bytes());
        fuzzing::analysed_file(format!("[Event \"a\"]\n\n1. e4 {sentence}").as_bytes());
        let magic: [&[u8]; 3] = [&[0x1f, 0x8b, 8, 0], &[0x28, 0xb5, 0x2f, 0xfd], b"{\"id\":"];
        fuzzing::analysed_file(&[magic[kind], &bytes].concat());
    }

    #[test]
    fn training_chunk(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        moves in proptest::collection::vec(0..1858_usize, 1..40),
        damage in proptest::collection::vec((0.0..1.0, any::<u8>()), 0..4),
        kept in 0.5..2.0,
    ) {
        let mut record = Record::empty(InputFormat::CanonicalV2);
        moves.iter().for_each(|&index| record.probabilities[index] = 0.0.into());
        record.probabilities[moves[0]] = 1.0.into();
        record.best_idx = (moves[0] as u16).into();
        record.played_idx = (moves[moves.len() - 1] as u16).into();
        let mut chunk = [record.as_bytes(), record.as_bytes()].concat();
        fuzzing::training_chunk(&chunk);
        for (place, value) in damage {
            // Half of the damage is among the fields after the probabilities, or in the version and the format.
            let place = (place * RECORD_BYTES as f64) as usize;
            let place = if value % 2 == 0 { place } else { (7440 + place % 924) % RECORD_BYTES };
            chunk[place] = value;
        }
        fuzzing::training_chunk(&chunk);
        chunk.truncate((kept * chunk.len() as f64) as usize);
        fuzzing::training_chunk(&chunk);
        fuzzing::training_chunk(&bytes);
        fuzzing::training_chunk(&[&[0x1f, 0x8b, 8, 0], &bytes[..]].concat());
    }

    #[test]
    fn config_file(text in ".{0,100}", sentence in sentence(UCI_WORDS)) {
        fuzzing::config_file(text.as_bytes());
        fuzzing::config_file(format!("threads=2\n--{text}\n").as_bytes());
        fuzzing::config_file(sentence.as_bytes());
    }

    #[test]
    fn tuned_gemms(
        text in ".{0,100}",
        place in 0.0..1.0,
        damage in proptest::sample::select(vec!["", ",", "\n", "\"", "-1", "inf", "NaN", "99999999999999999999", "ä"]),
        count in 0..20_usize,
    ) {
        fuzzing::tuned_gemms(text.as_bytes());
        let mut table = include_bytes!("../fuzz/seeds/tuned_gemms/all").to_vec();
        fuzzing::tuned_gemms(&[&table[..], text.as_bytes()].concat());
        let place = (place * table.len() as f64) as usize;
        let end = (place + count).min(table.len());
        table.splice(place..end, damage.bytes());
        fuzzing::tuned_gemms(&table);
    }

    #[test]
    fn profile_file(
        seed in proptest::sample::select(vec![
            &include_bytes!("../fuzz/seeds/profile_file/kernel_trace")[..],
            &include_bytes!("../fuzz/seeds/profile_file/kernel_stats")[..],
            &include_bytes!("../fuzz/seeds/profile_file/counter_collection")[..],
            &include_bytes!("../fuzz/seeds/profile_file/memory_copy_trace")[..],
            &include_bytes!("../fuzz/seeds/profile_file/baseline")[..],
        ]),
        place in 0.0..1.0,
        damage in proptest::sample::select(vec!["", ",", "\n", "\"", "-1", "1e400", "NaN", "18446744073709551615", "\u{1b}", "ä"]),
        count in 0..20_usize,
    ) {
        fuzzing::profile_file(seed, DAMAGED_PROFILE.path());
        let mut file = seed.to_vec();
        let place = (place * file.len() as f64) as usize;
        let end = (place + count).min(file.len());
        file.splice(place..end, damage.bytes());
        fuzzing::profile_file(&file, DAMAGED_PROFILE.path());
    }

    #[test]
    fn weights_file(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        fuzzing::weights_file(&bytes);
        // Again with a valid beginning: field 1, the magic number.
        let mut file = vec![0x0d, 0xc0, 0x01, 0, 0];
        file.extend(&bytes);
        fuzzing::weights_file(&file);
    }

    #[test]
    fn onnx_model(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        fuzzing::onnx_model(&bytes);
        // Again with a valid beginning: the version of the format, and then the key of the graph.
        let mut file = vec![0x08, 0x08, 0x3a];
        file.extend(&bytes);
        fuzzing::onnx_model(&file);
    }
}
