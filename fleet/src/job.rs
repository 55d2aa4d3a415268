//! Jobs, pieces and results as they are stored on the server, and the names of the streams that hold them.
//!
//! A job has two streams. `rukh-work-JOB` holds the pieces on the subject `rukh.work.JOB`: the piece with the number n,
//! counted from 0, has the sequence n + 1, unless it was stored again later. `rukh-done-JOB` holds the results: those of
//! finished pieces on `rukh.done.JOB`, and those of pieces that were put aside on `rukh.failed.JOB`. A result carries the
//! number of its piece. If a piece has several results, which happens when a worker or the server ends at a bad moment,
//! the first one of a finished piece counts.
//!
//! A message with unknown fields is refused; otherwise a piece could pass for a result without output. A new field
//! needs a new version.
//!
//! Jobs that make training data have a third stream, `rukh-chunks-JOB`, with a message for each game on the subject
//! `rukh.chunks.JOB`. The result of a piece names those that belong to it; others are left over from tries that have not
//! ended with a result.

use rukh::analysis::output::OutputFormat;
use rukh::selfplay::elo::Sprt;
use serde::{Deserialize, Serialize};
use std::hash::{BuildHasher, RandomState};

/// The version of this format. Workers leave jobs of another version alone.
pub(crate) const PROTOCOL: u32 = 4;

/// The most pieces of a job.
pub(crate) const MOST_PIECES: u64 = 1 << 32;

/// The most games of a job.
pub(crate) const MOST_GAMES: u64 = 999_999_999;

/// How often a piece may be tried.
pub(crate) const MOST_TRIES: u32 = 1000;

/// The longest time after which a piece of a silent worker is delivered again.
pub(crate) const MOST_REDELIVERY_S: u64 = 86_400;

/// The longest time that an engine may have for a piece.
pub(crate) const MOST_TIME_LIMIT_S: u64 = 31_536_000;

/// The longest time of a piece of a test.
pub(crate) const MOST_MILLISECONDS: f64 = 60_000.0;

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

/// A number for a new job, as text.
pub(crate) fn new_id() -> String {
    // The keys of each state are random.
    format!("{:016x}", RandomState::new().hash_one(std::process::id()))
}

/// What every version of a job's record has.
#[derive(Deserialize)]
pub(crate) struct JobVersion {
    pub(crate) protocol: u32,
}

/// A job.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Job {
    /// The version of this format.
    pub(crate) protocol: u32,
    pub(crate) name: String,
    /// A random number, which its pieces and results have as well. It keeps apart what a worker may still store for an
    /// earlier job of the same name.
    pub(crate) id: String,
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
    /// The consumer from which all workers of the job pull. An acknowledgement names only the consumer and the
    /// number of the piece. The job's number is in the name, so that an acknowledgement for an earlier job of the same
    /// name has no effect.
    pub(crate) fn consumer(&self) -> String {
        format!("workers-{}", self.id)
    }

    /// Checks what another program may have written.
    ///
    /// # Errors
    /// The record is not of the job `name`, or a number is out of range; the text says which.
    pub(crate) fn check(&self, name: &str) -> Result<(), String> {
        checked_name(name)?;
        if self.name != name {
            return Err(format!("its record is that of the job `{}`", self.name));
        }
        let is_number = self.id.len() <= 32 && self.id.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if !is_number || self.id.is_empty() {
            return Err("its `id` is not a job's number".to_owned());
        }
        let within = |what: &str, value: u64, least: u64, most: u64| match (least..=most).contains(&value) {
            true => Ok(()),
            false => Err(format!("its `{what}` is {value}, and not a number from {least} to {most}")),
        };
        within("most_deliveries", self.most_deliveries.into(), 1, MOST_TRIES.into())?;
        within("redelivery_s", self.redelivery_s, 1, MOST_REDELIVERY_S)?;
        within("time_limit_s", self.time_limit_s, 1, MOST_TIME_LIMIT_S)?;
        within("pieces", self.pieces.unwrap_or_default(), 0, MOST_PIECES)?;
        match self.kind {
            Kind::Analysis { .. } => Ok(()),
            Kind::Games { games, shards, sprt, .. } => {
                within("games", games, 1, MOST_GAMES)?;
                within("shards", shards, 1, games)?;
                let is_test = |[elo0, elo1]: [f64; 2]| format!("{elo0},{elo1}").parse::<Sprt>().is_ok();
                if sprt.is_some_and(|sprt| !is_test(sprt)) {
                    return Err("its `sprt` is not two Elo differences".to_owned());
                }
                match self.pieces {
                    Some(pieces) if pieces != shards => {
                        Err(format!("it has {pieces} pieces and {shards} shards"))
                    }
                    _ => Ok(()),
                }
            }
            Kind::Test { milliseconds, .. } if (0.0..=MOST_MILLISECONDS).contains(&milliseconds) => Ok(()),
            Kind::Test { milliseconds, .. } => Err(format!(
                "its `milliseconds` is {milliseconds}, and not a number from 0 to {MOST_MILLISECONDS}"
            )),
        }
    }

    /// The most games of a piece; 0 if none are played. The shards deal out pairs of games.
    pub(crate) fn games_per_piece(&self) -> u64 {
        match self.kind {
            Kind::Games { games, shards, .. } => 2 * games.div_ceil(2).div_ceil(shards.max(1)),
            _ => 0,
        }
    }

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
#[serde(deny_unknown_fields)]
pub(crate) struct EngineIdentity {
    pub(crate) version: String,
    /// The name of the network's file without its folder, or the name of a backend without a network. `None` means any.
    pub(crate) network: Option<String>,
}

