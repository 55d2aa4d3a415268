//! What a worker keeps from one job to the next.

use super::report::Reporter;
use crate::args::WorkArgs;
use crate::job::Job;
use async_nats::jetstream::context::Context;
use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Instant;
use tokio::sync::watch;

/// What a worker is made of.
pub(super) struct Worker {
    pub(super) context: Context,
    pub(super) program: PathBuf,
    pub(super) arguments: WorkArgs,
    pub(super) name: String,
    pub(super) reporter: Reporter,
    pub(super) stop: watch::Receiver<bool>,
    /// The jobs that this worker leaves alone, by name.
    pub(super) refused: HashMap<String, Refusal>,
}

/// Which job of a name a worker leaves alone, and until when.
pub(super) struct Refusal {
    /// The number of the job: another job of the same name may be different.
    id: String,
    /// `None` means for ever.
    until: Option<Instant>,
}

impl Worker {
    /// Leaves a job alone, for ever if `until` is `None`.
    pub(super) fn refuse(&mut self, job: &Job, until: Option<Instant>) {
        self.refused.insert(job.name.clone(), Refusal { id: job.id.clone(), until });
    }

    pub(super) fn is_refused(&self, job: &Job) -> bool {
        self.refused.get(&job.name).is_some_and(|refusal| {
            refusal.id == job.id && refusal.until.is_none_or(|until| Instant::now() < until)
        })
    }
}
