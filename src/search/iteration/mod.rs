//! A worker: a search thread that repeats the same seven steps until the search stops.
//!
//! | step | function |
//! |---|---|
//! | 1 | [`initialise`](initialise::initialise): makes room in the tree and begins an empty minibatch |
//! | 2 | [`gather`](gather::gather): descends from the root to leaves worth evaluating |
//! | 3 | [`give_up_collisions`](collisions::give_up_collisions): ends an iteration that found no leaf |
//! | 4 | [`prefetch`](prefetch::prefetch): tops the batch up with positions for the cache |
//! | 5 | [`evaluate`](evaluate::evaluate): waits for the backend, with the visits parked |
//! | 6 | [`fetch`](fetch::fetch): expands the leaves |
//! | 7 | [`back_up_batch`](backup::back_up_batch): carries their values up to the root |
//!
//! | module | contents |
//! |---|---|
//! | this file | the loop |
//! | [`initialise`], [`gather`], [`collisions`] | steps 1 to 3 |
//! | [`prefetch`], [`evaluate`], [`fetch`] | steps 4 to 6 |
//! | [`backup`] | step 7, and the backup of visits out of order |
//! | [`expected_visits`] | the positions that the next visits will probably need |
//! | [`proof`] | derives a node's exact result from its children |
//! | [`expand`] | publishes a leaf with its priors |
//! | [`mate`] | rules out positions that a search for a mate need not visit |
//! | [`scratch`] | the memory that a worker reuses |
//! | [`waiting`] | how much of its time a worker waits for the backend |
//! | [`selection`] | which children get the next visits |
//! | [`accumulate`] | sums over visits, plain or weighted |
//! | [`recompute`] | a node's value from its children's, for other backups than the mean |

mod accumulate;
mod backup;
mod collisions;
mod evaluate;
mod expand;
mod expected_visits;
mod fetch;
mod gather;
mod initialise;
mod mate;
mod prefetch;
mod proof;
mod recompute;
mod scratch;
mod selection;
mod waiting;

#[cfg(all(test, any(feature = "loom", feature = "shuttle")))]
pub(crate) use self::recompute::stale_nodes;
#[cfg(all(feature = "loom", test))]
pub(crate) use self::{
    backup::{Finished, back_up, back_up_batch},
    fetch::fetch,
    initialise::make_room,
    recompute::recompute_if_stale,
    scratch::Scratch as WorkerScratch,
};

use super::state::{
    Control, Counters, Parking, Recycling, SearchContext, SearchState, SharedControl, SpentMemory,
};
use super::stop::{StopperHints, pause_for_speed_limit};
use super::watchdog;
use rukh_backend::BackendError;
use rukh_base::sync::MutexGuard;
use rukh_base::sync::atomic::Ordering;
use rukh_base::sync::thread;
use rukh_tree::State;
use scratch::Scratch;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};
use waiting::WaitingTime;

/// The longest sleep of a worker that waits for the speed limit. Then it reads the stop flag again.
const SPEED_LIMIT_NAP: Duration = Duration::from_millis(5);

/// The body of the worker thread with this `index`. A panic ends the search with an error, but a move is still sent.
pub(crate) fn run_worker(state: &SearchState, index: usize) {
    // Without an evaluation of the root there is no good move, and a clock may be running. So the root does not wait for
    // a batch of an earlier search, which may take long on a busy processor.
    let overtakes = state.may_overtake && index == 0 && state.context.root().state() == State::Unevaluated;
    let ended = catch_unwind(AssertUnwindSafe(|| {
        if !overtakes {
            state.wait_for_predecessors();
        }
        Worker::new(state, index).run();
    }));
    if ended.is_err() && state.parking.leave_in_panic(index, |gathered| state.cancel(gathered)) {
        let error = BackendError::Evaluate {
            name: state.context.backend.attributes().name.clone(),
            reason: "a search thread panicked".to_owned(),
        };
        state.control.fail(&*state.context.responder, format!("error: {error}"));
    }
    // Whoever joins this thread relies on the end of the earlier ones.
    state.wait_for_predecessors();
}

struct Worker<'a> {
    context: &'a SearchContext,
    counters: &'a Counters,
    control: &'a SharedControl,
    parking: &'a Parking,
    recycling: &'a Recycling,
    /// This worker's place in `parking`.
    index: usize,
    scratch: Scratch,
    hints: StopperHints,
    waiting: WaitingTime,
    /// The memory of the last minibatch, for reuse.
    spent: SpentMemory,
}

