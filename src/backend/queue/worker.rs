//! Worker threads over [`WorkQueue`]s, and the way back from them to a waiting ticket.

use super::work_queue::WorkQueue;
use crate::backend::{BackendError, Evaluations, Ticket};
use crate::sync::Arc;
use crate::sync::channel::{Receiver, Sender, bounded};
use crate::sync::thread::{Builder, JoinHandle};

/// What a batch becomes.
pub(crate) type Outcome = Result<Evaluations, BackendError>;

/// Threads that end when their queues are closed; dropping this closes the queues and waits for them.
pub(crate) struct Workers<T> {
    queues: Vec<Arc<WorkQueue<T>>>,
    threads: Vec<JoinHandle<()>>,
}

impl<T: Send + 'static> Workers<T> {
    /// None yet.
    pub(crate) fn new() -> Workers<T> {
        Workers { queues: Vec::new(), threads: Vec::new() }
    }

    /// Starts a thread that runs `work` on `queue`.
    pub(crate) fn start(
        &mut self,
        backend: &str,
        queue: &Arc<WorkQueue<T>>,
        work: impl FnOnce(&WorkQueue<T>) + Send + 'static,
    ) -> Result<(), BackendError> {
        self.queues.push(Arc::clone(queue));
        let queue = Arc::clone(queue);
        let thread =
            Builder::new().name("backend".to_owned()).spawn(move || work(&queue)).map_err(|error| {
                BackendError::Create {
                    name: backend.to_owned(),
                    reason: format!("cannot start a thread: {error}"),
                }
            })?;
        self.threads.push(thread);
        Ok(())
    }
}

impl<T> Drop for Workers<T> {
    fn drop(&mut self) {
        self.queues.iter().for_each(|queue| queue.close());
        for thread in self.threads.drain(..) {
            // A worker that panicked has dropped its replies: whoever waited knows.
            let _ = thread.join();
        }
    }
}

/// Where a worker sends an outcome.
pub(crate) struct Reply(Sender<Outcome>);

impl Reply {
    /// Sends it; if nobody waits any more, it is dropped.
    pub(crate) fn send(self, outcome: Outcome) {
        let _ = self.0.send(outcome);
    }
}

/// Waits for the outcome of one batch.
pub(crate) struct WorkerTicket {
    name: String,
    outcome: Receiver<Outcome>,
}

/// A channel for one outcome of the backend called `name`.
pub(crate) fn reply_channel(name: &str) -> (Reply, WorkerTicket) {
    let (sender, outcome) = bounded(1);
    (Reply(sender), WorkerTicket { name: name.to_owned(), outcome })
}

impl WorkerTicket {
    /// Blocks for the outcome; an error if the worker is gone.
    pub(crate) fn finish(self) -> Outcome {
        self.outcome.recv().unwrap_or_else(|_| {
            let reason = "it was shut down before the batch was evaluated".to_owned();
            Err(BackendError::Evaluate { name: self.name, reason })
        })
    }
}

impl Ticket for WorkerTicket {
    fn wait(self: Box<Self>) -> Outcome {
        self.finish()
    }
}
