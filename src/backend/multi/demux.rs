//! `demux`: splits each batch among several backends, which evaluate their parts at the same time.
//!
//! **Queue protocol.** Each backend has a queue of its own. A submitted batch pushes one part to each queue, and its
//! ticket waits on one channel for each part, in order. A worker of each backend pops its part, evaluates it, and sends
//! the outcome, `Ok` or `Err`. The first `Err` is the batch's outcome. Dropping the backend closes all queues. If no
//! worker evaluates a part, or its worker dies, the part's end of the channel is dropped, and the ticket gets an `Err`.
//!
//! Requests are dealt to the backends like cards, `step` at a time. So the parts have nearly equal sizes whenever the
//! batch is submitted, and each request goes into its backend's batch at once, without a copy. The backend that gets
//! the first request changes from batch to batch, so batches of one position use all backends.
//!
//! A backend that has lost its devices gets no requests as long as another is left. The others then get larger parts
//! than they may accept, and split them.

use super::children::{Child, cached_by_any, common_attributes, devices_of, work_of};
use crate::queue::WorkQueue;
use crate::queue::{Reply, WorkerTicket, Workers, reply_channel};
use crate::ticket::{Done, OrderedBatch, catch_panic, check_batch_size};
use crate::wrap::BatchSplittingBackend;
use crate::{
    Added, Attributes, Backend, BackendError, Batch, DeviceWork, Devices, EvalRequest, Evaluation,
    Evaluations, Ticket,
};
use rukh_base::sync::Arc;
use rukh_base::sync::atomic::{AtomicUsize, Ordering};
use rukh_net::InputPlanes;

/// Several backends that share each batch.
pub struct DemuxBackend {
    attributes: Arc<Attributes>,
    children: Vec<Child>,
    queues: Arc<[Arc<WorkQueue<Part>>]>,
    step: usize,
    /// The number of batches made so far. Accesses are relaxed, because no other memory depends on the count.
    next: AtomicUsize,
    _workers: Workers<Part>,
}

/// One backend's share of a batch.
struct Part {
    batch: OrderedBatch,
    reply: Reply,
}

impl DemuxBackend {
    /// Starts the worker threads. `step` is the number of consecutive requests that a child gets. It is limited to the
    /// smallest `maximum_batch_size` of the children.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn new(children: Vec<Child>, step: usize) -> Result<DemuxBackend, BackendError> {
        let common = common_attributes("demux", &children);
        let step = step.clamp(1, common.maximum_batch_size);
        let attributes = Arc::new(Attributes {
            recommended_batch_size: common.recommended_batch_size * children.len(),
            maximum_batch_size: common.maximum_batch_size / step * step * children.len(),
            ..common
        });
        let mut workers = Workers::new();
        let mut queues = Vec::new();
        for child in &children {
            let queue = Arc::new(WorkQueue::new());
            for _ in 0..child.threads.max(1) {
                let name = child.backend.attributes().name.clone();
                workers.start(&attributes.name, &queue, move |queue| work(&name, queue))?;
            }
            queues.push(queue);
        }
        Ok(DemuxBackend {
            attributes,
            children,
            queues: queues.into(),
            step,
            next: AtomicUsize::new(0),
            _workers: workers,
        })
    }
}

