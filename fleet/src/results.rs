//! Reads the stored pieces and results of a job.

use super::error::{FleetError, server_error};
use super::job::{self, Job, Kind, MOST_PIECES, PieceResult};
use async_nats::jetstream::context::Context;
use async_nats::jetstream::stream::{DirectGetErrorKind, Info, Stream};
use bytes::Bytes;
use futures_util::{Stream as Messages, StreamExt, stream};
use std::collections::HashMap;
use std::time::Duration;

/// The messages that are on their way at once.
const AT_ONCE: usize = 64;

/// How often a message is asked for, and the pause between.
const MOST_TRIES: u32 = 120;
const PAUSE: Duration = Duration::from_millis(500);

/// A stream of the server whose messages are read by their sequence.
#[derive(Clone)]
pub(crate) struct Log {
    stream: Stream<()>,
    name: String,
}

impl Log {
    /// The stream of this name.
    ///
    /// # Errors
    /// The server does not answer.
    pub(crate) async fn open(context: &Context, name: String) -> Result<Log, FleetError> {
        let stream = context.get_stream_no_info(&name).await;
        let stream = stream.map_err(|error| server_error(format!("open {name}"), error))?;
        Ok(Log { stream, name })
    }

    /// The sequence of the last message; 0 if there is none.
    ///
    /// # Errors
    /// The server does not answer.
    pub(crate) async fn last(&self) -> Result<u64, FleetError> {
        let mut tries = 0;
        loop {
            match self.stream.get_info().await {
                Ok(Info { state, .. }) => return Ok(state.last_sequence),
                Err(error) if tries >= MOST_TRIES => {
                    return Err(server_error(format!("read {}", self.name), error));
                }
                Err(_) => tries += 1,
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// A message; `None` if it was removed. If the server is gone for a while, this waits.
    ///
    /// # Errors
    /// The server does not answer for long.
    pub(crate) async fn get(&self, sequence: u64) -> Result<Option<Bytes>, FleetError> {
        let mut tries = 0;
        loop {
            match self.stream.direct_get(sequence).await {
                Ok(message) => return Ok(Some(message.payload)),
                Err(error) if error.kind() == DirectGetErrorKind::NotFound => return Ok(None),
                Err(error) if tries >= MOST_TRIES => {
                    return Err(server_error(format!("read {} of {}", sequence, self.name), error));
                }
                Err(_) => tries += 1,
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Messages in the order in which their sequences are given, each with its sequence.
    pub(crate) fn read<S: IntoIterator<Item = u64>>(
        &self,
        sequences: S,
    ) -> impl Messages<Item = Result<(u64, Option<Bytes>), FleetError>> {
        let get = move |sequence| async move { Ok((sequence, self.get(sequence).await?)) };
        stream::iter(sequences).map(get).buffered(AT_ONCE)
    }
}

/// The number of pieces of a job, or of those that are stored so far. It is asked for after the number of the last result,
/// because a piece is stored before its result.
///
/// # Errors
/// The server does not answer.
pub(crate) async fn stored_pieces(context: &Context, job: &Job) -> Result<u64, FleetError> {
    match job.pieces {
        Some(pieces) => Ok(pieces),
        None => Ok(Log::open(context, job::work_stream(&job.name)).await?.last().await?.min(MOST_PIECES)),
    }
}

/// A result of a job that has so many pieces, as it was stored. Any program may have stored it.
///
/// # Errors
/// It is no result of this job; the text says why.
pub(crate) fn parse(bytes: &[u8], job: &Job, pieces: u64) -> Result<PieceResult, String> {
    let result: PieceResult =
        serde_json::from_slice(bytes).map_err(|error| format!("it is no result: {error}"))?;
    if result.job != job.id {
        return Err("it is of another job".to_owned());
    }
    if result.piece >= pieces {
        let reason = result.error.as_ref().map_or_else(String::new, |error| format!(": {error}"));
        return Err(format!("there is no piece {}, because the job has {pieces}{reason}", result.piece));
    }
    if result.error.is_some() {
        return Ok(result);
    }
    let (most, is_of_games) = (job.games_per_piece(), matches!(job.kind, Kind::Games { .. }));
    if result.games.is_some() != is_of_games {
        return Err("it is of a job of another kind".to_owned());
    }
    let mut games = 0_u64;
    let mut add =
        |value: &serde_json::Value| games = games.saturating_add(value.as_u64().unwrap_or_default());
    let figures = result.games.as_ref().unwrap_or(&serde_json::Value::Null);
    for side in ["with_white", "with_black"] {
        ["wins", "draws", "losses"].into_iter().for_each(|name| add(&figures[side][name]));
    }
    let pairs = figures["pairs"].as_array().map_or(0, |pairs| {
        pairs.iter().fold(0_u64, |sum, pair| sum.saturating_add(pair.as_u64().unwrap_or_default()))
    });
    match games.max(pairs).max(result.chunks.len() as u64) {
        found if found > most => Err(format!("it has {found} games, and a piece has at most {most}")),
        _ => Ok(result),
    }
}

/// A set of piece numbers. Its size is that of the numbers that it holds, whatever they are.
#[derive(Default)]
pub(crate) struct Pieces {
    /// The numbers of 64 pieces in each word, by a 64th of the first.
    words: HashMap<u64, u64>,
    count: u64,
}

impl Pieces {
    pub(crate) fn contains(&self, piece: u64) -> bool {
        self.words.get(&(piece / 64)).is_some_and(|word| word >> (piece % 64) & 1 == 1)
    }

    /// Adds a number. Returns whether it is new.
    pub(crate) fn insert(&mut self, piece: u64) -> bool {
        if self.contains(piece) {
            return false;
        }
        *self.words.entry(piece / 64).or_default() |= 1 << (piece % 64);
        self.count += 1;
        true
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(kind: serde_json::Value) -> Job {
        serde_json::from_value(serde_json::json!({
            "protocol": 4, "name": "a", "id": "1f", "created_s": 1, "priority": 0, "engine": null, "kind": kind,
            "flags": [], "most_deliveries": 5, "redelivery_s": 30, "time_limit_s": 100, "source": "", "pieces": 5,
            "troubles": [], "is_decided": false,
        }))
        .unwrap()
    }

    #[test]
    fn what_is_no_result_of_the_job_is_refused_with_a_reason() {
        let games = job(serde_json::json!({
            "kind": "games", "games": 20, "shards": 5, "openings": null, "training": true, "sprt": null,
        }));
        let analysis = job(serde_json::json!({ "kind": "analysis", "format": "pgn" }));
        for (job, text, reason) in [
            (&analysis, "garbage", "no result"),
            (&analysis, "", "no result"),
            (&analysis, "[[[[[[", "no result"),
            (&analysis, r#"{"piece":1}"#, "no result"),
            (&analysis, r#"{"job":"1f","piece":-1}"#, "no result"),
            (&analysis, r#"{"job":"2f","piece":1}"#, "of another job"),
            (&analysis, r#"{"job":"1f","piece":5}"#, "there is no piece 5, because the job has 5"),
            (
                &analysis,
                r#"{"job":"1f","piece":18446744073709551615}"#,
                "there is no piece 18446744073709551615",
            ),
            (&analysis, r#"{"job":"1f","piece":9,"error":"why"}"#, "why"),
            (&analysis, r#"{"job":"1f","piece":1,"documents":[]}"#, "unknown field `documents`"),
            (&analysis, r#"{"job":"1f","piece":1,"games":{}}"#, "another kind"),
            (&analysis, r#"{"job":"1f","piece":1,"chunks":[1]}"#, "1 games"),
            (&games, r#"{"job":"1f","piece":1}"#, "another kind"),
            (&games, r#"{"job":"1f","piece":1,"games":{"with_white":{"wins":5}}}"#, "5 games"),
            (&games, r#"{"job":"1f","piece":1,"games":{"pairs":[18446744073709551615,1]}}"#, "games"),
            (&games, r#"{"job":"1f","piece":1,"games":{},"chunks":[1,2,3,4,5]}"#, "5 games"),
        ] {
            let found = parse(text.as_bytes(), job, 5);
            assert!(found.as_ref().is_err_and(|error| error.contains(reason)), "{text}: {found:?}");
        }
        assert!(
            parse(br#"{"job":"1f","piece":4,"games":{"pairs":[4]},"chunks":[1,2,3,4]}"#, &games, 5).is_ok()
        );
        assert!(parse(br#"{"job":"1f","piece":4}"#, &analysis, 5).is_ok());
    }

    #[test]
    fn a_piece_is_counted_once() {
        let mut pieces = Pieces::default();
        assert!(pieces.insert(64) && pieces.insert(0) && !pieces.insert(64));
        assert!(pieces.contains(0) && !pieces.contains(1) && !pieces.contains(1000));
        assert_eq!(pieces.count(), 2);
    }
}
