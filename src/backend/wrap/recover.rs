//! Plays on after a fault of a device: a decorator that puts the processor in the place of a lost device.
//!
//! ```text
//!            fault                        the spare evaluator is ready
//!   device ────────> no evaluator (waits) ────────────────────────────> spare
//!     ^                                                                   │
//!     └───────────────────────────────────────────────────────────────────┘
//!                  a new game: the device was made again
//! ```
//!
//! A batch that fails gets [`BackendError::Interrupted`]. The search then cancels its visits and gathers the same leaves
//! again, so no request is ever copied while the device works. Only batches that are filled while there is no evaluator
//! keep copies; their tickets wait for the spare evaluator. It is made at the first fault, on a thread of its own,
//! because a search must be able to answer in the meantime. Later faults find it ready.
//!
//! A lost device may hang, and then nothing that uses it ever returns. So it is dropped on a thread that nobody waits
//! for, and it is made again on another such thread.

use crate::owned_request::OwnedRequest;
use crate::ticket::{Done, OrderedBatch, OrderedTicket, catch_panic};
use crate::{
    Added, Attributes, Backend, BackendError, Batch, DeviceWork, Devices, EvalRequest, Evaluations, Ticket,
};
use rukh_base::sync::start_system_thread;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The longest wait for a device at the beginning of a game. If the device takes longer, the spare evaluator begins.
const RETRY_WAIT: Duration = Duration::from_secs(3);

/// The longest wait at the end for threads that use devices. The devices may hang.
const LAST_WAIT: Duration = Duration::from_secs(2);

/// The number of failed batches after which a backend counts as lost that does not say so itself.
const MOST_UNEXPLAINED: usize = 64;

/// Makes an evaluator. The texts are messages for the user.
pub type Make = Box<dyn Fn() -> Result<(Arc<dyn Backend>, Vec<String>), BackendError> + Send + Sync>;

/// What a [`RecoveringBackend`] does after a fault.
pub struct RecoveryPlan {
    /// Makes the spare evaluator: the same network on the processor.
    pub make_spare: Make,
    /// Makes the device again for a new game. `None` means that a lost device is not tried again.
    pub make_device: Option<Make>,
    /// Receives a message for the user at each change of the evaluator.
    pub report: Arc<dyn Fn(&str) + Send + Sync>,
    /// Called when the device is lost.
    pub on_lost: Box<dyn Fn() + Send + Sync>,
}

/// Evaluates on a device, and on a spare evaluator while the device is lost. All evaluators must accept batches of the
/// same size.
pub struct RecoveringBackend {
    shared: Arc<Shared>,
}

struct Shared {
    plan: RecoveryPlan,
    device_attributes: OnceLock<Attributes>,
    spare_attributes: OnceLock<Attributes>,
    /// The attributes while there is no evaluator.
    waiting_attributes: Attributes,
    state: Mutex<State>,
    /// Notifies of each change of the state.
    changed: Condvar,
    /// Whether the device is lost. It is kept beside the state so that `attributes` takes no lock.
    is_lost: AtomicBool,
}

struct State {
    device: Option<Arc<dyn Backend>>,
    /// The number of devices made so far. A late fault of an earlier device says nothing about the present one.
    generation: u64,
    spare: Spare,
    /// Whether a thread is making the device.
    is_retrying: bool,
    /// The lost devices among several that the user knows about.
    reported: usize,
    /// The failed batches that no lost device explains.
    unexplained: usize,
    /// Threads that drop lost devices or make new ones.
    threads: Vec<JoinHandle<()>>,
}

/// The evaluator that takes the place of the device.
enum Spare {
    /// It is not made, or could not be made.
    Absent(Option<BackendError>),
    BeingMade,
    Ready(Arc<dyn Backend>),
}

/// The evaluator that a batch was given to.
#[derive(Clone, Copy)]
enum Evaluator {
    /// The device of this generation.
    Device(u64),
    Spare,
}

impl RecoveringBackend {
    /// Evaluates on `device` until it is lost.
    pub fn new(device: Arc<dyn Backend>, plan: RecoveryPlan) -> RecoveringBackend {
        let attributes = device.attributes().clone();
        let backend = RecoveringBackend::start(Some(device), Spare::Absent(None), &attributes, plan);
        backend.shared.device_attributes.get_or_init(|| attributes);
        backend
    }

