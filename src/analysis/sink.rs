//! The files that an analysis writes: the results, and the documents that were refused.

use super::config::BatchConfig;
use super::input::{InputFormat, RawDocument};
use super::journal::Lengths;
use rukh_base::distinct_files::SharedFile;
use rukh_base::os_error::{in_words, why_not_written};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Why the results cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum SinkError {
    /// The system refuses the file.
    #[error(
        "cannot write {}: {}; what is complete is kept, and the same command goes on from there", .0.display(),
        why_not_written(.0, .1)
    )]
    File(PathBuf, #[source] io::Error),
    /// Stdout is closed, or its disk is full.
    #[error("cannot write to stdout: {}", in_words(.0))]
    Stdout(#[source] io::Error),
    /// There is a file of this name, which no journal belongs to.
    #[error("{} exists; --overwrite writes it anew", .0.display())]
    Exists(PathBuf),
    /// The file is shorter than the journal says.
    #[error(
        "{} has been changed: the journal says that {length} bytes of it are complete, and it has {found}; begin anew \
         with --overwrite",
        path.display()
    )]
    Shorter {
        /// The file.
        path: PathBuf,
        /// The bytes that the journal says.
        length: u64,
        /// The bytes that it has.
        found: u64,
    },
    /// Two files of the command are one.
    #[error(transparent)]
    Shared(#[from] SharedFile),
}

/// A file and its length, or stdout.
struct Part {
    /// `None` for stdout.
    path: Option<PathBuf>,
    writer: Box<dyn Write>,
    length: u64,
}

/// Writes the results and the refused documents.
pub(super) struct Sink<'a> {
    config: &'a BatchConfig,
    output: Part,
    /// Made when the first document is refused.
    rejected: Option<Part>,
    lengths: Lengths,
}

/// Checks that the files hold what is complete, and nothing else that would be lost. `complete` are the lengths that the
/// journal says; `None` without a journal.
///
/// # Errors
/// A file is shorter than the journal says. Or there is no journal, and the user does not want to overwrite what is
/// there.
pub(super) fn check_content(config: &BatchConfig, complete: Option<Lengths>) -> Result<(), SinkError> {
    let files = [
        (&config.output, complete.map(|lengths| lengths.output)),
        (&config.rejected, complete.map(|lengths| lengths.rejected)),
    ];
    for (path, complete) in files {
        let Some(path) = path else { continue };
        let found = match fs::metadata(path) {
            Ok(metadata) if !metadata.is_file() => continue,
            metadata => metadata.map(|metadata| metadata.len()).ok(),
        };
        match (complete, found) {
            (Some(length), found) if found.unwrap_or(0) < length => {
                return Err(SinkError::Shorter { path: path.clone(), length, found: found.unwrap_or(0) });
            }
            // An empty file loses nothing.
            (None, Some(1..)) if !config.overwrite => return Err(SinkError::Exists(path.clone())),
            _ => {}
        }
    }
    Ok(())
}

impl<'a> Sink<'a> {
    /// Opens the files. What is longer than `lengths` is cut off.
    ///
    /// # Errors
    /// A file cannot be written, or is another one of the command as well.
    pub(super) fn open(config: &'a BatchConfig, lengths: Lengths) -> Result<Sink<'a>, SinkError> {
        let output = match &config.output {
            None => Part { path: None, writer: Box::new(io::stdout()), length: 0 },
            Some(path) => Part::open(path, lengths.output, config)?,
        };
        let mut sink = Sink { config, output, rejected: None, lengths };
        let is_old = config
            .rejected
            .as_ref()
            .and_then(|path| fs::metadata(path).ok())
            .is_some_and(|old| old.is_file());
        // Documents that an earlier analysis has refused do not stay among those of this one.
        if lengths.rejected > 0 || is_old {
            sink.open_rejected()?;
        }
        Ok(sink)
    }

    fn open_rejected(&mut self) -> Result<(), SinkError> {
        if let (None, Some(path)) = (&self.rejected, &self.config.rejected) {
            self.rejected = Some(Part::open(path, self.lengths.rejected, self.config)?);
        }
        Ok(())
    }

    /// Ends the analysis. A file of refused documents without any is removed.
    pub(super) fn end(self) {
        if let Some(Part { path: Some(path), length: 0, .. }) = self.rejected
            && fs::metadata(&path).is_ok_and(|metadata| metadata.is_file() && metadata.len() == 0)
        {
            let _ = fs::remove_file(&path);
        }
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
    /// Opens a file, of which the first `length` bytes are kept. Before anything is cut off, the file is compared with
    /// the others of the command once more: until now it may not have existed.
    fn open(path: &Path, length: u64, config: &BatchConfig) -> Result<Part, SinkError> {
        let failed = |error| SinkError::File(path.to_owned(), error);
        let mut file: File =
            OpenOptions::new().create(true).truncate(false).write(true).open(path).map_err(failed)?;
        config.check_files()?;
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
