//! A backend that many searches share: it collects their small batches into large ones.
//!
//! **Protocol.** Each search says when it begins and ends ([`GatheringBackend::begin_search`]). A submitted batch becomes
//! a job in a list, and its ticket waits on a channel for one outcome. A thread for each batch that the backend inside
//! evaluates at once takes jobs from the list as soon as [`State::is_due`] says so, evaluates them together, and sends
//! each ticket its part. Closing the backend drops the jobs in the list, so that their tickets fail, and so does every
//! later batch.
//!
//! **When a batch is due.** While the device is busy, a batch waits until it is full, or until it has its fair share of
//! the searches: otherwise a few searches that come back early would take turns with all others, and cost the device
//! nearly as much time as a full batch. When the device is idle, the batch also goes as soon as no search is left that
//! could add to it, or when the first job has waited for [`State::patience`].

use super::merge::{CopiedBatch, Intake, Job, distribute, evaluate};
use crate::ticket::catch_panic;
use crate::{Attributes, Backend, BackendError, Batch, Devices, EvalRequest, Evaluation};
use rukh_base::sync::thread::JoinHandle;
use rukh_base::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, start_thread, wait_timeout};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The longest time for which an idle device waits for more jobs.
const LONGEST_PATIENCE: Duration = Duration::from_millis(20);

/// The positions for each recommended batch of a device that is not the processor. Throughput still rises beyond the
/// batch size that is recommended for one search, and here nobody waits for the answer.
const FACTOR_FOR_DEVICES: usize = 2;

/// How many batches were evaluated, and how many positions they had.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BatchCounts {
    /// Batches that the backend inside has evaluated.
    pub batches: u64,
    /// Positions in these batches.
    pub positions: u64,
}

/// One backend for many searches.
pub struct GatheringBackend {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

struct Shared {
    inner: Arc<dyn Backend>,
    /// The batch size to aim for, in positions.
    batch_size: usize,
    /// The number of batches that the backend inside evaluates at once.
    slots: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    /// The positions in `jobs`.
    positions: usize,
    /// When the first of `jobs` arrived.
    first_arrival: Option<Instant>,
    /// The searches that have begun and not ended.
    searches: usize,
    /// The jobs that are being evaluated.
    jobs_in_flight: usize,
    /// The batches that are being evaluated.
    batches_in_flight: usize,
    /// How long the last batch took.
    last_duration: Duration,
    counts: BatchCounts,
    is_closed: bool,
}

impl State {
    /// Whether a batch of the waiting jobs should be evaluated now.
    fn is_due(&self, batch_size: usize, slots: usize) -> bool {
        if self.jobs.is_empty() {
            return false;
        }
        let fair_share = self.searches.div_ceil(slots);
        if self.positions >= batch_size || self.jobs.len() >= fair_share {
            return true;
        }
        let still_gathering = self.searches.saturating_sub(self.jobs.len() + self.jobs_in_flight);
        self.batches_in_flight == 0 && (still_gathering == 0 || self.patience().is_none())
    }

    /// How much longer an idle device waits for more jobs: in all, half of the time that the last batch took. `None` if
    /// that time is up.
    fn patience(&self) -> Option<Duration> {
        let limit = (self.last_duration / 2).min(LONGEST_PATIENCE);
        let waited = self.first_arrival.map_or(Duration::ZERO, |arrival| arrival.elapsed());
        limit.checked_sub(waited).filter(|left| !left.is_zero())
    }

    /// Takes the oldest jobs: at least one, and as many as fit into a batch.
    fn take(&mut self, batch_size: usize) -> Vec<Job> {
        let (mut taken, mut length) = (Vec::new(), 0);
        while let Some(job) = self.jobs.front()
            && (taken.is_empty() || length + job.requests.len() <= batch_size)
        {
            length += job.requests.len();
            taken.extend(self.jobs.pop_front());
        }
        self.positions -= length;
        self.first_arrival = (!self.jobs.is_empty()).then(Instant::now);
        self.jobs_in_flight += taken.len();
        self.batches_in_flight += 1;
        self.counts.batches += 1;
        self.counts.positions += length as u64;
        taken
    }
}

impl Shared {
    /// Ignores poisoning: a panic cannot leave the state invalid.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_due(&self, state: &State) -> bool {
        state.is_due(self.batch_size, self.slots)
    }

