//! Properties that hold for any input. For each function, `tests/fuzz` has a fuzz target, and the integration tests
//! have a property test.
//!
//! Each function takes bytes and panics if the code under test panics, if an error message is not one readable line, or
//! if text changes when it is written and read again.

use crate::analysis::fuzzing as analysis;
use crate::cli::profile::fuzzing as profile;
use crate::selfplay::training::chunk;
use crate::selfplay::training::planes::read_planes;
use crate::uci::lines::{Line, LineReader};
use crate::uci::parse::{self, Command, Parsed};
use prost::Message;
use prost::bytes::Bytes;
use rukh_chess::tablebase::Tablebases;
use rukh_chess::{Position, PositionHistory, uci_move};
use rukh_gpu as gpu;
use rukh_net::file::wrap::{Interface, Outline};
use rukh_net::onnx::edit;
use rukh_net::onnx::proto::data_type;
use rukh_net::{HeadSelection, Network};
use rukh_options::{Options, config, find_uci};
use rukh_search::limits::{PositionCommand, StartPosition};
use std::fmt::Display;
use std::io::Cursor;
use std::path::Path;
use zerocopy::IntoBytes;

/// The length limit of error messages in bytes, however long the input is.
const LONGEST_MESSAGE: usize = 2000;

/// Syzygy tables for the properties of positions: those of `../shared/syzygy` if they exist, otherwise the tables with
/// three pieces in `tests/data`. `repository` is the path of this repository.
pub fn tables(repository: &str) -> Tablebases {
    let repository = Path::new(repository);
    let directories = [repository.join("../shared/syzygy"), repository.join("tests/data/syzygy")];
    let found = directories.iter().filter(|path| path.is_dir()).find_map(|path| path.to_str());
    match Tablebases::open(found.unwrap_or_default()) {
        Ok(tables) => tables,
        Err(error) => panic!("{}: {error}", repository.display()),
    }
}

/// UCI input: every line is a command or gives one readable error.
pub fn uci_lines(bytes: &[u8], tables: &Tablebases) {
    let mut lines = LineReader::new(bytes);
    let mut options = Options::default();
    loop {
        match lines.next_line() {
            Line::End => return,
            Line::Refused { reason, .. } => check_message(&reason),
            Line::Text(line) => {
                let Parsed { command, errors } = parse::parse(&line);
                errors.iter().for_each(|error| check_message(error));
                match command {
                    Some(Command::SetOption { name, value }) => set_option(&mut options, &name, &value),
                    Some(Command::Position(command)) => set_position(&command, tables),
                    _ => {}
                }
            }
        }
    }
}

/// A FEN: it is refused with a readable error, or its position can be written, read and played.
pub fn fen(bytes: &[u8], tables: &Tablebases) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let position = match Position::from_fen(text) {
        Ok(position) => position,
        Err(error) => return check_message(&error),
    };
    let written = position.to_fen();
    let read = Position::from_fen(&written).unwrap_or_else(|error| panic!("{written}: {error}"));
    assert_eq!(read.to_fen(), written, "a FEN must stay the same when it is read and written");
    assert_eq!(read.key(), position.key(), "{written}");
    for &m in &position.legal_moves() {
        let text = uci_move::text(m, true);
        let parsed = uci_move::parse(&position, &text);
        assert_eq!(parsed.ok(), Some(m), "{written}: {text}");
        probe(&PositionHistory::new(position.play(m)), tables);
    }
    probe(&PositionHistory::new(position), tables);
}

/// The words after `position`: they are refused with a readable error, or the position can be set up.
pub fn position_command(bytes: &[u8], tables: &Tablebases) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let Parsed { command, errors } = parse::parse(&format!("position {text}"));
    match command {
        Some(Command::Position(command)) if errors.is_empty() => set_position(&command, tables),
        Some(Command::UnreadablePosition) if errors.len() == 1 => check_message(&errors[0]),
        other => panic!("{text:?} was read as {other:?} with {errors:?}"),
    }
}

