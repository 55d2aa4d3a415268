//! Cuts files into pieces.

use crate::job::{Piece, PieceDocument};
use rukh::analysis::cut::{CutDocument, Cutter};
use rukh::analysis::input::InputFormat;
use std::path::{Path, PathBuf};

/// A piece gets no further document if its text would become longer than this.
const PIECE_BYTES: usize = 256 << 10;

/// A longer document fits neither into a message of NATS nor into a request to the engine, which are at most a mebibyte
/// long. Half of that is left for escaped characters.
const MOST_DOCUMENT_BYTES: usize = 512 << 10;

/// The pieces of some files. A file that cannot be read to its end gives an error, and then the next file follows.
pub(super) struct Pieces {
    /// The number of the job.
    job: String,
    inputs: std::vec::IntoIter<PathBuf>,
    format: Option<InputFormat>,
    /// The positions of a piece.
    positions: u64,
    file: Option<(Cutter, PathBuf)>,
    /// A document that belongs to the next piece.
    pending: Option<CutDocument>,
    /// What is reported next.
    trouble: Option<String>,
    /// The number of pieces and of documents so far.
    pieces: u64,
    documents: u64,
}

impl Pieces {
    pub(super) fn new(
        job: &str,
        inputs: Vec<PathBuf>,
        format: Option<InputFormat>,
        positions: u64,
    ) -> Pieces {
        let inputs = inputs.into_iter();
        Pieces {
            job: job.to_owned(),
            inputs,
            format,
            positions,
            file: None,
            pending: None,
            trouble: None,
            pieces: 0,
            documents: 0,
        }
    }

    /// The next document of all files; `None` after the last one.
    fn next_document(&mut self) -> Option<Result<CutDocument, String>> {
        let trouble =
            |path: &Path, error: std::io::Error| format!("cannot read {} further: {error}", path.display());
        loop {
            if let Some(document) = self.pending.take() {
                return Some(Ok(document));
            }
            if self.file.is_none() {
                let path = self.inputs.next()?;
                match Cutter::open(&path, self.format) {
                    Ok(cutter) => self.file = Some((cutter, path)),
                    Err(error) => return Some(Err(trouble(&path, error))),
                }
            }
            if let Some((cutter, path)) = &mut self.file {
                match cutter.next_document() {
                    Ok(Some(document)) => return Some(Ok(document)),
                    Ok(None) => self.file = None,
                    Err(error) => {
                        let trouble = trouble(path, error);
                        self.file = None;
                        return Some(Err(trouble));
                    }
                }
            }
        }
    }
}

impl Iterator for Pieces {
    type Item = Result<Piece, String>;

    fn next(&mut self) -> Option<Result<Piece, String>> {
        if let Some(trouble) = self.trouble.take() {
            return Some(Err(trouble));
        }
        let (mut documents, mut positions, mut bytes) = (Vec::new(), 0, 0);
        loop {
            let document = match self.next_document() {
                None => break,
                // The documents before the trouble are a piece, and the trouble follows.
                Some(Err(trouble)) => {
                    self.trouble = Some(trouble);
                    break;
                }
                Some(Ok(document)) => document,
            };
            let is_full = positions + document.positions as u64 > self.positions
                || bytes + document.text.len() > PIECE_BYTES;
            if is_full && !documents.is_empty() {
                self.pending = Some(document);
                break;
            }
            self.documents += 1;
            let is_long = document.text.len() > MOST_DOCUMENT_BYTES;
            let too_long = is_long.then(|| format!("it is longer than {MOST_DOCUMENT_BYTES} bytes"));
            if let Some(reason) = too_long.or(document.fault) {
                self.trouble = Some(format!("{}: it is left out, because {reason}", document.place));
                break;
            }
            positions += document.positions as u64;
            bytes += document.text.len();
            documents.push(PieceDocument {
                number: self.documents,
                place: document.place,
                format: document.format.word().to_owned(),
                text: document.text,
            });
        }
        if documents.is_empty() {
            return self.trouble.take().map(Err);
        }
        self.pieces += 1;
        Some(Ok(Piece { job: self.job.clone(), piece: self.pieces - 1, documents }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn pieces_have_whole_games_and_a_broken_file_costs_only_its_rest() {
        let folder = tempfile::tempdir().unwrap();
        let (good, missing) = (folder.path().join("a.pgn"), folder.path().join("b.pgn"));
        fs::write(&good, "1. e4 e5 *\n\n1. d4 *\n\n1. c4 c5 2. Nc3 Nc6 3. Nf3 *\n\n1. e4 e4 *\n").unwrap();
        let long = folder.path().join("c.pgn");
        fs::write(&long, format!("1. e4 {{{}}} *\n\n1. e4 *\n", "a".repeat(MOST_DOCUMENT_BYTES))).unwrap();
        let inputs = vec![good.clone(), missing, long, good];
        let found: Vec<Result<Piece, String>> = Pieces::new("id", inputs, None, 5).collect();
        let numbers = |index: usize| -> Vec<u64> {
            let piece = found[index].as_ref().unwrap();
            piece.documents.iter().map(|document| document.number).collect()
        };
        assert_eq!([numbers(0), numbers(1)], [vec![1, 2], vec![3]]);
        assert_eq!(numbers(2), [4], "a game that cannot be read is a piece like others");
        assert!(found[3].as_ref().is_err_and(|trouble| trouble.contains("b.pgn")));
        assert!(found[4].as_ref().is_err_and(|trouble| trouble.contains("c.pgn line 1: it is left out")));
        let pieces: Vec<u64> = found.iter().flatten().map(|piece| piece.piece).collect();
        assert_eq!(pieces, (0..pieces.len() as u64).collect::<Vec<_>>());
        let all: Vec<u64> = found
            .iter()
            .flatten()
            .flat_map(|piece| &piece.documents)
            .map(|document| document.number)
            .collect();
        assert_eq!(all, [1, 2, 3, 4, 6, 7, 8, 9, 10]);
    }
}
