//! The backends inside `multiplexing`, `demux` and `roundrobin`.

use super::meter::Metered;
use crate::{Attributes, Backend, BatchSizes, DeviceWork, Devices, EvalRequest, Evaluation};
use std::sync::Arc;

/// A backend inside another, with limits on its use.
#[derive(Clone)]
pub struct Child {
    /// The backend itself. Its work is measured.
    pub backend: Arc<dyn Backend>,
    /// The number of batches that the backend evaluates at once. `multiplexing` and `demux` start this many worker
    /// threads for it.
    pub threads: usize,
    /// The largest batch that `multiplexing` merges for this backend, in positions.
    pub maximum_batch: usize,
}

impl Child {
    /// Sets the limits to the backend's suggested number of threads and its maximum batch size.
    pub fn new(backend: Arc<dyn Backend>) -> Child {
        let attributes = backend.attributes();
        let (threads, maximum_batch) =
            (attributes.suggested_threads.max(1), attributes.maximum_batch_size.max(1));
        Child { backend: Arc::new(Metered::new(backend)), threads, maximum_batch }
    }
}

/// The attributes that hold for every child. `name` is the name of the backend that contains the children.
pub(super) fn common_attributes(name: &str, children: &[Child]) -> Attributes {
    let each = || children.iter().map(|child| child.backend.attributes());
    let names: Vec<&str> = each().map(|attributes| attributes.name.as_str()).collect();
    Attributes {
        name: format!("{name}({})", names.join(", ")),
        has_wdl: each().all(|attributes| attributes.has_wdl),
        has_mlh: each().all(|attributes| attributes.has_mlh),
        has_value_error: each().all(|attributes| attributes.has_value_error),
        runs_on_cpu: each().any(|attributes| attributes.runs_on_cpu),
        suggested_threads: children.iter().map(|child| child.threads).sum::<usize>().max(1),
        recommended_batch_size: each().map(|attributes| attributes.recommended_batch_size).min().unwrap_or(1),
        maximum_batch_size: each().map(|attributes| attributes.maximum_batch_size).min().unwrap_or(1),
        batch_sizes: children.first().map_or_else(BatchSizes::default, sizes_of),
    }
}

fn sizes_of(child: &Child) -> BatchSizes {
    child.backend.attributes().batch_sizes.clone()
}

/// The evaluation from the first child that has the position in its cache.
pub(super) fn cached_by_any(children: &[Child], request: EvalRequest<'_>) -> Option<Evaluation> {
    children.iter().find_map(|child| child.backend.cached(request))
}

/// The devices of all children.
pub(super) fn devices_of(children: &[Child]) -> Devices {
    children.iter().map(|child| child.backend.devices()).fold(
        Devices { total: 0, lost: 0 },
        |sum, devices| Devices { total: sum.total + devices.total, lost: sum.lost + devices.lost },
    )
}

/// The work of each device of all children.
pub(super) fn work_of(children: &[Child]) -> Vec<DeviceWork> {
    children.iter().flat_map(|child| child.backend.work()).collect()
}

impl Child {
    /// Whether the backend has lost all its devices, so that its batches fail.
    pub(super) fn is_lost(&self) -> bool {
        self.backend.devices().are_all_lost()
    }
}
