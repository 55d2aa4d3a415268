//! `multiplexing`: a pool of backends behind one queue, which merges small batches into large ones.
//!
//! **Queue protocol.** A submitted batch goes to the queue, and its ticket waits on a channel for one outcome. A free
//! worker pops the batch, together with the next batches that fit into the same device batch, evaluates them on its
//! backend, and sends each ticket its outcome, `Ok` or `Err`. Dropping the backend closes the queue: the workers finish
//! the queued batches and end, and a later submit gets an `Err`. If a worker dies, its end of the channel is dropped,
//! and the ticket gets an `Err`.
//!
//! The workers of a backend that has lost its devices end, as long as another backend is left to take the batches. The
//! workers of the last backend stay, and answer each batch with an `Err`.
//!
//! A fast backend therefore takes more batches than a slow one, and several games can share device batches. Each
//! request has to be copied, because the backend is not chosen yet when the request is added.

use super::children::{Child, cached_by_any, common_attributes, devices_of, work_of};
use super::merge::{CopiedBatch, Intake, Job, distribute, evaluate};
use crate::queue::{WorkQueue, Workers};
use crate::ticket::catch_panic;
use crate::{Attributes, Backend, BackendError, Batch, DeviceWork, Devices, EvalRequest, Evaluation};
use std::sync::Arc;

/// Several backends that take batches from one queue.
pub struct MultiplexingBackend {
    queued: Arc<Queued>,
    children: Arc<[Child]>,
    _workers: Workers<Job>,
}

impl MultiplexingBackend {
    /// Starts the worker threads of all children.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn new(children: Vec<Child>) -> Result<MultiplexingBackend, BackendError> {
        let attributes = common_attributes("multiplexing", &children);
        let children: Arc<[Child]> = children.into();
        let queue = Arc::new(WorkQueue::new());
        let mut workers = Workers::new();
        for (index, child) in children.iter().enumerate() {
            for _ in 0..child.threads.max(1) {
                let children = Arc::clone(&children);
                workers.start(&attributes.name, &queue, move |queue| work(&children, index, queue))?;
            }
        }
        let queued = Arc::new(Queued { attributes, jobs: queue });
        Ok(MultiplexingBackend { queued, children, _workers: workers })
    }
}

impl Backend for MultiplexingBackend {
    fn attributes(&self) -> &Attributes {
        &self.queued.attributes
    }

    fn new_batch(&self) -> Box<dyn Batch> {
        CopiedBatch::boxed(&self.queued)
    }

    fn cached(&self, request: EvalRequest<'_>) -> Option<Evaluation> {
        cached_by_any(&self.children, request)
    }

    fn clear_cache(&self) {
        self.children.iter().for_each(|child| child.backend.clear_cache());
    }

    fn devices(&self) -> Devices {
        devices_of(&self.children)
    }

    fn work(&self) -> Vec<DeviceWork> {
        work_of(&self.children)
    }
}

/// The queue, with the attributes that all children have in common.
struct Queued {
    attributes: Attributes,
    jobs: Arc<WorkQueue<Job>>,
}

impl Intake for Queued {
    fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    fn take(&self, job: Job) {
        // A closed queue drops the job.
        let _ = self.jobs.push(job);
    }
}

/// A worker thread: evaluates jobs on the child at `index` until the queue is closed, or until that child is lost and
/// another is not.
fn work(children: &[Child], index: usize, queue: &WorkQueue<Job>) {
    let child = &children[index];
    let fits = |taken: &[Job], next: &Job| {
        let length: usize = taken.iter().map(|job| job.requests.len()).sum();
        length + next.requests.len() <= child.maximum_batch
    };
    while let Some(jobs) = queue.pop(fits) {
        let outcome = catch_panic(&child.backend.attributes().name, || evaluate(&*child.backend, &jobs));
        let has_failed = outcome.is_err();
        distribute(outcome, jobs);
        if has_failed && child.is_lost() && !children.iter().all(Child::is_lost) {
            return;
        }
    }
}
