//! Knows which pieces of a job have a result, so that they are not done again.
//!
//! A server that is killed while it writes down what workers have acknowledged may lose the whole list. Then it
//! delivers all pieces again, as if for the first time. Two signs say so: a job has many more results than deliveries,
//! or a delivery has a much lower number than one before it. Only then a worker reads the numbers of the pieces that
//! are finished, so that a server that loses nothing is not asked for anything. They are in the headers of the results,
//! whose content can be long.

use crate::error::print_error_line;
use crate::job::{self, Job};
use crate::results::{Pieces, stored_pieces};
use async_nats::jetstream::consumer::DeliverPolicy;
use async_nats::jetstream::consumer::pull::OrderedConfig;
use async_nats::jetstream::context::Context;
use async_nats::{HeaderMap, HeaderName};
use futures_util::StreamExt;
use std::error::Error;
use std::time::Duration;
use tokio::task::JoinSet;

/// The header of a result that holds the number of its piece.
const PIECE_HEADER: HeaderName = HeaderName::from_static("Rukh-Piece");

/// The header that holds the number of its job ([`Job::id`]).
const JOB_HEADER: HeaderName = HeaderName::from_static("Rukh-Job");

/// How long the server may take for the next results.
const PATIENCE: Duration = Duration::from_secs(10);

/// The pause before reading goes on.
const PAUSE: Duration = Duration::from_secs(1);

/// How often reading goes on after the server has not answered.
const MOST_TRIES: u32 = 6;

/// A server that is killed always loses the last moments. To do these few pieces again costs less than to read the
/// numbers of all finished ones. So only a loss of more than a tenth of the deliveries counts; this is the divisor.
const LOST_PART: u64 = 10;

/// Whether a number of deliveries is so much lower than expected that the server has lost what it knew of them.
fn is_loss(expected: u64, found: u64) -> bool {
    expected.saturating_sub(found) > expected / LOST_PART
}

/// The headers of the result of a piece of a job, whose number is `job`.
pub(super) fn headers(job: &str, piece: u64) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(PIECE_HEADER, piece.to_string());
    headers.insert(JOB_HEADER, job);
    headers
}

/// Watches the deliveries of a job, and knows the pieces that are finished as soon as the server has lost something.
pub(super) struct Deliveries {
    context: Context,
    job: Job,
    /// The number of the last delivery.
    last: u64,
    /// Empty until the server has lost something and the numbers are read.
    finished: Finished,
    reading: JoinSet<Finished>,
}

impl Deliveries {
    pub(super) fn new(context: &Context, job: &Job) -> Deliveries {
        Deliveries {
            context: context.clone(),
            job: job.clone(),
            last: 0,
            finished: Finished::default(),
            reading: JoinSet::new(),
        }
    }

    /// Asks the server whether the job has many more results than deliveries.
    pub(super) async fn look(&mut self) {
        // If the server does not answer, the numbers of the deliveries may show it later.
        if let Ok((results, deliveries)) = counts(&self.context, &self.job).await {
            self.last = deliveries;
            if is_loss(results, deliveries) {
                self.read();
            }
        }
    }

    /// Notes the number of a delivery. If it is much lower than the one before, the finished pieces are read.
    pub(super) fn note(&mut self, delivery: u64) {
        if is_loss(self.last, delivery) {
            self.read();
        }
        self.last = delivery;
    }

    /// Whether the finished pieces are being read. Meanwhile it is not known whether a piece is one of them.
    pub(super) fn is_reading(&self) -> bool {
        !self.reading.is_empty()
    }

    /// Whether a piece is known to be finished.
    pub(super) fn is_finished(&self, piece: u64) -> bool {
        self.finished.pieces.contains(piece)
    }

    fn read(&mut self) {
        if self.reading.is_empty() {
            let finished = std::mem::take(&mut self.finished);
            self.reading.spawn(finished.read(self.context.clone(), self.job.clone()));
        }
    }

    /// Waits until the finished pieces are read; `None` if they are not being read. It may be dropped and called again.
    pub(super) async fn has_read(&mut self) -> Option<()> {
        self.finished = self.reading.join_next().await?.unwrap_or_default();
        print_error_line(&format!(
            "job {}: the server has lost what workers have acknowledged; {} pieces have results and are left out",
            self.job.name,
            self.finished.pieces.count()
        ));
        Some(())
    }
}

/// The pieces of a job that are finished, as far as they were read.
#[derive(Default)]
struct Finished {
    pieces: Pieces,
    /// The sequence of the last result that was read.
    read_to: u64,
}

impl Finished {
    /// Reads the results that are new. If the server does not answer, some are left out; their pieces are done again.
    async fn read(mut self, context: Context, job: Job) -> Finished {
        for _ in 0..MOST_TRIES {
            if self.try_read(&context, &job).await.is_ok() {
                break;
            }
            tokio::time::sleep(PAUSE).await;
        }
        self
    }

    async fn try_read(&mut self, context: &Context, job: &Job) -> Result<(), Box<dyn Error + Send + Sync>> {
        let stream = context.get_stream(job::done_stream(&job.name)).await?;
        let last = stream.cached_info().state.last_sequence;
        let pieces = stored_pieces(context, job).await?;
        let consumer = stream.create_consumer(OrderedConfig {
            filter_subject: job::done_subject(&job.name),
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
            let header = |name: HeaderName| message.headers.as_ref().and_then(|headers| headers.get(name));
            // Other programs may have stored something there, too.
            if header(JOB_HEADER).is_some_and(|found| found.as_str() == job.id)
                && let Some(piece) = header(PIECE_HEADER).and_then(|piece| piece.as_str().parse().ok())
                && piece < pieces
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

/// The number of the results of a job, and then of its deliveries.
///
/// # Errors
/// The server does not answer, or the job is gone.
async fn counts(context: &Context, job: &Job) -> Result<(u64, u64), Box<dyn Error + Send + Sync>> {
    // The results come first, because there may be more of them a moment later.
    let results = context.get_stream(job::done_stream(&job.name)).await?.cached_info().state.last_sequence;
    let work = context.get_stream_no_info(job::work_stream(&job.name)).await?;
    Ok((results, work.consumer_info(&job.consumer()).await?.delivered.consumer_sequence))
}

#[cfg(test)]
mod tests {
    use super::is_loss;

    #[test]
    fn only_a_large_part_of_the_deliveries_is_a_loss() {
        assert!(is_loss(1_000_000, 1) && is_loss(20, 1) && is_loss(1_000_000, 500_000));
        assert!(!is_loss(1_000_000, 999_000) && !is_loss(200, 192) && !is_loss(5, 9) && !is_loss(0, 0));
    }
}
