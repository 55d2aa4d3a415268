//! What `multiplexing`, `demux` and `roundrobin` have in common: several backends seen as one.

use crate::backend::{Attributes, Backend, EvalRequest, Evaluation};
use std::sync::Arc;

/// A backend inside another, and how it is driven.
#[derive(Clone)]
pub struct Child {
    /// The backend.
    pub backend: Arc<dyn Backend>,
    /// Batches that it is given at once (`multiplexing` and `demux`: a worker thread each).
    pub threads: usize,
    /// The largest batch to merge for it (`multiplexing`).
    pub maximum_batch: usize,
}

impl Child {
    /// With as many threads as the backend suggests, and batches as large as it takes.
    pub fn new(backend: Arc<dyn Backend>) -> Child {
        let attributes = backend.attributes();
        let (threads, maximum_batch) =
            (attributes.suggested_threads.max(1), attributes.maximum_batch_size.max(1));
        Child { backend, threads, maximum_batch }
    }
}

/// What can be promised of all `children` together: what the least of them can. `name` is the decorator's.
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
    }
}

/// The first child that knows the position.
pub(super) fn cached_by_any(children: &[Child], request: EvalRequest<'_>) -> Option<Evaluation> {
    children.iter().find_map(|child| child.backend.cached(request))
}