/// The tables in `tests/data` that [`syzygy_file`] damages.
pub const SYZYGY_FILES: [&str; 6] =
    ["KPvK.rtbw", "KPvK.rtbz", "KQvK.rtbw", "KQvK.rtbz", "KRvK.rtbw", "KRvK.rtbz"];

/// A damaged table: the first byte says which of [`SYZYGY_FILES`], the others are the content of the file. Every probe
/// has an answer or none, and there is one readable reason if the table cannot be used.
///
/// `folder` is an empty folder, and `repository` is the path of this repository, which has the sound tables.
pub fn syzygy_file(bytes: &[u8], folder: &Path, repository: &str) {
    let Some((&number, content)) = bytes.split_first() else {
        return;
    };
    let name = SYZYGY_FILES[usize::from(number) % SYZYGY_FILES.len()];
    let damaged = folder.join(name);
    // A table with any other length is refused before it is opened.
    let mut content = content.to_vec();
    content.resize(content.len() / 64 * 64 + 16, 0);
    write(&damaged, &content);
    // A table has precedence over one for the same pieces in a folder that is named after it.
    let sound = Path::new(repository).join("tests/data/syzygy");
    let paths = std::env::join_paths([folder, sound.as_path()]).unwrap_or_default();
    let tables = match Tablebases::open(&paths.to_string_lossy()) {
        Ok(tables) => tables,
        Err(error) => panic!("{}: {error}", folder.display()),
    };
    let piece = &name[1..2];
    for turn in ["w", "b"] {
        for black_king in ["k7", "3k4", "7k"] {
            for white in ["8/8/8/8/8/2K5/4X3/8", "8/8/8/3K4/8/8/X7/8", "8/2X5/2K5/8/8/8/8/8"] {
                let white = white.replace('X', piece);
                let fen = format!("{black_king}/{} {turn} - - 0 1", &white[2..]);
                let Ok(position) = Position::from_fen(&fen) else {
                    continue;
                };
                tables.result_after_zeroing(&position);
                tables.distance_to_zeroing(&position);
                tables.root_moves(&PositionHistory::new(position), false);
            }
        }
    }
    let _ = std::fs::remove_file(&damaged);
    tables.faults(0).iter().for_each(|fault| check_message(fault));
}

/// A file that is analysed, as PGN, as EPD, as requests and as whatever its first bytes promise, and compressed if it
/// looks so: every document is read or gives one readable error, and a game that was read stays the same when it is
/// written and read again.
pub fn analysed_file(bytes: &[u8]) {
    for message in analysis::read_all(bytes) {
        check_message(&message);
    }
}

/// Training data: a chunk is refused with a readable error, or its planes can be computed, and it stays the same when it is
/// written and read again.
pub fn training_chunk(bytes: &[u8]) {
    let read = |bytes: Vec<u8>| chunk::read_chunk(Cursor::new(bytes));
    let records = match read(bytes.to_vec()) {
        Ok(records) => records,
        Err(error) => return check_message(&error.to_string()),
    };
    for record in &records {
        let planes = read_planes(record);
        assert!(planes.is_ok(), "{planes:?} for a record that was checked");
    }
    let written = chunk::write_chunk(&records).unwrap_or_else(|error| panic!("{error}"));
    let again = read(written).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(again.as_bytes(), records.as_bytes());
}

/// A configuration file: every error and note names its line, and no line counts twice.
pub fn config_file(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let mut options = Options::default();
    let applied = config::apply(&mut options, text);
    let errors = applied.errors.iter().map(ToString::to_string);
    let messages: Vec<String> = errors.chain(applied.notes).collect();
    assert!(messages.len() <= text.lines().count());
    for message in messages {
        check_message(&message);
        assert!(message.starts_with("line "), "{message}");
    }
}

/// A table of tuned GEMMs: what can be used stays the same when it is written and read again, and there is one
/// readable message about the rest.
pub fn tuned_gemms(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    match gpu::rewritten_table(&text) {
        Err(reason) => check_message(&reason),
        Ok((written, left_out)) => {
            left_out.iter().for_each(|message| check_message(message));
            assert_eq!(gpu::rewritten_table(&written), Ok((written.clone(), None)), "{text:?}");
        }
    }
}

