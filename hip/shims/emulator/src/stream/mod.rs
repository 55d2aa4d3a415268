//! Streams, events and graphs.
//!
//! A stream is a thread that runs operations in order. A call that submits an operation returns before the operation
//! has run, so that a missing wait in the program under test becomes visible. After its first failure a stream runs
//! nothing more, and every wait for it returns that failure. During a capture the operations become nodes of a graph
//! instead, each with the nodes that must run before it.
//!
//! | module | what |
//! |---|---|
//! | [`event`] | events: where they were last recorded |
//! | [`capture`] | captures in progress |
//! | [`graph`] | captured operations, which run again at every launch |
//! | [`work`] | an operation, its failure, and marks between operations |

mod capture;
mod event;
mod graph;
mod work;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use hip_runtime_sys::{
    hipError_t, hipErrorInvalidValue, hipErrorLaunchFailure, hipErrorStreamCaptureInvalidated,
    hipErrorStreamCaptureIsolation, hipErrorStreamCaptureUnjoined, hipErrorStreamCaptureUnmatched,
    hipErrorStreamCaptureUnsupported, hipErrorStreamCaptureWrongThread, hipStreamCaptureMode,
};

use crate::calls::{INJECTED, injected, report};
use crate::settings::{BadCapture, Hang, settings};
use crate::sync::lock;
use capture::{CAPTURES, Capture, RELAXED};
use event::Recorded;

pub(crate) use capture::{CAPTURE_MODE, forbid_in_capture};
pub(crate) use event::Event;
pub(crate) use graph::Graph;
pub(crate) use work::{AFTER_KERNEL, Failure, Mark, Operation, spend};

enum Task {
    Run(Operation),
    /// Sets a mark, for which other threads wait.
    Reach(Arc<Mark>),
    /// Waits until another stream's thread has set the mark.
    Wait(Arc<Mark>),
}

/// A stream of a device. Its thread ends when the stream is dropped.
pub(crate) struct Stream {
    number: u64,
    pub(crate) device: i32,
    /// Whether this stream and the null stream wait for each other.
    blocking: bool,
    tasks: Mutex<Sender<Task>>,
    submitted: AtomicU64,
    done: Arc<AtomicU64>,
    failure: Arc<Mutex<Option<Failure>>>,
    capture: Mutex<Option<Arc<Capture>>>,
    /// Copies to the device that run after the next operation if that is a graph, and before it otherwise.
    copies: Mutex<Vec<Operation>>,
}

