//! `roundrobin`: each batch goes to the next of several backends in turn.
//!
//! It needs no threads or queues: `new_batch` chooses the backend and returns that backend's own batch. It suits
//! backends of equal speed. If they differ, `multiplexing` gives the faster one more work. A backend that has lost its
//! devices misses its turns.

use super::children::{Child, cached_by_any, common_attributes, devices_of, work_of};
use crate::{Attributes, Backend, Batch, DeviceWork, Devices, EvalRequest, Evaluation};
use rukh_base::sync::atomic::{AtomicUsize, Ordering};

/// Several backends that take turns.
pub struct RoundRobinBackend {
    attributes: Attributes,
    children: Vec<Child>,
    /// The number of batches made so far. Accesses are relaxed, because no other memory depends on the count.
    next: AtomicUsize,
}

impl RoundRobinBackend {
    /// Makes a backend from `first` and `more`. Two parameters ensure that there is at least one child.
    pub fn new(first: Child, more: Vec<Child>) -> RoundRobinBackend {
        let children: Vec<Child> = std::iter::once(first).chain(more).collect();
        let attributes = common_attributes("roundrobin", &children);
        RoundRobinBackend { attributes, children, next: AtomicUsize::new(0) }
    }
}

impl Backend for RoundRobinBackend {
    fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    fn new_batch(&self) -> Box<dyn Batch> {
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        let count = self.children.len();
        let in_turn = |offset: usize| &self.children[turn.wrapping_add(offset) % count];
        // If all children are lost, the batch of any of them reports the fault.
        let child = (0..count).map(in_turn).find(|child| !child.is_lost()).unwrap_or(in_turn(0));
        child.backend.new_batch()
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
