//! Stores pieces in their order, each exactly once.
//!
//! Every message says the sequence that the stream must have before it, so that the server refuses a message that comes
//! twice or too early. After an error the stream's last sequence says which pieces are stored. They are read again, because
//! another program may have stored something in their places.

use crate::error::{FleetError, print_error_line, server_error};
use crate::job::{self, Job, Piece};
use crate::results::Log;
use async_nats::jetstream::context::{Context, PublishAckFuture, PublishErrorKind};
use async_nats::jetstream::message::PublishMessage;
use bytes::Bytes;
use futures_util::TryStreamExt;
use std::collections::VecDeque;
use std::pin::pin;
use std::time::Duration;

/// The most messages, and about the most bytes, that are on their way at once.
const WINDOW: usize = 512;
const WINDOW_BYTES: usize = 8 << 20;

/// The pause before messages are sent again.
const PAUSE: Duration = Duration::from_millis(500);

/// The most failures in a row, without a message that was stored.
const MOST_FAILURES: u32 = 120;

/// A message whose acknowledgement is awaited.
struct Sent {
    /// The number of the piece, which is the sequence of the stream before it.
    number: u64,
    bytes: Bytes,
    ack: Option<PublishAckFuture>,
}

/// Stores the pieces that the stream does not have yet. Returns the number of all pieces.
///
/// # Errors
/// The server refuses a piece, or it is gone for long.
pub(super) async fn publish(
    context: &Context,
    job: &Job,
    pieces: impl Iterator<Item = Piece>,
) -> Result<u64, FleetError> {
    let subject = job::work_subject(&job.name);
    let stored = last_sequence(context, job).await?;
    let log = Log::open(context, job::work_stream(&job.name)).await?;
    let (mut count, mut failures) = (0, 0);
    let mut pieces = pieces.inspect(|_| count += 1).peekable();
    let mut window: VecDeque<Sent> = VecDeque::new();
    // What an earlier call has stored.
    while let Some(piece) = pieces.next_if(|piece| piece.piece < stored) {
        window.push_back(Sent { number: piece.piece, bytes: bytes_of(&piece), ack: None });
        if window.len() >= WINDOW || pieces.peek().is_none_or(|next| next.piece >= stored) {
            check_stored(&log, &job.name, &window).await?;
            window.clear();
        }
    }
    loop {
        let mut window_bytes: usize = window.iter().map(|sent| sent.bytes.len()).sum();
        while window.len() < WINDOW && window_bytes < WINDOW_BYTES {
            let Some(piece) = pieces.next() else { break };
            let bytes = bytes_of(&piece);
            window_bytes += bytes.len();
            window.push_back(Sent { number: piece.piece, bytes, ack: None });
        }
        for sent in window.iter_mut().filter(|sent| sent.ack.is_none()) {
            let message =
                PublishMessage::build().payload(sent.bytes.clone()).expected_last_sequence(sent.number);
            match context.send_publish(subject.clone(), message).await {
                Ok(ack) => sent.ack = Some(ack),
                Err(error) if error.kind() == PublishErrorKind::MaxPayloadExceeded => {
                    return Err(server_error(format!("store piece {}", sent.number), error));
                }
                Err(_) => break,
            }
        }
        let Some(first) = window.front_mut() else { break };
        let outcome = match first.ack.take() {
            Some(ack) => ack.await.map(drop).map_err(|error| error.to_string()),
            None => Err("the connection is lost".to_owned()),
        };
        match outcome {
            Ok(()) => {
                window.pop_front();
                failures = 0;
            }
            Err(error) => {
                failures += 1;
                if failures > MOST_FAILURES {
                    return Err(server_error(format!("store piece {}", first.number), error));
                }
                if failures == 1 {
                    print_error_line(&format!("piece {} is not stored yet: {error}", first.number));
                }
                tokio::time::sleep(PAUSE).await;
                // Messages of the window that are still on their way are refused if they come late.
                if let Ok(stored) = last_sequence(context, job).await {
                    let rest = window.split_off(window.partition_point(|sent| sent.number < stored));
                    let there = std::mem::replace(&mut window, rest);
                    check_stored(&log, &job.name, &there).await?;
                    if !there.is_empty() {
                        failures = 0;
                    }
                }
                window.iter_mut().for_each(|sent| sent.ack = None);
            }
        }
    }
    drop(pieces);
    Ok(count)
}

fn bytes_of(piece: &Piece) -> Bytes {
    Bytes::from(serde_json::to_vec(piece).unwrap_or_default())
}

/// Checks that these pieces are what the server has in their places.
async fn check_stored(log: &Log, job: &str, pieces: &VecDeque<Sent>) -> Result<(), FleetError> {
    let mut messages = pin!(log.read(pieces.iter().map(|sent| sent.number + 1)));
    for sent in pieces {
        let found = messages.try_next().await?.and_then(|(_, bytes)| bytes);
        if found.is_none_or(|found| found != sent.bytes) {
            return Err(foreign(job, sent.number));
        }
    }
    Ok(())
}

/// The error of a job in which another program has stored something.
fn foreign(job: &str, piece: u64) -> FleetError {
    FleetError::Refused(format!(
        "in the place of piece {piece} of the job `{job}` there is something that this command has not stored; remove the \
         job with `rukh-fleet remove {job}` and submit it again"
    ))
}

/// The sequence of the last piece of a job; 0 if there is none.
async fn last_sequence(context: &Context, job: &Job) -> Result<u64, FleetError> {
    let failed = |error: String| server_error("see which pieces are stored", error);
    let stream = context.get_stream(job::work_stream(&job.name)).await;
    let stream = stream.map_err(|error| failed(error.to_string()))?;
    Ok(stream.cached_info().state.last_sequence)
}
