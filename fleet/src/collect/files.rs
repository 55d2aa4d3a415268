//! The files that `collect` writes: the results, the documents that the engine could not read, and the pieces that were
//! put aside.

use crate::error::{FleetError, file_error, print_error_line, printable_lines};
use crate::job::{Format, Kind, PieceResult, Rejected};
use rukh::analysis::input::InputFormat;
use rukh::analysis::output::CSV_HEADER;
use rukh::analysis::sink::rejected_text;
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};

/// The most messages that are put aside and named on stderr.
const MOST_NAMED: u64 = 20;

/// The most characters of a message that is put aside.
const MOST_KEPT: usize = 4096;

/// The files. Results are written to `FILE.part`, which becomes `FILE` when all are there. So incomplete results
/// replace an existing `FILE` only with `--partial`.
pub(super) struct Files {
    place: Place,
    results: Box<dyn Write>,
    /// Made when they are needed.
    rejected: Option<BufWriter<File>>,
    aside: Option<BufWriter<File>>,
    messages_aside: u64,
}

/// Where the results go.
enum Place {
    /// On a terminal, control characters are removed from the results, because another program wrote them.
    Stdout { is_terminal: bool },
    /// A device or a pipe, which is written directly, without a file `.part`.
    Special(PathBuf),
    /// A file.
    File(PathBuf),
}

impl Place {
    fn of(path: Option<&Path>) -> Place {
        let Some(path) = path else { return Place::Stdout { is_terminal: io::stdout().is_terminal() } };
        match fs::metadata(path) {
            Ok(metadata) if !metadata.is_file() => Place::Special(path.to_owned()),
            // The file that a link leads to is replaced, not the link.
            _ => Place::File(path.canonicalize().unwrap_or_else(|_| path.to_owned())),
        }
    }

    /// The name for messages.
    fn name(&self) -> PathBuf {
        match self {
            Place::Stdout { .. } => PathBuf::from("stdout"),
            Place::Special(path) | Place::File(path) => path.clone(),
        }
    }

    /// A file beside the results; `None` if they do not go to a file.
    fn beside(&self, endings: &[&str]) -> Option<PathBuf> {
        let Place::File(path) = self else { return None };
        Some(endings.iter().fold(path.clone(), |path, ending| path.with_added_extension(ending)))
    }
}

