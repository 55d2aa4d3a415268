//! The threads of a call: each encodes batches, submits them and adds their answers to the results.
//!
//! A card must not wait while positions are encoded. So either a call has many more threads than the card evaluates
//! batches at once, or each thread encodes its next batch while one is under way. Results are added in order: answers
//! that come before those of an earlier batch are kept until then.

use crate::evaluate::{Asked, Chunk, Evaluations, Failure, On};
use crate::games::Reader;
use crate::process::SIGNAL_INTERVAL;
use crossbeam_channel::{RecvTimeoutError, SendTimeoutError, TryRecvError, bounded};
use pyo3::prelude::*;
use rukh_backend::BackendError;
use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A batch is slow if a thread waits longer than this for it. Few threads keep a card with slow batches busy, and more
/// batches in its queue would only delay Ctrl+C.
const SLOW: Duration = Duration::from_millis(50);

/// The queue of read chunks has room for at least this many. A shorter queue would often be full, and the reader would
/// wake after nearly every chunk and take a core from the evaluation.
const READ_AHEAD: usize = 16;

/// Why a call ends without its evaluations.
pub(crate) enum Ended {
    /// An error of Python, such as that of Ctrl+C.
    Python(PyErr),
    Failed(Failure),
}

impl Ended {
    /// Renames a failed position from its place `i` in the order of reading to its number in the list, `order[i]`.
    pub(crate) fn of_position(self, order: &[usize]) -> Ended {
        match self {
            Ended::Failed(Failure::Position(at, reason)) => {
                Ended::Failed(Failure::Position(order[at], reason))
            }
            other => other,
        }
    }
}

impl From<PyErr> for Ended {
    fn from(error: PyErr) -> Ended {
        Ended::Python(error)
    }
}

/// A chunk with the number of its first position.
struct Numbered<'a> {
    first: usize,
    chunk: Chunk<'a>,
}

/// What a thread gets when it asks for a chunk.
enum Next<'a> {
    Chunk(Numbered<'a>),
    NotYet,
    None,
}

/// What the threads of a call share.
struct Call<'a> {
    on: On<'a>,
    /// No more answers are wanted.
    is_over: AtomicBool,
    /// The slow batches in a row until now.
    slow: AtomicUsize,
    results: Mutex<Results>,
}

/// The answers so far.
struct Results {
    /// Those of the first positions.
    all: Evaluations,
    /// Those of later chunks, by the numbers of their first positions.
    waiting: BTreeMap<usize, Evaluations>,
    failure: Option<Failure>,
}

/// Evaluates `count` positions of an array. `chunk` returns the positions of a range, and needs no lock of Python.
pub(crate) fn evaluate_array<'a>(
    py: Python<'_>,
    on: On<'_>,
    count: usize,
    chunk: impl Fn(Range<usize>) -> Chunk<'a> + Sync,
) -> Result<Evaluations, Ended> {
    if count <= on.chunk(count, count) {
        return alone(py, on, &chunk(0..count));
    }
    let end = |first| count.min(first + on.chunk(count, count - first));
    let taken = AtomicUsize::new(0);
    let next = |_: bool| {
        let take = |first| (first < count).then(|| end(first));
        match taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) {
            Ok(first) => Next::Chunk(Numbered { first, chunk: chunk(first..end(first)) }),
            Err(_) => Next::None,
        }
    };
    run(py, on, count, next, |_| Ok(()))
}

/// Evaluates the positions of a reader, which reads with Python's lock. While some are evaluated, the next ones are read.
pub(crate) fn evaluate_read(
    py: Python<'_>,
    on: On<'_>,
    reader: &mut Reader<'_>,
) -> Result<Evaluations, Ended> {
    let count = reader.order().len();
    if count <= on.chunk(count, count) {
        return alone(py, on, &Chunk::Games(reader.read(0..count)?));
    }
    let (chunks, to_do) = bounded(on.threads.max(READ_AHEAD));
    let next = |may_wait: bool| match may_wait {
        true => to_do.recv().map_or(Next::None, Next::Chunk),
        false => match to_do.try_recv() {
            Ok(numbered) => Next::Chunk(numbered),
            Err(TryRecvError::Empty) => Next::NotYet,
            Err(TryRecvError::Disconnected) => Next::None,
        },
    };
    run(py, on, count, next, move |is_over| {
        let mut first = 0;
        while first < count && !is_over.load(Ordering::Relaxed) {
            let size = on.chunk(count, count - first);
            // The first chunk is small, so that a card does not wait long for it.
            let end = count.min(first + if first == 0 { on.first_chunk(size) } else { size });
            let mut numbered = Numbered { first, chunk: Chunk::Games(reader.read(first..end)?) };
            while !is_over.load(Ordering::Relaxed) {
                match py.detach(|| chunks.send_timeout(numbered, SIGNAL_INTERVAL)) {
                    Err(SendTimeoutError::Timeout(back)) => numbered = back,
                    _ => break,
                }
                py.check_signals()?;
            }
            py.check_signals()?;
            first = end;
        }
        // The threads see that no chunk follows.
        drop(chunks);
        // This takes milliseconds, in which the last chunks are evaluated.
        reader.forget();
        Ok(())
    })
}