    /// Begins with the spare evaluator, because the device cannot be made now.
    ///
    /// # Errors
    /// The spare evaluator cannot be made either.
    pub fn without_device(plan: RecoveryPlan) -> Result<RecoveringBackend, BackendError> {
        let (spare, _) = (plan.make_spare)()?;
        let attributes = spare.attributes().clone();
        let backend = RecoveringBackend::start(None, Spare::Ready(spare), &attributes, plan);
        backend.shared.spare_attributes.get_or_init(|| attributes);
        Ok(backend)
    }

    fn start(
        device: Option<Arc<dyn Backend>>,
        spare: Spare,
        attributes: &Attributes,
        plan: RecoveryPlan,
    ) -> RecoveringBackend {
        let waiting_attributes = Attributes {
            name: "cpu".to_owned(),
            runs_on_cpu: true,
            suggested_threads: 1,
            recommended_batch_size: 16,
            ..attributes.clone()
        };
        let is_lost = AtomicBool::new(device.is_none());
        let state = State {
            device,
            generation: 0,
            spare,
            is_retrying: false,
            reported: 0,
            unexplained: 0,
            threads: Vec::new(),
        };
        RecoveringBackend {
            shared: Arc::new(Shared {
                plan,
                device_attributes: OnceLock::new(),
                spare_attributes: OnceLock::new(),
                waiting_attributes,
                state: Mutex::new(state),
                changed: Condvar::new(),
                is_lost,
            }),
        }
    }