impl<'a> Worker<'a> {
    fn new(state: &'a SearchState, index: usize) -> Worker<'a> {
        Worker {
            context: &state.context,
            counters: &state.counters,
            control: &state.control,
            parking: &state.parking,
            recycling: &state.recycling,
            index,
            scratch: Scratch::new(state.context.history.clone()),
            hints: StopperHints::default(),
            waiting: WaitingTime::default(),
            spent: SpentMemory::default(),
        }
    }

    /// Repeats the seven steps until the search stops or an evaluation fails.
    fn run(mut self) {
        self.iterate_until_stopped();
        self.scratch.give_back(&self.context.tree);
    }

    fn iterate_until_stopped(&mut self) {
        if self.parking.resume(self.index).is_none() {
            return;
        }
        while self.goes_on() {
            match self.iterate() {
                Ok(ControlFlow::Continue(())) => {}
                Ok(ControlFlow::Break(())) => return,
                // The visits are cancelled, so the next iteration finds the same leaves again, and another evaluator
                // has taken the place of the lost device.
                Err(BackendError::Interrupted { .. }) => {}
                Err(error) => {
                    self.control.fail(&*self.context.responder, format!("error: {error}"));
                    break;
                }
            }
        }
        self.parking.leave(self.index);
    }

    /// Whether another iteration is due. If the search stops before the root is evaluated, one worker must still
    /// evaluate the root, unless a move has already been sent without an evaluation or no move is wanted.
    fn goes_on(&self) -> bool {
        !self.control.is_stopping()
            || (self.context.root().state() == State::Unevaluated && !self.control.lock().has_responded)
    }

    /// Runs the seven steps once. `Break` means that the search has released the tree in the meantime.
    fn iterate(&mut self) -> Result<ControlFlow<()>, BackendError> {
        let &mut Worker { context, counters, control, parking, recycling, index, .. } = self;
        let scratch = &mut self.scratch;
        let begun = Instant::now();

        // 1. Initialise.
        let spent = std::mem::take(&mut self.spent);
        let initialised = initialise::initialise(context, control, parking, recycling, index, spent);
        let Some(mut minibatch) = initialised else { return Ok(ControlFlow::Break(())) };
        let progress = control.progress();

        // 2. Gather.
        let remaining = self.hints.remaining_playouts;
        gather::gather(context, counters, control, scratch, &mut minibatch, remaining);
        let has_results = minibatch.gathered.has_results();

        if minibatch.gathered.leaf_count == 0 {
            // 3. Collisions.
            let gathered = minibatch.gathered;
            self.spent = collisions::give_up_collisions(context, counters, control, gathered, progress);
        } else {
            // 4. Prefetch.
            let mostly_waits = self.waiting.is_most();
            prefetch::prefetch(context, counters, control, scratch, &mut minibatch, mostly_waits);

            // 5. Evaluate.
            let submitted = Instant::now();
            let evaluated = evaluate::evaluate(context, counters, parking, index, minibatch)?;
            let waited = submitted.elapsed();
            let Some((gathered, evaluations)) = evaluated else { return Ok(ControlFlow::Break(())) };

            // 6. Fetch.
            let counts = fetch::fetch(context, counters, control, scratch, &gathered, &evaluations);

            // 7. Back up.
            self.spent = backup::back_up_batch(context, counters, &mut scratch.values, gathered, counts);
            self.waiting.record(waited, begun.elapsed());
        }
        self.finish_iteration(has_results);
        Ok(ControlFlow::Continue(()))
    }

    /// Counts the iteration, asks the stoppers, sends info lines if they are due, and keeps the speed limit.
    fn finish_iteration(&mut self, has_results: bool) {
        if has_results {
            self.counters.batches.fetch_add(1, Ordering::Relaxed);
            self.control.count_progress();
        }
        let Some(mut control) = self.lock_control() else { return };
        if has_results {
            control.first_batch.get_or_insert_with(Instant::now);
        }
        self.hints = watchdog::finish_iteration(self.context, self.counters, self.control, &mut control);
        let since = control.first_batch.unwrap_or(control.start);
        drop(control);
        self.keep_speed_limit(since);
    }

    /// Locks the control. Of several workers, one does not wait for another thread that asks the stoppers: it asks after
    /// its next iteration. A single worker always asks, so that its search ends at the same node every time.
    fn lock_control(&self) -> Option<MutexGuard<'a, Control>> {
        let params = &self.context.params;
        if params.threads > 1 && params.nodes_per_second_limit == 0.0 {
            self.control.try_lock()
        } else {
            Some(self.control.lock())
        }
    }

    /// Sleeps until the number of visits is within `NodesPerSecondLimit`, or until the search stops.
    fn keep_speed_limit(&self, since: Instant) {
        let limit = self.context.params.nodes_per_second_limit;
        while limit > 0.0 && !self.control.is_stopping() {
            let playouts = self.counters.playouts.load(Ordering::Relaxed);
            let pause = pause_for_speed_limit(limit, playouts, since.elapsed());
            if pause.is_zero() {
                return;
            }
            thread::sleep(pause.min(SPEED_LIMIT_NAP));
        }
    }
}
