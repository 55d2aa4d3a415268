//! Reads the texts of documents, for programs that have them analysed elsewhere, such as `rukh-fleet`.

use super::document::Selection;
use super::input::{InputFormat, Source};
use rukh_base::encoding::decoded;
use std::io;
use std::path::Path;

/// A game, or a line with a position or a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CutDocument {
    /// The text. One that is not UTF-8 is taken for Windows-1252, which extends the ISO 8859-1 of the PGN standard.
    pub text: String,
    /// Where it stands, as in `games.pgn line 12`.
    pub place: String,
    /// Its format.
    pub format: InputFormat,
    /// The number of its positions; 0 if it cannot be read.
    pub positions: usize,
    /// The limit that the document passes, in words. Then the text is only its beginning.
    pub fault: Option<String>,
}

/// Reads the documents of a file.
pub struct Cutter(Source);

impl Cutter {
    /// Opens a file, which may be compressed; `-` is stdin. Without a `format` the name says it, or else the first bytes.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn open(path: &Path, format: Option<InputFormat>) -> io::Result<Cutter> {
        Source::open(path, format).map(Cutter)
    }

    /// The next document; `None` at the end of the file.
    ///
    /// # Errors
    /// The file cannot be read further.
    pub fn next_document(&mut self) -> io::Result<Option<CutDocument>> {
        let Some(raw) = self.0.next()? else { return Ok(None) };
        let positions = raw.parse(&Selection::default()).map_or(0, |document| document.wanted.len());
        let text = decoded(&raw.bytes).into_owned();
        Ok(Some(CutDocument { text, place: raw.place, format: raw.format, positions, fault: raw.fault }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_have_their_positions_and_readable_text() {
        let source = |text: &'static [u8]| {
            Cutter(Source::new(Box::new(text), "a.pgn".to_owned(), Some(InputFormat::Pgn)).unwrap())
        };
        let mut cutter = source(b"[White \"M\xfcller\"]\n\n1. e4 e5 *\n\n1. e4 e4 *\n");
        let first = cutter.next_document().unwrap().unwrap();
        assert!(first.text.contains("M\u{fc}ller") && first.positions == 3, "{first:?}");
        let broken = cutter.next_document().unwrap().unwrap();
        assert_eq!((broken.positions, broken.place.as_str()), (0, "a.pgn line 5"));
        assert_eq!(cutter.next_document().unwrap(), None);
    }
}
