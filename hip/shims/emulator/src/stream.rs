//! Streams, events and graphs.
//!
//! A stream is a thread that does its work in order, so that a missing wait in the program under test shows: work is
//! not done when the call returns. After the first failure a stream does nothing more, and every wait for it gives
//! that failure. A capture takes the work down instead, with what each piece of it comes after; a graph does it in the
//! order of the calls and, at every second launch, in the order most unlike it that is allowed, so that a missing
//! dependence between the streams that took part shows.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::Instant;

use hip_runtime_sys::{
    hipError_t, hipErrorInvalidValue, hipErrorLaunchFailure, hipErrorStreamCaptureInvalidated,
    hipErrorStreamCaptureIsolation, hipErrorStreamCaptureUnjoined, hipErrorStreamCaptureUnmatched,
    hipErrorStreamCaptureWrongThread, hipStreamCaptureMode,
};

use crate::control;

const GLOBAL: hipStreamCaptureMode = hip_runtime_sys::hipStreamCaptureModeGlobal;
const THREAD_LOCAL: hipStreamCaptureMode = hip_runtime_sys::hipStreamCaptureModeThreadLocal;
const RELAXED: hipStreamCaptureMode = hip_runtime_sys::hipStreamCaptureModeRelaxed;

/// What went wrong in a piece of work.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) code: hipError_t,
    pub(crate) message: String,
}

/// A piece of work; a graph does it again at every launch.
pub(crate) type Operation = Arc<dyn Fn() -> Result<(), Failure> + Send + Sync>;

/// Locks; what a panicking thread left behind is as good as it was before.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A place in a stream's work that others can wait for.
#[derive(Default)]
pub(crate) struct Mark {
    /// When it was reached, and the failure before it.
    reached: Mutex<Option<(Instant, Option<hipError_t>)>>,
    changed: Condvar,
}

impl Mark {
    fn reach(&self, failure: Option<hipError_t>) {
        *lock(&self.reached) = Some((Instant::now(), failure));
        self.changed.notify_all();
    }

