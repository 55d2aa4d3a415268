//! Measures how long a backend works and how long it waits for batches.

use crate::{
    Added, Attributes, Backend, BackendError, Batch, DeviceWork, Devices, EvalRequest, Evaluation,
    Evaluations, Ticket,
};
use rukh_base::sync::{Arc, Mutex, MutexGuard, PoisonError};
use rukh_chess::PositionHistory;
use rukh_net::InputPlanes;
use std::time::{Duration, Instant};

/// A backend whose work is measured, from the submission of a batch until somebody has waited for its ticket.
pub(super) struct Metered {
    backend: Arc<dyn Backend>,
    meter: Arc<Meter>,
}

#[derive(Default)]
struct Meter(Mutex<Reading>);

#[derive(Clone, Copy, Default)]
struct Reading {
    /// The batches until now, and the time until `since`.
    work: DeviceWork,
    in_flight: usize,
    /// Since when batches are in flight.
    since: Option<Instant>,
}

impl Metered {
    pub(super) fn new(backend: Arc<dyn Backend>) -> Metered {
        Metered { backend, meter: Arc::default() }
    }
}

impl Meter {
    fn begin(self: &Arc<Self>, positions: usize) -> Running {
        let mut reading = self.reading();
        reading.work.batches += 1;
        reading.work.positions += positions as u64;
        if reading.in_flight == 0 {
            reading.since = Some(Instant::now());
        }
        reading.in_flight += 1;
        Running(Arc::clone(self))
    }

    fn work(&self) -> DeviceWork {
        let reading = *self.reading();
        let running = reading.since.map_or(Duration::ZERO, |since| since.elapsed());
        DeviceWork { busy: reading.work.busy + running, ..reading.work }
    }

    fn reading(&self) -> MutexGuard<'_, Reading> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A batch in flight, until this is dropped.
struct Running(Arc<Meter>);

impl Drop for Running {
    fn drop(&mut self) {
        let mut reading = self.0.reading();
        reading.in_flight -= 1;
        if reading.in_flight == 0
            && let Some(since) = reading.since.take()
        {
            reading.work.busy += since.elapsed();
        }
    }
}

impl Backend for Metered {
    fn attributes(&self) -> &Attributes {
        self.backend.attributes()
    }

    fn new_batch(&self) -> Box<dyn Batch> {
        Box::new(MeteredBatch { batch: self.backend.new_batch(), meter: Arc::clone(&self.meter) })
    }

    fn cached(&self, request: EvalRequest<'_>) -> Option<Evaluation> {
        self.backend.cached(request)
    }

    fn clear_cache(&self) {
        self.backend.clear_cache();
    }

    fn devices(&self) -> Devices {
        self.backend.devices()
    }

    fn work(&self) -> Vec<DeviceWork> {
        match self.backend.work() {
            inside if inside.is_empty() => vec![self.meter.work()],
            inside => inside,
        }
    }
}

struct MeteredBatch {
    batch: Box<dyn Batch>,
    meter: Arc<Meter>,
}

impl Batch for MeteredBatch {
    fn len(&self) -> usize {
        self.batch.len()
    }

    fn load_ahead(&self, history: &PositionHistory) {
        self.batch.load_ahead(history);
    }

    fn add(&mut self, request: EvalRequest<'_>) -> Added {
        self.batch.add(request)
    }

    fn add_planes(&mut self, planes: &InputPlanes, indices: &[u16]) -> bool {
        self.batch.add_planes(planes, indices)
    }

    fn submit(self: Box<Self>) -> Box<dyn Ticket> {
        let running = self.meter.begin(self.batch.len());
        Box::new(MeteredTicket { ticket: self.batch.submit(), _running: running })
    }
}

struct MeteredTicket {
    ticket: Box<dyn Ticket>,
    _running: Running,
}

impl Ticket for MeteredTicket {
    fn wait(self: Box<Self>) -> Result<Evaluations, BackendError> {
        self.ticket.wait()
    }
}