/// A file of AMD's profiler, whose kind the first byte says, and the same bytes as the baseline of a profile: they are
/// refused with a readable error, or what is read can be shown in a terminal. `folder` is an empty folder.
pub fn profile_file(bytes: &[u8], folder: &Path) {
    for read in [profile::read_trace(bytes, folder), profile::read_baseline(bytes)] {
        match read {
            Err(error) => check_message(&error),
            Ok(lines) => assert!(!lines.concat().chars().any(char::is_control), "{lines:?}"),
        }
    }
}

/// A network file: it loads, or it gives one readable error.
pub fn weights_file(bytes: &[u8]) {
    if let Err(error) = Network::load_bytes(bytes, &HeadSelection::default()) {
        check_message(&error);
    }
}

/// An ONNX model: alone, inside a network file that names its inputs and outputs, and after each of the changes that
/// `onnx2leela` can make.
pub fn onnx_model(bytes: &[u8]) {
    weights_file(bytes);
    let name = |name: &str| Some(name.to_owned());
    let interface = Interface {
        planes: name("/input/planes"),
        policy: name("/output/policy"),
        wdl: name("/output/wdl"),
        moves_left: name("/output/mlh"),
        ..Interface::default()
    };
    let model = Bytes::copy_from_slice(bytes);
    weights_file(&interface.wrap(model.clone(), data_type::FLOAT).encode_to_vec());
    let edits = [
        edit::scale_progress(&model, "/input/planes", data_type::FLOAT),
        edit::add_softmax(&model, "/output/wdl"),
        edit::cast_output(&model, "/output/policy", data_type::FLOAT16).map(Option::unwrap_or_default),
    ];
    for edited in edits {
        if let Err(error) = edited.and_then(|model| Outline::of(&model).map(drop)) {
            check_message(&error);
        }
    }
}

fn write(path: &Path, content: &[u8]) {
    if let Err(error) = std::fs::write(path, content) {
        panic!("{}: {error}", path.display());
    }
}

fn set_option(options: &mut Options, name: &str, value: &str) {
    let before = options.clone();
    match options.set(name, value) {
        Err(error) => {
            check_message(&error);
            assert_eq!(*options, before);
        }
        Ok(()) => {
            // The value that is shown can be set again.
            let Some(spec) = find_uci(name) else {
                panic!("the option {name} was set but is not in the table")
            };
            let shown = spec.value(options).to_string();
            assert_eq!(options.set(name, &shown), Ok(()), "{name} = {shown}");
        }
    }
}

fn set_position(command: &PositionCommand, tables: &Tablebases) {
    let start = match &command.start {
        StartPosition::Standard => Ok(Position::startpos()),
        StartPosition::Fen(fen) => Position::from_fen(fen),
    };
    let mut history = match start {
        Ok(start) => PositionHistory::new(start),
        Err(error) => return check_message(&error),
    };
    for text in &command.moves {
        match uci_move::parse(history.last(), text) {
            Ok(m) => history.push(m),
            Err(error) => return check_message(&error),
        }
    }
    // The result of every reachable position can be determined.
    let _ = history.result();
    probe(&history, tables);
}

/// Asks the tables all that a search may ask. They may not know the position, but no probe may fail.
fn probe(history: &PositionHistory, tables: &Tablebases) {
    let position = history.last();
    let distance = tables.distance_to_zeroing(position);
    let root = tables.root_moves(history, false);
    tables.result_after_zeroing(position);
    assert_eq!(tables.faults(0), [] as [String; 0], "{}", position.to_fen());
    if root.is_some_and(|root| root.by_distance) {
        assert!(distance.is_some(), "{}", position.to_fen());
    }
}

/// Checks that a message is one short line without control characters.
fn check_message(message: &dyn Display) {
    let message = message.to_string();
    assert!(!message.is_empty() && message.len() <= LONGEST_MESSAGE, "{} bytes: {message}", message.len());
    assert!(!message.chars().any(char::is_control), "{message:?}");
}
