//! Jobs, pieces and results as they are stored on the server, and the names of the streams that hold them.
//!
//! A job has two streams. `rukh-work-JOB` holds the pieces on the subject `rukh.work.JOB`: the piece with the number n,
//! counted from 0, has the sequence n + 1, unless it was stored again later. `rukh-done-JOB` holds the results: those of
//! finished pieces on `rukh.done.JOB`, and those of pieces that were put aside on `rukh.failed.JOB`. A result carries the
//! number of its piece. If a piece has several results, which happens when a worker or the server ends at a bad moment,
//! the first one of a finished piece counts.
//!
//! Jobs that make training data have a third stream, `rukh-chunks-JOB`, with a message for each game on the subject
//! `rukh.chunks.JOB`. The result of a piece names those that belong to it; others are left over from tries that have not
//! ended with a result.

use rukh::analysis::output::OutputFormat;
use rukh::selfplay::elo::Sprt;
use serde::{Deserialize, Serialize};

/// The version of this format. Workers leave jobs of another version alone.
pub(crate) const PROTOCOL: u32 = 2;

/// The consumer from which all workers of a job pull.
pub(crate) const CONSUMER: &str = "workers";

/// The stream of the pieces of a job.
pub(crate) fn work_stream(job: &str) -> String {
    format!("rukh-work-{job}")
}

/// The stream of the results of a job.
pub(crate) fn done_stream(job: &str) -> String {
    format!("rukh-done-{job}")
}

/// The subject of the pieces of a job.
pub(crate) fn work_subject(job: &str) -> String {
    format!("rukh.work.{job}")
}

/// The subject of the results of finished pieces.
pub(crate) fn done_subject(job: &str) -> String {
    format!("rukh.done.{job}")
}

/// The subject of the results of pieces that were put aside.
pub(crate) fn failed_subject(job: &str) -> String {
    format!("rukh.failed.{job}")
}

/// The stream of the training data of a job.
pub(crate) fn chunk_stream(job: &str) -> String {
    format!("rukh-chunks-{job}")
}

/// The subject of the training data of a job.
pub(crate) fn chunk_subject(job: &str) -> String {
    format!("rukh.chunks.{job}")
}

/// Checks the name of a job or a worker: the server allows neither dots nor spaces there.
///
/// # Errors
/// The name has other characters than letters, digits, `-` and `_`, or it is too long.
pub(crate) fn checked_name(text: &str) -> Result<String, String> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    match text.chars().all(is_allowed) && (1..=64).contains(&text.len()) {
        true => Ok(text.to_owned()),
        false => Err("not a name of 1 to 64 letters, digits, `-` and `_`".to_owned()),
    }
}

/// What every version of a job's record has.
#[derive(Deserialize)]
pub(crate) struct JobVersion {
    pub(crate) protocol: u32,
    pub(crate) name: String,
}

/// A job.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    /// The version of this format.
    pub(crate) protocol: u32,
    pub(crate) name: String,
    /// When the job was submitted, in seconds since 1970.
    pub(crate) created_s: u64,
    /// Jobs with a higher priority come first.
    pub(crate) priority: i64,
    pub(crate) kind: Kind,
    /// The engine that may work on it; `None` means any.
    pub(crate) engine: Option<EngineIdentity>,
    /// The flags of the engine.
    pub(crate) flags: Vec<String>,
    /// How often a piece is delivered before it is put aside.
    pub(crate) most_deliveries: u32,
    /// The seconds after which a piece of a worker that is silent is delivered again.
    pub(crate) redelivery_s: u64,
    /// The seconds that an engine may take for a piece, and for its start.
    pub(crate) time_limit_s: u64,
    /// What the pieces were cut from, to tell whether a command that is repeated means the same job.
    pub(crate) source: String,
    /// The number of pieces; `None` as long as the job is being submitted.
    pub(crate) pieces: Option<u64>,
    /// What went wrong while the job was cut.
    pub(crate) troubles: Vec<String>,
    /// Whether its test is decided, so that the remaining pieces are not needed.
    pub(crate) is_decided: bool,
}

