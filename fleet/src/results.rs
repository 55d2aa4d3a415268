//! Reads the stored pieces and results of a job.

use super::error::{FleetError, server_error};
use super::job::PieceResult;
use async_nats::jetstream::context::Context;
use async_nats::jetstream::stream::{DirectGetErrorKind, Info, Stream};
use bytes::Bytes;
use futures_util::{Stream as Messages, StreamExt, stream};
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

/// The most pieces of a job. A larger number is no piece's, and would need much memory.
pub(crate) const MOST_PIECES: u64 = 1 << 32;

/// A result as it was stored.
///
/// # Errors
/// It is damaged, or it was stored by another version of this program.
pub(crate) fn parse(bytes: &[u8], sequence: u64) -> Result<PieceResult, FleetError> {
    let wrong =
        |reason: String| FleetError::Refused(format!("the result {sequence} cannot be read: {reason}"));
    let result: PieceResult = serde_json::from_slice(bytes).map_err(|error| wrong(error.to_string()))?;
    match result.piece < MOST_PIECES {
        true => Ok(result),
        false => Err(wrong(format!("there is no piece {}", result.piece))),
    }
}

/// A set of piece numbers.
#[derive(Default)]
pub(crate) struct Pieces {
    words: Vec<u64>,
    count: u64,
}

impl Pieces {
    pub(crate) fn contains(&self, piece: u64) -> bool {
        self.words.get((piece / 64) as usize).is_some_and(|word| word >> (piece % 64) & 1 == 1)
    }

    /// Adds a number. Returns whether it is new.
    pub(crate) fn insert(&mut self, piece: u64) -> bool {
        if self.contains(piece) {
            return false;
        }
        let index = (piece / 64) as usize;
        if index >= self.words.len() {
            self.words.resize(index + 1, 0);
        }
        self.words[index] |= 1 << (piece % 64);
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

    #[test]
    fn a_piece_is_counted_once() {
        let mut pieces = Pieces::default();
        assert!(pieces.insert(64) && pieces.insert(0) && !pieces.insert(64));
        assert!(pieces.contains(0) && !pieces.contains(1) && !pieces.contains(1000));
        assert_eq!(pieces.count(), 2);
    }
}