impl Backend for DemuxBackend {
    fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    fn new_batch(&self) -> Box<dyn Batch> {
        let parts = self.parts();
        Box::new(DealtBatch {
            attributes: Arc::clone(&self.attributes),
            queues: Arc::clone(&self.queues),
            deal: Deal {
                first: self.next.fetch_add(1, Ordering::Relaxed) % parts.len(),
                step: self.step,
                parts: parts.len(),
            },
            parts,
            length: 0,
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

    fn work(&self) -> Vec<DeviceWork> {
        work_of(&self.children)
    }
}

impl DemuxBackend {
    /// An empty part for each child that is not lost, or for every child if all are lost.
    fn parts(&self) -> Vec<(usize, OrderedBatch)> {
        let each = self.children.iter().enumerate();
        let left: Vec<(usize, &Child)> = each.clone().filter(|(_, child)| !child.is_lost()).collect();
        let is_whole = left.is_empty() || left.len() == self.children.len();
        let part = |(index, child): (usize, &Child)| {
            let name = &child.backend.attributes().name;
            let batch = match is_whole {
                true => child.backend.new_batch(),
                false => {
                    let most = self.attributes.maximum_batch_size;
                    BatchSplittingBackend::new(Arc::clone(&child.backend), most).new_batch()
                }
            };
            (index, OrderedBatch::new(name, batch))
        };
        if is_whole { each.map(part).collect() } else { left.into_iter().map(part).collect() }
    }
}

/// Decides which part of a batch gets which request.
#[derive(Clone, Copy)]
struct Deal {
    /// The part that gets the first request.
    first: usize,
    /// The number of consecutive requests that a part gets.
    step: usize,
    /// The number of parts.
    parts: usize,
}

impl Deal {
    fn part_of(&self, request: usize) -> usize {
        (self.first + request / self.step) % self.parts
    }
}

struct DealtBatch {
    attributes: Arc<Attributes>,
    queues: Arc<[Arc<WorkQueue<Part>>]>,
    deal: Deal,
    /// The index of a child and its part of the batch.
    parts: Vec<(usize, OrderedBatch)>,
    length: usize,
}

impl Batch for DealtBatch {
    fn len(&self) -> usize {
        self.length
    }

    fn add(&mut self, request: EvalRequest<'_>) -> Added {
        self.parts[self.deal.part_of(self.length)].1.add(request);
        self.length += 1;
        Added::Queued
    }

    fn add_planes(&mut self, planes: &InputPlanes, indices: &[u16]) -> bool {
        let is_added = self.parts[self.deal.part_of(self.length)].1.add_planes(planes, indices);
        self.length += usize::from(is_added);
        is_added
    }

    fn submit(self: Box<Self>) -> Box<dyn Ticket> {
        if let Err(error) = check_batch_size(&self.attributes, self.length) {
            return Done::boxed(Err(error));
        }
        let tickets = self.parts.into_iter().map(|(child, batch)| {
            if batch.is_empty() {
                return None;
            }
            let (reply, ticket) = reply_channel(&self.attributes.name);
            // If the queue is closed, the part is dropped with its reply, and the ticket fails.
            let _ = self.queues[child].push(Part { batch, reply });
            Some(ticket)
        });
        Box::new(DealtTicket { deal: self.deal, length: self.length, tickets: tickets.collect() })
    }
}

struct DealtTicket {
    deal: Deal,
    length: usize,
    tickets: Vec<Option<WorkerTicket>>,
}

impl Ticket for DealtTicket {
    fn wait(self: Box<Self>) -> Result<Evaluations, BackendError> {
        let parts = self.tickets.into_iter().map(|ticket| match ticket {
            Some(ticket) => ticket.finish(),
            None => Ok(Evaluations::default()),
        });
        let parts: Vec<Evaluations> = parts.collect::<Result<_, _>>()?;
        let mut parts: Vec<_> = parts.iter().map(|part| part.iter()).collect();
        let mut all = Evaluations::with_capacity(self.length);
        for request in 0..self.length {
            // An `OrderedBatch` returns one evaluation for each request, so `next` always returns one.
            if let Some((value, priors)) = parts[self.deal.part_of(request)].next() {
                all.push(value, priors.iter().copied());
            }
        }
        Ok(all)
    }
}

/// A worker thread: evaluates parts until the queue is closed.
fn work(name: &str, queue: &WorkQueue<Part>) {
    while let Some(parts) = queue.pop(|_, _| false) {
        for Part { batch, reply } in parts {
            reply.send(catch_panic(name, || batch.submit().finish()));
        }
    }
}