    /// Waits until it is reached.
    pub(crate) fn wait(&self) -> (Instant, Option<hipError_t>) {
        let mut reached = lock(&self.reached);
        loop {
            if let Some(result) = *reached {
                return result;
            }
            reached = self.changed.wait(reached).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// When it was reached, if it was.
    pub(crate) fn state(&self) -> Option<(Instant, Option<hipError_t>)> {
        *lock(&self.reached)
    }
}

enum Task {
    Run(Operation),
    Reach(Arc<Mark>),
    Wait(Arc<Mark>),
}

/// A capture in progress.
pub(crate) struct Capture {
    mode: hipStreamCaptureMode,
    origin: u64,
    thread: ThreadId,
    work: Mutex<Captured>,
    invalid: AtomicBool,
    /// Streams other than the origin that take part: whether their work has been waited for since the last of it.
    branches: Mutex<BTreeMap<u64, bool>>,
}

/// What a capture has taken down so far.
#[derive(Default)]
struct Captured {
    nodes: Vec<Node>,
    /// Of each stream that takes part: what its next work comes after.
    ends: BTreeMap<u64, Vec<usize>>,
}

/// A piece of captured work.
#[derive(Clone)]
struct Node {
    operation: Operation,
    /// The nodes that it comes after.
    after: Vec<usize>,
}

impl Captured {
    /// What the stream's next work comes after.
    fn ends_of(&self, stream: u64) -> Vec<usize> {
        self.ends.get(&stream).cloned().unwrap_or_default()
    }

    fn add(&mut self, stream: u64, operation: Operation) {
        let after = self.ends_of(stream);
        self.ends.insert(stream, vec![self.nodes.len()]);
        self.nodes.push(Node { operation, after });
    }

    /// The stream's next work comes after these nodes, too.
    fn join(&mut self, stream: u64, nodes: &[usize]) {
        let ends = self.ends.entry(stream).or_default();
        ends.extend(nodes);
        ends.sort_unstable();
        ends.dedup();
    }
}

/// A graph, ready to run.
pub(crate) struct Graph {
    nodes: Vec<Node>,
    launches: AtomicU64,
}

impl Graph {
    /// How many pieces of work it has.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Does all of it once.
    pub(crate) fn run(&self) -> Result<(), Failure> {
        if self.launches.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) {
            return self.nodes.iter().try_for_each(|node| (node.operation)());
        }
        let mut done = vec![false; self.nodes.len()];
        let is_ready = |done: &[bool], &index: &usize| {
            !done[index] && self.nodes[index].after.iter().all(|&earlier| done[earlier])
        };
        // What was captured last is done as soon as it may be.
        while let Some(index) = (0..done.len()).rev().find(|index| is_ready(&done, index)) {
            (self.nodes[index].operation)()?;
            done[index] = true;
        }
        Ok(())
    }
}

/// All captures in progress.
static CAPTURES: Mutex<Vec<Arc<Capture>>> = Mutex::new(Vec::new());

thread_local! {
    /// What this thread may do while a capture is in progress.
    pub(crate) static CAPTURE_MODE: std::cell::Cell<hipStreamCaptureMode> =
        const { std::cell::Cell::new(GLOBAL) };
}

/// Refuses calls that may not be made now because a capture is in progress, and spoils the capture.
pub(crate) fn forbid_in_capture(code: hipError_t) -> Result<(), hipError_t> {
    let here = std::thread::current().id();
    let mine = CAPTURE_MODE.get();
    let captures = lock(&CAPTURES);
    let conflict = captures.iter().find(|capture| match mine {
        RELAXED => false,
        THREAD_LOCAL => capture.thread == here && capture.mode != RELAXED,
        _ => capture.mode == GLOBAL || (capture.thread == here && capture.mode == THREAD_LOCAL),
    });
    match conflict {
        Some(capture) => {
            capture.invalid.store(true, Ordering::Release);
            Err(code)
        }
        None => Ok(()),
    }
}

/// A stream.
pub(crate) struct Stream {
    number: u64,
    pub(crate) device: i32,
    /// It waits for the null stream, and the null stream for it.
    blocking: bool,
    tasks: Mutex<Sender<Task>>,
    submitted: AtomicU64,
    done: Arc<AtomicU64>,
    failure: Arc<Mutex<Option<Failure>>>,
    capture: Mutex<Option<Arc<Capture>>>,
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
        }))
    }

    fn send(&self, task: Task) {
        self.submitted.fetch_add(1, Ordering::AcqRel);
        // The thread ends only after the last sender.
        let _ = lock(&self.tasks).send(task);
    }

    fn capturing(&self) -> Option<Arc<Capture>> {
        lock(&self.capture).clone()
    }

    /// Whether work is taken down now; or the capture was spoiled.
    pub(crate) fn capture_state(&self) -> Option<bool> {
        self.capturing().map(|capture| !capture.invalid.load(Ordering::Acquire))
    }

    /// Hands work to the stream, or to the capture that it takes part in.
    pub(crate) fn submit(&self, operation: Operation) -> Result<(), hipError_t> {
        if let Some(capture) = self.capturing() {
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

    /// Work of the null stream starts after all that was given to blocking streams, and theirs after its.
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

    /// Puts a mark behind all work so far; captured streams have no such place.
    pub(crate) fn mark(&self) -> Option<Arc<Mark>> {
        if self.capturing().is_some() {
            return None;
        }
        let mark = Arc::new(Mark::default());
        self.send(Task::Reach(Arc::clone(&mark)));
        Some(mark)
    }

    /// Records an event.
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

    /// Lets later work wait for an event.
    pub(crate) fn wait_for(&self, event: &Event) -> Result<(), hipError_t> {
        let recorded = lock(&event.recorded).clone();
        match (recorded, self.capturing()) {
            (Recorded::Never, _) => Ok(()),
            (Recorded::Marked(_), Some(capture)) => {
                // Work outside of the capture cannot be waited for inside.
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
                join(&theirs, stream);
                Ok(())
            }
            (Recorded::Captured(theirs, stream, ends), Some(ours)) if Arc::ptr_eq(&theirs, &ours) => {
                lock(&ours.work).join(self.number, &ends);
                join(&ours, stream);
                Ok(())
            }
            (Recorded::Captured(..), Some(ours)) => {
                ours.invalid.store(true, Ordering::Release);
                Err(hipErrorStreamCaptureIsolation)
            }
        }
    }

    /// Waits for all work, and gives the first failure.
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

    /// The first failure.
    pub(crate) fn result(&self) -> Result<(), hipError_t> {
        lock(&self.failure).as_ref().map_or(Ok(()), |failure| Err(failure.code))
    }

    /// Whether all work is done.
    pub(crate) fn idle(&self) -> bool {
        self.done.load(Ordering::Acquire) == self.submitted.load(Ordering::Acquire)
    }

    /// Starts taking work down.
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

    /// Ends a capture and gives what was taken down.
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
        Ok(Graph { nodes, launches: AtomicU64::new(0) })
    }
}

