//! The files that an analysis writes: the results, and the documents that were refused.

use super::input::{InputFormat, RawDocument};
use super::journal::Lengths;
use crate::os_error::in_words;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Why the results cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum SinkError {
    /// The system refuses the file.
    #[error(
        "cannot write {}: {}; what is complete is kept, and the same command goes on from there", .0.display(),
        in_words(.1)
    )]
    File(PathBuf, #[source] io::Error),
    /// Stdout is closed, or its disk is full.
    #[error("cannot write to stdout: {}", in_words(.0))]
    Stdout(#[source] io::Error),
    /// There is a file of this name, which no journal belongs to.
    #[error("{} exists; --overwrite writes it anew", .0.display())]
    Exists(PathBuf),
}

/// A file and its length, or stdout.
struct Part {
    /// `None` for stdout.
    path: Option<PathBuf>,
    writer: Box<dyn Write>,
    length: u64,
}

/// Writes the results and the refused documents.
pub(super) struct Sink {
    output: Part,
    rejected_path: Option<PathBuf>,
    /// Made when the first document is refused.
    rejected: Option<Part>,
    lengths: Lengths,
}

/// The path of the journal beside an output. A device or a pipe has none, because nothing can be cut off there.
///
/// # Errors
/// The output exists and has no journal, so that its content would be lost. With `overwrite`, all files are removed
/// instead.
pub(super) fn prepare(
    output: Option<&Path>,
    rejected: Option<&Path>,
    overwrite: bool,
) -> Result<Option<PathBuf>, SinkError> {
    let Some(output) = output else { return Ok(None) };
    let metadata = fs::metadata(output);
    if metadata.as_ref().is_ok_and(|metadata| !metadata.is_file()) {
        return Ok(None);
    }
    let journal = output.with_added_extension("journal");
    if overwrite {
        for path in [Some(journal.as_path()), rejected, Some(output)].into_iter().flatten() {
            match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(SinkError::File(path.to_owned(), error));
                }
                _ => {}
            }
        }
    } else if metadata.is_ok() && !journal.exists() {
        return Err(SinkError::Exists(output.to_owned()));
    }
    Ok(Some(journal))
}

impl Sink {
    /// Opens the files. What is longer than `lengths` is cut off.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(super) fn open(
        output: Option<&Path>,
        rejected: Option<&Path>,
        lengths: Lengths,
    ) -> Result<Sink, SinkError> {
        let output = match output {
            None => Part { path: None, writer: Box::new(io::stdout()), length: 0 },
            Some(path) => Part::open(path, lengths.output)?,
        };
        let mut sink = Sink { output, rejected_path: rejected.map(Path::to_owned), rejected: None, lengths };
        if lengths.rejected > 0 {
            sink.open_rejected()?;
        }
        Ok(sink)
    }

    fn open_rejected(&mut self) -> Result<(), SinkError> {
        if let (None, Some(path)) = (&self.rejected, &self.rejected_path) {
            self.rejected = Some(Part::open(path, self.lengths.rejected)?);
        }
        Ok(())
    }

    pub(super) fn lengths(&self) -> Lengths {
        self.lengths
    }

    /// Adds to the results.
    pub(super) fn write(&mut self, text: &[u8]) -> Result<(), SinkError> {
        self.output.write(text)?;
        self.lengths.output = self.output.length;
        Ok(())
    }

    /// Keeps a document that was refused.
    pub(super) fn reject(&mut self, raw: &RawDocument, reason: &str) -> Result<(), SinkError> {
        self.open_rejected()?;
        let Some(part) = &mut self.rejected else { return Ok(()) };
        part.write(&rejected_text(raw.format, &raw.place, reason, &raw.bytes))?;
        self.lengths.rejected = part.length;
        Ok(())
    }
}

/// A refused document as it is kept: after a line with the reason that readers of its format pass over.
pub fn rejected_text(format: InputFormat, place: &str, reason: &str, document: &[u8]) -> Vec<u8> {
    let comment = match format {
        InputFormat::Pgn => format!("% {place}: {reason}\n"),
        InputFormat::Epd => format!("# {place}: {reason}\n"),
        InputFormat::Jsonl => String::new(),
    };
    let end: &[u8] = match (document.ends_with(b"\n"), format) {
        (true, InputFormat::Pgn) => b"\n",
        (true, _) => b"",
        (false, _) => b"\n",
    };
    [comment.as_bytes(), document, end].concat()
}

impl Part {
    /// Opens a file, of which the first `length` bytes are kept.
    fn open(path: &Path, length: u64) -> Result<Part, SinkError> {
        let failed = |error| SinkError::File(path.to_owned(), error);
        let mut file: File =
            OpenOptions::new().create(true).truncate(false).write(true).open(path).map_err(failed)?;
        if file.metadata().is_ok_and(|metadata| metadata.is_file()) {
            file.set_len(length).map_err(failed)?;
            file.seek(SeekFrom::Start(length)).map_err(failed)?;
        }
        Ok(Part { path: Some(path.to_owned()), writer: Box::new(file), length })
    }

    fn write(&mut self, text: &[u8]) -> Result<(), SinkError> {
        let written = self.writer.write_all(text).and_then(|()| self.writer.flush());
        self.length += text.len() as u64;
        written.map_err(|error| match &self.path {
            Some(path) => SinkError::File(path.clone(), error),
            None => SinkError::Stdout(error),
        })
    }
}
