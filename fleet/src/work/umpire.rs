//! Ends a tournament whose test is decided, although nobody collects its results.
//!
//! One of the workers of a job reads the results: the one whose name comes first. If two do so for a while, they come to
//! the same decision, because it follows from the order of the results.

use super::report::Report;
use crate::collect::totals::Totals;
use crate::error::FleetError;
use crate::job::{self, Job};
use crate::results::{Log, parse, stored_pieces};
use crate::server::{WORKERS, put_decided};
use async_nats::jetstream::context::Context;
use futures_util::TryStreamExt;
use std::pin::pin;

/// The results of a tournament, as far as they are read.
pub(super) struct Umpire {
    job: Job,
    /// The sequence of the last result that was read.
    last: u64,
    totals: Totals,
}

impl Umpire {
    /// `None` for a job without a test.
    pub(super) fn new(job: &Job) -> Option<Umpire> {
        job.sprt().map(|_| Umpire { job: job.clone(), last: 0, totals: Totals::new(job) })
    }

    /// Reads new results if that is the task of this worker, and tells the server if they decide the test.
    ///
    /// # Errors
    /// The server does not answer.
    pub(super) async fn look(&mut self, context: &Context, worker: &str) -> Result<(), FleetError> {
        let reports = WORKERS.list(context).await?;
        let reports = reports.iter().filter_map(|(name, bytes)| Report::read(name, bytes).ok());
        let first = reports
            .filter(|report| report.job.as_ref() == Some(&self.job.name))
            .map(|report| report.name)
            .min();
        if first.is_some_and(|first| *first < *worker) {
            return Ok(());
        }
        let log = Log::open(context, job::done_stream(&self.job.name)).await?;
        let last = log.last().await?;
        let pieces = stored_pieces(context, &self.job).await?;
        let mut messages = pin!(log.read(self.last + 1..=last));
        while let Some((sequence, bytes)) = messages.try_next().await? {
            self.last = sequence;
            // `collect` names what is no result of the job.
            let result = bytes.and_then(|bytes| parse(&bytes, &self.job, pieces).ok());
            if let Some(result) = result.filter(|result| result.error.is_none()) {
                self.totals.add(&result);
            }
        }
        if self.totals.is_decided {
            put_decided(context, &self.job).await?;
        }
        Ok(())
    }
}