impl Files {
    /// Creates the file of the results, or takes stdout.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn create(path: Option<&Path>, kind: &Kind) -> Result<Files, FleetError> {
        let place = Place::of(path);
        let results: Box<dyn Write> = match (&place, place.beside(&["part"])) {
            (_, Some(part)) => Box::new(BufWriter::new(create(&part)?)),
            (Place::Special(path), None) => Box::new(BufWriter::new(create(path)?)),
            _ => Box::new(BufWriter::new(io::stdout())),
        };
        let mut files = Files { place, results, rejected: None, aside: None, messages_aside: 0 };
        // What an earlier call has left does not belong to these results.
        for endings in [&["rejected", "part"][..], &["failed"]] {
            files.place.beside(endings).map_or(Ok(()), |left| remove(&left))?;
        }
        if matches!(kind, Kind::Analysis { format: Format::Csv }) {
            files.text(CSV_HEADER)?;
        }
        Ok(files)
    }

    fn text(&mut self, text: &str) -> Result<(), FleetError> {
        let written = match self.place {
            Place::Stdout { is_terminal: true } => self.results.write_all(printable_lines(text).as_bytes()),
            _ => self.results.write_all(text.as_bytes()),
        };
        written.map_err(|error| file_error("write", self.place.name(), error))
    }

    /// Writes the result of a piece.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(super) fn write(&mut self, result: &PieceResult) -> Result<(), FleetError> {
        self.text(&result.output)?;
        for rejected in &result.rejected {
            self.reject(rejected)?;
        }
        Ok(())
    }

    /// Keeps a document that was refused.
    fn reject(&mut self, rejected: &Rejected) -> Result<(), FleetError> {
        let Rejected { place, reason, format, text } = rejected;
        let Some(path) = self.place.beside(&["rejected", "part"]) else {
            print_error_line(&format!("{place}: {reason}"));
            return Ok(());
        };
        if self.rejected.is_none() {
            self.rejected = Some(BufWriter::new(create(&path)?));
        }
        let format = InputFormat::of_word(format).unwrap_or(InputFormat::Jsonl);
        // The reason becomes a comment of one line.
        let one_line = |text: &str| text.replace(['\r', '\n'], " ");
        let kept = rejected_text(format, &one_line(place), &one_line(reason), text.as_bytes());
        match &mut self.rejected {
            Some(file) => file.write_all(&kept).map_err(|error| file_error("write", path, error)),
            None => Ok(()),
        }
    }

    /// Keeps a piece that was put aside, with its error, as a line of JSON.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn put_aside(&mut self, piece: u64, error: &str, bytes: &[u8]) -> Result<(), FleetError> {
        let content: Value = serde_json::from_slice(bytes).unwrap_or_default();
        self.line_aside(&json!({ "piece": piece, "error": error, "documents": content["documents"] }))
    }

    /// Keeps a message that is no result, with the number that it has on the server and the reason, as a line of JSON.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn put_message_aside(
        &mut self,
        sequence: u64,
        reason: &str,
        bytes: &[u8],
    ) -> Result<(), FleetError> {
        self.messages_aside += 1;
        if self.messages_aside <= MOST_NAMED {
            print_error_line(&format!("the message {sequence} is left out: {reason}"));
        }
        let message: String = String::from_utf8_lossy(bytes).chars().take(MOST_KEPT).collect();
        self.line_aside(&json!({ "message": sequence, "error": reason, "text": message }))
    }

    fn line_aside(&mut self, line: &Value) -> Result<(), FleetError> {
        let Some(path) = self.place.beside(&["failed"]) else { return Ok(()) };
        if self.aside.is_none() {
            self.aside = Some(BufWriter::new(create(&path)?));
        }
        match &mut self.aside {
            Some(file) => writeln!(file, "{line}").map_err(|error| file_error("write", path, error)),
            None => Ok(()),
        }
    }

    /// Writes what is still in memory.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(super) fn flush(&mut self) -> Result<(), FleetError> {
        let failed = |error| file_error("write", self.place.name(), error);
        self.results.flush().map_err(failed)?;
        for file in [&mut self.rejected, &mut self.aside].into_iter().flatten() {
            file.flush().map_err(failed)?;
        }
        Ok(())
    }

    /// If all results are there, renames `FILE.part` and `FILE.rejected.part`. Otherwise they stay where they are, and
    /// the text says so.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(super) fn finish(mut self, is_complete: bool) -> Result<Option<String>, FleetError> {
        self.flush()?;
        let Files { place, results, rejected, .. } = self;
        let has_rejected = rejected.is_some();
        // Windows renames no open files.
        drop((results, rejected));
        let Place::File(path) = &place else { return Ok(None) };
        let (part, rejected_part) = (path.with_added_extension("part"), place.beside(&["rejected", "part"]));
        if !is_complete {
            let exists = if path.exists() { ", which stays as it is" } else { "" };
            return Ok(Some(format!(
                "the results so far are in {}, and not in {}{exists}; --partial writes them there",
                part.display(),
                path.display()
            )));
        }
        let renamed =
            |from: &Path, to: &Path| fs::rename(from, to).map_err(|error| file_error("write", to, error));
        let rejected_path = path.with_added_extension("rejected");
        match rejected_part.filter(|_| has_rejected) {
            Some(rejected_part) => renamed(&rejected_part, &rejected_path)?,
            None => remove(&rejected_path)?,
        }
        renamed(&part, path)?;
        Ok(None)
    }
}

fn create(path: &Path) -> Result<File, FleetError> {
    File::create(path).map_err(|error| file_error("write", path, error))
}

/// Removes a file, if it is there.
fn remove(path: &Path) -> Result<(), FleetError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(file_error("write", path, error)),
        _ => Ok(()),
    }
}