/// A stream's captured work is waited for.
fn join(capture: &Capture, stream: u64) {
    if let Some(joined) = lock(&capture.branches).get_mut(&stream) {
        *joined = true;
    }
}

/// A stream's thread.
fn work(tasks: &Receiver<Task>, done: &AtomicU64, failure: &Mutex<Option<Failure>>) {
    for task in tasks {
        match task {
            Task::Run(operation) => {
                let failed = lock(failure).is_some();
                if !failed && let Err(error) = run(&operation) {
                    control::report(&error.message);
                    *lock(failure) = Some(error);
                }
            }
            Task::Reach(mark) => mark.reach(lock(failure).as_ref().map(|failure| failure.code)),
            Task::Wait(mark) => {
                if let (_, Some(code)) = mark.wait() {
                    let message = "the work that this stream waits for has failed".to_owned();
                    lock(failure).get_or_insert(Failure { code, message });
                }
            }
        }
        done.fetch_add(1, Ordering::AcqRel);
    }
}

fn run(operation: &Operation) -> Result<(), Failure> {
    if let Some(code) = control::injected("execution") {
        return Err(Failure { code, message: "work that was made to fail".to_owned() });
    }
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| operation())).unwrap_or_else(|_| {
        Err(Failure { code: hipErrorLaunchFailure, message: "panic in a stream's work".to_owned() })
    })
}

/// What an event was last recorded on.
#[derive(Clone, Default)]
enum Recorded {
    #[default]
    Never,
    Marked(Arc<Mark>),
    /// In a capture, on this stream, after these of its nodes.
    Captured(Arc<Capture>, u64, Vec<usize>),
}

/// An event.
#[derive(Default)]
pub(crate) struct Event {
    pub(crate) timing: bool,
    recorded: Mutex<Recorded>,
}

impl Event {
    pub(crate) fn new(timing: bool) -> Self {
        Self { timing, recorded: Mutex::default() }
    }

    /// The place it stands at: `Ok(None)` where it was never recorded, an error in a capture.
    pub(crate) fn mark(&self) -> Result<Option<Arc<Mark>>, hipError_t> {
        match &*lock(&self.recorded) {
            Recorded::Never => Ok(None),
            Recorded::Marked(mark) => Ok(Some(Arc::clone(mark))),
            Recorded::Captured(capture, ..) => {
                capture.invalid.store(true, Ordering::Release);
                Err(hip_runtime_sys::hipErrorCapturedEvent)
            }
        }
    }
}

/// All streams; those of number `null_number` are the null streams.
static STREAMS: Mutex<Vec<Arc<Stream>>> = Mutex::new(Vec::new());
static NULL_STREAMS: Mutex<BTreeMap<i32, Arc<Stream>>> = Mutex::new(BTreeMap::new());

/// A device's null stream.
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

/// A device's streams.
pub(crate) fn streams_of(device: i32) -> Vec<Arc<Stream>> {
    lock(&STREAMS).iter().filter(|stream| stream.device == device).cloned().collect()
}
