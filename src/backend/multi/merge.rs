//! Evaluates the batches of several searches as one, and gives each search its part of the outcome.

use crate::backend::queue::{Outcome, OwnedRequest, Reply};
use crate::backend::ticket::OrderedBatch;
use crate::backend::{Backend, Evaluations};

/// A batch of a search that waits to be evaluated.
pub(super) struct Job {
    pub(super) requests: Vec<OwnedRequest>,
    pub(super) reply: Reply,
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
