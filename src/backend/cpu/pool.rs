//! Threads that share a batch.
//!
//! A pool has `threads - 1` workers, which sleep while there is nothing to do. The thread that waits for the batch does
//! the first part itself. A [`Part`] moves through one queue to a worker, together with the channel on which the worker
//! returns it. Dropping the pool closes the queue, and the workers end. A worker that panics returns the panic's
//! message, so the waiting thread does not wait forever.

use super::network::CpuNetwork;
use super::scratch::{Outputs, Scratch};
use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use rukh_backend::ticket::panic_reason;
use rukh_base::sync::start_system_thread;
use rukh_net::input::InputPlanes;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;

/// A piece of a batch, and its outputs.
#[derive(Default)]
pub(super) struct Part {
    pub(super) inputs: Vec<InputPlanes>,
    pub(super) outputs: Outputs,
}

impl Part {
    /// Evaluates the part. The error is the message of a panic.
    pub(super) fn evaluate(&mut self, network: &CpuNetwork, scratch: &mut Scratch) -> Result<(), String> {
        // After a panic the scratch memory may hold any numbers. That does no harm, because each step writes all the
        // numbers that the next step reads.
        let evaluate = AssertUnwindSafe(|| network.forward(&self.inputs, scratch, &mut self.outputs));
        catch_unwind(evaluate).map_err(|payload| panic_reason(&*payload))
    }
}

/// The index of a part in its batch, and the part with its outputs.
pub(super) type Answer = (usize, Result<Part, String>);

struct Job {
    index: usize,
    part: Part,
    reply: Sender<Answer>,
}

/// The worker threads and their queue.
pub(super) struct Pool {
    /// `None` only during the drop.
    jobs: Option<Sender<Job>>,
    workers: Vec<JoinHandle<()>>,
}

impl Pool {
    /// Starts `workers` threads. Their number may be 0.
    pub(super) fn new(network: &Arc<CpuNetwork>, workers: usize) -> io::Result<Pool> {
        let (jobs, queue) = unbounded::<Job>();
        // If a thread does not start, dropping the pool ends the threads before it.
        let mut pool = Pool { jobs: Some(jobs), workers: Vec::new() };
        for index in 0..workers {
            let (network, queue) = (Arc::clone(network), queue.clone());
            let name = format!("cpu-{}", index + 1);
            let worker = start_system_thread(&name, move || work(&network, &queue))?;
            pool.workers.push(worker);
        }
        Ok(pool)
    }

    /// Sends parts to the workers. Their answers come in any order; the channel closes after the last one.
    pub(super) fn send(&self, parts: impl ExactSizeIterator<Item = Part>) -> Receiver<Answer> {
        let (reply, answers) = bounded(parts.len());
        for (index, part) in parts.enumerate() {
            let job = Job { index, part, reply: reply.clone() };
            if let Some(jobs) = &self.jobs {
                // If no worker is left, the job and its reply channel are dropped, and the receiver sees the end.
                let _ = jobs.send(job);
            }
        }
        answers
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.jobs = None;
        for worker in self.workers.drain(..) {
            // A worker catches panics. If it has died nevertheless, it has left nothing to clean up.
            let _ = worker.join();
        }
    }
}

fn work(network: &CpuNetwork, queue: &Receiver<Job>) {
    let mut scratch = Scratch::new(network.isa);
    for Job { index, mut part, reply } in queue {
        let outcome = part.evaluate(network, &mut scratch);
        // If the batch has been abandoned, nobody receives the answer, and it is dropped.
        let _ = reply.send((index, outcome.map(|()| part)));
    }
}
