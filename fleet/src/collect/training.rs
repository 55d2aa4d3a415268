//! The folder of a job's training data.
//!
//! The number of a file follows from that of its piece, and each file is complete as soon as it has its name. So a command
//! that is repeated, or was killed, writes what is missing and nothing twice. A file in the folder names the job, so that
//! data of different jobs, which would have the same names, are not mixed.

use crate::error::{FleetError, file_error};
use crate::job::{Job, Kind, PieceResult};
use crate::results::Log;
use bytes::Bytes;
use futures_util::TryStreamExt;
use rukh::selfplay::training::store::{
    PARTIAL, StoreError, archive_name, chunk_name, write_archive, write_chunk_file,
};
use serde_json::json;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The file that names the job.
const OWNER: &str = "rukh-fleet-job.json";

/// The folder.
pub(super) struct TrainingFolder {
    folder: PathBuf,
    /// The stream of the training data.
    chunks: Log,
    /// The most games that a piece has.
    games_per_piece: u64,
    /// Whether each piece has an archive, and not each game a file.
    has_archives: bool,
}

impl TrainingFolder {
    /// Opens or makes the folder.
    ///
    /// # Errors
    /// The job makes no training data, the folder has something else in it, or it cannot be written.
    pub(super) fn open(
        folder: &Path,
        job: &Job,
        chunks: Log,
        has_archives: bool,
    ) -> Result<TrainingFolder, FleetError> {
        let Kind::Games { training: true, .. } = job.kind else {
            return Err(FleetError::Refused(format!("the job `{}` makes no training data", job.name)));
        };
        let failed = |error| file_error("write", folder, error);
        fs::create_dir_all(folder).map_err(failed)?;
        let owner =
            json!({ "job": job.name, "created_s": job.created_s, "archives": has_archives }).to_string();
        let path = folder.join(OWNER);
        match fs::read_to_string(&path) {
            Ok(found) if found == owner => {}
            Ok(_) => {
                return Err(FleetError::Refused(format!(
                    "{} has training data of another job, or in another form; name another folder",
                    folder.display()
                )));
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(file_error("read", path, error));
            }
            Err(_) => {
                if !is_empty(folder).map_err(failed)? {
                    return Err(FleetError::Refused(format!(
                        "{} has other files; name another folder",
                        folder.display()
                    )));
                }
                write_chunk_file(&path, owner.as_bytes()).map_err(store_error)?;
            }
        }
        let games_per_piece = job.games_per_piece();
        Ok(TrainingFolder { folder: folder.to_owned(), chunks, games_per_piece, has_archives })
    }

    /// Writes the training data of a piece, if they are not there. Nothing is written if the server does not have all of
    /// them, and the text says what is missing.
    ///
    /// # Errors
    /// A file cannot be written, or the server does not answer.
    pub(super) async fn add(&self, result: &PieceResult) -> Result<Result<(), String>, FleetError> {
        let first = result.piece.saturating_mul(self.games_per_piece);
        if self.has_archives {
            let path = self.folder.join(archive_name(result.piece));
            if result.chunks.is_empty() || path.exists() {
                return Ok(Ok(()));
            }
            return match self.fetch(result.chunks.clone()).await? {
                Ok(chunks) => write_archive(&path, first, &chunks).map_err(store_error).map(Ok),
                Err(reason) => Ok(Err(reason)),
            };
        }
        let path = |number: u64| self.folder.join(chunk_name(number));
        let numbered = (first..).zip(result.chunks.iter().copied());
        let missing: Vec<(u64, u64)> = numbered.filter(|(number, _)| !path(*number).exists()).collect();
        let sequences = missing.iter().map(|(_, sequence)| *sequence).collect();
        let chunks = match self.fetch(sequences).await? {
            Ok(chunks) => chunks,
            Err(reason) => return Ok(Err(reason)),
        };
        for ((number, _), chunk) in missing.iter().zip(chunks) {
            write_chunk_file(&path(*number), &chunk).map_err(store_error)?;
        }
        Ok(Ok(()))
    }

    async fn fetch(&self, sequences: Vec<u64>) -> Result<Result<Vec<Bytes>, String>, FleetError> {
        // A sequence that the stream has not reached is not there, and the server need not be asked.
        let last = self.chunks.last().await?;
        let is_there = |sequence: &u64| (1..=last).contains(sequence);
        let gone = |sequence: u64| format!("its training data number {sequence} is missing");
        if let Some(&sequence) = sequences.iter().find(|sequence| !is_there(sequence)) {
            return Ok(Err(gone(sequence)));
        }
        let messages: Vec<(u64, Option<Bytes>)> = self.chunks.read(sequences).try_collect().await?;
        Ok(messages.into_iter().map(|(sequence, bytes)| bytes.ok_or_else(|| gone(sequence))).collect())
    }
}

/// Whether a folder holds at most unfinished files of a process that has ended.
fn is_empty(folder: &Path) -> io::Result<bool> {
    for entry in fs::read_dir(folder)? {
        if !entry?.file_name().to_string_lossy().contains(PARTIAL) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn store_error(error: StoreError) -> FleetError {
    file_error("write", error.path, error.reason)
}
