//! The [`Backend`] that evaluates a network on a graphics card.
//!
//! A request is encoded when it is added to a batch. Submitted batches wait in one queue, and each slot has a thread
//! that takes the next batch, runs it and sends the result. So no ticket depends on another ticket. With two or more
//! slots, the device works while the results of an earlier batch are read.
//!
//! After the first fault the device counts as lost: the slots answer every further batch with the same error and do not
//! touch the device again. A device that hangs would otherwise cost each batch a deadline. Dropping the backend then
//! waits only a moment for its threads, because they may never end; see [`rukh_backend::wrap::RecoveringBackend`] for
//! what takes its place.

use crate::options::GpuOptions;
use crate::pass::slot::{Requests, Slot};
use crate::pass::timing;
use crate::runtime::device::Gpu;
use crate::runtime::driver_hint::explained;
use crate::runtime::error::GpuError;
use crate::runtime::libraries::Libraries;
use crate::runtime::precision::GpuPrecision;
use crate::runtime::weight_bits::WeightBits;
use crate::startup::prepare::{Started, start};
use crate::startup::trial::survive_opening;
use rukh_backend::queue::WorkQueue;
use rukh_backend::queue::{Reply, Workers, reply_channel};
use rukh_backend::ticket::{Done, catch_panic, check_batch_size};
use rukh_backend::{
    Added, Attributes, Backend, BackendError, Batch, BatchSizes, Devices, EvalRequest, Evaluations, Ticket,
};
use rukh_net::Network;
use rukh_net::architecture::InputFormat;
use rukh_net::input::{HistoryFill, InputPlanes, encode};
use rukh_net::policy_index::index_of;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// The number of times that each step is run when it is timed.
const TIMED_REPETITIONS: usize = 20;

/// The longest wait for the threads of a lost device.
const LAST_WAIT: Duration = Duration::from_secs(1);

/// Evaluates a network on a graphics card.
pub struct GpuBackend {
    core: Arc<Core>,
    /// The slots' threads. Dropping the backend ends them, unless the device is lost.
    workers: Workers<Job>,
    notices: Vec<String>,
}

/// A device that [`GpuBackend::open`] found, for [`GpuBackend::new`].
pub struct GpuDevice {
    name: String,
    pub(crate) gpu: Gpu,
}

/// The data that batches and slots share.
struct Core {
    attributes: Attributes,
    queue: Arc<WorkQueue<Job>>,
    format: InputFormat,
    history_fill: HistoryFill,
    /// The memory of finished batches, for reuse.
    spare_requests: Mutex<Vec<Requests>>,
    /// The error of the first batch that failed.
    fault: OnceLock<BackendError>,
}

/// A submitted batch.
struct Job {
    requests: Requests,
    reply: Reply,
}

impl GpuBackend {
    /// Opens the device and its libraries; `name` is the backend's name in messages.
    ///
    /// # Errors
    /// The driver, the device or a BLAS library is missing, or a process that opened the device has died. The error names the
    /// files or the device that were tried.
    pub fn open(name: &str, options: &GpuOptions) -> std::result::Result<GpuDevice, BackendError> {
        let open = || {
            let libraries =
                Libraries::load(&options.sources()).map_err(|error| explained(options.maker, error))?;
            survive_opening(options, &libraries)?;
            Gpu::open_with(libraries, &options.gpu)
        };
        let gpu = open().map_err(|error| creation_error(name, &error))?;
        Ok(GpuDevice { name: name.to_owned(), gpu })
    }

    /// Uploads the network and makes the slots.
    ///
    /// The policy logits are divided by `policy_softmax_temperature` before the softmax.
    ///
    /// # Errors
    /// There are no kernels for the device's architecture, a layer has a size that the kernels do not support, memory
    /// runs out, or a call of the driver or a BLAS library fails.
    pub fn new(
        device: GpuDevice,
        network: Network,
        precision: GpuPrecision,
        options: &GpuOptions,
        policy_softmax_temperature: f32,
        history_fill: HistoryFill,
    ) -> std::result::Result<GpuBackend, BackendError> {
        let GpuDevice { name, gpu } = device;
        if !(policy_softmax_temperature > 0.0 && policy_softmax_temperature.is_finite()) {
            let option = format!("policy softmax temperature={policy_softmax_temperature}");
            return Err(BackendError::Option { option, reason: "expected a number above 0".to_owned() });
        }
        let precision =
            precision.for_network(&network).on(&gpu).map_err(|error| creation_error(&name, &error))?;
        let (format, has_wdl) = (network.architecture.input_format, network.architecture.wdl);
        let (has_mlh, has_value_error) = (network.moves_left.is_some(), network.value_error.is_some());
        let Started { mut slots, bucket_sizes, recommended_batch, mut notices } =
            start(&gpu, network, precision, options, 1.0 / policy_softmax_temperature)
                .map_err(|error| creation_error(&name, &error))?;
        let maximum_batch = bucket_sizes.last().copied().unwrap_or(1);
        notices.splice(0..0, gpu.notices.iter().cloned());
        if let (Some(positions), Some(slot)) = (options.time_steps, slots.first_mut()) {
            let (positions, times) = slot
                .step_times(positions, TIMED_REPETITIONS)
                .map_err(|error| creation_error(&name, &error))?;
            notices.extend(timing::table(positions, &times));
        }
        let weights = match options.weight_bits {
            WeightBits::Sixteen => String::new(),
            others => format!(", weight_bits={}", others.key()),
        };
        let attributes = Attributes {
            name: format!("{name} ({}, {}, {}{weights})", gpu.name, gpu.architecture, precision.name()),
            has_wdl,
            has_mlh,
            has_value_error,
            runs_on_cpu: false,
            suggested_threads: slots.len(),
            recommended_batch_size: recommended_batch.min(maximum_batch),
            maximum_batch_size: maximum_batch,
            batch_sizes: BatchSizes::new(bucket_sizes),
        };
        let core = Arc::new(Core {
            attributes,
            queue: Arc::new(WorkQueue::new()),
            format,
            history_fill,
            spare_requests: Mutex::default(),
            fault: OnceLock::new(),
        });
        let mut workers = Workers::new();
        for slot in slots {
            let shared = Arc::clone(&core);
            workers.start(&name, &core.queue, move |queue| work(slot, &shared, queue))?;
        }
        Ok(GpuBackend { core, workers, notices })
    }

