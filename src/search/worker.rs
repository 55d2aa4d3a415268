//! A search thread: the same seven steps again and again until somebody says stop.

use super::gather::Gatherer;
use super::minibatch::{Gathered, Minibatch};
use super::stoppers::pause_for_speed_limit;
use super::{Shared, StopperHints};
use crate::backend::{BackendError, Batch, Evaluations};
use crate::sync::atomic::Ordering;
use crate::sync::thread;
use crate::tree::State;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

/// How long a thread that keeps the speed limit sleeps before it looks at the stop flag again.
const SPEED_LIMIT_NAP: Duration = Duration::from_millis(5);

/// See the module.
pub(super) struct Worker<'a> {
    pub(super) shared: &'a Shared,
    /// Which desk is its own.
    pub(super) index: usize,
    pub(super) gatherer: Gatherer,
    hints: StopperHints,
    /// The last iteration's, for its memory.
    spent: Gathered,
}

impl<'a> Worker<'a> {
    pub(super) fn new(shared: &'a Shared, index: usize) -> Worker<'a> {
        Worker {
            shared,
            index,
            gatherer: Gatherer::new(shared),
            hints: StopperHints::default(),
            spent: Gathered::default(),
        }
    }

    /// Searches until the search stops, or evaluating fails.
    pub(super) fn run(mut self) {
        self.iterate_until_stopped();
        self.gatherer.give_back(self.shared);
    }

    fn iterate_until_stopped(&mut self) {
        if self.shared.desks.come_back(self.index).is_none() {
            return;
        }
        while self.goes_on() {
            match self.iterate() {
                Ok(ControlFlow::Continue(())) => {}
                Ok(ControlFlow::Break(())) => return,
                Err(error) => {
                    self.shared.fail(&error);
                    break;
                }
            }
        }
        self.shared.desks.leave(self.index);
    }

    /// A stop that comes before anything is known does not take effect at once: somebody must evaluate the root, or
    /// a move be told without.
    fn goes_on(&self) -> bool {
        let shared = self.shared;
        !shared.is_stopping()
            || (shared.root().state() == State::Unevaluated && !shared.control().has_responded)
    }

    /// One iteration. The numbers of the steps are those of the functions that do them. `Break`: the search has let
    /// go of the tree meanwhile.
    fn iterate(&mut self) -> Result<ControlFlow<()>, BackendError> {
        // 1. Initialise.
        let shared = self.shared;
        if self.make_room().is_none() {
            return Ok(ControlFlow::Break(()));
        }
        let progress = shared.progress();
        let mut minibatch = Minibatch::new(shared.backend.new_batch(), std::mem::take(&mut self.spent));

        // 2. Gather leaves.
        self.gatherer.gather(shared, &mut minibatch, self.hints.remaining_playouts);

        // 3. Collisions: where there is nothing else they go back at once, and this thread sleeps until another
        // one has changed the tree.
        if minibatch.gathered.leaf_count == 0 {
            shared.cancel(&minibatch.gathered);
            if minibatch.gathered.out_of_order == 0 {
                shared.wait_for_progress(progress);
            }
            self.update_counters(&minibatch.gathered);
            self.spent = minibatch.gathered;
            return Ok(ControlFlow::Continue(()));
        }

        // 4. Prefetch into the cache. On the CPU a position costs as much in a larger batch: none are guessed.
        if !shared.backend.attributes().runs_on_cpu {
            self.gatherer.prefetch(shared, &mut minibatch);
        }

        // 5. Evaluate. The tree may be wanted meanwhile.
        let Minibatch { request, gathered } = minibatch;
        let expected = gathered.waiting.len();
        shared.desks.go_away(self.index, gathered);
        let evaluated = self.evaluate(request, expected);
        let Some(gathered) = shared.desks.come_back(self.index) else {
            return Ok(ControlFlow::Break(()));
        };

        // 6. Fetch the results into the leaves and 7. back them up to the root.
        let evaluations = evaluated.inspect_err(|_| shared.cancel(&gathered))?;
        self.gatherer.finish_batch(shared, &gathered, &evaluations);
        self.update_counters(&gathered);
        self.spent = gathered;
        Ok(ControlFlow::Continue(()))
    }

    /// 5. Evaluates the batch of `expected` positions.
    fn evaluate(&self, request: Box<dyn Batch>, expected: usize) -> Result<Evaluations, BackendError> {
        let evaluations = request.submit().wait()?;
        if evaluations.len() != expected {
            return Err(BackendError::Evaluate {
                name: self.shared.backend.attributes().name.clone(),
                reason: format!("{} results for {expected} positions", evaluations.len()),
            });
        }
        Ok(evaluations)
    }

    /// After the steps: counts, asks the stoppers, reports.
    fn update_counters(&mut self, gathered: &Gathered) {
        let shared = self.shared;
        let has_worked = gathered.leaf_count > 0 || gathered.out_of_order > 0;
        if has_worked {
            shared.counters.batches.fetch_add(1, Ordering::Relaxed);
            shared.count_progress();
        }
        let mut control = shared.control();
        if has_worked {
            control.first_batch.get_or_insert_with(Instant::now);
        }
        self.hints = shared.consult_stoppers(&mut control);
        shared.report_if_changed(&mut control);
        let since = control.first_batch.unwrap_or(control.start);
        drop(control);
        self.keep_speed_limit(since);
    }

    /// `NodesPerSecondLimit`: sleeps until the visits so far are due.
    fn keep_speed_limit(&self, since: Instant) {
        let limit = self.shared.params.nodes_per_second_limit;
        while limit > 0.0 && !self.shared.is_stopping() {
            let playouts = self.shared.counters.playouts.load(Ordering::Relaxed);
            let pause = pause_for_speed_limit(limit, playouts, since.elapsed());
            if pause.is_zero() {
                return;
            }
            thread::sleep(pause.min(SPEED_LIMIT_NAP));
        }
    }
}