/// Evaluates a single chunk, for which threads are not worth it.
fn alone(py: Python<'_>, on: On<'_>, chunk: &Chunk<'_>) -> Result<Evaluations, Ended> {
    py.detach(|| on.begin(chunk, 0).and_then(|asked| on.finish(asked))).map_err(Ended::Failed)
}

/// Starts the threads, lets `feed` give them what they need, and waits for their ends. `next` returns the next chunk; its
/// argument says whether it may wait for one.
fn run<'a>(
    py: Python<'_>,
    on: On<'_>,
    count: usize,
    next: impl Fn(bool) -> Next<'a> + Sync,
    feed: impl FnOnce(&AtomicBool) -> PyResult<()>,
) -> Result<Evaluations, Ended> {
    let results = Results { all: Evaluations::with_capacity(count), waiting: BTreeMap::new(), failure: None };
    let call =
        Call { on, is_over: AtomicBool::new(false), slow: AtomicUsize::new(0), results: Mutex::new(results) };
    let chunks = count.div_ceil(on.chunk(count, count));
    std::thread::scope(|scope| {
        let (alive, ended) = bounded::<Infallible>(0);
        let (call, next) = (&call, &next);
        let start = |number| {
            let alive = alive.clone();
            let work = move || {
                call.work(number, next);
                drop(alive);
            };
            std::thread::Builder::new().spawn_scoped(scope, work).ok()
        };
        let workers: Vec<_> = (0..on.threads.min(chunks)).map_while(start).collect();
        drop(alive);
        if workers.is_empty() {
            return Err(Ended::Failed(Failure::Backend(BackendError::Evaluate {
                name: on.backend.attributes().name.clone(),
                reason: "no thread could be started".to_owned(),
            })));
        }
        let mut outcome = feed(&call.is_over);
        while outcome.is_ok() {
            match py.detach(|| ended.recv_timeout(SIGNAL_INTERVAL)) {
                Err(RecvTimeoutError::Timeout) => outcome = py.check_signals(),
                _ => break,
            }
        }
        call.is_over.store(true, Ordering::Relaxed);
        // A thread that has panicked has left a chunk without its answers.
        py.detach(|| workers.into_iter().for_each(|worker| drop(worker.join())));
        outcome.map_err(Ended::Python)
    })?;
    let results = call.results.into_inner().unwrap_or_else(PoisonError::into_inner);
    match results.failure {
        Some(failure) => Err(Ended::Failed(failure)),
        None if results.all.count() < count => Err(Ended::Failed(Failure::Panicked)),
        None => Ok(results.all),
    }
}

impl Call<'_> {
    /// The body of a thread.
    fn work<'a>(&self, number: usize, next: &impl Fn(bool) -> Next<'a>) {
        let on = self.on;
        let mut under_way = VecDeque::new();
        while !self.is_over.load(Ordering::Relaxed) {
            if under_way.is_empty() && number > on.streams() && self.is_slow() {
                return;
            }
            let next = if under_way.len() > on.ahead() { Next::NotYet } else { next(under_way.is_empty()) };
            let answer = match next {
                Next::Chunk(Numbered { first, chunk }) => on.begin(&chunk, first).map(|asked| {
                    under_way.push_back((first, asked));
                    None
                }),
                none_yet => match under_way.pop_front() {
                    Some((first, asked)) => self.finish(asked).map(|answers| Some((first, answers))),
                    None if matches!(none_yet, Next::None) => return,
                    None => continue,
                },
            };
            match answer {
                Ok(None) => {}
                Ok(Some((first, answers))) => self.lock().add(first, answers),
                Err(failure) => {
                    self.is_over.store(true, Ordering::Relaxed);
                    self.lock().failure.get_or_insert(failure);
                }
            }
        }
    }

    fn finish(&self, asked: Asked) -> Result<Evaluations, Failure> {
        let begin = Instant::now();
        let answers = self.on.finish(asked);
        match begin.elapsed() > SLOW {
            true => self.slow.fetch_add(1, Ordering::Relaxed),
            false => self.slow.swap(0, Ordering::Relaxed),
        };
        answers
    }

    /// Whether a few threads are enough.
    fn is_slow(&self) -> bool {
        !self.on.backend.attributes().runs_on_cpu && self.slow.load(Ordering::Relaxed) >= self.on.threads
    }

    fn lock(&self) -> MutexGuard<'_, Results> {
        self.results.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Results {
    /// Adds the answers of a chunk, whose first position has the number `first`.
    fn add(&mut self, first: usize, answers: Evaluations) {
        self.waiting.insert(first, answers);
        while let Some(answers) = self.waiting.remove(&self.all.count()) {
            self.all.append(&answers);
        }
    }
}