impl Stream {
    pub(crate) fn new(device: i32, blocking: bool) -> Option<Arc<Self>> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = channel();
        let (done, failure) = (Arc::new(AtomicU64::new(0)), Arc::new(Mutex::new(None)));
        let worker = (Arc::clone(&done), Arc::clone(&failure));
        let builder = std::thread::Builder::new().name(format!("stream {number}"));
        builder.spawn(move || work(&receiver, &worker.0, &worker.1)).ok()?;
        Some(Arc::new(Self {
            number,
            device,
            blocking,
            tasks: Mutex::new(sender),
            submitted: AtomicU64::new(0),
            done,
            failure,
            capture: Mutex::new(None),
            copies: Mutex::default(),
        }))
    }

    fn send(&self, task: Task) {
        self.send_copies();
        self.send_now(task);
    }

    fn send_copies(&self) {
        let copies = std::mem::take(&mut *lock(&self.copies));
        copies.into_iter().for_each(|copy| self.send_now(Task::Run(copy)));
    }

    fn send_now(&self, task: Task) {
        self.submitted.fetch_add(1, Ordering::AcqRel);
        // The thread receives until the last sender is dropped.
        let _ = lock(&self.tasks).send(task);
    }

    fn capturing(&self) -> Option<Arc<Capture>> {
        lock(&self.capture).clone()
    }

    /// Whether the capture that this stream takes part in is still valid; `None` outside of a capture.
    pub(crate) fn capture_state(&self) -> Option<bool> {
        self.capturing().map(|capture| !capture.invalid.load(Ordering::Acquire))
    }

    /// Submits an operation to the stream, or to the capture that it takes part in.
    pub(crate) fn submit(&self, operation: Operation) -> Result<(), hipError_t> {
        if let Some(capture) = self.capturing() {
            if settings().bad_capture == Some(BadCapture::Work) {
                capture.invalid.store(true, Ordering::Release);
                return Err(hipErrorStreamCaptureUnsupported);
            }
            if capture.invalid.load(Ordering::Acquire) {
                return Err(hipErrorStreamCaptureInvalidated);
            }
            lock(&capture.work).add(self.number, operation);
            if let Some(joined) = lock(&capture.branches).get_mut(&self.number) {
                *joined = false;
            }
            return Ok(());
        }
        if let Some(failure) = &*lock(&self.failure) {
            return Err(failure.code);
        }
        self.order_with_null_stream();
        self.send(Task::Run(operation));
        Ok(())
    }

    /// Submits a copy to the device, which a graph that follows at once does not see
    /// (`RUKH_EMULATOR_STALE_GRAPHS`).
    pub(crate) fn submit_copy(&self, copy: Operation) -> Result<(), hipError_t> {
        if self.capturing().is_some() {
            return self.submit(copy);
        }
        self.result()?;
        lock(&self.copies).push(copy);
        Ok(())
    }

    /// Submits the launch of a graph, and then the copies that should have come before it.
    pub(crate) fn submit_graph(&self, graph: Operation) -> Result<(), hipError_t> {
        let copies = std::mem::take(&mut *lock(&self.copies));
        self.submit(graph)?;
        copies.into_iter().try_for_each(|copy| self.submit(copy))
    }

    /// Makes an operation of the null stream wait for all earlier operations of blocking streams, and an operation of a
    /// blocking stream wait for all earlier operations of the null stream.
    fn order_with_null_stream(&self) {
        if !self.blocking {
            return;
        }
        for other in streams_of(self.device) {
            let null = other.number == null_number(self.device) || self.number == null_number(self.device);
            if other.blocking && other.number != self.number && null && !other.idle() {
                let mark = Arc::new(Mark::default());
                other.send(Task::Reach(Arc::clone(&mark)));
                self.send(Task::Wait(mark));
            }
        }
    }

    /// Puts a mark after all operations that have been submitted so far. Returns `None` during a capture.
    pub(crate) fn mark(&self) -> Option<Arc<Mark>> {
        if self.capturing().is_some() {
            return None;
        }
        let mark = Arc::new(Mark::default());
        self.send(Task::Reach(Arc::clone(&mark)));
        Some(mark)
    }

    /// Records an event after all operations that have been submitted so far.
    pub(crate) fn record(&self, event: &Event) {
        let state = match self.capturing() {
            Some(capture) => {
                let ends = lock(&capture.work).ends_of(self.number);
                Recorded::Captured(capture, self.number, ends)
            }
            None => match self.mark() {
                Some(mark) => Recorded::Marked(mark),
                None => return,
            },
        };
        *lock(&event.recorded) = state;
    }

    /// Makes operations that are submitted later wait for an event.
    pub(crate) fn wait_for(&self, event: &Event) -> Result<(), hipError_t> {
        let recorded = lock(&event.recorded).clone();
        match (recorded, self.capturing()) {
            (Recorded::Never, _) => Ok(()),
            (Recorded::Marked(_), Some(capture)) => {
                // A captured operation cannot wait for an operation outside of the capture.
                capture.invalid.store(true, Ordering::Release);
                Err(hipErrorStreamCaptureIsolation)
            }
            (Recorded::Marked(mark), None) => {
                self.send(Task::Wait(mark));
                Ok(())
            }
            (Recorded::Captured(theirs, stream, ends), None) => {
                lock(&theirs.branches).insert(self.number, true);
                *lock(&self.capture) = Some(Arc::clone(&theirs));
                lock(&theirs.work).join(self.number, &ends);
                theirs.join(stream);
                Ok(())
            }
            (Recorded::Captured(theirs, stream, ends), Some(ours)) if Arc::ptr_eq(&theirs, &ours) => {
                lock(&ours.work).join(self.number, &ends);
                ours.join(stream);
                Ok(())
            }
            (Recorded::Captured(..), Some(ours)) => {
                ours.invalid.store(true, Ordering::Release);
                Err(hipErrorStreamCaptureIsolation)
            }
        }
    }

    /// Waits for all operations. If any has failed, returns the error of the first failure.
    pub(crate) fn synchronize(&self) -> Result<(), hipError_t> {
        if let Some(capture) = self.capturing() {
            capture.invalid.store(true, Ordering::Release);
            return Err(hip_runtime_sys::hipErrorStreamCaptureUnsupported);
        }
        if let Some(mark) = self.mark() {
            mark.wait();
        }
        self.result()
    }

    /// The error of the first failure, if there was one.
    pub(crate) fn result(&self) -> Result<(), hipError_t> {
        lock(&self.failure).as_ref().map_or(Ok(()), |failure| Err(failure.code))
    }

    /// Whether all operations that were submitted have run. Copies that were held back are submitted first.
    pub(crate) fn idle(&self) -> bool {
        self.send_copies();
        self.done.load(Ordering::Acquire) == self.submitted.load(Ordering::Acquire)
    }

    /// Begins a capture, of which this stream is the origin.
    pub(crate) fn begin_capture(&self, mode: hipStreamCaptureMode) -> Result<(), hipError_t> {
        let mut current = lock(&self.capture);
        if current.is_some() || mode > RELAXED || self.number == null_number(self.device) {
            return Err(hipErrorInvalidValue);
        }
        let capture = Arc::new(Capture {
            mode,
            origin: self.number,
            thread: std::thread::current().id(),
            work: Mutex::default(),
            invalid: AtomicBool::new(false),
            branches: Mutex::new(BTreeMap::new()),
        });
        lock(&CAPTURES).push(Arc::clone(&capture));
        *current = Some(capture);
        Ok(())
    }

    /// Ends the capture that began on this stream, and returns its graph.
    pub(crate) fn end_capture(&self) -> Result<Graph, hipError_t> {
        let capture = self.capturing().ok_or(hip_runtime_sys::hipErrorIllegalState)?;
        if capture.origin != self.number {
            return Err(hipErrorStreamCaptureUnmatched);
        }
        if capture.mode != RELAXED && capture.thread != std::thread::current().id() {
            return Err(hipErrorStreamCaptureWrongThread);
        }
        lock(&CAPTURES).retain(|other| !Arc::ptr_eq(other, &capture));
        for stream in streams_of(self.device) {
            let mut theirs = lock(&stream.capture);
            if theirs.as_ref().is_some_and(|other| Arc::ptr_eq(other, &capture)) {
                *theirs = None;
            }
        }
        *lock(&self.capture) = None;
        if capture.invalid.load(Ordering::Acquire) {
            return Err(hipErrorStreamCaptureInvalidated);
        }
        if lock(&capture.branches).values().any(|&joined| !joined) {
            return Err(hipErrorStreamCaptureUnjoined);
        }
        let nodes = std::mem::take(&mut lock(&capture.work).nodes);
        Ok(Graph::new(nodes))
    }
}