    /// Tries lost devices again, for a new game, if the plan says how to make them. Waits a moment for them.
    pub fn retry_lost_devices(&self) {
        let mut state = self.shared.lock();
        if self.shared.plan.make_device.is_none() || state.devices().lost == 0 || state.is_retrying {
            return;
        }
        state.is_retrying = true;
        let shared = Arc::clone(&self.shared);
        match start_thread(move || shared.remake_device()) {
            Some(thread) => state.threads.push(thread),
            None => state.is_retrying = false,
        }
        let until = Instant::now() + RETRY_WAIT;
        while state.is_retrying && Instant::now() < until {
            let limit = until.saturating_duration_since(Instant::now());
            state = self.shared.changed.wait_timeout(state, limit).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Backend for RecoveringBackend {
    fn attributes(&self) -> &Attributes {
        let shared = &*self.shared;
        let attributes = match shared.is_lost.load(Ordering::Acquire) {
            true => &shared.spare_attributes,
            false => &shared.device_attributes,
        };
        attributes.get().unwrap_or(&shared.waiting_attributes)
    }

    fn new_batch(&self) -> Box<dyn Batch> {
        let mut state = self.shared.lock();
        let (inner, evaluator) = match state.new_batch() {
            Some((batch, evaluator)) => (Filling::Direct(batch), evaluator),
            None => {
                self.shared.begin_spare(&mut state);
                (Filling::Copied(Vec::new()), Evaluator::Spare)
            }
        };
        drop(state);
        Box::new(RecoveringBatch { shared: Arc::clone(&self.shared), inner, evaluator })
    }

    fn clear_cache(&self) {
        let device = self.shared.lock().device.clone();
        if let Some(device) = device {
            device.clear_cache();
        }
    }

    fn devices(&self) -> Devices {
        self.shared.lock().devices()
    }

    fn work(&self) -> Vec<DeviceWork> {
        self.shared.lock().device.as_ref().map_or_else(Vec::new, |device| device.work())
    }
}

impl Drop for RecoveringBackend {
    /// Gives threads that use a device a moment, because the process may end now.
    fn drop(&mut self) {
        let until = Instant::now() + LAST_WAIT;
        let threads = std::mem::take(&mut self.shared.lock().threads);
        while Instant::now() < until && threads.iter().any(|thread| !thread.is_finished()) {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl State {
    /// An empty batch on the present evaluator. `None` if there is none.
    fn new_batch(&self) -> Option<(Box<dyn Batch>, Evaluator)> {
        match (&self.device, &self.spare) {
            (Some(device), _) => Some((device.new_batch(), Evaluator::Device(self.generation))),
            (None, Spare::Ready(spare)) => Some((spare.new_batch(), Evaluator::Spare)),
            (None, _) => None,
        }
    }

    fn devices(&self) -> Devices {
        self.device.as_ref().map_or(Devices { total: 1, lost: 1 }, |device| device.devices())
    }

    /// Leaves a lost device to a thread of its own. If none can be started, the device is never dropped.
    fn abandon(&mut self, device: Arc<dyn Backend>) {
        let device = ManuallyDrop::new(device);
        self.threads.retain(|thread| !thread.is_finished());
        self.threads.extend(start_thread(move || drop(ManuallyDrop::into_inner(device))));
    }
}

impl Shared {
    /// Locks the state. It stays usable after a panic, because each change of it is a single assignment.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn say(&self, text: &str) {
        (self.plan.report)(text);
    }

    /// Notes that a batch failed on `evaluator`. Returns the error for the batch's ticket.
    fn failed(self: &Arc<Self>, evaluator: Evaluator, error: BackendError) -> BackendError {
        let Evaluator::Device(generation) = evaluator else { return error };
        let mut state = self.lock();
        if state.generation == generation
            && let Some(device) = state.device.take()
        {
            let Devices { total, lost } = device.devices();
            if lost > state.reported {
                (state.reported, state.unexplained) = (lost, 0);
            } else {
                state.unexplained += 1;
            }
            let is_news = state.unexplained == 0;
            // A backend with one device is lost after any error.
            if lost < total && total > 1 && state.unexplained < MOST_UNEXPLAINED {
                state.device = Some(device);
                drop(state);
                if is_news {
                    self.say(&format!("error: {error}; {} of {total} devices are left", total - lost));
                }
            } else {
                self.is_lost.store(true, Ordering::Release);
                (self.plan.on_lost)();
                state.abandon(device);
                self.begin_spare(&mut state);
                drop(state);
                let until = if self.plan.make_device.is_some() { " until the next game" } else { "" };
                self.say(&format!("error: {error}; the processor takes over{until}"));
            }
            self.changed.notify_all();
        }
        BackendError::Interrupted { name: self.name().to_owned(), reason: error.to_string() }
    }

    /// The device's name, if the device was ever made.
    fn name(&self) -> &str {
        &self.device_attributes.get().unwrap_or(&self.waiting_attributes).name
    }

    /// Starts to make the spare evaluator, unless that has been done.
    fn begin_spare(self: &Arc<Self>, state: &mut State) {
        if !matches!(state.spare, Spare::Absent(_)) {
            return;
        }
        state.spare = Spare::BeingMade;
        let shared = Arc::clone(self);
        if start_thread(move || shared.make_spare()).is_none() {
            state.spare = Spare::Absent(Some(self.cannot("cannot start a thread")));
        }
    }

    /// The body of the thread that makes the spare evaluator.
    fn make_spare(&self) {
        let made = catch_panic("cpu", || (self.plan.make_spare)()).and_then(|(spare, _)| {
            self.check_kinds(spare.attributes())?;
            Ok(spare)
        });
        let mut state = self.lock();
        state.spare = match made {
            Ok(spare) => {
                self.spare_attributes.get_or_init(|| spare.attributes().clone());
                Spare::Ready(spare)
            }
            Err(error) => Spare::Absent(Some(error)),
        };
        self.changed.notify_all();
    }

    /// The body of the thread that makes the device again.
    fn remake_device(&self) {
        let Some(make_device) = &self.plan.make_device else { return };
        let made = catch_panic(self.name(), make_device).and_then(|(device, notices)| {
            self.check_kinds(device.attributes())?;
            Ok((device, notices))
        });
        let mut state = self.lock();
        let outcome = match made {
            Ok((device, notices)) => {
                let attributes = self.device_attributes.get_or_init(|| device.attributes().clone());
                let last = format!("{} evaluates again", attributes.name);
                state.generation += 1;
                (state.reported, state.unexplained) = (device.devices().lost, 0);
                if let Some(old) = state.device.replace(device) {
                    state.abandon(old);
                }
                self.is_lost.store(false, Ordering::Release);
                notices.into_iter().chain([last]).collect()
            }
            Err(error) if state.device.is_some() => vec![format!("error: {error}; the other devices go on")],
            Err(error) => vec![format!("error: {error}; the processor takes over until the next game")],
        };
        drop(state);
        outcome.iter().for_each(|text| self.say(text));
        self.lock().is_retrying = false;
        self.changed.notify_all();
    }

    /// Checks that an evaluator has the same kinds of outputs as before.
    fn check_kinds(&self, found: &Attributes) -> Result<(), BackendError> {
        let kinds = |attributes: &Attributes| {
            (
                attributes.has_wdl,
                attributes.has_mlh,
                attributes.has_value_error,
                attributes.maximum_batch_size,
            )
        };
        match kinds(found) == kinds(&self.waiting_attributes) {
            true => Ok(()),
            false => Err(self.cannot("the network's file has changed")),
        }
    }

    fn cannot(&self, reason: &str) -> BackendError {
        BackendError::Create { name: self.waiting_attributes.name.clone(), reason: reason.to_owned() }
    }

    /// An empty batch on the present evaluator. Blocks until there is one.
    fn wait_for_evaluator(&self) -> Result<(Box<dyn Batch>, Evaluator), BackendError> {
        let mut state = self.lock();
        loop {
            if let Some(found) = state.new_batch() {
                return Ok(found);
            }
            if let Spare::Absent(reason) = &state.spare {
                return Err(reason.clone().unwrap_or_else(|| self.cannot("it was not made")));
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Starts a thread that nobody has to wait for. `None` if the system cannot start it.
fn start_thread(body: impl FnOnce() + Send + 'static) -> Option<JoinHandle<()>> {
    start_system_thread("recovery", body).ok()
}

/// The requests of a [`RecoveringBatch`].
enum Filling {
    /// A batch of the evaluator.
    Direct(Box<dyn Batch>),
    /// Copies, for the evaluator that is being made.
    Copied(Vec<OwnedRequest>),
}

struct RecoveringBatch {
    shared: Arc<Shared>,
    inner: Filling,
    evaluator: Evaluator,
}

impl Batch for RecoveringBatch {
    fn len(&self) -> usize {
        match &self.inner {
            Filling::Direct(batch) => batch.len(),
            Filling::Copied(requests) => requests.len(),
        }
    }

    fn add(&mut self, request: EvalRequest<'_>) -> Added {
        match &mut self.inner {
            Filling::Direct(batch) => batch.add(request),
            Filling::Copied(requests) => {
                requests.push(OwnedRequest::copy_of(request));
                Added::Queued
            }
        }
    }

    fn submit(self: Box<Self>) -> Box<dyn Ticket> {
        let RecoveringBatch { shared, inner, evaluator } = *self;
        match inner {
            Filling::Direct(batch) => match catch_panic(shared.name(), || Ok(batch.submit())) {
                Ok(inner) => Box::new(RecoveringTicket { shared, inner, evaluator }),
                Err(error) => Done::boxed(Err(shared.failed(evaluator, error))),
            },
            Filling::Copied(requests) => Box::new(DeferredTicket { shared, requests }),
        }
    }
}

/// The ticket of a batch on an evaluator.
struct RecoveringTicket {
    shared: Arc<Shared>,
    inner: Box<dyn Ticket>,
    evaluator: Evaluator,
}

impl Ticket for RecoveringTicket {
    fn wait(self: Box<Self>) -> Result<Evaluations, BackendError> {
        let RecoveringTicket { shared, inner, evaluator } = *self;
        catch_panic(shared.name(), || inner.wait()).map_err(|error| shared.failed(evaluator, error))
    }
}

/// The ticket of a batch that waits for an evaluator.
struct DeferredTicket {
    shared: Arc<Shared>,
    requests: Vec<OwnedRequest>,
}

impl Ticket for DeferredTicket {
    fn wait(self: Box<Self>) -> Result<Evaluations, BackendError> {
        let DeferredTicket { shared, requests } = *self;
        let (batch, evaluator) = shared.wait_for_evaluator()?;
        let mut batch = OrderedBatch::new("cpu", batch);
        requests.iter().for_each(|request| batch.add(request.as_request()));
        let ticket: OrderedTicket = batch.submit();
        ticket.finish().map_err(|error| shared.failed(evaluator, error))
    }
}
