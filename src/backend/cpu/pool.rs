//! Threads that share a batch.
//!
//! A pool of `threads - 1` workers, asleep while there is nothing to do; the thread that waits for the batch
//! does the first part itself. Work travels by value through one queue: a [`Part`] goes to a worker with a
//! channel for its way back. Dropping the pool closes the queue, which ends the workers; a worker that panics
//! answers with the message, so nobody waits for ever.

use super::network::CpuNetwork;
use super::scratch::{Outputs, Scratch};
use crate::backend::ticket::panic_reason;
use crate::net::input::InputPlanes;
use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;

/// A piece of a batch, and what became of it.
#[derive(Default)]
pub(super) struct Part {
    pub(super) inputs: Vec<InputPlanes>,
    pub(super) outputs: Outputs,
}

impl Part {
    /// Evaluates it; the error is a panic's message.
    pub(super) fn evaluate(&mut self, network: &CpuNetwork, scratch: &mut Scratch) -> Result<(), String> {
        // After a panic the scratch memory may hold anything, but it is only memory: each step writes what
        // the next one reads.
        let evaluate = AssertUnwindSafe(|| network.forward(&self.inputs, scratch, &mut self.outputs));
        catch_unwind(evaluate).map_err(|payload| panic_reason(&*payload))
    }
}

/// The outcome of a part, with the index it was sent under.
pub(super) type Answer = (usize, Result<Part, String>);

struct Job {
    index: usize,
    part: Part,
    reply: Sender<Answer>,
}

/// The workers.
pub(super) struct Pool {
    /// `None` only while dropping.
    jobs: Option<Sender<Job>>,
    workers: Vec<JoinHandle<()>>,
}

impl Pool {
    /// Starts `workers` threads, which may be none.
    pub(super) fn new(network: &Arc<CpuNetwork>, workers: usize) -> io::Result<Pool> {
        let (jobs, queue) = unbounded::<Job>();
        // Should a thread not start, dropping the pool ends those that did.
        let mut pool = Pool { jobs: Some(jobs), workers: Vec::new() };
        for index in 0..workers {
            let (network, queue) = (Arc::clone(network), queue.clone());
            let name = format!("cpu-{}", index + 1);
            let worker = std::thread::Builder::new().name(name).spawn(move || work(&network, &queue))?;
            pool.workers.push(worker);
        }
        Ok(pool)
    }

    /// Sends parts to the workers; their answers come in any order, and after the last the channel is closed.
    pub(super) fn send(&self, parts: impl ExactSizeIterator<Item = Part>) -> Receiver<Answer> {
        let (reply, answers) = bounded(parts.len());
        for (index, part) in parts.enumerate() {
            let job = Job { index, part, reply: reply.clone() };
            if let Some(jobs) = &self.jobs {
                // With no worker left the job is dropped, its reply with it, and the receiver sees the end.
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
            // A worker catches its panics; should it have died all the same, there is nothing to save.
            let _ = worker.join();
        }
    }
}

fn work(network: &CpuNetwork, queue: &Receiver<Job>) {
    let mut scratch = Scratch::new(network.isa);
    for Job { index, mut part, reply } in queue {
        let outcome = part.evaluate(network, &mut scratch);
        // The batch may have been given up: then nobody listens, and that is fine.
        let _ = reply.send((index, outcome.map(|()| part)));
    }
}
