//! Knows which pieces of a job have a result, so that they are not done again.
//!
//! A server that is killed while it writes down what workers have acknowledged may lose it. Then it delivers all pieces
//! again, as if for the first time. Two signs say so: a job has more results than deliveries, or a delivery has a lower
//! number than one before it. Only then a worker reads the numbers of the pieces that are finished, so that a server that
//! loses nothing is not asked for anything. They are in the headers of the results, whose content can be long.

use crate::job;
use crate::results::{MOST_PIECES, Pieces};
use async_nats::jetstream::consumer::DeliverPolicy;
use async_nats::jetstream::consumer::pull::OrderedConfig;
use async_nats::jetstream::context::Context;
use async_nats::{HeaderMap, HeaderName};
use futures_util::StreamExt;
use std::error::Error;
use std::time::Duration;

/// The header of a result that holds the number of its piece.
const PIECE_HEADER: HeaderName = HeaderName::from_static("Rukh-Piece");

/// How long the server may take for the next results.
const PATIENCE: Duration = Duration::from_secs(10);

/// The headers of the result of a piece.
pub(super) fn headers(piece: u64) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(PIECE_HEADER, piece.to_string());
    headers
}

/// The pieces of a job that are finished, as far as they were read.
#[derive(Default)]
pub(super) struct Finished {
    pieces: Pieces,
    /// The sequence of the last result that was read.
    read_to: u64,
}

impl Finished {
    /// Whether the piece is known to be finished.
    pub(super) fn contains(&self, piece: u64) -> bool {
        self.pieces.contains(piece)
    }

    /// The number of pieces that are known to be finished.
    pub(super) fn count(&self) -> u64 {
        self.pieces.count()
    }

    /// Reads the results that are new. If the server does not answer, some are left out; their pieces are done again.
    pub(super) async fn read(mut self, context: Context, job: String) -> Finished {
        // Results that are not read cost time only.
        let _ = self.try_read(&context, &job).await;
        self
    }

    async fn try_read(&mut self, context: &Context, job: &str) -> Result<(), Box<dyn Error + Send + Sync>> {
        let stream = context.get_stream(job::done_stream(job)).await?;
        let last = stream.cached_info().state.last_sequence;
        let consumer = stream.create_consumer(OrderedConfig {
            filter_subject: job::done_subject(job),
            headers_only: true,
            deliver_policy: DeliverPolicy::ByStartSequence { start_sequence: self.read_to + 1 },
            ..OrderedConfig::default()
        });
        let consumer = consumer.await?;
        if consumer.cached_info().num_pending == 0 {
            return Ok(());
        }
        let mut messages = consumer.messages().await?;
        while let Some(message) = tokio::time::timeout(PATIENCE, messages.next()).await? {
            let message = message?;
            let piece = message.headers.as_ref().and_then(|headers| headers.get(PIECE_HEADER));
            // The results of earlier versions have no header.
            if let Some(piece) = piece.and_then(|piece| piece.as_str().parse().ok())
                && piece < MOST_PIECES
            {
                self.pieces.insert(piece);
            }
            let info = message.info()?;
            self.read_to = info.stream_sequence;
            if info.pending == 0 || info.stream_sequence >= last {
                break;
            }
        }
        Ok(())
    }
}

/// Whether a job has more results than deliveries, and the number of its last delivery.
///
/// # Errors
/// The server does not answer, or the job is gone.
pub(super) async fn has_lost_deliveries(
    context: &Context,
    job: &str,
) -> Result<(bool, u64), Box<dyn Error + Send + Sync>> {
    // The results come first, because there may be more of them a moment later.
    let results = context.get_stream(job::done_stream(job)).await?.cached_info().state.last_sequence;
    let work = context.get_stream_no_info(job::work_stream(job)).await?;
    let deliveries = work.consumer_info(job::CONSUMER).await?.delivered.consumer_sequence;
    Ok((results > deliveries, deliveries))
}
