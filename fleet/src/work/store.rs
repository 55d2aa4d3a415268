//! Stores a result and acknowledges its piece.

use super::finished::headers;
use crate::error::{FleetError, print_error_line};
use crate::job::{self, Job, Piece, PieceResult};
use crate::results::Log;
use crate::server;
use async_nats::HeaderMap;
use async_nats::jetstream::AckKind;
use async_nats::jetstream::Message;
use async_nats::jetstream::context::{Context, PublishErrorKind};
use bytes::Bytes;
use std::time::{Duration, Instant};

/// The longest pause before a result is sent again.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// A piece that this worker holds.
pub(super) struct Held {
    pub(super) piece: Piece,
    /// How often the piece was delivered, with this time.
    pub(super) deliveries: u32,
    /// When it was delivered.
    pub(super) taken: Instant,
    /// The number of this delivery among all of the job, from 1.
    pub(super) delivery: u64,
    message: Message,
}

/// What a message of the server is.
pub(super) enum Received {
    Piece(Held),
    /// It is no piece of the job. The result says so, and the message is to be acknowledged.
    NoPiece(Box<PieceResult>, Message),
    /// There is another job of this name now, to which the message may belong.
    OtherJob(Message),
    /// It does not come from the stream of the pieces, so it has no place there.
    Foreign,
}

impl Held {
    /// Reads and checks a message. The piece n is the message n + 1 of the stream. A copy that was stored later must
    /// equal it. `pieces` is that stream.
    ///
    /// # Errors
    /// The server does not answer.
    pub(super) async fn read(
        message: Message,
        context: &Context,
        job: &Job,
        pieces: &Log,
    ) -> Result<Received, FleetError> {
        let Ok(info) = message.info() else { return Ok(Received::Foreign) };
        let (sequence, delivery) = (info.stream_sequence, info.consumer_sequence);
        let deliveries = u32::try_from(info.delivered).unwrap_or(u32::MAX);
        let place = sequence.saturating_sub(1);
        let checked = match Piece::read(&message.payload, job) {
            Ok(piece) if piece.piece >= place => piece.is_number(place).map(|()| piece),
            // It was stored again.
            Ok(piece) => match pieces.get(piece.piece + 1).await? {
                Some(first) if first == message.payload => Ok(piece),
                _ => Err(format!("it says that it is piece {}, but differs from it", piece.piece)),
            },
            Err(reason) => {
                let is_there = server::job(context, &job.name).await.is_ok_and(|found| found.id == job.id);
                if !is_there {
                    return Ok(Received::OtherJob(message));
                }
                Err(reason)
            }
        };
        match checked {
            Ok(piece) => {
                Ok(Received::Piece(Held { piece, deliveries, taken: Instant::now(), delivery, message }))
            }
            Err(reason) => {
                let mut result = PieceResult::new(&job.id, place);
                result.error = Some(format!("the message {sequence} of the pieces is left out: {reason}"));
                Ok(Received::NoPiece(Box::new(result), message))
            }
        }
    }

    /// Tells the server that the piece is being worked on.
    pub(super) async fn in_progress(&self) {
        self.say(AckKind::Progress).await;
    }

    /// Gives the piece back, so that it is delivered again after `pause`.
    pub(super) async fn give_back(&self, pause: Duration) {
        self.say(AckKind::Nak((!pause.is_zero()).then_some(pause))).await;
    }

    /// Tells the server that the piece is done.
    pub(super) async fn acknowledge(&self) {
        self.say(AckKind::Ack).await;
    }

    async fn say(&self, kind: AckKind) {
        // If the server does not hear it, the piece is delivered again, and its second result is ignored.
        let _ = self.message.ack_with(kind).await;
    }
}

/// Stores a result with the training data of its games. Without the server, or while its disk is full, it waits.
pub(super) async fn store(context: &Context, job: &str, mut result: PieceResult, chunks: &[Bytes]) {
    for chunk in chunks {
        match publish(context, job, job::chunk_subject(job), HeaderMap::new(), chunk, result.piece).await {
            Stored::At(sequence) => result.chunks.push(sequence),
            Stored::TooLong => {
                result = too_long(&result, "the training data of a game", chunk.len());
                break;
            }
            Stored::NoJob => return,
        }
    }
    loop {
        let subject = match result.error {
            None => job::done_subject(job),
            Some(_) => job::failed_subject(job),
        };
        let bytes = Bytes::from(serde_json::to_vec(&result).unwrap_or_default());
        match publish(context, job, subject, headers(&result.job, result.piece), &bytes, result.piece).await {
            // A message of this length is never stored, so the piece would come back for ever.
            Stored::TooLong if result.error.is_none() => {
                result = too_long(&result, "the result", bytes.len());
            }
            _ => return,
        }
    }
}

/// The result of a piece that has something too long for the server.
fn too_long(result: &PieceResult, what: &str, length: usize) -> PieceResult {
    let reason =
        format!("{what} has {length} bytes, more than the server takes (max_payload); use smaller pieces");
    PieceResult { error: Some(reason), ..PieceResult::new(&result.job, result.piece) }
}

/// What has become of a message.
enum Stored {
    /// It has this sequence.
    At(u64),
    /// The server does not take such long messages.
    TooLong,
    /// The job was removed.
    NoJob,
}

/// Stores a message about a piece. Without the server, or while its disk is full, it waits.
async fn publish(
    context: &Context,
    job: &str,
    subject: String,
    headers: HeaderMap,
    bytes: &Bytes,
    piece: u64,
) -> Stored {
    let mut pause = Duration::from_millis(100);
    let mut has_said = false;
    loop {
        let error = match context.publish_with_headers(subject.clone(), headers.clone(), bytes.clone()).await
        {
            Ok(ack) => match ack.await {
                Ok(ack) => return Stored::At(ack.sequence),
                Err(error) => error,
            },
            Err(error) => error,
        };
        match error.kind() {
            PublishErrorKind::MaxPayloadExceeded => return Stored::TooLong,
            PublishErrorKind::StreamNotFound if is_gone(context, job).await => return Stored::NoJob,
            _ => {}
        }
        if !has_said {
            has_said = true;
            print_error_line(&format!(
                "job {job}: the server has not stored the result of piece {piece} ({error}); tries again"
            ));
        }
        tokio::time::sleep(pause).await;
        pause = LONGEST_PAUSE.min(2 * pause);
    }
}

/// Whether the server says that the stream of the results does not exist. A server that is just starting does not.
async fn is_gone(context: &Context, job: &str) -> bool {
    use async_nats::jetstream::ErrorCode;
    use async_nats::jetstream::context::GetStreamErrorKind;
    match context.get_stream(job::done_stream(job)).await {
        Ok(_) => false,
        Err(error) => matches!(
            error.kind(),
            GetStreamErrorKind::JetStream(error) if error.error_code() == ErrorCode::STREAM_NOT_FOUND
        ),
    }
}
