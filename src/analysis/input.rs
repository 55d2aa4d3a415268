//! Reads documents from files: PGN games, lines of EPD or FEN, and requests in JSON.

use super::document::{Document, Selection};
use super::message::Request;
use rukh_base::decompress::decompressed;
use rukh_base::encoding::{decoded, without_mark};
use rukh_base::limited_lines::{LONGEST_LINE, next_line};
use rukh_pgn::split::Splitter;
use std::fs::File;
use std::io::{self, BufRead, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The most bytes at the beginning of a file that say its format.
const HEAD_BYTES: usize = 1 << 12;

/// The format of a file that is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InputFormat {
    /// Games.
    Pgn,
    /// A position on each line, as EPD or FEN.
    Epd,
    /// A request on each line.
    Jsonl,
}

impl InputFormat {
    /// The format that the name of a file promises. Endings of compressed files do not count.
    pub fn of_name(path: &Path) -> Option<InputFormat> {
        let name = path.file_name()?.to_string_lossy().to_ascii_lowercase();
        let name = name.strip_suffix(".gz").or(name.strip_suffix(".zst")).unwrap_or(&name);
        match name.rsplit_once('.')?.1 {
            "pgn" => Some(InputFormat::Pgn),
            "epd" | "fen" => Some(InputFormat::Epd),
            "jsonl" | "ndjson" | "json" => Some(InputFormat::Jsonl),
            _ => None,
        }
    }

    /// The format of this name: `pgn`, `epd` or `jsonl`.
    pub fn of_word(word: &str) -> Option<InputFormat> {
        match word {
            "pgn" => Some(InputFormat::Pgn),
            "epd" => Some(InputFormat::Epd),
            "jsonl" => Some(InputFormat::Jsonl),
            _ => None,
        }
    }

    /// The name that [`InputFormat::of_word`] reads.
    pub fn word(self) -> &'static str {
        match self {
            InputFormat::Pgn => "pgn",
            InputFormat::Epd => "epd",
            InputFormat::Jsonl => "jsonl",
        }
    }

    /// The format of a text that begins with `head`: a brace begins a request, and a word with seven slashes is the board
    /// of a FEN.
    pub(super) fn of_content(head: &[u8]) -> InputFormat {
        let text = head.trim_ascii_start();
        let word = text.split(u8::is_ascii_whitespace).next().unwrap_or_default();
        if text.starts_with(b"{\"") {
            InputFormat::Jsonl
        } else if word.iter().filter(|&&byte| byte == b'/').count() == 7 {
            InputFormat::Epd
        } else {
            InputFormat::Pgn
        }
    }
}

/// A file that is read from its beginning to its end.
pub(super) struct Source {
    reader: Reader,
    /// The name of the file in messages.
    name: String,
    format: InputFormat,
    /// The bytes of the documents so far.
    document_bytes: u64,
    /// The bytes that were read from a compressed file.
    compressed_bytes: Option<Arc<AtomicU64>>,
}

/// Counts the bytes that are read. It is only a figure, so its orderings are Relaxed.
struct Counting<R> {
    inner: R,
    count: Arc<AtomicU64>,
}

impl<R: Read> Read for Counting<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.inner.read(buffer)?;
        self.count.fetch_add(length as u64, Ordering::Relaxed);
        Ok(length)
    }
}

enum Reader {
    Games(Splitter<Box<dyn BufRead + Send>>),
    Lines { reader: Box<dyn BufRead + Send>, number: u64 },
}

/// The text of a document.
pub(super) struct RawDocument {
    /// The text in UTF-8, or as it is in the file; of a document that is too long, the beginning.
    pub(super) bytes: Vec<u8>,
    /// The limit that the document passes, in words.
    pub(super) fault: Option<String>,
    /// Where it stands, as in `games.pgn line 12`.
    pub(super) place: String,
    pub(super) format: InputFormat,
}

