//! Worker threads that serve [`WorkQueue`]s, and the channel from a worker to the waiting ticket.

use super::work_queue::WorkQueue;
use crate::{BackendError, Evaluations, Ticket};
use rukh_base::sync::channel::{Receiver, Sender, bounded};
use rukh_base::sync::thread::{self, JoinHandle};
use rukh_base::sync::{Arc, is_finished, start_thread};
use std::time::{Duration, Instant};

/// The time between two looks at threads that may never end.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// The result of a batch.
pub type Outcome = Result<Evaluations, BackendError>;

/// Worker threads and their queues. Dropping this closes the queues and waits for the threads to end.
pub struct Workers<T> {
    queues: Vec<Arc<WorkQueue<T>>>,
    threads: Vec<JoinHandle<()>>,
}

impl<T: Send + 'static> Workers<T> {
    /// No threads yet.
    pub fn new() -> Workers<T> {
        Workers { queues: Vec::new(), threads: Vec::new() }
    }

    /// Starts a thread that runs `work` on `queue`. `backend` is the backend's name in the error message.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(
        &mut self,
        backend: &str,
        queue: &Arc<WorkQueue<T>>,
        work: impl FnOnce(&WorkQueue<T>) + Send + 'static,
    ) -> Result<(), BackendError> {
        self.queues.push(Arc::clone(queue));
        let queue = Arc::clone(queue);
        let thread = start_thread("backend", move || work(&queue)).map_err(|error| BackendError::Create {
            name: backend.to_owned(),
            reason: format!("cannot start a thread: {error}"),
        })?;
        self.threads.push(thread);
        Ok(())
    }
}

impl<T> Workers<T> {
    /// Closes the queues, and waits at most for `limit`. Threads that have not ended by then are left alone: they may
    /// never end.
    pub fn abandon(&mut self, limit: Duration) {
        self.queues.iter().for_each(|queue| queue.close());
        let until = Instant::now() + limit;
        while Instant::now() < until && self.threads.iter().any(|thread| !is_finished(thread)) {
            thread::sleep(POLL_INTERVAL);
        }
        self.threads.clear();
    }
}

impl<T> Drop for Workers<T> {
    fn drop(&mut self) {
        self.queues.iter().for_each(|queue| queue.close());
        for thread in self.threads.drain(..) {
            // If the worker panicked, its replies were dropped, and their tickets have failed.
            let _ = thread.join();
        }
    }
}

/// The worker's end of the channel for one outcome. Dropping it fails the ticket.
pub struct Reply(Sender<Outcome>);

impl Reply {
    /// Sends the outcome. Does nothing if the ticket was dropped.
    pub fn send(self, outcome: Outcome) {
        let _ = self.0.send(outcome);
    }
}

/// The search's end of the channel for one outcome.
pub struct WorkerTicket {
    name: String,
    outcome: Receiver<Outcome>,
}

/// A channel for one outcome of the backend called `name`.
pub fn reply_channel(name: &str) -> (Reply, WorkerTicket) {
    let (sender, outcome) = bounded(1);
    (Reply(sender), WorkerTicket { name: name.to_owned(), outcome })
}

impl WorkerTicket {
    /// Blocks until the outcome arrives. Returns an error if the worker is gone.
    pub(crate) fn finish(self) -> Outcome {
        self.outcome.recv().unwrap_or_else(|_| {
            let reason = "the backend's thread ended before the batch was evaluated".to_owned();
            Err(BackendError::Evaluate { name: self.name, reason })
        })
    }
}

impl Ticket for WorkerTicket {
    fn wait(self: Box<Self>) -> Outcome {
        self.finish()
    }
}