    /// Blocks until a batch is due, and takes its jobs. `None` if the backend is closed.
    fn next_batch(&self) -> Option<Vec<Job>> {
        let mut state = self.lock();
        loop {
            if state.is_closed {
                return None;
            }
            if self.is_due(&state) {
                return Some(state.take(self.batch_size));
            }
            state = match state.patience().filter(|_| !state.jobs.is_empty() && state.batches_in_flight == 0)
            {
                Some(patience) => wait_timeout(&self.changed, &self.state, state, patience),
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    /// The loop of an evaluating thread.
    fn work(&self) {
        while let Some(jobs) = self.next_batch() {
            let (count, begun) = (jobs.len(), Instant::now());
            let outcome = catch_panic(&self.inner.attributes().name, || evaluate(&*self.inner, &jobs));
            let mut state = self.lock();
            state.jobs_in_flight -= count;
            state.batches_in_flight -= 1;
            state.last_duration = begun.elapsed();
            drop(state);
            self.changed.notify_all();
            distribute(outcome, jobs);
        }
    }

    fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        state.jobs.clear();
        state.positions = 0;
        drop(state);
        self.changed.notify_all();
    }
}

impl GatheringBackend {
    /// Starts a thread for each batch that `inner` evaluates at once.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn new(inner: Arc<dyn Backend>) -> Result<GatheringBackend, BackendError> {
        let attributes = inner.attributes();
        let name = attributes.name.clone();
        let factor = if attributes.runs_on_cpu { 1 } else { FACTOR_FOR_DEVICES };
        let batch_size =
            (attributes.recommended_batch_size * factor).clamp(1, attributes.maximum_batch_size.max(1));
        let slots = attributes.suggested_threads.max(1);
        let shared =
            Arc::new(Shared { inner, batch_size, slots, state: Mutex::default(), changed: Condvar::new() });
        let gathering = GatheringBackend { shared, threads: Mutex::default() };
        for _ in 0..slots {
            let shared = Arc::clone(&gathering.shared);
            let thread = start_thread("gathering", move || shared.work());
            let thread = thread.map_err(|error| BackendError::Create {
                name: name.clone(),
                reason: format!("cannot start a thread: {error}"),
            })?;
            gathering.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
        }
        Ok(gathering)
    }

    /// The batch size that this backend aims for, in positions.
    pub fn batch_size(&self) -> usize {
        self.shared.batch_size
    }

    /// The number of batches that are evaluated at once.
    pub fn slots(&self) -> usize {
        self.shared.slots
    }

    /// Counts a search that submits one batch at a time, until the returned value is dropped.
    pub fn begin_search(&self) -> Searching {
        self.shared.lock().searches += 1;
        Searching(Arc::clone(&self.shared))
    }

    /// What was evaluated so far.
    pub fn counts(&self) -> BatchCounts {
        self.shared.lock().counts
    }

    /// Refuses all batches from now on, also those that wait. The batches that are being evaluated are finished.
    pub fn close(&self) {
        self.shared.close();
    }
}

impl Drop for GatheringBackend {
    fn drop(&mut self) {
        self.close();
        for thread in self.threads.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            // A panic during an evaluation is caught, and nothing else in the thread panics.
            let _ = thread.join();
        }
    }
}

/// A running search.
pub struct Searching(Arc<Shared>);

impl Drop for Searching {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.searches = state.searches.saturating_sub(1);
        let is_due = self.0.is_due(&state);
        drop(state);
        if is_due {
            self.0.changed.notify_one();
        }
    }
}

impl Backend for GatheringBackend {
    fn attributes(&self) -> &Attributes {
        self.shared.inner.attributes()
    }

    fn new_batch(&self) -> Box<dyn Batch> {
        CopiedBatch::boxed(&self.shared)
    }

    fn cached(&self, request: EvalRequest<'_>) -> Option<Evaluation> {
        self.shared.inner.cached(request)
    }

    fn clear_cache(&self) {
        self.shared.inner.clear_cache();
    }

    fn devices(&self) -> Devices {
        self.shared.inner.devices()
    }
}

impl Intake for Shared {
    fn attributes(&self) -> &Attributes {
        self.inner.attributes()
    }