impl Job {
    /// The test that may end the job.
    pub(crate) fn sprt(&self) -> Option<Sprt> {
        match self.kind {
            Kind::Games { sprt: Some([elo0, elo1]), .. } => Some(Sprt { elo0, elo1 }),
            _ => None,
        }
    }
}

/// What a job is about.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "kind")]
pub(crate) enum Kind {
    /// Documents are analysed.
    Analysis {
        /// The format of the results.
        format: Format,
    },
    /// Games are played. A piece is one of `shards` shards.
    Games {
        /// The number of games of all pieces.
        games: u64,
        /// The number of shards.
        shards: u64,
        /// The name of the file of openings, whose content is on the board of files.
        openings: Option<String>,
        /// Whether the games give training data.
        training: bool,
        /// The two Elo differences of the test that may end the job.
        sprt: Option<[f64; 2]>,
    },
    /// Nothing is done for some time, to test the server.
    Test {
        /// The time for each piece.
        milliseconds: f64,
        /// Whether the time is spent computing, and not waiting.
        computes: bool,
    },
}

/// The format of analysed documents.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Format {
    Pgn,
    Epd,
    Jsonl,
    Csv,
}

impl Format {
    /// The name of the format, as the engine's flag `--format` has it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Format::Pgn => "pgn",
            Format::Epd => "epd",
            Format::Jsonl => "jsonl",
            Format::Csv => "csv",
        }
    }
}

impl From<OutputFormat> for Format {
    fn from(format: OutputFormat) -> Format {
        match format {
            OutputFormat::Pgn => Format::Pgn,
            OutputFormat::Epd => Format::Epd,
            OutputFormat::Jsonl => Format::Jsonl,
            OutputFormat::Csv => Format::Csv,
        }
    }
}

/// Which engine works on a job. Results of different engines are not mixed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct EngineIdentity {
    pub(crate) version: String,
    /// The name of the network's file without its folder, or the name of a backend without a network. `None` means any.
    pub(crate) network: Option<String>,
}

/// A piece of a job.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Piece {
    /// The number of the piece, from 0.
    pub(crate) piece: u64,
    /// The documents of an analysis. Games and tests need no more than the number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) documents: Vec<PieceDocument>,
}

/// A document that is to be analysed.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct PieceDocument {
    /// The number of the document in the input, from 1.
    pub(crate) number: u64,
    /// Where it stands, as in `games.pgn line 12`.
    pub(crate) place: String,
    /// Its format: `pgn`, `epd` or `jsonl`.
    pub(crate) format: String,
    pub(crate) text: String,
}

/// The result of a piece.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct PieceResult {
    /// The number of the piece.
    pub(crate) piece: u64,
    /// The worker that has done it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) worker: String,
    /// Why the piece was put aside. Then there is no output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    /// The analysed documents, or the games as PGN.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) output: String,
    /// The documents that the engine could not read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) rejected: Vec<Rejected>,
    /// The number of positions that were searched.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) positions: u64,
    /// What `rukh selfplay --json` prints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) games: Option<serde_json::Value>,
    /// The sequences of the training data of the games in their stream.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) chunks: Vec<u64>,
}

/// A document that the engine could not read.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Rejected {
    pub(crate) place: String,
    pub(crate) reason: String,
    pub(crate) format: String,
    pub(crate) text: String,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl PieceResult {
    /// A result without content.
    pub(crate) fn new(piece: u64) -> PieceResult {
        PieceResult {
            piece,
            worker: String::new(),
            error: None,
            output: String::new(),
            rejected: Vec::new(),
            positions: 0,
            games: None,
            chunks: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_parts_of_subjects() {
        assert_eq!(checked_name("twic_1500-a").as_deref(), Ok("twic_1500-a"));
        for wrong in ["", "a.b", "a b", "*", "ä", &"a".repeat(65)] {
            assert!(checked_name(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_small_result_is_a_small_message() {
        let text = serde_json::to_string(&PieceResult::new(7)).unwrap();
        assert_eq!(text, r#"{"piece":7}"#);
        assert_eq!(serde_json::from_str::<PieceResult>(&text).unwrap(), PieceResult::new(7));
    }
}
