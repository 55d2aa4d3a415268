//! The state that the threads of one search share, divided according to which threads may change it.
//!
//! Each of the worker's steps takes only the parts that it needs, so that its signature shows which state it reads and
//! changes. Only [`Search`](super::Search) and the threads' outermost functions know the whole [`SearchState`].
//!
//! | module | contents |
//! |---|---|
//! | [`context`] | [`SearchContext`]: constant while the search runs |
//! | [`control`] | [`SharedControl`]: the stop flag, and the [`Control`] behind its lock |
//! | [`recycling`] | [`Recycling`]: the shares of the workers in recycling the tree |
//! | [`parking`] | [`Parking`]: which workers use the tree, and the minibatches of the workers that do not |
//! | [`minibatch`] | [`Minibatch`]: the visits that one worker has in flight |
//! | [`counters`] | [`Counters`]: figures that any worker may change |
//! | [`setup`] | [`SearchSetup`]: the arguments of a search |

mod context;
mod control;
mod counters;
mod minibatch;
mod parking;
mod recycling;
mod setup;

pub use context::counted_nodes;
pub(crate) use context::{Counting, SearchContext};
pub(crate) use control::{Control, FirstChoice, LastReport, SharedControl};
pub(crate) use counters::{Counters, VisitCounts};
pub(crate) use minibatch::{Gathered, Leaf, Minibatch, SpentMemory, Step, StepIndex};
pub(crate) use parking::Parking;
pub(crate) use recycling::{Recycling, Share};
pub use setup::SearchSetup;

use super::info::Responder;
use rukh_base::sync::thread::JoinHandle;
use rukh_base::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// All parts of one search's state.
pub(crate) struct SearchState {
    pub(crate) context: SearchContext,
    pub(crate) counters: Counters,
    pub(crate) control: SharedControl,
    pub(crate) parking: Parking,
    pub(crate) recycling: Recycling,
    predecessors: Mutex<Vec<JoinHandle<()>>>,
    /// Whether the evaluation of a new root may begin before the threads of earlier searches have ended.
    pub(crate) may_overtake: bool,
}

impl SearchState {
    pub(crate) fn new(setup: SearchSetup, responder: Arc<dyn Responder>) -> SearchState {
        SearchState {
            context: SearchContext::new(&setup, responder),
            counters: Counters::new(setup.tablebase_hits),
            control: SharedControl::new(Control::new(setup.stopper, setup.start, !setup.is_open_ended)),
            parking: Parking::new(setup.params.threads.max(1)),
            recycling: Recycling::new(setup.params.threads.max(1)),
            may_overtake: setup.may_overtake,
            predecessors: Mutex::new(setup.predecessors),
        }
    }

    /// Waits until the threads of earlier searches no longer use the backend.
    pub(crate) fn wait_for_predecessors(&self) {
        // The first worker joins the threads while the other workers wait for the lock.
        let mut predecessors = self.predecessors();
        for thread in predecessors.drain(..) {
            // The earlier search has already reported a panic of its thread.
            let _ = thread.join();
        }
    }

    /// The threads of earlier searches, for a search that starts no threads of its own.
    pub(crate) fn take_predecessors(&self) -> Vec<JoinHandle<()>> {
        std::mem::take(&mut *self.predecessors())
    }

    fn predecessors(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.predecessors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Releases the tree from the workers, which are stopping. Returns whether the tree may be used again.
    pub(crate) fn release_tree(&self) -> bool {
        let is_sound = self.parking.close(|gathered| self.cancel(gathered));
        self.recycling.end(&self.context.tree);
        is_sound
    }

    /// Cancels the visits of a parked minibatch.
    pub(crate) fn cancel(&self, gathered: Gathered) {
        // The memory is not needed again.
        let _: SpentMemory = gathered.cancel(&self.context.tree, &self.counters);
    }
}