    fn take(&self, job: Job) {
        let mut state = self.lock();
        if state.is_closed {
            return;
        }
        let is_first = state.jobs.is_empty();
        state.positions += job.requests.len();
        state.jobs.push_back(job);
        if is_first {
            state.first_arrival = Some(Instant::now());
        }
        // The first job starts the patience of an idle device.
        let wakes = (is_first && state.batches_in_flight == 0) || self.is_due(&state);
        drop(state);
        if wakes {
            self.changed.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::owned_request::OwnedRequest;
    use crate::queue::{WorkerTicket, reply_channel};
    use crate::synthetic::{DeviceOptions, RandomBackend, SimulatedDevice};
    use rukh_chess::{PackedMove, Position, PositionHistory, uci_move};
    use std::sync::Barrier;

    fn history(moves: &str) -> PositionHistory {
        let mut history = PositionHistory::new(Position::startpos());
        for text in moves.split_whitespace() {
            let m = uci_move::parse(history.last(), text).unwrap();
            history.push(m);
        }
        history
    }

    fn moves(history: &PositionHistory) -> Vec<PackedMove> {
        history.last().legal_moves().iter().map(|&m| PackedMove::new(m)).collect()
    }

    fn evaluate_with(backend: &dyn Backend, histories: &[PositionHistory]) -> Result<Vec<f32>, BackendError> {
        let mut batch = backend.new_batch();
        for history in histories {
            batch.add(EvalRequest { history, moves: &moves(history) });
        }
        let evaluations = batch.submit().wait()?;
        Ok(evaluations.iter().flat_map(|(value, priors)| [&[value.q], priors].concat()).collect())
    }

    fn gathering() -> GatheringBackend {
        let options = DeviceOptions { delay: Duration::from_millis(2), ..DeviceOptions::default() };
        let random = Arc::new(RandomBackend::default());
        GatheringBackend::new(Arc::new(SimulatedDevice::new(random, options))).unwrap()
    }

    #[test]
    fn each_search_gets_its_own_values() {
        let shared = gathering();
        let alone = RandomBackend::default();
        let batches = ["e2e4", "d2d4 d7d5", "g1f3 g8f6 f3g1", "a2a4"]
            .map(|line| vec![history(line), history(&format!("{line} {}", reply(&history(line))))]);
        // On a busy machine one could end before another begins, and then nothing is gathered.
        let all_search = Barrier::new(batches.len());
        std::thread::scope(|scope| {
            for batch in &batches {
                let (shared, alone, all_search) = (&shared, &alone, &all_search);
                scope.spawn(move || {
                    let _searching = shared.begin_search();
                    all_search.wait();
                    for _ in 0..10 {
                        assert_eq!(
                            evaluate_with(shared, batch).unwrap(),
                            evaluate_with(alone, batch).unwrap()
                        );
                    }
                });
            }
        });
        let counts = shared.counts();
        assert_eq!(counts.positions, 80);
        assert!(counts.batches < 40, "{counts:?}");
    }

    fn reply(history: &PositionHistory) -> String {
        uci_move::text(history.last().legal_moves()[0], false)
    }

    #[test]
    fn a_closed_backend_answers_with_errors() {
        let shared = gathering();
        shared.close();
        assert!(evaluate_with(&shared, &[history("")]).is_err());
    }

    /// A state with jobs of four positions each, and the tickets that keep their channels open.
    fn state(jobs: usize, searches: usize, in_flight: usize) -> (State, Vec<WorkerTicket>) {
        let mut state = State { searches, last_duration: Duration::from_secs(60), ..State::default() };
        state.batches_in_flight = usize::from(in_flight > 0);
        state.jobs_in_flight = in_flight;
        let mut tickets = Vec::new();
        for _ in 0..jobs {
            let (reply, ticket) = reply_channel("test");
            let request = OwnedRequest::copy_of(EvalRequest { history: &history(""), moves: &[] });
            state.jobs.push_back(Job { requests: vec![request; 4], reply });
            state.positions += 4;
            tickets.push(ticket);
        }
        state.first_arrival = Some(Instant::now());
        (state, tickets)
    }

    #[test]
    fn a_batch_waits_for_the_searches_that_can_add_to_it() {
        let is_due = |jobs, searches, in_flight| state(jobs, searches, in_flight).0.is_due(64, 2);
        // Searches are gathering.
        assert!(!is_due(1, 8, 0));
        // Half of the searches is the share of one of two slots.
        assert!(is_due(4, 8, 0) && is_due(4, 8, 4));
        // Nobody is left who could add to it, but a few that came back early wait for the others.
        assert!(is_due(2, 2, 0) && is_due(1, 1, 0));
        assert!(!is_due(2, 8, 6));
        // A full batch goes at once.
        assert!(is_due(16, 100, 20) && !is_due(15, 100, 20));
        assert!(!is_due(0, 0, 0));
    }

    #[test]
    fn jobs_are_taken_in_order_up_to_the_batch_size() {
        let (mut state, _tickets) = state(5, 5, 0);
        assert_eq!(state.take(10).len(), 2);
        assert_eq!((state.positions, state.jobs_in_flight, state.batches_in_flight), (12, 2, 1));
        assert_eq!(state.take(1).len(), 1);
        assert_eq!(state.counts, BatchCounts { batches: 2, positions: 12 });
    }
}
