//! The files that `collect` writes: the results, the documents that the engine could not read, and the pieces that were
//! put aside.

use crate::error::{FleetError, file_error};
use crate::job::{Format, Kind, PieceResult, Rejected};
use rukh::analysis::input::InputFormat;
use rukh::analysis::output::CSV_HEADER;
use rukh::analysis::sink::rejected_text;
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// The files. Results are written to `FILE.part`, which becomes `FILE` at the end, so that a file that exists is complete
/// for what the server had.
pub(super) struct Files {
    /// `None` for stdout.
    path: Option<PathBuf>,
    results: Box<dyn Write>,
    /// Made when they are needed.
    rejected: Option<BufWriter<File>>,
    aside: Option<BufWriter<File>>,
}

impl Files {
    /// Creates the file of the results, or takes stdout.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn create(path: Option<&Path>, kind: &Kind) -> Result<Files, FleetError> {
        let results: Box<dyn Write> = match path {
            None => Box::new(BufWriter::new(io::stdout())),
            Some(path) => {
                let part = path.with_added_extension("part");
                Box::new(BufWriter::new(create(&part)?))
            }
        };
        let mut files = Files { path: path.map(Path::to_owned), results, rejected: None, aside: None };
        // What an earlier call has left does not belong to these results.
        for ending in ["rejected", "failed"] {
            let left = files.path.as_ref().map(|path| path.with_added_extension(ending));
            match left.map(|left| (fs::remove_file(&left), left)) {
                Some((Err(error), left)) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(file_error("write", left, error));
                }
                _ => {}
            }
        }
        if matches!(kind, Kind::Analysis { format: Format::Csv }) {
            files.text(CSV_HEADER.as_bytes())?;
        }
        Ok(files)
    }

    fn text(&mut self, text: &[u8]) -> Result<(), FleetError> {
        let path = self.path.clone().unwrap_or_else(|| PathBuf::from("stdout"));
        self.results.write_all(text).map_err(|error| file_error("write", path, error))
    }

    /// Writes the result of a piece.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(super) fn write(&mut self, result: &PieceResult) -> Result<(), FleetError> {
        self.text(result.output.as_bytes())?;
        for rejected in &result.rejected {
            self.reject(rejected)?;
        }
        Ok(())
    }

    /// Keeps a document that was refused.
    fn reject(&mut self, rejected: &Rejected) -> Result<(), FleetError> {
        let Rejected { place, reason, format, text } = rejected;
        let Some(path) = self.path.as_ref().map(|path| path.with_added_extension("rejected")) else {
            crate::error::print_error_line(&format!("{place}: {reason}"));
            return Ok(());
        };
        if self.rejected.is_none() {
            self.rejected = Some(BufWriter::new(create(&path)?));
        }
        let format = InputFormat::of_word(format).unwrap_or(InputFormat::Jsonl);
        let kept = rejected_text(format, place, reason, text.as_bytes());
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
        let Some(path) = self.path.as_ref().map(|path| path.with_added_extension("failed")) else {
            return Ok(());
        };
        if self.aside.is_none() {
            self.aside = Some(BufWriter::new(create(&path)?));
        }
        let content: Value = serde_json::from_slice(bytes).unwrap_or_default();
        let line = json!({ "piece": piece, "error": error, "documents": content["documents"] });
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
        let path = self.path.clone().unwrap_or_else(|| PathBuf::from("stdout"));
        let failed = |error| file_error("write", &path, error);
        self.results.flush().map_err(failed)?;
        for file in [&mut self.rejected, &mut self.aside].into_iter().flatten() {
            file.flush().map_err(failed)?;
        }
        Ok(())
    }

    /// Gives the file of the results its name.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(super) fn finish(mut self) -> Result<(), FleetError> {
        self.flush()?;
        drop(self.results);
        match &self.path {
            None => Ok(()),
            Some(path) => fs::rename(path.with_added_extension("part"), path)
                .map_err(|error| file_error("write", path, error)),
        }
    }
}

fn create(path: &Path) -> Result<File, FleetError> {
    File::create(path).map_err(|error| file_error("write", path, error))
}
