//! What the fuzz target of the readers needs from inside this module.

use super::document::{Document, Origin, Selection};
use super::input::{InputFormat, Source};
use rukh_base::decompress::decompressed;
use rukh_pgn::read::read_game;
use rukh_pgn::write::text;
use std::io::Cursor;

/// Reads all documents of a file in each format. Returns the error messages.
///
/// # Panics
/// A game that was read is not the same when it is written and read again.
pub(crate) fn read_all(bytes: &[u8]) -> Vec<String> {
    let mut messages = Vec::new();
    for format in [None, Some(InputFormat::Pgn), Some(InputFormat::Epd), Some(InputFormat::Jsonl)] {
        let file = decompressed(Cursor::new(bytes.to_vec()));
        match file.and_then(|reader| Source::new(reader, "file".to_owned(), format)) {
            Ok(source) => read_source(source, &mut messages),
            Err(error) => messages.push(error.to_string()),
        }
    }
    messages
}

fn read_source(mut source: Source, messages: &mut Vec<String>) {
    loop {
        match source.next() {
            Ok(None) => return,
            Ok(Some(raw)) => match raw.parse(&Selection::default()) {
                Ok(document) => check(&document),
                Err(error) => messages.push(error),
            },
            Err(error) => return messages.push(error.to_string()),
        }
    }
}

fn check(document: &Document) {
    if let Origin::Game(game) = &document.origin {
        let written = text(game);
        let read = read_game(&written);
        let shown = String::from_utf8_lossy(&written);
        let read = read.unwrap_or_else(|error| panic!("{error}: {shown}"));
        // What has no result is written as a game that goes on.
        let result = game.result.or(Some("*"));
        assert_eq!((&read.tags, &read.line, read.result), (&game.tags, &game.line, result), "{shown}");
    }
}
