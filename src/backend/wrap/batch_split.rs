//! A backend that accepts larger batches than the backend inside it.
//!
//! The user may ask for a `MinibatchSize` that does not fit into a device's memory. Such a batch is split into parts
//! that the backend inside accepts. When a part is full and another request arrives, the part is submitted, so an
//! asynchronous backend evaluates it while the search gathers the rest.

use crate::ticket::{OrderedBatch, OrderedTicket};
use crate::{
    Added, Attributes, Backend, BackendError, Batch, DeviceWork, Devices, EvalRequest, Evaluation,
    Evaluations, Ticket,
    ticket::{Done, check_batch_size},
};
use rukh_net::InputPlanes;
use std::sync::Arc;

/// Splits each batch into parts that the backend inside accepts.
pub struct BatchSplittingBackend {
    inner: Arc<dyn Backend>,
    attributes: Arc<Attributes>,
    part_size: usize,
}

impl BatchSplittingBackend {
    /// Makes a backend that accepts batches of up to `maximum_batch_size` positions, whatever the limit of `inner`.
    pub fn new(inner: Arc<dyn Backend>, maximum_batch_size: usize) -> BatchSplittingBackend {
        let part_size = inner.attributes().maximum_batch_size.max(1);
        let attributes = Arc::new(Attributes { maximum_batch_size, ..inner.attributes().clone() });
        BatchSplittingBackend { inner, attributes, part_size }
    }
}

impl Backend for BatchSplittingBackend {
    fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    fn new_batch(&self) -> Box<dyn Batch> {
        Box::new(SplitBatch {
            open: OrderedBatch::new(&self.attributes.name, self.inner.new_batch()),
            inner: Arc::clone(&self.inner),
            attributes: Arc::clone(&self.attributes),
            part_size: self.part_size,
            submitted: Vec::new(),
            length: 0,
        })
    }

    fn cached(&self, request: EvalRequest<'_>) -> Option<Evaluation> {
        self.inner.cached(request)
    }

    fn clear_cache(&self) {
        self.inner.clear_cache();
    }

    fn devices(&self) -> Devices {
        self.inner.devices()
    }

    fn work(&self) -> Vec<DeviceWork> {
        self.inner.work()
    }
}

struct SplitBatch {
    inner: Arc<dyn Backend>,
    attributes: Arc<Attributes>,
    part_size: usize,
    /// The full parts, already submitted, in order.
    submitted: Vec<OrderedTicket>,
    /// The part being filled.
    open: OrderedBatch,
    /// The number of requests in all parts.
    length: usize,
}

impl SplitBatch {
    /// Submits the part being filled and opens another one, if it is full.
    fn make_room(&mut self) {
        if self.open.len() == self.part_size {
            let next = OrderedBatch::new(&self.attributes.name, self.inner.new_batch());
            self.submitted.push(std::mem::replace(&mut self.open, next).submit());
        }
    }
}

impl Batch for SplitBatch {
    fn len(&self) -> usize {
        self.length
    }

    fn add(&mut self, request: EvalRequest<'_>) -> Added {
        self.make_room();
        self.open.add(request);
        self.length += 1;
        Added::Queued
    }

    fn add_planes(&mut self, planes: &InputPlanes, indices: &[u16]) -> bool {
        self.make_room();
        let is_added = self.open.add_planes(planes, indices);
        self.length += usize::from(is_added);
        is_added
    }

    fn submit(self: Box<Self>) -> Box<dyn Ticket> {
        if let Err(error) = check_batch_size(&self.attributes, self.length) {
            return Done::boxed(Err(error));
        }
        let mut parts = self.submitted;
        let last = self.open.submit();
        if parts.is_empty() {
            return Box::new(last);
        }
        parts.push(last);
        Box::new(SplitTicket { parts })
    }
}

struct SplitTicket {
    parts: Vec<OrderedTicket>,
}

impl Ticket for SplitTicket {
    fn wait(self: Box<Self>) -> Result<Evaluations, BackendError> {
        let mut all = Evaluations::default();
        for part in self.parts {
            all.append(&part.finish()?);
        }
        Ok(all)
    }
}
