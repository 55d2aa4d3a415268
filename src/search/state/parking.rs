//! Records which workers use the tree, so that a search can release it while its workers still wait for an evaluation.
//!
//! A worker *uses the tree* while it gathers and backs up, which takes about a millisecond. While its batch is
//! evaluated, which may take a second, the worker has *parked* its minibatch here. The thread that ends the search
//! waits for the workers that use the tree, and cancels the parked minibatches. A worker that comes back later finds
//! that it has lost its place, and leaves without touching the tree. So the tree is at rest long before the threads
//! end.
//!
//! ```text
//!   Parked (not begun) ──> Working <──> Parked (evaluating) ──> Left (the search has released the tree)
//!                             └─────────────────────────────────^   (or the worker is done)
//! ```

use super::minibatch::Gathered;
use rukh_base::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The place of one worker.
enum Place {
    /// The worker reads and changes the tree.
    Working,
    /// The worker does not touch the tree. The visits of this minibatch stay in flight.
    Parked(Gathered),
    /// The worker will not touch the tree any more.
    Left,
}

/// The places of all workers of a search.
pub(crate) struct Parking {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    places: Vec<Place>,
    /// For each worker, how often it has stopped using the tree.
    departures: Vec<u64>,
    /// Whether a worker has panicked while it used the tree. Then a change of the tree may be incomplete.
    is_broken: bool,
}

/// The workers that used the tree at one moment, with the number of their departures until then.
pub(crate) struct Users(Vec<(usize, u64)>);

impl Parking {
    /// Places of workers that have not begun yet.
    pub(crate) fn new(count: usize) -> Parking {
        let places = (0..count).map(|_| Place::Parked(Gathered::default())).collect();
        Parking {
            state: Mutex::new(State { places, departures: vec![0; count], is_broken: false }),
            changed: Condvar::new(),
        }
    }

    /// Parks the worker's minibatch until [`Parking::resume`]. Meanwhile the worker must not touch the tree.
    pub(crate) fn park(&self, index: usize, gathered: Gathered) {
        self.set(index, Place::Parked(gathered));
    }

    /// Lets the worker use the tree, and returns its minibatch. `None` means that the search has released the tree: the
    /// worker must not touch it any more.
    pub(crate) fn resume(&self, index: usize) -> Option<Gathered> {
        let mut state = self.state();
        match std::mem::replace(&mut state.places[index], Place::Working) {
            Place::Parked(gathered) => Some(gathered),
            Place::Working => Some(Gathered::default()),
            Place::Left => {
                state.places[index] = Place::Left;
                None
            }
        }
    }

    /// Stops using the tree for a moment. The calling worker must have no minibatch. `None` means that the search has
    /// released the tree.
    pub(crate) fn pass(&self, index: usize) -> Option<()> {
        self.park(index, Gathered::default());
        self.resume(index).map(drop)
    }

    /// The workers that use the tree now, except the calling worker.
    pub(crate) fn other_users(&self, index: usize) -> Users {
        let state = self.state();
        let using = state.places.iter().enumerate().filter(|(_, place)| matches!(place, Place::Working));
        Users(
            using
                .map(|(user, _)| (user, state.departures[user]))
                .filter(|&(user, _)| user != index)
                .collect(),
        )
    }

    /// Whether each of these workers has stopped using the tree since, if only for a moment.
    pub(crate) fn have_departed(&self, users: &Users) -> bool {
        let state = self.state();
        users.0.iter().all(|&(user, departures)| state.departures[user] != departures)
    }

    /// Whether the worker does not use the tree now.
    pub(crate) fn is_away(&self, index: usize) -> bool {
        !matches!(self.state().places[index], Place::Working)
    }

    /// Ends the worker's use of the tree for good.
    pub(crate) fn leave(&self, index: usize) {
        self.set(index, Place::Left);
    }

    /// Ends the place of a worker that has panicked. If its minibatch was parked, `cancel` gets it; if the worker was
    /// using the tree, the tree is broken. Returns whether the search had not yet released the tree.
    pub(crate) fn leave_in_panic(&self, index: usize, cancel: impl FnOnce(Gathered)) -> bool {
        let mut state = self.state();
        let was = std::mem::replace(&mut state.places[index], Place::Left);
        state.departures[index] += 1;
        let was_left = matches!(was, Place::Left);
        match was {
            Place::Parked(gathered) => cancel(gathered),
            Place::Working => state.is_broken = true,
            Place::Left => {}
        }
        self.changed.notify_all();
        !was_left
    }

    /// Releases the tree: waits for the workers that use it, and gives the parked minibatches to `cancel`. Afterwards
    /// no worker touches the tree. The caller must have set the stop flag. Returns whether the tree may be used again.
    pub(crate) fn close(&self, cancel: impl Fn(Gathered)) -> bool {
        let mut state = self.state();
        loop {
            for place in &mut state.places {
                if matches!(place, Place::Parked(_))
                    && let Place::Parked(gathered) = std::mem::replace(place, Place::Left)
                {
                    cancel(gathered);
                }
            }
            if state.places.iter().all(|place| matches!(place, Place::Left)) {
                return !state.is_broken;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn set(&self, index: usize, place: Place) {
        let mut state = self.state();
        state.places[index] = place;
        state.departures[index] += 1;
        drop(state);
        self.changed.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parked_minibatch_is_cancelled_once() {
        let parking = Parking::new(2);
        assert!(parking.resume(0).is_some());
        parking.park(0, Gathered { out_of_order: 7, ..Gathered::default() });
        let found = std::cell::RefCell::new(Vec::new());
        assert!(parking.close(|gathered| found.borrow_mut().push(gathered.out_of_order)));
        assert_eq!(found.into_inner(), [7, 0]);
        assert!(parking.resume(0).is_none() && parking.resume(1).is_none());
        assert!(parking.close(|_| panic!("all have left")));
    }

    #[test]
    fn users_have_departed_once_each_has_been_outside_for_a_moment() {
        let parking = Parking::new(3);
        assert!(parking.resume(0).is_some() && parking.resume(1).is_some());
        // The worker 2 is outside anyway.
        let users = parking.other_users(0);
        assert!([0, 1, 2].map(|index| parking.is_away(index)) == [false, false, true]);
        assert!(!parking.have_departed(&users));
        assert!(parking.pass(0).is_some());
        assert!(!parking.have_departed(&users));
        assert!(parking.pass(1).is_some());
        assert!(parking.have_departed(&users));
        assert!(!parking.have_departed(&parking.other_users(0)));
        parking.leave(1);
        assert!(parking.have_departed(&parking.other_users(0)));
    }

    #[test]
    fn a_panic_breaks_the_tree_only_if_the_worker_was_using_it() {
        let parking = Parking::new(2);
        assert!(parking.leave_in_panic(0, |_| ()));
        assert!(parking.close(|_| ()));
        let parking = Parking::new(1);
        assert!(parking.resume(0).is_some());
        assert!(parking.leave_in_panic(0, |_| panic!("nothing is parked")));
        assert!(!parking.close(|_| ()));
    }
}
