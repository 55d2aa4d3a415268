//! The [`Backend`] of a network on an AMD GPU: requests to batches, batches to slots.
//!
//! A request is encoded when it is added. A submitted batch waits in one queue; each slot has a thread that takes
//! the next one, runs it and answers. So a ticket never waits for another ticket, whoever holds which, and with
//! two slots the device has a batch to do while the other's results are read.

use super::code_objects::code_for;
use super::device::Gpu;
use super::error::{Result, RocmError};
use super::ffi::gemm::ElementType;
use super::gemm::Gemms;
use super::kernels::Kernels;
use super::network::DeviceNetwork;
use super::options::{RocmOptions, RocmPrecision, Tuning};
use super::slot::{Requests, Slot, SlotMaker};
use super::timing;
use super::tuning::tune;
use crate::backend::ticket::{Done, catch_panic, check_batch_size};
use crate::backend::work_queue::WorkQueue;
use crate::backend::worker::{Reply, Workers, reply_channel};
use crate::backend::{
    Added, Attributes, Backend, BackendError, Batch, EvalRequest, Evaluations, Ticket, Value,
};
use crate::net::Network;
use crate::net::architecture::InputFormat;
use crate::net::input::{HistoryFill, encode};
use crate::net::policy_index::index_of;
use std::sync::{Arc, Mutex, PoisonError};

/// How often a step runs to be timed.
const TIMED_REPETITIONS: usize = 20;

/// The largest batch where nothing else is said and memory allows it.
const MAXIMUM_BATCH: usize = 512;

/// Evaluates a network on an AMD GPU.
pub struct RocmBackend {
    core: Arc<Core>,
    /// Its threads end when it is dropped.
    _workers: Workers<Job>,
    notices: Vec<String>,
}

/// A device that was found, for [`RocmBackend::new`].
pub struct RocmDevice {
    name: String,
    gpu: Gpu,
}

/// What batches and slots share.
struct Core {
    attributes: Attributes,
    queue: Arc<WorkQueue<Job>>,
    format: InputFormat,
    history_fill: HistoryFill,
    /// Memory of batches that are done, for those to come.
    requests: Mutex<Vec<Requests>>,
}

/// A batch on its way.
struct Job {
    requests: Requests,
    reply: Reply,
}

impl RocmBackend {
    /// Looks for the device and its libraries; `name` is what the backend is called in messages.
    ///
    /// # Errors
    /// No ROCm, no device, no BLAS: with what was tried.
    pub fn open(name: &str, options: &RocmOptions) -> std::result::Result<RocmDevice, BackendError> {
        let gpu = Gpu::open(options.gpu, options.gemm).map_err(|error| creation_error(name, &error))?;
        Ok(RocmDevice { name: name.to_owned(), gpu })
    }

    /// Puts the network on the device and makes the slots.
    ///
    /// `policy_softmax_temperature` divides the policy's logits before the softmax.
    ///
    /// # Errors
    /// No kernels for the device's architecture, a layer that they cannot run, too little memory, or whatever a
    /// call of HIP or a BLAS library says.
    pub fn new(
        device: RocmDevice,
        network: Network,
        precision: RocmPrecision,
        options: &RocmOptions,
        policy_softmax_temperature: f32,
        history_fill: HistoryFill,
    ) -> std::result::Result<RocmBackend, BackendError> {
        let RocmDevice { name, gpu } = device;
        if !(policy_softmax_temperature > 0.0 && policy_softmax_temperature.is_finite()) {
            let option = format!("policy softmax temperature={policy_softmax_temperature}");
            return Err(BackendError::Option { option, reason: "expected more than 0".to_owned() });
        }
        let element = match precision {
            RocmPrecision::Fp32 => ElementType::Fp32,
            RocmPrecision::Fp16 | RocmPrecision::Auto => ElementType::Fp16,
            RocmPrecision::Bf16 => ElementType::Bf16,
        };
        let (format, has_wdl) = (network.architecture.input_format, network.architecture.wdl);
        let (has_mlh, has_value_error) = (network.moves_left.is_some(), network.value_error.is_some());
        let Made { mut slots, maximum_batch, mut notices } =
            make_slots(&gpu, network, element, options, 1.0 / policy_softmax_temperature)
                .map_err(|error| creation_error(&name, &error))?;
        if let (Some(positions), Some(slot)) = (options.time_steps, slots.first_mut()) {
            let (positions, times) = slot
                .step_times(positions, TIMED_REPETITIONS)
                .map_err(|error| creation_error(&name, &error))?;
            notices.extend(timing::table(positions, &times));
        }
        let attributes = Attributes {
            name: format!("{name} ({}, {}, {})", gpu.name, gpu.architecture, format_name(element)),
            has_wdl,
            has_mlh,
            has_value_error,
            runs_on_cpu: false,
            suggested_threads: options.streams,
            recommended_batch_size: recommended_batch(gpu.compute_units).min(maximum_batch),
            maximum_batch_size: maximum_batch,
        };
        let core = Arc::new(Core {
            attributes,
            queue: Arc::new(WorkQueue::new()),
            format,
            history_fill,
            requests: Mutex::default(),
        });
        let mut workers = Workers::new();
        for slot in slots {
            let shared = Arc::clone(&core);
            workers.start(&name, &core.queue, move |queue| work(slot, &shared, queue))?;
        }
        Ok(RocmBackend { core, _workers: workers, notices })
    }

