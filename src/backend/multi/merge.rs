//! Evaluates the batches of several searches as one, and gives each search its part of the outcome.

use crate::owned_request::OwnedRequest;
use crate::queue::{Outcome, Reply, reply_channel};
use crate::ticket::{Done, OrderedBatch, check_batch_size};
use crate::{Added, Attributes, Backend, Batch, EvalRequest, Evaluations, Ticket};
use std::sync::Arc;

/// A batch of a search that waits to be evaluated.
pub(super) struct Job {
    pub(super) requests: Vec<OwnedRequest>,
    pub(super) reply: Reply,
}

/// Takes the batches of searches.
pub(super) trait Intake: Send + Sync + 'static {
    /// The attributes of the backend that a search sees.
    fn attributes(&self) -> &Attributes;

    /// Takes a job. If no more jobs are evaluated, it is dropped with its reply, and its ticket fails.
    fn take(&self, job: Job);
}

/// A batch that copies its requests, because the batch that will evaluate them is made later.
pub(super) struct CopiedBatch<I> {
    intake: Arc<I>,
    requests: Vec<OwnedRequest>,
}

impl<I: Intake> CopiedBatch<I> {
    pub(super) fn boxed(intake: &Arc<I>) -> Box<dyn Batch> {
        Box::new(CopiedBatch { intake: Arc::clone(intake), requests: Vec::new() })
    }
}

impl<I: Intake> Batch for CopiedBatch<I> {
    fn len(&self) -> usize {
        self.requests.len()
    }

    fn add(&mut self, request: EvalRequest<'_>) -> Added {
        self.requests.push(OwnedRequest::copy_of(request));
        Added::Queued
    }

    fn submit(self: Box<Self>) -> Box<dyn Ticket> {
        let CopiedBatch { intake, requests } = *self;
        if let Err(error) = check_batch_size(intake.attributes(), requests.len()) {
            return Done::boxed(Err(error));
        }
        let (reply, ticket) = reply_channel(&intake.attributes().name);
        intake.take(Job { requests, reply });
        Box::new(ticket)
    }
}

/// Evaluates the requests of all jobs in one batch.
pub(super) fn evaluate(backend: &dyn Backend, jobs: &[Job]) -> Outcome {
    let mut batch = OrderedBatch::new(&backend.attributes().name, backend.new_batch());
    for request in jobs.iter().flat_map(|job| &job.requests) {
        batch.add(request.as_request());
    }
    batch.submit().finish()
}

/// Sends each job its part of the outcome.
pub(super) fn distribute(outcome: Outcome, mut jobs: Vec<Job>) {
    let evaluations = match outcome {
        Ok(evaluations) => evaluations,
        Err(error) => {
            return jobs.into_iter().for_each(|job| job.reply.send(Err(error.clone())));
        }
    };
    if jobs.len() == 1 {
        return jobs.remove(0).reply.send(Ok(evaluations));
    }
    let mut evaluations = evaluations.iter();
    for job in jobs {
        let mut part = Evaluations::with_capacity(job.requests.len());
        for (value, priors) in evaluations.by_ref().take(job.requests.len()) {
            part.push(value, priors.iter().copied());
        }
        job.reply.send(Ok(part));
    }
}