    /// Messages for the user: the reasons why libraries are not used, the outcome of tuning, and the lines of the table
    /// that [`GpuOptions::time_steps`] asked for.
    pub fn notices(&self) -> &[String] {
        &self.notices
    }
}

pub(crate) fn creation_error(name: &str, error: &GpuError) -> BackendError {
    let (name, reason) = (name.to_owned(), error.to_string());
    match error {
        GpuError::Figures { notices, .. } => {
            BackendError::WrongFigures { name, reason, notices: notices.clone() }
        }
        _ => BackendError::Create { name, reason },
    }
}

/// The loop of a slot's thread.
fn work(mut slot: Slot, core: &Core, queue: &WorkQueue<Job>) {
    let name = &core.attributes.name;
    let current = slot.make_current();
    while let Some(jobs) = queue.pop(|_, _| false) {
        for Job { requests, reply } in jobs {
            let outcome = match core.fault.get() {
                Some(fault) => Err(fault.clone()),
                None => catch_panic(name, || {
                    current.clone().map_err(|error| core.failed(error.to_string()))?;
                    core.evaluate(&mut slot, &requests)
                }),
            };
            if let Err(error) = &outcome {
                core.fault.get_or_init(|| error.clone());
            }
            core.recycle(requests);
            reply.send(outcome);
        }
    }
}

impl Core {
    fn failed(&self, reason: String) -> BackendError {
        BackendError::Evaluate { name: self.attributes.name.clone(), reason }
    }

    fn evaluate(
        &self,
        slot: &mut Slot,
        requests: &Requests,
    ) -> std::result::Result<Evaluations, BackendError> {
        let mut evaluations = Evaluations::with_capacity(requests.len());
        let mut not_finite = None;
        let outcome = slot.evaluate(requests, |answer| {
            let figures = answer.q + answer.d + answer.m + answer.error_logit.unwrap_or(0.0);
            let total = answer.priors().sum::<f32>() + figures;
            if !total.is_finite() && not_finite.is_none() {
                not_finite = Some(evaluations.len());
            }
            evaluations.push(answer.value(), answer.priors());
        });
        outcome.map_err(|error| self.failed(error.to_string()))?;
        match not_finite {
            Some(index) => {
                Err(self.failed(format!("the network's output for position {index} is not a finite number")))
            }
            None => Ok(evaluations),
        }
    }

    /// An empty batch, in the memory of a finished one if possible.
    fn empty_requests(&self) -> Requests {
        let mut spare = self.spare_requests.lock().unwrap_or_else(PoisonError::into_inner);
        let mut requests = spare.pop().unwrap_or_default();
        requests.clear();
        requests
    }

    fn recycle(&self, requests: Requests) {
        self.spare_requests.lock().unwrap_or_else(PoisonError::into_inner).push(requests);
    }
}

impl Backend for GpuBackend {
    fn attributes(&self) -> &Attributes {
        &self.core.attributes
    }

    fn new_batch(&self) -> Box<dyn Batch> {
        Box::new(GpuBatch { requests: self.core.empty_requests(), core: Arc::clone(&self.core) })
    }

    fn devices(&self) -> Devices {
        Devices { total: 1, lost: usize::from(self.core.fault.get().is_some()) }
    }
}

impl Drop for GpuBackend {
    fn drop(&mut self) {
        if self.core.fault.get().is_some() {
            self.workers.abandon(LAST_WAIT);
        }
    }
}

/// A batch being filled.
struct GpuBatch {
    core: Arc<Core>,
    requests: Requests,
}

impl Batch for GpuBatch {
    fn len(&self) -> usize {
        self.requests.len()
    }

    fn add(&mut self, request: EvalRequest<'_>) -> Added {
        let (planes, transform) = encode(request.history, self.core.format, self.core.history_fill);
        let side = request.history.last().side_to_move();
        self.requests.push(&planes, request.moves.iter().map(|&m| index_of(m, side, transform)));
        Added::Queued
    }

    fn add_planes(&mut self, planes: &InputPlanes, indices: &[u16]) -> bool {
        self.requests.push(planes, indices.iter().copied());
        true
    }

    fn submit(self: Box<Self>) -> Box<dyn Ticket> {
        let GpuBatch { core, requests } = *self;
        if let Err(error) = check_batch_size(&core.attributes, requests.len()) {
            return Done::boxed(Err(error));
        }
        let (reply, ticket) = reply_channel(&core.attributes.name);
        // If the queue is closed, the reply is dropped, and the ticket fails.
        let _ = core.queue.push(Job { requests, reply });
        Box::new(ticket)
    }
}