    /// Which library is not used and why, what came of tuning, and the table that [`RocmOptions::time_steps`] asked for, line by line.
    pub fn notices(&self) -> &[String] {
        &self.notices
    }
}

fn creation_error(name: &str, error: &RocmError) -> BackendError {
    BackendError::Create { name: name.to_owned(), reason: error.to_string() }
}

fn format_name(element: ElementType) -> &'static str {
    match element {
        ElementType::Fp32 => "fp32",
        ElementType::Fp16 => "fp16",
        ElementType::Bf16 => "bf16",
    }
}

fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}

/// Positions from which on a larger batch gains little: more compute units want more rows.
fn recommended_batch(compute_units: usize) -> usize {
    match compute_units {
        0..24 => 64,
        24..64 => 128,
        _ => 256,
    }
}

/// The slots, the largest batch that they take, and what there is to say.
struct Made {
    slots: Vec<Slot>,
    maximum_batch: usize,
    notices: Vec<String>,
}

fn make_slots(
    gpu: &Gpu,
    network: Network,
    element: ElementType,
    options: &RocmOptions,
    inverse_temperature: f32,
) -> Result<Made> {
    let (code, what) = code_for(&gpu.architecture)?;
    let kernels = Kernels::new(gpu.device, &code, &what, element)?;
    let gemms = Gemms::new(gpu, options.gemm)?;
    let network = Arc::new(DeviceNetwork::new(gpu.device, network, element)?);
    let mut maker = SlotMaker {
        gpu,
        network: &network,
        kernels: &kernels,
        gemms: &gemms,
        inverse_temperature,
        maximum_batch: options.maximum_batch.unwrap_or(MAXIMUM_BATCH),
        has_graphs: options.graph,
        fork: options.fork,
        few_rows: options.few_rows,
        waiting: options.settled_waiting(),
    };
    if options.maximum_batch.is_none() {
        // At most half of what is free, for all slots together: a display may want some too.
        let budget = gpu.free_memory.saturating_sub(network.bytes()) / 2 / options.streams;
        while maker.maximum_batch > 16 && maker.scratch_sizes(maker.maximum_batch)?.total() > budget {
            maker.maximum_batch /= 2;
        }
    }
    let mut notices = gpu.refusals.clone();
    if options.warm_up && options.tuning != Tuning::Off {
        notices.extend(tune(&maker, options)?);
    }
    let mut slots = (0..options.streams).map(|_| maker.slot()).collect::<Result<Vec<_>>>()?;
    if options.warm_up {
        slots.iter_mut().enumerate().try_for_each(|(index, slot)| slot.warm_up(index == 0))?;
    }
    Ok(Made { slots, maximum_batch: maker.maximum_batch, notices })
}

/// A slot's thread.
fn work(mut slot: Slot, core: &Core, queue: &WorkQueue<Job>) {
    let name = &core.attributes.name;
    let current = slot.make_current();
    while let Some(jobs) = queue.pop(|_, _| false) {
        for Job { requests, reply } in jobs {
            let outcome = catch_panic(name, || {
                current.clone().map_err(|error| core.failed(error.to_string()))?;
                core.evaluate(&mut slot, &requests)
            });
            core.keep(requests);
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
        let mut not_a_number = None;
        let outcome = slot.evaluate(requests, |answer| {
            let figures = answer.q + answer.d + answer.m + answer.error_logit.unwrap_or(0.0);
            let total = answer.priors().sum::<f32>() + figures;
            if !total.is_finite() && not_a_number.is_none() {
                not_a_number = Some(evaluations.len());
            }
            let e = answer.error_logit.map_or(0.0, sigmoid);
            evaluations.push(Value { q: answer.q, d: answer.d, m: answer.m, e }, answer.priors());
        });
        outcome.map_err(|error| self.failed(error.to_string()))?;
        match not_a_number {
            Some(index) => {
                Err(self.failed(format!("the network's answer to position {index} is not a number")))
            }
            None => Ok(evaluations),
        }
    }

    /// Memory for a batch, used before if there is any.
    fn requests(&self) -> Requests {
        let mut kept = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        let mut requests = kept.pop().unwrap_or_default();
        requests.clear();
        requests
    }

    fn keep(&self, requests: Requests) {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).push(requests);
    }
}

impl Backend for RocmBackend {
    fn attributes(&self) -> &Attributes {
        &self.core.attributes
    }

    fn new_batch(&self) -> Box<dyn Batch> {
        Box::new(RocmBatch { requests: self.core.requests(), core: Arc::clone(&self.core) })
    }
}

/// A batch being filled.
struct RocmBatch {
    core: Arc<Core>,
    requests: Requests,
}

impl Batch for RocmBatch {
    fn len(&self) -> usize {
        self.requests.len()
    }

    fn add(&mut self, request: EvalRequest<'_>) -> Added {
        let (planes, transform) = encode(request.history, self.core.format, self.core.history_fill);
        let side = request.history.last().side_to_move();
        self.requests.push(&planes, request.moves.iter().map(|&m| index_of(m, side, transform)));
        Added::Queued
    }

    fn submit(self: Box<Self>) -> Box<dyn Ticket> {
        let RocmBatch { core, requests } = *self;
        if let Err(error) = check_batch_size(&core.attributes, requests.len()) {
            return Done::boxed(Err(error));
        }
        let (reply, ticket) = reply_channel(&core.attributes.name);
        // A closed queue drops the reply, and the ticket says so.
        let _ = core.queue.push(Job { requests, reply });
        Box::new(ticket)
    }
}
