//! Stores pieces in their order, each exactly once.
//!
//! Every message says the sequence that the stream must have before it, so that the server refuses a message that comes
//! twice or too early. After an error the stream's last sequence says which pieces are stored.

use crate::error::{FleetError, print_error_line, server_error};
use crate::job::{self, Job, Piece};
use async_nats::jetstream::context::{Context, PublishAckFuture, PublishErrorKind};
use async_nats::jetstream::message::PublishMessage;
use bytes::Bytes;
use std::collections::VecDeque;
use std::time::Duration;

/// The most messages, and about the most bytes, that are on their way at once.
const WINDOW: usize = 512;
const WINDOW_BYTES: usize = 8 << 20;

/// The pause before messages are sent again.
const PAUSE: Duration = Duration::from_millis(500);

/// How often messages are sent again although no further one was stored.
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
    let (mut count, mut failures) = (0, 0);
    let mut pieces = pieces.inspect(|_| count += 1).filter(|piece| piece.piece >= stored);
    let mut window: VecDeque<Sent> = VecDeque::new();
    loop {
        let mut window_bytes: usize = window.iter().map(|sent| sent.bytes.len()).sum();
        while window.len() < WINDOW && window_bytes < WINDOW_BYTES {
            let Some(piece) = pieces.next() else { break };
            let bytes = Bytes::from(serde_json::to_vec(&piece).unwrap_or_default());
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
                    while window.front().is_some_and(|sent| sent.number < stored) {
                        window.pop_front();
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

/// The sequence of the last piece of a job; 0 if there is none.
async fn last_sequence(context: &Context, job: &Job) -> Result<u64, FleetError> {
    let failed = |error: String| server_error("see which pieces are stored", error);
    let stream = context.get_stream(job::work_stream(&job.name)).await;
    let stream = stream.map_err(|error| failed(error.to_string()))?;
    Ok(stream.cached_info().state.last_sequence)
}