/// A piece of a job.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Piece {
    /// The number of the job ([`Job::id`]).
    pub(crate) job: String,
    /// The number of the piece, from 0.
    pub(crate) piece: u64,
    /// The documents of an analysis. Games and tests need no more than the number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) documents: Vec<PieceDocument>,
}

impl Piece {
    /// A piece as it was stored. Any program may have stored it.
    ///
    /// # Errors
    /// It is no piece, or one of another job.
    pub(crate) fn read(bytes: &[u8], job: &Job) -> Result<Piece, String> {
        let piece: Piece =
            serde_json::from_slice(bytes).map_err(|error| format!("it is no piece: {error}"))?;
        match piece.job == job.id {
            true => Ok(piece),
            false => Err("it is of another job".to_owned()),
        }
    }

    /// Checks that this is the piece with the number `expected`.
    ///
    /// # Errors
    /// It has another number.
    pub(crate) fn is_number(&self, expected: u64) -> Result<(), String> {
        match self.piece == expected {
            true => Ok(()),
            false => {
                Err(format!("it is stored as piece {expected}, and says that it is piece {}", self.piece))
            }
        }
    }
}

/// A document that is to be analysed.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
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
#[serde(deny_unknown_fields)]
pub(crate) struct PieceResult {
    /// The number of the job ([`Job::id`]).
    pub(crate) job: String,
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
#[serde(deny_unknown_fields)]
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
    pub(crate) fn new(job: &str, piece: u64) -> PieceResult {
        PieceResult {
            job: job.to_owned(),
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
        let text = serde_json::to_string(&PieceResult::new("id", 7)).unwrap();
        assert_eq!(text, r#"{"job":"id","piece":7}"#);
        assert_eq!(serde_json::from_str::<PieceResult>(&text).unwrap(), PieceResult::new("id", 7));
    }

    fn record(changes: serde_json::Value) -> Result<(), String> {
        let mut record = serde_json::json!({
            "protocol": PROTOCOL, "name": "a", "id": "1f", "created_s": 1, "priority": i64::MIN, "engine": null,
            "kind": { "kind": "games", "games": 10, "shards": 5, "openings": null, "training": false, "sprt": [0.0, 5.0] },
            "flags": [], "most_deliveries": 5, "redelivery_s": 30, "time_limit_s": 100, "source": "", "pieces": 5,
            "troubles": [], "is_decided": false,
        });
        for (name, value) in changes.as_object().unwrap() {
            record[name] = value.clone();
        }
        serde_json::from_value::<Job>(record).map_err(|error| error.to_string())?.check("a")
    }

    #[test]
    fn records_with_numbers_out_of_range_are_refused_and_the_number_is_named() {
        use serde_json::json;
        assert_eq!(record(json!({})), Ok(()));
        let games = |games: u64, shards: u64, sprt: serde_json::Value| json!({ "kind": "games", "games": games, "shards": shards, "openings": null, "training": true, "sprt": sprt });
        let test =
            |milliseconds: f64| json!({ "kind": "test", "milliseconds": milliseconds, "computes": true });
        for (name, value) in [
            ("redelivery_s", json!(0)),
            ("redelivery_s", json!(u64::MAX)),
            ("most_deliveries", json!(0)),
            ("time_limit_s", json!(0)),
            ("time_limit_s", json!(u64::MAX)),
            ("pieces", json!(u64::MAX)),
            ("pieces", json!(4)),
            ("id", json!("")),
            ("id", json!("../x")),
            ("name", json!("b")),
            ("kind", games(0, 0, json!(null))),
            ("kind", games(u64::MAX, 5, json!(null))),
            ("kind", games(4, 5, json!(null))),
            ("kind", games(10, 5, json!([5.0, 0.0]))),
            ("kind", games(10, 5, json!([0.0, 1e300]))),
            ("kind", test(-1.0)),
            ("kind", test(1e300)),
            ("kind", json!({ "kind": "shell" })),
        ] {
            assert!(record(json!({ name: value })).is_err(), "{name} {value}");
        }
        assert!(record(json!({ "redelivery_s": 0 })).is_err_and(|reason| reason.contains("redelivery_s")));
    }
}