impl Source {
    /// Opens a file; `-` is stdin. Without a `format` the name says it, or else the first bytes.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(super) fn open(path: &Path, format: Option<InputFormat>) -> io::Result<Source> {
        let (name, count) = (path.display().to_string(), Arc::default());
        if path == Path::new("-") {
            return Source::new(decompressed(io::stdin())?, "stdin".to_owned(), format);
        }
        let reader = decompressed(Counting { inner: File::open(path)?, count: Arc::clone(&count) })?;
        let mut source = Source::new(reader, name, format.or(InputFormat::of_name(path)))?;
        let ending = path.extension().map(|ending| ending.to_ascii_lowercase());
        let is_compressed = ending.is_some_and(|ending| ending == "gz" || ending == "zst");
        source.compressed_bytes = is_compressed.then_some(count);
        Ok(source)
    }

    /// Reads from `reader`.
    ///
    /// # Errors
    /// `reader` cannot be read, or its encoding is not known.
    pub(super) fn new(
        reader: Box<dyn BufRead + Send>,
        name: String,
        format: Option<InputFormat>,
    ) -> io::Result<Source> {
        let mut reader = without_mark(reader)?;
        let format = match format {
            Some(format) => format,
            None => {
                // A pipe may give one line at a time.
                let mut head = Vec::new();
                while head.trim_ascii().is_empty()
                    && head.len() < HEAD_BYTES
                    && reader.by_ref().take((HEAD_BYTES - head.len()) as u64).read_until(b'\n', &mut head)?
                        > 0
                {}
                let format = InputFormat::of_content(&head);
                reader = Box::new(io::Cursor::new(head).chain(reader));
                format
            }
        };
        let reader = match format {
            InputFormat::Pgn => Reader::Games(Splitter::new(reader)),
            InputFormat::Epd | InputFormat::Jsonl => Reader::Lines { reader, number: 0 },
        };
        Ok(Source { reader, name, format, document_bytes: 0, compressed_bytes: None })
    }

    /// How far the file is read, in bytes: to the end of the last document, or a little further in a compressed file.
    pub(super) fn bytes_read(&self) -> u64 {
        self.compressed_bytes.as_ref().map_or(self.document_bytes, |count| count.load(Ordering::Relaxed))
    }

    /// The next document; `None` at the end of the file. Empty lines, and lines of EPD that begin with `#`, are passed
    /// over.
    ///
    /// # Errors
    /// The file cannot be read further.
    pub(super) fn next(&mut self) -> io::Result<Option<RawDocument>> {
        let format = self.format;
        let (bytes, line, fault) = match &mut self.reader {
            Reader::Games(games) => match games.next_game()? {
                None => return Ok(None),
                Some(game) => (game.bytes, game.line, game.fault),
            },
            Reader::Lines { reader, number } => loop {
                let Some(line) = next_line(reader, LONGEST_LINE)? else { return Ok(None) };
                *number += 1;
                let text = line.bytes.trim_ascii();
                let is_comment = format == InputFormat::Epd && text.starts_with(b"#");
                let fault = line.fault();
                if fault.is_some() {
                    break (line.bytes, *number, fault);
                }
                if !text.is_empty() && !is_comment {
                    break (line.bytes, *number, None);
                }
            },
        };
        self.document_bytes += bytes.len() as u64;
        let fault = fault.map(|fault| format!("{fault}; only its first {} bytes are kept", bytes.len()));
        Ok(Some(RawDocument { bytes, fault, place: format!("{} line {line}", self.name), format }))
    }
}