/// The main loop of a stream's thread.
fn work(tasks: &Receiver<Task>, done: &AtomicU64, failure: &Mutex<Option<Failure>>) {
    for task in tasks {
        match task {
            Task::Run(operation) => {
                hang();
                let failed = lock(failure).is_some();
                if !failed && let Err(error) = run(&operation) {
                    report(&error.message);
                    *lock(failure) = Some(error);
                }
            }
            Task::Reach(mark) => mark.reach(lock(failure).as_ref().map(|failure| failure.code)),
            Task::Wait(mark) => {
                if let (_, Some(code)) = mark.wait() {
                    let message = "an operation that this stream waits for has failed".to_owned();
                    lock(failure).get_or_insert(Failure { code, message });
                }
            }
        }
        done.fetch_add(1, Ordering::AcqRel);
    }
}

/// Stops the stream's thread at the operation at which the card hangs, and at every later one, for as long as the card
/// hangs (`RUKH_EMULATOR_HANG`).
fn hang() {
    static OPERATIONS: AtomicU64 = AtomicU64::new(0);
    static BEGIN: OnceLock<Instant> = OnceLock::new();
    let Some(Hang { operation, duration }) = settings().hang else { return };
    if OPERATIONS.fetch_add(1, Ordering::Relaxed) + 1 < operation {
        return;
    }
    let begin = BEGIN.get_or_init(|| {
        eprintln!("{INJECTED}hang:{operation}");
        Instant::now()
    });
    while duration.is_none_or(|duration| begin.elapsed() < duration) {
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn run(operation: &Operation) -> Result<(), Failure> {
    if let Some(code) = injected("execution") {
        return Err(Failure { code, message: "a failure that a test asked for".to_owned() });
    }
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| operation())).unwrap_or_else(|_| {
        Err(Failure {
            code: hipErrorLaunchFailure,
            message: "the emulator panicked in an operation".to_owned(),
        })
    })
}

/// All streams, including the null streams.
static STREAMS: Mutex<Vec<Arc<Stream>>> = Mutex::new(Vec::new());
static NULL_STREAMS: Mutex<BTreeMap<i32, Arc<Stream>>> = Mutex::new(BTreeMap::new());

/// A device's null stream; `None` if its thread cannot be started.
pub(crate) fn null_stream(device: i32) -> Option<Arc<Stream>> {
    let mut streams = lock(&NULL_STREAMS);
    if let Some(stream) = streams.get(&device) {
        return Some(Arc::clone(stream));
    }
    let stream = Stream::new(device, true)?;
    streams.insert(device, Arc::clone(&stream));
    register(&stream);
    Some(stream)
}

fn null_number(device: i32) -> u64 {
    lock(&NULL_STREAMS).get(&device).map_or(u64::MAX, |stream| stream.number)
}

pub(crate) fn register(stream: &Arc<Stream>) {
    lock(&STREAMS).push(Arc::clone(stream));
}

pub(crate) fn unregister(stream: &Arc<Stream>) {
    lock(&STREAMS).retain(|other| !Arc::ptr_eq(other, stream));
}

/// A device's streams, including its null stream.
pub(crate) fn streams_of(device: i32) -> Vec<Arc<Stream>> {
    lock(&STREAMS).iter().filter(|stream| stream.device == device).cloned().collect()
}
