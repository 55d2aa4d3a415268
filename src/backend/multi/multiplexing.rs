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

use super::children::{Child, cached_by_any, common_attributes, devices_of};
use super::merge::{Job, distribute, evaluate};
use crate::backend::queue::{OwnedRequest, WorkQueue, Workers, reply_channel};
use crate::backend::ticket::{Done, catch_panic, check_batch_size};
use crate::backend::{
    Added, Attributes, Backend, BackendError, Batch, Devices, EvalRequest, Evaluation, Ticket,
};
use std::sync::Arc;

/// Several backends that take batches from one queue.
pub struct MultiplexingBackend {
    attributes: Arc<Attributes>,
    children: Arc<[Child]>,
    queue: Arc<WorkQueue<Job>>,
    _workers: Workers<Job>,
}

impl MultiplexingBackend {
    /// Starts the worker threads of all children.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn new(children: Vec<Child>) -> Result<MultiplexingBackend, BackendError> {
        let attributes = Arc::new(common_attributes("multiplexing", &children));
        let children: Arc<[Child]> = children.into();
        let queue = Arc::new(WorkQueue::new());
        let mut workers = Workers::new();
        for (index, child) in children.iter().enumerate() {
            for _ in 0..child.threads.max(1) {
                let children = Arc::clone(&children);
                workers.start(&attributes.name, &queue, move |queue| work(&children, index, queue))?;
            }
        }
        Ok(MultiplexingBackend { attributes, children, queue, _workers: workers })
    }
}

impl Backend for MultiplexingBackend {
    fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    fn new_batch(&self) -> Box<dyn Batch> {
        Box::new(QueuedBatch {
            attributes: Arc::clone(&self.attributes),
            queue: Arc::clone(&self.queue),
            requests: Vec::new(),
        })
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
}

struct QueuedBatch {
    attributes: Arc<Attributes>,
    queue: Arc<WorkQueue<Job>>,
    requests: Vec<OwnedRequest>,
}

impl Batch for QueuedBatch {
    fn len(&self) -> usize {
        self.requests.len()
    }

    fn add(&mut self, request: EvalRequest<'_>) -> Added {
        self.requests.push(OwnedRequest::new(request));
        Added::Queued
    }

    fn submit(self: Box<Self>) -> Box<dyn Ticket> {
        if let Err(error) = check_batch_size(&self.attributes, self.requests.len()) {
            return Done::boxed(Err(error));
        }
        let (reply, ticket) = reply_channel(&self.attributes.name);
        // If the queue is closed, the job is dropped with its reply, and the ticket fails.
        let _ = self.queue.push(Job { requests: self.requests, reply });
        Box::new(ticket)
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