impl RawDocument {
    /// Reads the text.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn parse(&self, selection: &Selection) -> Result<Document, String> {
        if let Some(fault) = &self.fault {
            return Err(fault.clone());
        }
        match self.format {
            InputFormat::Pgn => Document::of_game(&self.bytes, selection),
            InputFormat::Epd => Document::of_epd(decoded(&self.bytes).trim(), selection),
            InputFormat::Jsonl => {
                let text =
                    std::str::from_utf8(&self.bytes).map_err(|_| "the line is not UTF-8".to_owned())?;
                match Request::parse(text)? {
                    request if request.action.is_some() => {
                        Err("actions are for --protocol json only".to_owned())
                    }
                    request => Document::of_request(request),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_known_by_name_and_by_content() {
        let of_name = |name: &str| InputFormat::of_name(Path::new(name));
        assert_eq!(of_name("a/b.PGN.zst"), Some(InputFormat::Pgn));
        assert_eq!(of_name("b.fen"), Some(InputFormat::Epd));
        assert_eq!(of_name("b.jsonl.gz"), Some(InputFormat::Jsonl));
        assert_eq!(of_name("b.txt"), None);
        assert_eq!(InputFormat::of_content(b"\n{\"id\":1}"), InputFormat::Jsonl);
        assert_eq!(InputFormat::of_content(b"8/8/8/8/8/8/8/8 w"), InputFormat::Epd);
        assert_eq!(InputFormat::of_content(b"{a comment} 1. e4"), InputFormat::Pgn);
    }

    #[test]
    fn the_first_line_says_the_format_of_a_text_without_a_name() {
        for (text, format) in [
            ("\n\n4k3/8/8/8/8/8/8/4K3 w - -\n", InputFormat::Epd),
            ("\u{feff}4k3/8/8/8/8/8/8/4K3", InputFormat::Epd),
            ("\n{\"id\":1}\n", InputFormat::Jsonl),
            ("1. e4 *\n", InputFormat::Pgn),
            ("", InputFormat::Pgn),
        ] {
            let mut source = Source::new(Box::new(io::Cursor::new(text)), "stdin".to_owned(), None).unwrap();
            assert_eq!(source.format, format, "{text}");
            assert_eq!(source.next().unwrap().is_some(), !text.is_empty());
        }
    }

    #[test]
    fn documents_carry_their_line() {
        let text: &[u8] = b"# comment\n\n8/8/8/8/8/8/8/8 w - - 0 1\n";
        let mut source = Source::new(Box::new(text), "a.epd".to_owned(), Some(InputFormat::Epd)).unwrap();
        let raw = source.next().unwrap().unwrap();
        assert_eq!((raw.place.as_str(), &raw.fault), ("a.epd line 3", &None));
        assert!(raw.parse(&Selection::default()).is_err());
        assert!(source.next().unwrap().is_none());
    }

    #[test]
    fn a_line_that_is_too_long_is_refused_once_and_the_next_one_is_read() {
        let long = "x".repeat(5 * LONGEST_LINE);
        let text = format!("{long}\n8/8/8/8/8/8/8/8 w - - 0 1\n");
        let mut source =
            Source::new(Box::new(io::Cursor::new(text)), "a.epd".to_owned(), Some(InputFormat::Epd)).unwrap();
        let raw = source.next().unwrap().unwrap();
        let reason = "the line is longer than 1048576 bytes; only its first 1048576 bytes are kept";
        assert_eq!(raw.parse(&Selection::default()).err().as_deref(), Some(reason));
        assert_eq!(source.next().unwrap().unwrap().place, "a.epd line 2");
    }

    #[test]
    fn positions_with_fewer_fields_and_other_encodings_are_read() {
        let fen = |bytes: &[u8]| {
            let mut source = Source::new(
                Box::new(io::Cursor::new(bytes.to_vec())),
                "a.epd".to_owned(),
                Some(InputFormat::Epd),
            )?;
            let raw = source.next()?.unwrap();
            raw.parse(&Selection::default())
                .map(|document| document.position(0).to_fen())
                .map_err(io::Error::other)
        };
        for text in [
            "4k3/8/8/8/8/8/8/4K3",
            "4k3/8/8/8/8/8/8/4K3 w",
            "4k3/8/8/8/8/8/8/4K3 w - -",
            "4k3/8/8/8/8/8/8/4K3 w - - 0",
        ] {
            assert_eq!(fen(text.as_bytes()).unwrap(), "4k3/8/8/8/8/8/8/4K3 w - - 0 1", "{text}");
        }
        let utf16: Vec<u8> =
            "\u{feff}4k3/8/8/8/8/8/8/4K3 b\n".encode_utf16().flat_map(u16::to_be_bytes).collect();
        for bytes in [
            &b"\xef\xbb\xbf4k3/8/8/8/8/8/8/4K3 b"[..],
            b"4k3/8/8/8/8/8/8/4K3 b - - id \"M\xfcller\";",
            &utf16,
        ] {
            assert_eq!(fen(bytes).unwrap(), "4k3/8/8/8/8/8/8/4K3 b - - 0 1");
        }
    }
}
